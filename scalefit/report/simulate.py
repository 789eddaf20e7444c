"""Coverage, bias and power of a planned table."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from scalefit.report.text import facts, number, report, table
from scalefit.simulation import Share, Simulation


@facts.register(Simulation)
def simulation_facts(result: Simulation) -> dict[str, Any]:
    """Truth, coverage, widths, power, bias and spread."""
    scenario = result.scenario
    return {
        "law": str(scenario.law),
        "objective": scenario.objective.name,
        "truth": {name: scenario.params[name] for name in scenario.law.parameter_names},
        "noise": scenario.noise,
        "group_noise": scenario.group_noise,
        "by": scenario.by,
        "n_rows": len(scenario.design),
        "n_tables": result.n_tables,
        "level": result.level,
        "coverage": {m: {n: _share(s) for n, s in shares.items()} for m, shares in result.coverage.items()},
        "width": result.widths,
        "power": {m: {n: _share(s) for n, s in shares.items()} for m, shares in result.power.items()},
        "against": result.against,
        "bias": {n: dict(zip(("value", "error"), result.bias(n), strict=True)) for n in _names(result)},
        "spread": {n: result.spread(n) for n in _names(result)},
        "determined": {n: _share(s) for n, s in result.determined.items()},
    }


@report.register(Simulation)
def simulation_report(result: Simulation) -> RenderableType:
    """Lay out a simulation: estimates first, then each method's coverage, width and power."""
    scenario = result.scenario
    shared = f" and {scenario.group_noise:.3g} shared by {scenario.by}" if scenario.group_noise else ""
    head = (
        f"{result.n_tables} tables of {len(scenario.design)} rows with noise {scenario.noise:.3g}{shared}, "
        f"fitted with {scenario.law}, {scenario.objective.name}"
    )
    estimates = [
        [
            name,
            number(scenario.params[name]),
            "{:+.2g} ± {:.1g}".format(*result.bias(name)),
            number(result.spread(name), 2),
            _percent(result.determined[name]),
        ]
        for name in _names(result)
    ]
    blocks: list[RenderableType] = [
        Text(head, style="bold"),
        Text(""),
        table(["parameter", "truth", "bias", "spread", "determined"], estimates),
        Text("bias and spread of ln c for coefficients; determined: share of the tables", style="dim"),
    ]
    error = 100 * 1.96 * math.sqrt(result.level * (1 - result.level) / result.n_tables)
    note = f"a true share of {result.level:.0%} is met to ± {error:.1f} % in 19 of 20 simulations"
    for title, shares in (("coverage", result.coverage), ("power", result.power)):
        if shares:
            names = list(next(iter(shares.values())))
            rows = [[m, *(f"{100 * s[n].value:.1f}" if n in s else "-" for n in names)] for m, s in shares.items()]
            blocks += [Text(""), table([f"{title}, %", *names], rows)]
    if result.power:
        values = ", ".join(f"{name} = {value:g}" for name, value in result.against.items())
        blocks.append(Text(f"power: share of the tables whose interval leaves out {values}", style="dim"))
    if result.coverage:
        blocks.append(Text(note, style="dim"))
    return Group(*blocks)


def _names(result: Simulation) -> list[str]:
    return list(result.scenario.law.parameter_names)


def _percent(share: Share) -> str:
    low, high = share.interval
    return f"{100 * share.value:.1f} % ({100 * low:.0f}-{100 * high:.0f})"


def _share(share: Share) -> dict[str, float]:
    low, high = share.interval
    return {"value": share.value, "low": low, "high": high, "n": share.n}
