"""Intervals side by side, as a table and as a JSON document."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from scalefit.identifiability import Verdict
from scalefit.report.text import number, remarks, table
from scalefit.uncertainty.comparison import Comparison

__all__ = ["ci_document", "ci_report"]

COLUMNS = 4
"""Parameters beside each other: as many as fit a page."""


def ci_document(result: Comparison) -> dict[str, Any]:
    """Describe the intervals in JSON types; an open end is None."""
    return {
        "level": result.settings.level,
        "default": result.trusted,
        "suits": result.default,
        "by": result.samples[result.default].diagnostics["by"] if result.default in result.samples else result.plan.by,
        "reason": result.plan.reason,
        "estimates": dict(result.fit.params),
        "intervals": {
            method: {name: [_end(low), _end(high)] for name, (low, high) in intervals.items()}
            for method, intervals in result.intervals.items()
        },
        "endpoint_errors": {
            method: {
                name: list(draws.endpoint_errors(name, result.settings.level)) for name in result.intervals[method]
            }
            for method, draws in result.samples.items()
        },
        "standard_errors": _standard_errors(result),
        "diagnostics": _diagnostics(result),
        "dependence": {name: test.document() for name, test in result.plan.tests.items()},
        "verdicts": {name: verdict.value for name, verdict in result.fit.verdicts.items()},
        "withheld": dict(result.withheld),
        "reservations": dict(result.reservations),
        "disagreements": [d | {"width_ratio": _end(d["width_ratio"])} for d in result.disagreements()],
        "warnings": [
            {"code": w.code, "message": w.message, "action": w.action, "numbers": _plain(w.numbers)}
            for w in result.warnings
        ],
    }


def ci_report(result: Comparison) -> RenderableType:
    """Lay out the intervals, one row a method and one column a parameter, and which to trust."""
    names = sorted(result.fit.params, key=lambda name: name.startswith("c_"))
    blocks: list[RenderableType] = [_trust(result), Text("")]
    for first in range(0, len(names), COLUMNS):
        blocks += [_interval_table(result, names[first : first + COLUMNS]), Text("")]
    blocks += _sentences(result)
    if result.warnings:
        blocks += [Text(""), remarks(result.warnings)]
    return Group(*blocks)


def _interval_table(result: Comparison, names: list[str]) -> RenderableType:
    verdicts = result.fit.verdicts
    estimates = ["-" if verdicts.get(n) is Verdict.NOT_DETERMINED else number(result.fit.params[n]) for n in names]
    rows = [["estimate", *estimates], ["the data say", *(verdicts.get(n, "fixed") for n in names)]]
    for method in sorted(result.intervals, key=lambda m: m != result.default):
        cells = [_cell(result.intervals[method].get(n)) for n in names]
        rows.append([method + (" *" if method == result.default else ""), *cells])
    return table(["", *names], rows)


def _trust(result: Comparison) -> Text:
    level, suits = f"{result.settings.level:.0%} intervals. ", result.default
    if result.trusted is None:
        if suits in result.withheld:
            return Text.assemble((f"{level}None is to be trusted", "bold"), f": {suits} gives none, as said below.")
        advice = f"add --method {suits}: {result.plan.reason}."
        return Text.assemble((f"{level}None is to be trusted yet", "bold"), f"; {advice}")
    draws = result.samples.get(suits)
    by = f" by {draws.diagnostics['by']}" if draws is not None and suits == "cluster" else ""
    return Text.assemble((f"{level}Trust {suits}{by} (*)", "bold"), f": {result.plan.reason}.")


def _sentences(result: Comparison) -> list[RenderableType]:
    sentences = [f"{names}: withheld, {reason}." for reason, names in _by_reason(result.withheld).items()]
    sentences += [
        f"{names}: not claimed to hold the level, {reason}."
        for reason, names in _by_reason(result.reservations).items()
    ]
    sentences += [f"{method}: {_about(draws.diagnostics, len(draws))}." for method, draws in result.samples.items()]
    by_method: dict[str, list[str]] = {}
    for d in result.disagreements():
        ratio = d["width_ratio"]
        how = f"{ratio:.2g} times as wide" if math.isfinite(ratio) else "open"
        by_method.setdefault(d["method"], []).append(f"{d['parameter']} ({how}{', apart' if d['apart'] else ''})")
    sentences += [
        f"{method} disagrees with {result.default} on {', '.join(names)}." for method, names in by_method.items()
    ]
    return [Padding(Text(sentence), (0, 0, 0, 2)) for sentence in sentences]


def _by_reason(reasons: Mapping[str, str]) -> dict[str, str]:
    """Methods that share a reason, named together."""
    groups: dict[str, list[str]] = {}
    for method, reason in reasons.items():
        groups.setdefault(reason, []).append(method)
    return {reason: ", ".join(methods) for reason, methods in groups.items()}


def _about(diagnostics: Any, n_draws: int) -> str:
    """One line on how the draws came out."""
    if "converged" in diagnostics:
        bounds = "".join(f", {share:.1%} with {name} at a bound" for name, share in diagnostics["at_bound"].items())
        return (
            f"{n_draws} replicates by {diagnostics['by']}, {diagnostics['converged']:.1%} at their optimum, "
            f"{diagnostics['degenerate']} degenerate{bounds}"
        )
    parts = [f"{n_draws} draws"]
    if "rhat" in diagnostics:
        parts.append(f"R-hat at most {max(diagnostics['rhat'].values()):.3f}")
    if "khat" in diagnostics:
        parts.append(f"Pareto k-hat {diagnostics['khat']:.2f}")
    if diagnostics.get("ess"):
        parts.append(f"at least {min(diagnostics['ess'].values()):.0f} effective")
    return ", ".join(parts)


def _standard_errors(result: Comparison) -> dict[str, dict[str, float | None]]:
    if result.theory is None:
        return {}
    return {
        kind: {name: _end(result.theory.standard_error(name, kind)) for name in result.theory.names}
        for kind in result.theory.covariances
    }


def _diagnostics(result: Comparison) -> dict[str, Any]:
    found = {method: _plain(draws.diagnostics) for method, draws in result.samples.items()}
    if result.theory is not None:
        found["theory"] = {
            "hessian_ratio": _end(result.theory.hessian_ratio),
            "hessian_probability": _end(result.theory.hessian_p),
            "clusters": result.theory.clusters,
        }
    if result.profiles:
        found["profile"] = {"calibration": next(iter(result.profiles.values())).calibration}
    return found


def _cell(interval: tuple[float, float] | None) -> str:
    if interval is None:
        return "-"
    return " to ".join(number(end, 3) if math.isfinite(end) else "open" for end in interval)


def _end(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _plain(value: Any) -> Any:
    """What JSON can hold, numbers that do not exist as None."""
    if hasattr(value, "items"):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    value = value.item() if hasattr(value, "item") else value
    return _end(value) if isinstance(value, float) else value
