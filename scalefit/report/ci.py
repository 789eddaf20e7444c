"""Intervals: of several methods side by side, of draws, of a profile."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from scalefit.identifiability import Verdict
from scalefit.report.text import facts, number, remarks, report, span, table
from scalefit.uncertainty.comparison import Comparison
from scalefit.uncertainty.profile import Profile
from scalefit.uncertainty.samples import Samples

COLUMNS = 4
"""Parameters beside each other: as many as fit a page."""

NONE = (math.nan, math.nan)


@facts.register(Comparison)
def comparison_facts(result: Comparison) -> dict[str, Any]:
    """Intervals by method and parameter, which to trust, and what speaks against the others."""
    return {
        "level": result.settings.level,
        "default": result.trusted,
        "suits": result.default,
        "trusted": {name: result.trusted_for(name) for name in result.fit.params},
        "by": result.grouping.by,
        "reason": result.grouping.reason,
        "estimates": result.fit.params,
        "intervals": result.intervals,
        "endpoint_errors": {
            method: {name: draws.endpoint_errors(name, result.settings.level) for name in result.intervals[method]}
            for method, draws in result.samples.items()
        },
        "standard_errors": {
            kind: {name: result.theory.standard_error(name, kind) for name in result.fit.params}
            for kind in result.theory.covariances
        }
        if result.theory is not None
        else {},
        "diagnostics": _diagnostics(result),
        "dependence": {name: test.document() for name, test in result.grouping.tests.items()},
        "verdicts": result.fit.verdicts,
        "withheld": result.withheld,
        "reservations": result.reservations,
        "disagreements": result.disagreements(),
        "warnings": result.warnings,
    }


@report.register(Comparison)
def comparison_report(result: Comparison) -> RenderableType:
    """Lay out the intervals, one row a method and one column a parameter, and which to trust."""
    names = sorted(result.fit.params, key=lambda name: result.fit.law.parameter(name).is_coefficient)
    blocks: list[RenderableType] = [trust_line(result), Text("")]
    for first in range(0, len(names), COLUMNS):
        blocks += [interval_table(result, names[first : first + COLUMNS]), Text("")]
    blocks += sentences_below(result)
    if result.warnings:
        blocks += [Text(""), remarks(result.warnings)]
    return Group(*blocks)


def interval_table(result: Comparison, names: list[str]) -> RenderableType:
    """Some parameters beside each other, a row a method."""
    verdicts = result.fit.verdicts
    estimates = ["-" if verdicts.get(n) is Verdict.NOT_DETERMINED else number(result.fit.params[n]) for n in names]
    rows = [["estimate", *estimates], ["the data say", *(verdicts.get(n, "fixed") for n in names)]]
    for method in sorted(result.intervals, key=lambda m: m != result.default):
        cells = [_cell(result, method, name) for name in names]
        rows.append([method + (" *" if method == result.trusted else ""), *cells])
        if method == result.trusted and method in result.samples:
            by_chance = [_by_chance(result, method, name) for name in names]
            rows += [["  ± by chance", *by_chance]] if any(by_chance) else []
    return table(["", *names], rows)


def _by_chance(result: Comparison, method: str, name: str) -> str:
    """Monte Carlo errors of an interval's ends, where they change the digits printed."""
    if name not in result.intervals[method]:
        return ""
    ends = result.intervals[method][name]
    errors = result.samples[method].endpoint_errors(name, result.settings.level)
    shows = any(number(end + error, 3) != number(end - error, 3) for end, error in zip(ends, errors, strict=True))
    return " and ".join(number(error, 1) for error in errors) if shows else ""


def trust_line(result: Comparison) -> Text:
    """Which method to trust, and why."""
    level, suits = f"{result.settings.level:.0%} intervals. ", result.default
    if result.trusted is None:
        head = "None is to be trusted"
        if suits in result.intervals:
            why = f": {suits} is doubted, as said below."
        elif suits in result.withheld:
            why = f": {suits} gives none, as said below."
        else:
            head, why = f"{head} yet", f"; add --method {suits}: {result.grouping.reason}."
        return Text.assemble((level + head, "bold"), why)
    others: dict[str, list[str]] = {}
    for name in result.intervals[suits]:
        method = result.trusted_for(name)
        if method != suits:
            others.setdefault(method or "none", []).append(name)
    but = "".join(f", and {method} for {', '.join(names)}" for method, names in others.items())
    return Text.assemble((f"{level}Trust {_with_unit(result)} (*){but}", "bold"), f": {result.grouping.reason}.")


def _with_unit(result: Comparison) -> str:
    """The trusted method and what it takes for independent."""
    by = {"cluster": result.grouping.by, **{m: details["by"] for m, details in result.details.items()}}
    return f"{result.default} by {by[result.default]}" if result.default in by else result.default


def sentences_below(result: Comparison) -> list[RenderableType]:
    """What speaks against the other methods, and how the draws came out."""
    sentences = [f"{names}: withheld, {reason}." for reason, names in _by_reason(result.withheld).items()]
    sentences += [
        f"{names}: in brackets, for it is not claimed to hold the level, {reason}."
        for reason, names in _by_reason(_doubted(result)).items()
    ]
    sentences += [f"{method}: {_about(draws.diagnostics, len(draws))}." for method, draws in result.samples.items()]
    if "mixed" in result.details:
        sentences.append(_about_mixed(result))
    by_method: dict[str, list[str]] = {}
    for d in result.disagreements():
        ratio = d["width_ratio"]
        how = f"{ratio:.2g} times as wide" if math.isfinite(ratio) else "open"
        by_method.setdefault(d["method"], []).append(f"{d['parameter']} ({how}{', apart' if d['apart'] else ''})")
    sentences += [
        f"{method} disagrees with {result.default} on {', '.join(names)}." for method, names in by_method.items()
    ]
    return [Padding(Text(sentence), (0, 0, 0, 2)) for sentence in sentences]


def _doubted(result: Comparison) -> dict[str, str]:
    """Methods, with the parameters where these are not all, and why they are doubted."""
    doubted: dict[str, str] = {}
    for method, doubts in result.reservations.items():
        for reason, names in _by_reason(doubts).items():
            every = len(doubts) == len(result.intervals[method]) and len(set(doubts.values())) == 1
            doubted[method if every else f"{method} ({names})"] = reason
    return doubted


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


def _about_mixed(result: Comparison) -> str:
    """The variance components of the random intercept, and the estimates that it moves to."""
    found = result.details["mixed"]
    unit, factor = (" %", 100.0) if result.fit.objective.log else ("", 1.0)
    sizes = [f"{number(factor * found['deviations'][by], 2)}{unit} by {by}" for by in (found["by"], "row")]
    estimates = [
        f"{name} {number(found['estimates'][name], 3)}"
        for name in result.intervals["mixed"]
        if not result.fit.law.parameter(name).is_coefficient
    ]
    return f"mixed: noise of {' and '.join(sizes)}; its own estimates are {', '.join(estimates)}."


def _diagnostics(result: Comparison) -> dict[str, Any]:
    found: dict[str, Any] = {method: draws.diagnostics for method, draws in result.samples.items()}
    found |= result.details
    if result.theory is not None:
        found["theory"] = {
            "hessian_ratio": result.theory.hessian_ratio,
            "hessian_probability": result.theory.hessian_p,
            "clusters": result.theory.clusters,
        }
    if result.profiles:
        found["profile"] = {"calibration": next(iter(result.profiles.values())).calibration}
    return found


def _cell(result: Comparison, method: str, name: str) -> str:
    """An interval: in brackets where it is not claimed, starred where it stands in for the trusted method's."""
    shown = span(result.intervals[method].get(name, NONE), 3)
    if name in result.intervals[method] and not result.claimed(method, name):
        return f"({shown})"
    return f"{shown} *" if result.trusted_for(name) == method != result.trusted else shown


@facts.register(Samples)
def samples_facts(draws: Samples) -> dict[str, Any]:
    """What made the draws, and their summary by parameter."""
    return {
        "method": draws.method,
        "law": str(draws.law),
        "level": draws.level,
        "n_draws": len(draws),
        "parameters": draws.summary(),
        "reservations": draws.reservations,
        "diagnostics": draws.diagnostics,
        "warnings": draws.warnings,
    }


@report.register(Samples)
def samples_report(draws: Samples) -> RenderableType:
    """Lay out a summary of draws, one row a parameter."""
    rows = [
        [name, number(s["estimate"]), number(s["median"]), number(s["sd"], 2), span((s["low"], s["high"]), 3)]
        for name, s in draws.summary().items()
    ]
    return Group(
        Text(f"{draws.law} by {draws.method}: {_about(draws.diagnostics, len(draws))}", style="bold"),
        table(["parameter", "estimate", "median", "deviation", f"{100 * draws.level:g} % interval"], rows),
        *([Text(""), remarks(draws.warnings)] if draws.warnings else []),
    )


@facts.register(Profile)
def profile_facts(curve: Profile) -> Profile:
    """All of it."""
    return curve


@report.register(Profile)
def profile_report(curve: Profile) -> RenderableType:
    """Say the estimate and its interval in a line."""
    ends = span(curve.interval, 3)
    return Text(f"{curve.name} {number(curve.estimate)}, {100 * curve.level:g} % interval by profile {ends}")
