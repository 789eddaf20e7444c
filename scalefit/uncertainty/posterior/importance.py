"""The posterior by importance sampling: fast, with a check of its own, and no chain whose convergence is in doubt.

Points are drawn from the proposal of `scalefit.uncertainty.posterior.proposal` and weighted by posterior over proposal;
the weights' largest values are smoothed by a fitted Pareto tail, whose shape k-hat says whether the draws can be
trusted (Vehtari et al. 2024).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import FitError, OptionError, ScalefitWarning
from scalefit.fitting.fit import Fit
from scalefit.fitting.starts import check_seed
from scalefit.uncertainty.posterior.diagnostics import prior_influence, prior_warnings, smooth_weights
from scalefit.uncertainty.posterior.priors import Prior
from scalefit.uncertainty.posterior.proposal import build_proposal
from scalefit.uncertainty.posterior.target import build_target, varying_names
from scalefit.uncertainty.samples import Samples

__all__ = ["importance_sample"]

Array = NDArray[np.float64]

LARGEST_KHAT = 0.7
FEWEST_EFFECTIVE = 400.0


def importance_sample(
    fit: Fit,
    n_draws: int = 20_000,
    *,
    seed: int = 0,
    priors: Mapping[str, Prior] | None = None,
    noise: str | None = None,
    by: str = "run",
) -> Samples:
    """Draw from the posterior of a fitted law by importance sampling.

    Parameters
    ----------
    fit : Fit
    n_draws : int
        Proposed points, at least 1,000, and returned draws: the points are drawn again by their weights.
    seed : int
    priors : mapping of str to Prior, optional
        In place of the defaults listed at `scalefit.uncertainty.posterior.priors`.
    noise : str, optional
        ``"gaussian"`` or ``"student-t"``; by default the former for squared, the latter for robust objectives.
    by : str
        Rows that share an effect: those of a ``"run"``, of a ``"shape"``, of one value of a column, or none but the
        ``"row"`` itself.

    Returns
    -------
    Samples
        Of the law's parameters and the noise; ``diagnostics`` holds ``khat``, ``ess`` by name and the influence of
        the priors. Where k-hat exceeds 0.7 or fewer than 400 draws are effective every interval
        carries a reservation.

    Raises
    ------
    OptionError
        If an option is unknown or a prior improper.
    FitError
        If no proposed point has a posterior probability.

    Examples
    --------
    >>> import scalefit as sf
    >>> fitted = sf.fit(sf.load_dataset("chinchilla").drop_worst(40))
    >>> posterior = importance_sample(fitted, n_draws=4000)
    >>> [round(end, 1) for end in posterior.interval("alpha_depth")], posterior.diagnostics["khat"] < 0.7
    ([0.9, 1.7], True)
    """
    if n_draws < 1_000:
        raise OptionError(f"n_draws is {n_draws} and must be at least 1000, or the tail of the weights is unknown")
    check_seed(seed)
    target = build_target(fit, priors, noise, by)
    rng = np.random.default_rng(seed)
    points, log_density = build_proposal(target, target.point_of(fit)).draw(n_draws, rng)
    log_weights = target.log_posterior(points) - log_density
    if np.count_nonzero(np.isfinite(log_weights)) < n_draws // 100:
        raise FitError("hardly any point of the importance sampler lies within the bounds; take sample_posterior")
    weights, khat = smooth_weights(log_weights)
    effective = float(1 / (weights @ weights))
    chosen = points[_resampled(weights, n_draws, rng)]
    names = varying_names(target)
    influence, open_names = prior_influence(target, chosen, names)
    doubt = _doubt(khat, effective)
    return Samples(
        law=fit.law,
        names=target.names,
        draws=target.plain(chosen),
        method="importance",
        estimate=fit.params,
        reservations=dict.fromkeys(names, doubt.message) if doubt else {},
        diagnostics={
            "khat": khat,
            "ess": dict.fromkeys(names, effective),
            "n_proposed": n_draws,
            **target.description,
            **influence,
        },
        warnings=(*([doubt] if doubt else []), *prior_warnings(influence, open_names)),
    )


def _resampled(weights: Array, n_draws: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Indices drawn by weight, systematically (Kitagawa 1996): each appears its expected number of times, +- 1."""
    places = (np.arange(n_draws) + rng.random()) / n_draws
    chosen = np.searchsorted(np.cumsum(weights), places)
    return rng.permutation(np.minimum(chosen, len(weights) - 1))


def _doubt(khat: float, effective: float) -> ScalefitWarning | None:
    if khat <= LARGEST_KHAT and effective >= FEWEST_EFFECTIVE:
        return None
    return ScalefitWarning(
        "importance-unreliable",
        f"the importance weights have k-hat {khat:.2f} (at most {LARGEST_KHAT} can be trusted) and {effective:.0f} "
        "effective draws: the posterior is far from the shape proposed.",
        "Take sample_posterior (emcee), which does not need that shape.",
        {"khat": khat, "ess": effective},
    )
