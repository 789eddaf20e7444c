"""When chains are long enough, and what is said when they are not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import ScalefitWarning
from scalefit.uncertainty.posterior.diagnostics import chain_diagnostics

__all__ = ["Judgement", "is_check", "judge"]

Array = NDArray[np.float64]

TAUS = 50
LARGEST_RHAT = 1.01
FEWEST_EFFECTIVE = 1_000

CHECK_GROWTH = 1.25


@dataclass(frozen=True)
class Judgement:
    """Whether chains suffice, and the numbers behind it.

    Attributes
    ----------
    missing : tuple of str
        What they lack; empty where they suffice.
    diagnostics : mapping
        ``rhat``, ``ess``, ``ess_tail`` and ``tau`` (in steps) by name.
    """

    missing: tuple[str, ...]
    diagnostics: Mapping[str, Mapping[str, float]]

    @property
    def largest_tau(self) -> float:
        """Autocorrelation time of the slowest parameter, in steps."""
        return max(self.diagnostics["tau"].values())

    def warning(self, n_steps: int) -> ScalefitWarning | None:
        """Say what is missing after a limit of `n_steps`."""
        if not self.missing:
            return None
        return ScalefitWarning(
            "posterior-not-converged",
            f"the chains ended at their limit of {n_steps} steps before they were long enough: "
            f"{'; '.join(self.missing)}.",
            f"Allow more, max_steps={4 * n_steps}; where the data do not determine the law, no length suffices.",
            {"max_steps": n_steps, "rhat": max(self.diagnostics["rhat"].values()), "tau": self.largest_tau},
        )


def is_check(n_stored: int, first: int, step: int) -> bool:
    """Whether chains with so many stored steps are judged.

    The lengths are fixed, each a quarter longer than the last and a multiple of `step`, so that an interruption
    changes nothing.
    """
    check = first
    while check < n_stored:
        check = -(-int(CHECK_GROWTH * check) // step) * step
    return check == n_stored


def judge(values: Array, taus: Array, names: tuple[str, ...], n_steps: int) -> Judgement:
    """Compare chains with what is asked of them.

    Parameters
    ----------
    values : (n_ensembles, n_stored, n_walkers, n_names) float array
        After the burn-in.
    taus : (n_names,) float array
        Autocorrelation times, in steps.
    names : tuple of str
    n_steps : int
        Length of `values` in steps.
    """
    found: dict[str, Any] = chain_diagnostics(values) | {"tau": taus}
    largest_rhat, longest = float(found["rhat"].max()), float(taus.max())
    fewest = float(min(found["ess"].min(), found["ess_tail"].min()))
    asked = (
        (n_steps >= TAUS * longest, f"{n_steps} steps are {n_steps / longest:.0f} autocorrelation times, not {TAUS}"),
        (largest_rhat < LARGEST_RHAT, f"the largest R-hat is {largest_rhat:.3f}, not below {LARGEST_RHAT}"),
        (fewest >= FEWEST_EFFECTIVE, f"the fewest effective draws are {fewest:.0f}, not {FEWEST_EFFECTIVE}"),
    )
    by_name = {key: dict(zip(names, map(float, array), strict=True)) for key, array in found.items()}
    return Judgement(tuple(text for holds, text in asked if not holds), by_name)
