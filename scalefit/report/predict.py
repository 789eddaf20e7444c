"""Predictions."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from scalefit.prediction import Prediction
from scalefit.report.text import facts, number, remarks, report, span, table


@facts.register(Prediction)
def prediction_facts(prediction: Prediction) -> list[dict[str, Any]]:
    """Return one object a point: its columns, the loss, `interval` (of the law's mean) and `interval_new_run`."""
    return [
        {
            **{name: values[i] for name, values in prediction.columns.items()},
            "loss": prediction.loss[i],
            "interval": prediction.mean[i],
            "interval_of": "mean",
            "interval_new_run": prediction.new_run[i],
            "level": prediction.level,
            "method": prediction.method,
            "decades_beyond_table": {name: values[i] for name, values in prediction.decades.items()},
            "warnings": prediction.warnings,
        }
        for i in range(len(prediction.loss))
    ]


@report.register(Prediction)
def prediction_report(prediction: Prediction) -> RenderableType:
    """Lay out predictions, a row a point."""
    percent = f"{100 * prediction.level:g} %"
    headings = [*prediction.columns, "loss", f"law's mean, {percent}", f"new run, {percent}", "beyond the table"]
    rows = [
        [
            *(f"{values[i]:g}" for values in prediction.columns.values()),
            number(float(prediction.loss[i])),
            span(prediction.mean[i]),
            span(prediction.new_run[i]),
            _beyond(prediction, i),
        ]
        for i in range(len(prediction.loss))
    ]
    note = Text("Both intervals take the law for true, which beyond the table is an assumption.")
    told = [Text(""), remarks(prediction.warnings)] if prediction.warnings else []
    return Group(table(headings, rows, left=0), Text(""), note, *told)


def _beyond(prediction: Prediction, i: int) -> str:
    far = {name: float(values[i]) for name, values in prediction.decades.items() if abs(values[i]) > 0.005}
    return ", ".join(f"{name} {value:+.1f} decades" for name, value in far.items()) or "inside"
