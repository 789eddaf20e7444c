"""Suggested runs as JSON and in words."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from scalefit.design import Suggestion
from scalefit.report.text import finite_or_none, number, remarks, table, warning_documents

__all__ = ["suggestion_document", "suggestion_report"]

Interval = tuple[float, float]


def suggestion_document(suggestion: Suggestion) -> dict[str, Any]:
    """Describe suggested runs in JSON types; numbers that do not exist are None."""
    cumulative = 0.0
    runs = []
    for run in suggestion.runs:
        cumulative += run.flops
        runs.append(
            {
                **run.point,
                "flops": run.flops,
                "flops_so_far": cumulative,
                "expected": _interval(run.expected),
                "standard_error": finite_or_none(run.error),
            }
        )
    return {
        "quantity": suggestion.quantity,
        "estimate": finite_or_none(suggestion.estimate),
        "level": suggestion.level,
        "before": _interval(suggestion.before),
        "after": _interval(suggestion.after),
        "standard_error": {
            "scale": "ln" if suggestion.factor else "plain",
            "before": finite_or_none(suggestion.error_before),
            "after": finite_or_none(suggestion.error_after),
        },
        "runs": runs,
        "flops": suggestion.flops,
        "costed": suggestion.costed,
        "n_candidates": suggestion.n_candidates,
        "warnings": warning_documents(suggestion.warnings),
    }


def _interval(ends: Interval) -> list[float | None]:
    return [finite_or_none(end) for end in ends]


def suggestion_report(suggestion: Suggestion) -> RenderableType:
    """Lay out the interval before and after, and the runs in the order in which they help most."""
    known = math.isfinite(suggestion.estimate)
    percent = f"{100 * suggestion.level:g} %"
    lines = [Text(f"{len(suggestion.runs)} runs for {suggestion.quantity}", style="bold")]
    if known:
        lines.append(
            Text(
                f"estimate {number(suggestion.estimate, 3)}; {percent} interval now {_pair(suggestion.before)}, "
                f"expected after them {_pair(suggestion.after)}"
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
            _pair(run.expected) if known else _error(run.error),
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


def _pair(interval: Interval) -> str:
    return f"{number(interval[0], 3)} to {number(interval[1], 3)}"
