"""Predictions in words and as a JSON document."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from scalefit.prediction import Prediction
from scalefit.report.text import finite_or_none, number, remarks, table, warning_documents

__all__ = ["prediction_document", "prediction_report"]


def prediction_document(prediction: Prediction) -> list[dict[str, Any]]:
    """Return one object a point: its columns, the loss, `interval` (of the law's mean) and `interval_new_run`.

    Numbers that do not exist are None.
    """
    return [
        {
            **{name: float(values[i]) for name, values in prediction.columns.items()},
            "loss": finite_or_none(prediction.loss[i]),
            "interval": [finite_or_none(end) for end in prediction.mean[i]],
            "interval_of": "mean",
            "interval_new_run": [finite_or_none(end) for end in prediction.new_run[i]],
            "level": prediction.level,
            "method": prediction.method,
            "decades_beyond_table": {name: float(values[i]) for name, values in prediction.decades.items()},
            "warnings": warning_documents(prediction.warnings),
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
    if prediction.determined:
        note: RenderableType = Text(
            "Both intervals take the law for true, which beyond the table is an assumption, and rows for independent."
        )
    else:
        note = remarks(prediction.warnings)
    return Group(table(headings, rows, left=0), Text(""), note)


def _ends(interval: Any) -> str:
    if math.isnan(interval[0]):
        return "-"
    return f"{number(float(interval[0]))} to {number(float(interval[1]))}"


def _beyond(prediction: Prediction, i: int) -> str:
    far = {name: float(values[i]) for name, values in prediction.decades.items() if abs(values[i]) > 0.005}
    return ", ".join(f"{name} {value:+.1f} decades" for name, value in far.items()) or "inside"
