"""Best N and D for a budget, what a loss takes, isoFLOP valleys, and one recipe against another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from scalefit.errors import ScalefitWarning
from scalefit.optimal import Allocation, IsoFlop, Requirement, SpeedUp
from scalefit.report.text import facts, number, remarks, report, span, table

QUANTITIES = {"params": "parameters N", "tokens": "tokens D", "tokens_per_param": "tokens a parameter", "loss": "loss"}


@dataclass(frozen=True)
class Allocations:
    """Best sizes of one fit for several budgets, and why some methods give no intervals."""

    allocations: Sequence[Allocation]
    withheld: Sequence[ScalefitWarning] = ()


@facts.register(Allocations)
def allocations_facts(found: Allocations) -> list[dict[str, Any]]:
    """One object a budget; each says which methods are withheld."""
    return [{**allocation_facts(a), "warnings": [*a.warnings, *found.withheld]} for a in found.allocations]


@facts.register(Allocation)
def allocation_facts(found: Allocation) -> dict[str, Any]:
    """The sizes, their exponents, intervals by method, and what other ratios cost."""
    return {
        "budget": {"flops": found.budget},
        "cost": found.cost,
        "determined": found.determined,
        **{name: getattr(found, name) for name in QUANTITIES},
        "exponents": found.exponents,
        "intervals": found.intervals,
        "intervals_by_method": {
            one.method: {"level": one.level, **one.intervals, "exponents": one.exponents, "at_edge": one.at_edge}
            for one in found.by_method
        },
        "at_ratios": found.at_ratios,
        "decades_beyond_table": {name: round(value, 6) for name, value in found.decades.items()},
        "warnings": found.warnings,
    }


@report.register(Allocation)
def allocation_report(found: Allocation) -> RenderableType:
    """Lay out one budget."""
    return allocations_report(Allocations([found]))


@report.register(Allocations)
def allocations_report(found: Allocations) -> RenderableType:
    """Lay out best sizes, one block a budget; the remarks follow, each once."""
    told = [*(warning for one in found.allocations for warning in one.warnings), *found.withheld]
    blocks: list[RenderableType] = []
    for one in found.allocations:
        blocks.append(Text(f"budget: flops {one.budget:.6g} (cost {one.cost})", style="bold"))
        blocks += [_sizes(one), *_ratios(one), Text("")]
    return Group(*blocks, remarks({warning.message: warning for warning in told}.values()))


def _sizes(found: Allocation) -> RenderableType:
    if not found.determined:
        return Text("The data do not determine the best size.", style="red")
    level = f"{100 * found.by_method[0].level:g} % " if found.by_method else ""
    rows = []
    for name, label in QUANTITIES.items():
        exponent = found.exponents.get(name)
        growth = "" if exponent is None else f"C^{exponent:.3f}"
        cells = [span(one.intervals[name], 3) for one in found.by_method]
        ends = [span(one.exponents[name], 2) for one in found.by_method if name in one.exponents]
        rows.append([label, number(getattr(found, name), 4), *cells, growth, ends[0] if ends else ""])
    headings = ["", "best", *(f"{level}{one.method}" for one in found.by_method), "grows as", level.strip()]
    return table(headings, rows)


def _ratios(found: Allocation) -> list[RenderableType]:
    if not found.at_ratios:
        return []
    rows = [
        [
            number(one.tokens_per_param, 3),
            number(one.params, 3),
            number(one.tokens, 3),
            number(one.loss, 5),
            f"{100 * one.excess:.2g} %",
            span([100 * end for end in one.interval], 2),
        ]
        for one in found.at_ratios
    ]
    headings = ["tokens a parameter", "N", "D", "loss", "above the best", "interval, %"]
    return [Text(""), table(headings, rows, left=0)]


@facts.register(Requirement)
def requirement_facts(found: Requirement) -> dict[str, Any]:
    """What is needed, its intervals and the share of draws that never reach the loss."""
    return {
        "target_loss": found.loss,
        "at": found.at,
        "reachable": found.reachable,
        "needed": found.needed,
        "level": found.level,
        "intervals_by_method": found.intervals,
        "unreached": found.unreached,
        "warnings": found.warnings,
    }


@report.register(Requirement)
def requirement_report(found: Requirement) -> RenderableType:
    """Lay out what a loss takes; an interval that has no upper end is open."""
    given = "".join(f", {name} {number(value)}" for name, value in found.at.items())
    heading = Text(f"what a loss of {found.loss:g} takes{given}", style="bold")
    methods = list(found.intervals)
    rows = [
        [
            name,
            number(value) if math.isfinite(value) else "out of reach",
            *(span(found.intervals[method][name], 3) for method in methods),
        ]
        for name, value in found.needed.items()
    ]
    lines = [
        Text(f"{share:.1%} of the {method} draws never reach it.") for method, share in found.unreached.items() if share
    ]
    headings = ["", "needed", *(f"{100 * found.level:g} % {method}" for method in methods)]
    return Group(heading, table(headings, rows), *lines, Text(""), remarks(found.warnings))


@facts.register(IsoFlop)
def isoflop_facts(found: IsoFlop) -> dict[str, Any]:
    """Valleys by budget, approaches at one budget."""
    return {
        "flops": found.flops,
        "level": found.level,
        "valleys": found.valleys,
        "approaches": found.approaches,
        "warnings": found.warnings,
    }


@report.register(IsoFlop)
def isoflop_report(found: IsoFlop) -> RenderableType:
    """Lay out the valleys, then the approaches side by side."""
    percent = f"{100 * found.level:g} %"
    valleys = [
        [
            number(valley.flops, 3),
            str(valley.n_runs),
            *([number(valley.params, 3), span(valley.interval, 3)] if not valley.remark else ["-", valley.remark]),
            number(valley.tokens, 3),
            number(valley.tokens / valley.params, 3),
            number(valley.loss, 4),
        ]
        for valley in found.valleys
    ]
    approaches = [
        [
            f"{one.name} ({one.basis})" if one.basis else one.name,
            f"{one.exponent:.3f}",
            span(one.interval, 2),
            number(one.params, 3),
            span(one.params_interval, 3),
            number(one.tokens, 3),
            number(one.tokens / one.params, 3),
        ]
        for one in found.approaches
    ]
    names = ["flops", "runs", "N at the minimum", percent, "D", "D / N", "loss"]
    return Group(
        table(names, valleys, left=0),
        Text(""),
        Text(f"N* ~ C^a, and N* and D* at {number(found.flops, 3)} operations", style="bold"),
        table(["", "a", percent, "N*", percent, "D*", "D*/N*"], approaches),
        Text(""),
        remarks(found.warnings),
    )


@facts.register(SpeedUp)
def speed_up_facts(found: SpeedUp) -> dict[str, Any]:
    """One object a budget."""
    return {
        "cost": found.cost,
        "method": found.method,
        "level": found.level,
        "paired": found.paired,
        "budgets": found.at,
        "warnings": found.warnings,
    }


@report.register(SpeedUp)
def speed_up_report(found: SpeedUp) -> RenderableType:
    """Lay out the speed-up along compute."""
    rows = [
        [
            number(one.flops, 3),
            number(one.loss_a, 4),
            number(one.loss_b, 4),
            number(one.speed_up, 3) if math.isfinite(one.speed_up) else "never reached",
            span(one.interval, 3),
            "-" if math.isnan(one.probability) else f"{one.probability:.1%}",
        ]
        for one in found.at
    ]
    drawn = f"{found.method} draws" + (", of the same rows of both" if found.paired else ", of each by itself")
    headings = ["flops", "loss of A", "loss of B", "speed-up", f"{100 * found.level:g} %", "B is better"]
    return Group(
        Text(f"compute that A needs for B's loss, over B's own (cost {found.cost}; {drawn})", style="bold"),
        table(headings, rows, left=0),
        Text(""),
        remarks({warning.message: warning for warning in found.warnings}.values()),
    )
