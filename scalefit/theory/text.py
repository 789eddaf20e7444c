"""Verdicts as text for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from scalefit.theory.checks import TheoremCheck
from scalefit.theory.verdict import CheckResult, Verdict

__all__ = ["COLUMNS", "describe_results", "list_checks", "summarise"]

COLUMNS = f"{'verdict':<13}{'predicted':>11} {'estimated':>11} {'std. error':>10} {'layer':>6}  claim"


def describe_results(check: TheoremCheck, results: Sequence[CheckResult]) -> str:
    """Return one block: the check's claim, a row a finding, and its assumptions with what was measured."""
    lines = [f"{check.name}: {check.claim}"]
    for result in results:
        found = result.judgement
        # exact arithmetic has no error; a single seed and a largest value have none that can be known
        known = "-" if math.isnan(found.standard_error) else f"{found.standard_error:.2g}"
        error = "exact" if found.n_samples == 0 else known
        layer = "" if found.layer is None else str(found.layer)
        numbers = f"{found.predicted:>11.6g} {found.estimated:>11.6g} {error:>10} {layer:>6}"
        lines.append(f"{found.verdict:<13}{numbers}  {result.claim}")
    return "\n".join([*lines, *_describe_assumptions(results)])


def _describe_assumptions(results: Sequence[CheckResult]) -> list[str]:
    """Return a line an assumption; where findings differ, each with the kind of evidence that led to it."""
    found: dict[str, list[tuple[str, str]]] = {}
    for result in results:
        evidence = "simulated" if result.judgement.n_samples else "exact"
        for each in result.assumptions:
            found.setdefault(f"{each.name}: {each.text}", []).append((each.state, evidence))
    lines = []
    for text, pairs in found.items():
        states = list(dict.fromkeys(state for state, _ in pairs))
        if len(states) > 1:
            states = [f"{state} ({evidence})" for state, evidence in dict.fromkeys(pairs)]
        lines.append(f"    assumption {text}: {', '.join(states)}")
    return lines


def list_checks(checks: Iterable[TheoremCheck]) -> str:
    """Return a line a check: its name and its claim."""
    chosen = list(checks)
    width = max(len(check.name) for check in chosen)
    return "\n".join(f"{check.name:<{width}}  {check.claim}" for check in chosen)


def summarise(results: Sequence[CheckResult]) -> str:
    """Return the count of verdicts in one line."""
    counts = {verdict: sum(result.verdict is verdict for result in results) for verdict in Verdict}
    held, violated, undecided = (counts[verdict] for verdict in Verdict)
    return f"{len(results)} claims: {held} hold, {violated} violated, {undecided} inconclusive"
