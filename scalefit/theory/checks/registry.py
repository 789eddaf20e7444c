"""What a check is: a name, the claim in one sentence, and a function that yields judged findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scalefit.errors import OptionError
from scalefit.theory.verdict import Assumption, CheckResult, Judgement

__all__ = ["Finding", "Sampling", "TheoremCheck", "theorem_check"]


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
    """One claim, judged."""

    claim: str
    judgement: Judgement
    assumptions: tuple[Assumption, ...] = ()


CheckFunction = Callable[[Sampling], Iterator[Finding]]


@dataclass(frozen=True)
class TheoremCheck:
    """A named check; `run` judges each of its claims.

    A check that demonstrates where the bound breaks claims the break, so HOLDS always means: as claimed.
    """

    name: str
    claim: str
    function: CheckFunction

    def run(self, sampling: Sampling | None = None) -> tuple[CheckResult, ...]:
        """Judge every claim of the check."""
        findings = self.function(sampling or Sampling())
        return tuple(CheckResult(self.name, f.claim, f.judgement, f.assumptions) for f in findings)


def theorem_check(name: str, claim: str) -> Callable[[CheckFunction], TheoremCheck]:
    """Turn a generator of findings into a `TheoremCheck`."""
    return lambda function: TheoremCheck(name, claim, function)
