"""Predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
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
            **_seen(prediction, i),
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
    told = prediction.observed is not None
    headings += ["observed", "error", "held"] if told else []
    rows = [
        [
            *(f"{values[i]:g}" for values in prediction.columns.values()),
            number(float(prediction.loss[i])),
            span(prediction.mean[i]),
            span(prediction.new_run[i]),
            _beyond(prediction, i),
            *(_measured(prediction, i) if told else []),
        ]
        for i in range(len(prediction.loss))
    ]
    note = Text("Both intervals take the law for true, which beyond the table is an assumption.")
    said = [Text(""), remarks(prediction.warnings)] if prediction.warnings else []
    return Group(table(headings, rows, left=0), Text(""), *([_summary(prediction)] if told else []), note, *said)


def _seen(prediction: Prediction, i: int) -> dict[str, Any]:
    if prediction.observed is None:
        return {}
    known = np.isfinite(prediction.observed[i])
    return {
        "observed": prediction.observed[i],
        "error": prediction.error[i],
        "held": bool(prediction.held[i]) if known and np.isfinite(prediction.new_run[i]).all() else None,
    }


def _measured(prediction: Prediction, i: int) -> list[str]:
    seen = _seen(prediction, i)
    if not np.isfinite(seen["observed"]):
        return ["-", "-", "-"]
    held = {True: "yes", False: "no", None: "-"}[seen["held"]]
    return [number(float(seen["observed"])), f"{100 * np.expm1(seen['error']):+.2f} %", held]


def _summary(prediction: Prediction) -> Text:
    known = np.isfinite(prediction.error)
    size = float(np.sqrt(np.mean(prediction.error[known] ** 2))) if known.any() else float("nan")
    n, held = int(known.sum()), int(prediction.held[known].sum())
    return Text(
        f"{held} of {n} measured losses lie in the {100 * prediction.level:g} % interval of a new run; "
        f"their errors in ln loss have a root mean square of {size:.2g}."
    )


def _beyond(prediction: Prediction, i: int) -> str:
    far = {name: float(values[i]) for name, values in prediction.decades.items() if abs(values[i]) > 0.005}
    return ", ".join(f"{name} {value:+.1f} decades" for name, value in far.items()) or "inside"
