"""Best shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from scalefit.errors import ScalefitWarning
from scalefit.optimal import OptimalShape
from scalefit.report.text import facts, number, remarks, report, span, table

QUANTITIES = ("width", "depth", "ratio", "tokens", "loss")


@dataclass(frozen=True)
class Shapes:
    """Best shapes of one fit for several budgets, and why some methods give no intervals."""

    shapes: Sequence[OptimalShape]
    withheld: Sequence[ScalefitWarning] = ()


@facts.register(Shapes)
def shapes_facts(found: Shapes) -> list[dict[str, Any]]:
    """One object a budget; each says which methods are withheld."""
    return [{**shape_facts(s), "warnings": [*s.warnings, *found.withheld]} for s in found.shapes]


@facts.register(OptimalShape)
def shape_facts(shape: OptimalShape) -> dict[str, Any]:
    """The shape, its intervals by method, what it costs to leave it, and the shapes that can be built near it."""
    return {
        "budget": shape.budget.given,
        "count": shape.count,
        "serving": shape.serving,
        "determined": shape.determined,
        **{name: getattr(shape, name) for name in (*QUANTITIES, "params", "tokens_per_param", "flops")},
        "intervals": shape.intervals,
        "intervals_by_method": {
            found.method: {
                "level": found.level,
                **found.intervals,
                "exponents": found.exponents,
                "at_edge": found.at_edge,
            }
            for found in shape.by_method
        },
        "exponents": shape.exponents,
        "flatness": None
        if shape.flatness is None
        else {
            "halved": shape.flatness.halved,
            "doubled": shape.flatness.doubled,
            "within": {f"{share:g}": ends for share, ends in shape.flatness.within.items()},
        },
        "feasible": shape.feasible,
        "binding": shape.binding,
        "at_edge": shape.at_edge,
        "decades_beyond_table": {name: round(value, 6) for name, value in shape.decades.items()},
        "warnings": shape.warnings,
    }


@report.register(OptimalShape)
def shape_report(shape: OptimalShape) -> RenderableType:
    """Lay out one best shape."""
    return shapes_report(Shapes([shape]))


@report.register(Shapes)
def shapes_report(found: Shapes) -> RenderableType:
    """Lay out best shapes, one block a budget; the remarks and the methods withheld follow, each once."""
    told = [*(warning for shape in found.shapes for warning in shape.warnings), *found.withheld]
    seen = {warning.message: warning for warning in told}
    blocks: list[RenderableType] = []
    for shape in found.shapes:
        blocks += [Text(f"budget: {shape.budget} (count {shape.count})", style="bold")]
        if shape.budget.given.keys() & {"memory", "latency"}:
            blocks.append(Text(f"served with {shape.serving}"))
        blocks += [*_block(shape), Text("")]
    return Group(*blocks, remarks(seen.values()))


def _block(shape: OptimalShape) -> list[RenderableType]:
    if not shape.determined:
        return [Text("The data do not determine the best shape.", style="red")]
    blocks: list[RenderableType] = [shape_table(shape), _valley(shape)]
    if shape.binding and len(shape.budget.given) > 1:
        blocks.append(Text(f"Limits that bind: {', '.join(shape.binding)}."))
    if shape.feasible:
        blocks += [Text(""), feasible_table(shape)]
    return blocks


def shape_table(shape: OptimalShape) -> RenderableType:
    """A row a quantity, a column a method."""
    level = f"{100 * shape.by_method[0].level:g} % " if shape.by_method else ""
    headings = ["", "best", *(f"{level}{found.method}" for found in shape.by_method), "grows as"]
    rows = []
    sizes = ("params", "tokens_per_param") if shape.budget.main == "flops" else ()
    for name in (*QUANTITIES, *sizes):
        value = getattr(shape, name)
        if math.isnan(value) or (name == "tokens" and shape.budget.tokens is not None):
            continue
        cells = [span(found.intervals[name], 3) for found in shape.by_method]
        exponent = shape.exponents.get(name, math.nan)
        label = {"ratio": "width / depth", "tokens_per_param": "tokens a parameter"}.get(name, name)
        growth = "" if math.isnan(exponent) else f"{shape.budget.main}^{round(exponent, 3) + 0.0:.3f}"
        rows.append([label, number(value, 4 if name == "loss" else 3), *cells, growth])
    return table(headings, rows)


def _valley(shape: OptimalShape) -> Text:
    flat = shape.flatness
    assert flat is not None
    ranges = [f"{span(ends, 3)} within {100 * share:g} % of it" for share, ends in flat.within.items()]
    costs = [
        f"{word} the ratio costs {100 * cost:.2g} % of the loss"
        for word, cost in (("halving", flat.halved), ("doubling", flat.doubled))
        if math.isfinite(cost)
    ]
    return Text(f"Ratios around the best loss: {', '.join(ranges)}; {', '.join(costs) or 'no other ratio fits'}.")


def feasible_table(shape: OptimalShape) -> RenderableType:
    """The shapes that can be built near the best."""
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
