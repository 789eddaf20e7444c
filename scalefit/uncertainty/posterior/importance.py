"""The posterior by importance sampling: fast, with a check of its own, and no chain whose convergence is in doubt.

Points are drawn from a distribution close to the posterior and weighted by posterior over proposal; the weights'
largest values are smoothed by a fitted Pareto tail, whose shape k-hat says whether the draws can be trusted (Vehtari
et al. 2024).

With beta the linear parameters and phi the rest (`scalefit.uncertainty.posterior.conditional`), beta is nearly normal
around its conditional optimum b(phi) with the precision A(phi). What is left of the posterior is the Laplace form of
the marginal,

    ln m(phi) = ln p(b(phi), phi) - ln |A(phi)| / 2                                (Tierney & Kadane 1986, section 2),

close to normal around its mode in its few dimensions. The proposal is

    phi ~ t(mode, -[d2 ln m]^-1),    beta | phi ~ t(b(phi), A(phi)^-1),                                (1)

with t of few degrees of freedom, so that its tails are heavier than the posterior's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from scalefit.errors import FitError, OptionError, ScalefitWarning
from scalefit.fitting.starts import check_seed
from scalefit.uncertainty.posterior.conditional import Conditional, build_conditional
from scalefit.uncertainty.posterior.diagnostics import prior_influence, prior_warnings, smooth_weights
from scalefit.uncertainty.posterior.priors import Prior
from scalefit.uncertainty.posterior.target import Target, build_target, varying_names
from scalefit.uncertainty.samples import Samples

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["Proposal", "build_proposal", "importance_sample"]

Array = NDArray[np.float64]

LARGEST_KHAT = 0.7
FEWEST_EFFECTIVE = 400.0

DEGREES = 7.0
"""Of freedom of both t distributions: lighter tails waste fewer draws, heavier ones forgive a long-tailed posterior."""

_MODE_STEPS = 30
_DIFFERENCE = 0.2
_ENOUGH = 1e-3


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
    chosen = points[resampled(weights, n_draws, rng)]
    names = varying_names(target)
    influence, open_names = prior_influence(target, chosen, names)
    doubt = ScalefitWarning(
        "importance-unreliable",
        f"the importance weights have k-hat {khat:.2f} (at most {LARGEST_KHAT} can be trusted) and {effective:.0f} "
        "effective draws: the posterior is far from the shape proposed.",
        "Take sample_posterior (emcee), which does not need that shape.",
        {"khat": khat, "ess": effective},
    )
    doubts = [] if khat <= LARGEST_KHAT and effective >= FEWEST_EFFECTIVE else [doubt]
    return Samples(
        law=fit.law,
        names=target.names,
        draws=target.plain(chosen),
        method="importance",
        estimate=fit.params,
        reservations={name: doubt.message for _ in doubts for name in names},
        diagnostics={
            "khat": khat,
            "ess": dict.fromkeys(names, effective),
            "n_proposed": n_draws,
            **target.description,
            **influence,
        },
        warnings=(*doubts, *prior_warnings(influence, open_names)),
    )


def resampled(weights: Array, n_draws: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Indices drawn by weight, systematically (Kitagawa 1996): each appears its expected number of times, +- 1."""
    places = (np.arange(n_draws) + rng.random()) / n_draws
    chosen = np.searchsorted(np.cumsum(weights), places)
    return rng.permutation(np.minimum(chosen, len(weights) - 1))


@dataclass(frozen=True)
class Proposal:
    """Equation (1).

    Attributes
    ----------
    conditional : Conditional
    mode : (n_dim - n_linear,) float array
    factor : (n_dim - n_linear, n_dim - n_linear) float array
        Lower Cholesky factor of the scale matrix of phi.
    """

    conditional: Conditional
    mode: Array
    factor: Array

    def draw(self, n_draws: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draw points.

        Returns
        -------
        points : (n_draws, n_dim) float array
        log_density : (n_draws,) float array
            Ln of the proposal's density, nan where the conditional is not defined.
        """
        n_linear, target = self.conditional.n_linear, self.conditional.target
        v, log_v = _standard_t(n_draws, len(self.mode), rng)
        w, log_w = _standard_t(n_draws, n_linear, rng)
        phi = self.mode + v @ self.factor.T
        log_density = log_v - np.log(np.diag(self.factor)).sum() + log_w
        points = np.empty((n_draws, n_linear + phi.shape[1]))
        points[:, n_linear:] = phi
        for rows in np.array_split(np.arange(n_draws), target.n_blocks(n_draws)):
            beta, factor = self.conditional.normal(phi[rows])
            # With A = L L' the draw L'^-1 w has the covariance A^-1.
            points[rows, :n_linear] = beta + np.linalg.solve(factor.transpose(0, 2, 1), w[rows][:, :, None])[:, :, 0]
            log_density[rows] += _half_log_determinant(factor)
        return points, log_density


def build_proposal(target: Target, start: Array) -> Proposal:
    """Find the mode and curvature of ln m.

    Parameters
    ----------
    target : Target
    start : (n_dim,) float array
        The fit.
    """
    conditional = build_conditional(target, start)
    phi_start = moved_inside(target, start)[conditional.n_linear :]

    def log_marginal(phi: Array) -> Array:
        beta, factor = conditional.normal(phi)
        points = np.concatenate([beta, phi], axis=1)
        density = target.log_likelihood(points) + _log_smooth_prior(target, points)
        return np.asarray(density - _half_log_determinant(factor))

    mode, precision = find_mode(log_marginal, phi_start, _first_scales(target, start))
    return Proposal(conditional, mode, np.asarray(np.linalg.cholesky(_inverse(precision)), dtype=np.float64))


def _log_smooth_prior(target: Target, points: Array) -> Array:
    """Ln prior of phi alone: that of beta may be -inf at b(phi), which knows no bounds."""
    n_linear = target.centred.problem.n_linear
    arguments, _ = target.prior_arguments(points)
    log_scales = points[:, target.n_free :]
    return np.asarray(target.prior_densities(arguments)[:, n_linear:].sum(axis=1) + log_scales.sum(axis=1))


def moved_inside(target: Target, start: Array) -> Array:
    """The start with exponents at a bound moved off it, so that differences can be taken."""
    problem, moved = target.centred.problem, start.copy()
    for j in range(problem.n_linear, target.n_free):
        low, high = problem.lower[j], problem.upper[j]
        room = 0.02 * min(high - low, 10.0)
        moved[j] = np.clip(moved[j], low + room, high - room)
    return moved


def _first_scales(target: Target, start: Array) -> Array:
    """Rough standard deviations of phi, the steps of the first finite differences."""
    n_alphas = target.n_free - target.centred.problem.n_linear
    scales = np.full(target.n_dim - target.centred.problem.n_linear, 0.1)
    alphas = start[target.centred.problem.n_linear : target.n_free]
    scales[:n_alphas] = 0.05 * np.maximum(np.abs(alphas), 0.1)
    return scales


def find_mode(density: Callable[[Array], Array], start: Array, scales: Array) -> tuple[Array, Array]:
    """Mode of a smooth ln density and its precision there, by Newton steps on finite differences.

    All points of a step are evaluated in one call. Steps are measured in the standard deviations of the last
    Hessian, so that differences of 0.2 of them see the curvature over the region where the mass is.
    """
    point, steps = start, scales
    precision = np.diag(1 / scales**2)
    for _ in range(_MODE_STEPS):
        gradient, hessian = _differences(density, point, steps)
        if not (np.isfinite(gradient).all() and np.isfinite(hessian).all()):
            steps = steps / 4
            continue
        precision = _definite(-hessian, steps)
        covariance = _inverse(precision)
        step = covariance @ gradient
        trials = point + step * 0.5 ** np.arange(10)[:, None]
        values = density(np.concatenate([point[None], trials]))
        best = int(np.argmax(np.where(np.isnan(values), -np.inf, values)))
        point = point if best == 0 else trials[best - 1]
        steps = _DIFFERENCE * np.sqrt(np.diag(covariance))
        if gradient @ step < _ENOUGH or best == 0:
            break
    gradient, hessian = _differences(density, point, steps)
    if np.isfinite(hessian).all():
        precision = _definite(-hessian, steps)
    return point, precision


def _differences(density: Callable[[Array], Array], point: Array, steps: Array) -> tuple[Array, Array]:
    """Central first and second differences at a point."""
    d = len(point)
    moves = np.diag(steps)
    i, j = np.triu_indices(d, 1)
    sums, gaps = moves[i] + moves[j], moves[i] - moves[j]
    values = density(np.concatenate([point + m for m in (np.zeros((1, d)), moves, -moves, sums, -sums, gaps, -gaps)]))
    centre, plus, minus, pp, mm, pm, mp = np.split(values, np.cumsum([1, d, d, len(i), len(i), len(i)]))
    hessian = np.diag((plus + minus - 2 * centre) / steps**2)
    with np.errstate(invalid="ignore"):
        hessian[i, j] = hessian[j, i] = (pp + mm - pm - mp) / (4 * steps[i] * steps[j])
    return (plus - minus) / (2 * steps), hessian


def _definite(matrix: Array, steps: Array) -> Array:
    """The matrix with eigenvalues, in units of the steps, replaced by absolute values not too near zero."""
    values, vectors = np.linalg.eigh(matrix * np.outer(steps, steps))
    values = np.maximum(np.abs(values), 1e-3 * _DIFFERENCE**2)
    return np.asarray((vectors * values) @ vectors.T / np.outer(steps, steps))


def _inverse(precision: Array) -> Array:
    """Inverse of a definite matrix whose scales differ widely."""
    scale = 1 / np.sqrt(np.diag(precision))
    inverse = np.linalg.inv(precision * np.outer(scale, scale)) * np.outer(scale, scale)
    return np.asarray((inverse + inverse.T) / 2)


def _standard_t(n_draws: int, dim: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draws of the standard multivariate t and ln of their density."""
    draws = rng.standard_normal((n_draws, dim)) / np.sqrt(rng.chisquare(DEGREES, (n_draws, 1)) / DEGREES)
    constant = gammaln((DEGREES + dim) / 2) - gammaln(DEGREES / 2) - 0.5 * dim * np.log(DEGREES * np.pi)
    log_density = constant - 0.5 * (DEGREES + dim) * np.log1p((draws * draws).sum(axis=1) / DEGREES)
    return draws, np.asarray(log_density)


def _half_log_determinant(factor: Array) -> Array:
    """Half of ln |A| from its Cholesky factor."""
    return np.asarray(np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1))
