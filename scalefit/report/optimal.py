"""Best shapes as JSON and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from scalefit.errors import ScalefitWarning
from scalefit.optimal import FeasibleShape, OptimalShape, ShapeIntervals
from scalefit.report.text import finite_or_none, number, remarks, table, warning_documents

__all__ = ["optimal_report", "shape_document"]

Interval = tuple[float, float]

QUANTITIES = ("width", "depth", "ratio", "tokens", "loss")


def shape_document(shape: OptimalShape, withheld: Sequence[ScalefitWarning] = ()) -> dict[str, Any]:
    """Describe a best shape, and the methods withheld, in JSON types; numbers that do not exist are None."""
    return {
        "budget": shape.budget.given,
        "count": shape.count,
        "serving": asdict(shape.serving),
        "determined": shape.determined,
        **{name: finite_or_none(getattr(shape, name)) for name in (*QUANTITIES, "params", "flops")},
        "intervals": _intervals(shape.intervals),
        "intervals_by_method": {found.method: _by_method(found) for found in shape.by_method},
        "exponents": {name: finite_or_none(value) for name, value in shape.exponents.items()},
        "flatness": None
        if shape.flatness is None
        else {
            "halved": finite_or_none(shape.flatness.halved),
            "doubled": finite_or_none(shape.flatness.doubled),
            "within": {
                f"{share:g}": [finite_or_none(x) for x in ends] for share, ends in shape.flatness.within.items()
            },
        },
        "feasible": [
            {name: finite_or_none(getattr(option, name)) for name in FeasibleShape.__dataclass_fields__}
            for option in shape.feasible
        ],
        "binding": list(shape.binding),
        "at_edge": list(shape.at_edge),
        "decades_beyond_table": {name: round(value, 6) for name, value in shape.decades.items()},
        "warnings": warning_documents((*shape.warnings, *withheld)),
    }


def _by_method(found: ShapeIntervals) -> dict[str, Any]:
    return {
        "level": found.level,
        **_intervals(found.intervals),
        "exponents": _intervals(found.exponents),
        "at_edge": found.at_edge,
    }


def _intervals(intervals: Mapping[str, Interval]) -> dict[str, Any]:
    return {name: [finite_or_none(low), finite_or_none(high)] for name, (low, high) in intervals.items()}


def optimal_report(shapes: Sequence[OptimalShape], withheld: Sequence[ScalefitWarning] = ()) -> RenderableType:
    """Lay out best shapes, one block a budget; the remarks and the methods withheld follow, each once."""
    told = [*(warning for shape in shapes for warning in shape.warnings), *withheld]
    seen = {warning.message: warning for warning in told}
    blocks: list[RenderableType] = []
    for shape in shapes:
        blocks += [Text(f"budget: {shape.budget} (count {shape.count})", style="bold")]
        if shape.budget.given.keys() & {"memory", "latency"}:
            blocks.append(Text(f"served with {shape.serving}"))
        blocks += [*_block(shape), Text("")]
    return Group(*blocks, remarks(seen.values()))


def _block(shape: OptimalShape) -> list[RenderableType]:
    if not shape.determined:
        return [Text("The data do not determine the best shape.", style="red")]
    blocks: list[RenderableType] = [_numbers(shape), _valley(shape)]
    if shape.binding and len(shape.budget.given) > 1:
        blocks.append(Text(f"Limits that bind: {', '.join(shape.binding)}."))
    if shape.feasible:
        blocks += [Text(""), _feasible(shape)]
    return blocks


def _numbers(shape: OptimalShape) -> RenderableType:
    level = f"{100 * shape.by_method[0].level:g} % " if shape.by_method else ""
    headings = ["", "best", *(f"{level}{found.method}" for found in shape.by_method), "grows as"]
    rows = []
    for name in QUANTITIES:
        value = getattr(shape, name)
        if math.isnan(value) or (name == "tokens" and shape.budget.tokens is not None):
            continue
        cells = [_pair(found.intervals[name]) for found in shape.by_method]
        exponent = shape.exponents.get(name, math.nan)
        label = "width / depth" if name == "ratio" else name
        growth = "" if math.isnan(exponent) else f"{shape.budget.main}^{round(exponent, 3) + 0.0:.3f}"
        rows.append([label, number(value, 4 if name == "loss" else 3), *cells, growth])
    return table(headings, rows)


def _pair(interval: Interval) -> str:
    return f"{number(interval[0], 3)} to {number(interval[1], 3)}"


def _valley(shape: OptimalShape) -> Text:
    flat = shape.flatness
    assert flat is not None
    ranges = [f"{_pair(ends)} within {100 * share:g} % of it" for share, ends in flat.within.items()]
    costs = [
        f"{word} the ratio costs {100 * cost:.2g} % of the loss"
        for word, cost in (("halving", flat.halved), ("doubling", flat.doubled))
        if math.isfinite(cost)
    ]
    return Text(f"Ratios around the best loss: {', '.join(ranges)}; {', '.join(costs) or 'no other ratio fits'}.")


def _feasible(shape: OptimalShape) -> RenderableType:
    tokens = not math.isnan(shape.tokens)
    headings = ["width x depth", "heads", "params", *(["tokens"] if tokens else []), "loss", "above the best"]
    return table(
        headings,
        [
            [
                f"{option.width} x {option.depth}",
                str(option.heads),
                number(option.params),
                *([number(option.tokens)] if tokens else []),
                number(option.loss, 5),
                f"{100 * option.excess:.3f} %",
            ]
            for option in shape.feasible
        ],
    )
