"""A distribution close to the posterior that can be drawn from directly.

With beta the linear parameters and phi the rest (`scalefit.uncertainty.posterior.conditional`), beta is nearly normal
around its conditional optimum b(phi) with the precision A(phi). What is left of the posterior is the Laplace form of
the marginal,

    ln m(phi) = ln p(b(phi), phi) - ln |A(phi)| / 2                                (Tierney & Kadane 1986, section 2),

close to normal around its mode in its few dimensions. The proposal is

    phi ~ t(mode, -[d2 ln m]^-1),    beta | phi ~ t(b(phi), A(phi)^-1),                                (1)

with t of few degrees of freedom, so that its tails are heavier than the posterior's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from scalefit.uncertainty.posterior.conditional import Conditional, build_conditional
from scalefit.uncertainty.posterior.target import Target

__all__ = ["Proposal", "build_proposal"]

Array = NDArray[np.float64]

DEGREES = 7.0
"""Of freedom of both t distributions: lighter tails waste fewer draws, heavier ones forgive a long-tailed posterior."""

_MODE_STEPS = 30
_DIFFERENCE = 0.2
_ENOUGH = 1e-3


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
            points[rows, :n_linear] = beta + _solve_transposed(factor, w[rows])
            log_density[rows] += _log_diagonal(factor)
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
    phi_start = _moved_inside(target, start)[conditional.n_linear :]

    def log_marginal(phi: Array) -> Array:
        beta, factor = conditional.normal(phi)
        points = np.concatenate([beta, phi], axis=1)
        density = target.log_likelihood(points) + _log_smooth_prior(target, points)
        return np.asarray(density - _log_diagonal(factor))

    mode, precision = _mode(log_marginal, phi_start, _first_scales(target, start))
    return Proposal(conditional, mode, np.asarray(np.linalg.cholesky(_inverse(precision)), dtype=np.float64))


def _log_smooth_prior(target: Target, points: Array) -> Array:
    """Ln prior of phi alone: that of beta may be -inf at b(phi), which knows no bounds."""
    n_linear = target.centred.problem.n_linear
    arguments, _ = target.prior_arguments(points)
    log_scales = points[:, target.n_free :]
    return np.asarray(target.prior_densities(arguments)[:, n_linear:].sum(axis=1) + log_scales.sum(axis=1))


def _moved_inside(target: Target, start: Array) -> Array:
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


def _mode(density: Callable[[Array], Array], start: Array, scales: Array) -> tuple[Array, Array]:
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


def _solve_transposed(factor: Array, vectors: Array) -> Array:
    """L'^-1 v for each of B lower factors."""
    return np.asarray(np.linalg.solve(factor.transpose(0, 2, 1), vectors[:, :, None])[:, :, 0])


def _log_diagonal(factor: Array) -> Array:
    """Half of ln |A| from its Cholesky factor."""
    return np.asarray(np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1))
