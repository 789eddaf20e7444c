"""Predictions in words and as a JSON document."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from scalefit.prediction import Prediction
from scalefit.report.text import number, table

__all__ = ["prediction_document", "prediction_report"]


def prediction_document(prediction: Prediction) -> list[dict[str, Any]]:
    """Return one object a point: its columns, the loss, `interval` (of the law's mean) and `interval_new_run`."""
    return [
        {
            **{name: float(values[i]) for name, values in prediction.columns.items()},
            "loss": float(prediction.loss[i]),
            "interval": prediction.mean[i].tolist(),
            "interval_of": "mean",
            "interval_new_run": prediction.new_run[i].tolist(),
            "level": prediction.level,
            "decades_beyond_table": {name: float(values[i]) for name, values in prediction.decades.items()},
        }
        for i in range(len(prediction.loss))
    ]


def prediction_report(prediction: Prediction) -> RenderableType:
    """Lay out predictions, a row a point."""
    percent = f"{100 * prediction.level:g} %"
    headings = [*prediction.columns, "loss", f"law's mean, {percent}", f"new run, {percent}", "beyond the table"]
    rows = [
        [
            *(f"{values[i]:g}" for values in prediction.columns.values()),
            number(float(prediction.loss[i])),
            _ends(prediction.mean[i]),
            _ends(prediction.new_run[i]),
            _beyond(prediction, i),
        ]
        for i in range(len(prediction.loss))
    ]
    note = "Both intervals take the law for true; beyond the table that is an assumption."
    return Group(table(headings, rows, left=0), Text(""), Text(note))


def _ends(interval: Any) -> str:
    return f"{number(float(interval[0]))} to {number(float(interval[1]))}"


def _beyond(prediction: Prediction, i: int) -> str:
    far = {name: float(values[i]) for name, values in prediction.decades.items() if abs(values[i]) > 0.005}
    return ", ".join(f"{name} {value:+.1f} decades" for name, value in far.items()) or "inside"
