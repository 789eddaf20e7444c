"""Whether draws can be trusted: R-hat, effective sizes, Pareto k-hat, when chains are long enough, what priors do.

The estimators are those of ArviZ (`arviz_stats.base`, which needs only NumPy and SciPy): rank-normalised split R-hat
and bulk and tail effective sizes (Vehtari et al. 2021), Pareto-smoothed importance weights (Vehtari et al. 2024), and
power-scaling sensitivity (Kallioinen et al. 2024).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import ScalefitWarning
from scalefit.uncertainty.samples import percentile_interval

if TYPE_CHECKING:
    from scalefit.uncertainty.posterior.target import Target

__all__ = [
    "Convergence",
    "assess",
    "chain_diagnostics",
    "is_check",
    "prior_influence",
    "prior_warnings",
    "smooth_weights",
]

Array = NDArray[np.float64]

POWERS = (0.8, 1.25)
"""Powers of the prior between which its influence is measured."""

SENSITIVE = 0.05
"""Distance of the posterior per doubling of the prior's power above which Kallioinen et al. call it sensitive."""

MOST_OF_PRIOR = 0.5
"""A 95 % interval that holds more than this share of the prior's probability says little beyond the prior."""

TAUS = 50
LARGEST_RHAT = 1.01
FEWEST_EFFECTIVE = 1_000

CHECK_GROWTH = 1.25


def chain_diagnostics(values: Array) -> dict[str, Array]:
    """R-hat and effective sizes of one quantity or several drawn by independent ensembles of walkers.

    R-hat compares ensembles, each one pooled in the order of its steps: the walkers of an ensemble depend on each
    other and would agree even where the ensemble is lost. Effective sizes count each walker as a chain, whose own
    autocorrelation is what a walker's steps have.

    Parameters
    ----------
    values : (n_ensembles, n_steps, n_walkers, P) float array

    Returns
    -------
    dict with ``rhat``, ``ess`` (bulk) and ``ess_tail``: (P,) float arrays
    """
    array_stats = _arviz()
    n_ensembles, n_steps, n_walkers, n_values = values.shape
    pooled = values.reshape(n_ensembles, n_steps * n_walkers, n_values).transpose(2, 0, 1)
    walkers = values.transpose(3, 0, 2, 1).reshape(n_values, n_ensembles * n_walkers, n_steps)
    return {
        "rhat": np.asarray(array_stats.rhat(pooled, method="rank")),
        "ess": np.asarray(array_stats.ess(walkers, method="bulk")),
        "ess_tail": np.asarray(array_stats.ess(walkers, method="tail", prob=(0.05, 0.95))),
    }


@dataclass(frozen=True)
class Convergence:
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


def assess(values: Array, taus: Array, names: tuple[str, ...], n_steps: int) -> Convergence:
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
    return Convergence(tuple(text for holds, text in asked if not holds), by_name)


def smooth_weights(log_weights: Array) -> tuple[Array, float]:
    """Pareto-smoothed importance weights, of sum one, and k-hat.

    Parameters
    ----------
    log_weights : (n,) float array
        -inf allowed: draws outside the bounds.

    Returns
    -------
    weights : (n,) float array
    khat : float
        Shape of the weights' tail: below 0.7 the weighted means can be trusted, above it they cannot; inf where no
        tail can be fitted.
    """
    array_stats = _arviz()
    possible = np.isfinite(log_weights)
    weights = np.zeros(len(log_weights))
    logs = log_weights[possible]
    khat = np.inf if np.ptp(logs) > 0 else 0.0
    # Where the largest weights are equal, of one point drawn many times, no tail can be fitted.
    with np.errstate(all="ignore"), contextlib.suppress(ValueError):
        smoothed, fitted = array_stats.psislw(-logs)
        if np.isfinite(fitted) and np.isfinite(smoothed).all():
            logs, khat = smoothed, float(fitted)
    weights[possible] = np.exp(logs - logs.max())
    return weights / weights.sum(), khat


def prior_influence(target: Target, points: Array, names: tuple[str, ...]) -> tuple[dict[str, Any], list[str]]:
    """How far the priors move the posterior, and which parameters hardly learn from the data.

    The posterior is reweighted as though every prior had been raised to a power (Kallioinen et al. 2024).

    Parameters
    ----------
    target : Target
    points : (n, n_dim) float array
        Equally weighted draws of the posterior.
    names : tuple of str
        Columns of `target.plain` that vary.

    Returns
    -------
    numbers : dict
        ``prior_sensitivity``: name -> distance of the posterior per doubling of the power;
        ``prior_powers``: the halved and doubled prior's 95 % intervals by name;
        ``prior_share``: name of a prior -> share of its probability inside the posterior's 95 % interval.
    open_names : list of str
        Parameters of the law whose interval holds most of the prior.
    """
    array_stats = _arviz()
    values = target.plain(points)
    arguments, _ = target.prior_arguments(points)
    log_prior = target.prior_densities(arguments).sum(axis=1)

    def reweighted(power: float) -> Array:
        weights, _ = smooth_weights((power - 1) * log_prior)
        return weights

    low, high = (reweighted(power) for power in POWERS)
    half, double = reweighted(0.5), reweighted(2.0)
    sensitivity, powers = {}, {}
    for name in names:
        column = values[:, target.names.index(name)]
        sensitivity[name] = float(array_stats.power_scale_sense(column[None], low[None], high[None], *POWERS))
        powers[name] = [weighted_interval(column, half), weighted_interval(column, double)]
    shares = {}
    for name, column in zip(target.prior_names, arguments.T, strict=True):
        ends = target.priors[name].cdf(np.array(percentile_interval(column, 0.95)))
        shares[name] = float(ends[1] - ends[0])
    numbers = {"prior_sensitivity": sensitivity, "prior_powers": powers, "prior_share": shares}
    law_names = target.prior_names[: target.n_free]
    open_names = [name for name in law_names if shares[name] > MOST_OF_PRIOR]
    return numbers, open_names


def prior_warnings(numbers: Mapping[str, Any], open_names: list[str]) -> list[ScalefitWarning]:
    """Remarks on parameters that the priors move or leave open."""
    remarks = []
    moved = {n: s for n, s in numbers["prior_sensitivity"].items() if s > SENSITIVE and n != "nu"}
    if moved:
        worst = max(moved, key=lambda name: moved[name])
        half, double = numbers["prior_powers"][worst]
        remarks.append(
            ScalefitWarning(
                "prior-sensitive",
                f"the priors move the posterior of {', '.join(moved)}: with every prior halved or doubled in strength "
                f"the 95 % interval of {worst} is [{half[0]:.3g}, {half[1]:.3g}] or "
                f"[{double[0]:.3g}, {double[1]:.3g}].",
                "State the priors with the result, or give your own.",
                {"sensitivity": moved},
            )
        )
    if open_names:
        shares = {name: numbers["prior_share"][name] for name in open_names}
        remarks.append(
            ScalefitWarning(
                "posterior-is-prior",
                f"the posterior of {', '.join(open_names)} is nearly as wide as the prior: its 95 % interval holds "
                f"{max(shares.values()):.0%} of the prior's probability, so that the data do not determine it.",
                "Add runs that vary the column more widely, or fix the parameter.",
                {"prior_share": shares},
            )
        )
    return remarks


def _arviz() -> Any:
    """ArviZ' functions of arrays, imported at first use: that takes half a second."""
    from arviz_stats.base.array import array_stats

    return array_stats


def weighted_interval(values: Array, weights: Array, level: float = 0.95) -> tuple[float, float]:
    """Central interval of weighted draws."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    ends = np.searchsorted(cumulative, np.array([(1 - level) / 2, (1 + level) / 2]) * cumulative[-1])
    low, high = values[order][np.minimum(ends, len(values) - 1)]
    return float(low), float(high)
