"""What a check is, the table of all checks, and how their findings print.

A check is a name, the claim in one sentence, and a function that yields judged findings. `theorem_check` enters it
into the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from scalefit.errors import OptionError
from scalefit.numbers import to_json
from scalefit.theory.verdict import Assumption, Judgement, Outcome

__all__ = [
    "CHECKS",
    "COLUMNS",
    "Finding",
    "Sampling",
    "TheoremCheck",
    "describe_findings",
    "find_check",
    "list_checks",
    "summarise",
    "theorem_check",
]


@dataclass(frozen=True)
class Sampling:
    """Seed of the Monte Carlo, and the number of independent seeds (None: as many as the check needs)."""

    seed: int = 0
    n_seeds: int | None = None

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise OptionError(f"seed is {self.seed} and must not be negative")
        if self.n_seeds is not None and self.n_seeds < 1:
            raise OptionError(f"the number of seeds is {self.n_seeds} and must be at least 1")

    def count(self, default: int) -> int:
        """Return the number of seeds to draw."""
        return default if self.n_seeds is None else self.n_seeds


@dataclass(frozen=True)
class Finding:
    """One claim, judged, with the assumptions under which it was judged; `check` is the name of its check."""

    claim: str
    judgement: Judgement
    assumptions: tuple[Assumption, ...] = ()
    check: str = ""

    @property
    def verdict(self) -> Outcome:
        """The outcome of the judgement."""
        return self.judgement.verdict

    def to_dict(self) -> dict[str, object]:
        """Return the JSON-ready form; numbers that do not exist are null."""
        content: dict[str, object] = to_json(
            {"check": self.check, "claim": self.claim, **vars(self.judgement), "assumptions": self.assumptions}
        )
        return content


CheckFunction = Callable[[Sampling], Iterator[Finding]]

CHECKS: dict[str, TheoremCheck] = {}
"""The checks by name, in the order in which `scalefit theory all` runs them."""


@dataclass(frozen=True)
class TheoremCheck:
    """A named check; `run` judges each of its claims.

    A check that demonstrates where the bound breaks claims the break, so HOLDS always means: as claimed.
    """

    name: str
    claim: str
    function: CheckFunction

    def run(self, sampling: Sampling | None = None) -> tuple[Finding, ...]:
        """Judge every claim of the check."""
        return tuple(replace(found, check=self.name) for found in self.function(sampling or Sampling()))


def theorem_check(name: str, claim: str) -> Callable[[CheckFunction], TheoremCheck]:
    """Turn a generator of findings into a `TheoremCheck` of the table."""
    return lambda function: CHECKS.setdefault(name, TheoremCheck(name, claim, function))


def find_check(name: str) -> TheoremCheck:
    """Return a check by name."""
    if name not in CHECKS:
        raise OptionError(f"check {name!r} is unknown; use one of {', '.join(CHECKS)}")
    return CHECKS[name]


COLUMNS = f"{'verdict':<13}{'predicted':>11} {'estimated':>11} {'std. error':>10} {'layer':>6}  claim"


def describe_findings(heading: str, findings: Sequence[Finding]) -> str:
    """Return one block: a heading, a row a finding, and the assumptions with what was measured."""
    lines = [heading]
    for finding in findings:
        found = finding.judgement
        # exact arithmetic has no error; a single seed and a largest value have none that can be known
        known = "-" if math.isnan(found.standard_error) else f"{found.standard_error:.2g}"
        error = "exact" if found.n_samples == 0 else known
        layer = "" if found.layer is None else str(found.layer)
        numbers = f"{found.predicted:>11.6g} {found.estimated:>11.6g} {error:>10} {layer:>6}"
        lines.append(f"{found.verdict:<13}{numbers}  {finding.claim}")
    # a line an assumption; where findings differ, each with the kind of evidence that led to it
    states: dict[str, list[tuple[str, str]]] = {}
    for finding in findings:
        evidence = "simulated" if finding.judgement.n_samples else "exact"
        for each in finding.assumptions:
            states.setdefault(f"{each.name}: {each.text}", []).append((each.state, evidence))
    for text, pairs in states.items():
        shown = list(dict.fromkeys(state for state, _ in pairs))
        if len(shown) > 1:
            shown = [f"{state} ({evidence})" for state, evidence in dict.fromkeys(pairs)]
        lines.append(f"    assumption {text}: {', '.join(shown)}")
    return "\n".join(lines)


def list_checks(checks: Iterable[TheoremCheck]) -> str:
    """Return a line a check: its name and its claim."""
    chosen = list(checks)
    width = max(len(check.name) for check in chosen)
    return "\n".join(f"{check.name:<{width}}  {check.claim}" for check in chosen)


def summarise(findings: Sequence[Finding]) -> str:
    """Return the count of verdicts in one line."""
    held, violated, undecided = (sum(each.verdict is outcome for each in findings) for outcome in Outcome)
    return f"{len(findings)} claims: {held} hold, {violated} violated, {undecided} inconclusive"
