"""Suggested runs."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from scalefit.design import Suggestion
from scalefit.report.text import facts, number, remarks, report, span, table


@facts.register(Suggestion)
def suggestion_facts(suggestion: Suggestion) -> dict[str, Any]:
    """The interval before and after, and the runs in the order in which they help most."""
    cumulative = 0.0
    runs = []
    for run in suggestion.runs:
        cumulative += run.flops
        runs.append(
            {
                **run.point,
                "flops": run.flops,
                "flops_so_far": cumulative,
                "expected": run.expected,
                "standard_error": run.error,
            }
        )
    return {
        "quantity": suggestion.quantity,
        "estimate": suggestion.estimate,
        "level": suggestion.level,
        "before": suggestion.before,
        "after": suggestion.after,
        "standard_error": {
            "scale": "ln" if suggestion.factor else "plain",
            "before": suggestion.error_before,
            "after": suggestion.error_after,
        },
        "runs": runs,
        "flops": suggestion.flops,
        "costed": suggestion.costed,
        "n_candidates": suggestion.n_candidates,
        "warnings": suggestion.warnings,
    }


@report.register(Suggestion)
def suggestion_report(suggestion: Suggestion) -> RenderableType:
    """Lay out the interval before and after, and the runs in the order in which they help most."""
    known = math.isfinite(suggestion.estimate)
    percent = f"{100 * suggestion.level:g} %"
    lines = [Text(f"{len(suggestion.runs)} runs for {suggestion.quantity}", style="bold")]
    if known:
        lines.append(
            Text(
                f"estimate {number(suggestion.estimate, 3)}; {percent} interval now {span(suggestion.before, 3)}, "
                f"expected after them {span(suggestion.after, 3)}"
            )
        )
    scale = " (a factor, in ln)" if suggestion.factor else ""
    before, after = _error(suggestion.error_before), _error(suggestion.error_after)
    lines.append(Text(f"standard error{scale}: now {before}, after them {after}"))
    lines.append(Text("by the covariance formula, which takes rows for independent: compare with each other only"))
    cost = f"{number(suggestion.flops, 3)} operations" if suggestion.costed else "their columns tell no cost"
    lines.append(Text(f"chosen from {suggestion.n_candidates} candidates; {cost}"))
    names = list(suggestion.runs[0].point)
    rows = [
        [
            *(_level(run.point[name]) for name in names),
            *([number(run.flops, 3)] if suggestion.costed else []),
            span(run.expected, 3) if known else _error(run.error),
        ]
        for run in suggestion.runs
    ]
    operations = ["operations"] if suggestion.costed else []
    headings = [*names, *operations, f"expected {percent}" if known else "standard error"]
    return Group(*lines, Text(""), table(headings, rows, left=0), remarks(suggestion.warnings))


def _error(value: float) -> str:
    return number(value, 3) if math.isfinite(value) else "unknown"


def _level(value: float) -> str:
    """A column's value: whole ones, such as depths, without decimals."""
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e6 else number(value)
