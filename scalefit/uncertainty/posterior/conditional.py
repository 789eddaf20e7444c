"""The linear parameters given the rest: where they lie, and how sharply.

Write a point as (beta, phi): beta the free linear parameters (C, L0), phi the free exponents and noise logarithms.
Given the exponents the law is linear in beta, and nearly all of a posterior's bend is that beta follows them. The
shear

    beta = delta + b0(alpha),   b0 = argmin sum w ((L(x; beta, alpha) - loss) / loss)^2 + lambda |beta - fit|^2,   (1)

takes it out: in (delta, phi) the posterior is close to normal, and the change of coordinates has the Jacobian 1. For
residuals that are not relative the division by the loss is left out. The ridge lambda weighs like a prior as wide as
the typical loss, so that directions which the table leaves open stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scalefit.uncertainty.posterior.target import Target

__all__ = ["Conditional", "build_conditional"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Conditional:
    """Equation (1) and the Gaussian approximation of beta given phi.

    Attributes
    ----------
    target : Target
    fitted : (n_linear,) float array
        beta of the fit.
    ridge : float
        lambda of equation (1).
    """

    target: Target
    fitted: Array
    ridge: float

    @property
    def n_linear(self) -> int:
        """Numbers in beta."""
        return len(self.fitted)

    def sheared(self, points: Array) -> Array:
        """(beta, phi) to (delta, phi), for (B, n_dim) points."""
        return self._moved(points, -1.0)

    def unsheared(self, coords: Array) -> Array:
        """(delta, phi) to (beta, phi), for (B, n_dim) coordinates."""
        return self._moved(coords, 1.0)

    def log_posterior(self, coords: Array) -> Array:
        """Ln of the unnormalised posterior at (B, n_dim) sheared coordinates."""
        return self.target.log_posterior(self.unsheared(coords))

    def normal(self, phi: Array) -> tuple[Array, Array]:
        """Optimum of beta given phi, by one Gauss-Newton step of the likelihood from b0, and its precision.

        Bounds are not minded.

        Returns
        -------
        beta : (B, n_linear) float array
        factor : (B, n_linear, n_linear) float array
            Lower Cholesky factor of the precision matrix.
        """
        target, objective = self.target, self.target.centred.problem.objective
        n_alphas = target.n_free - self.n_linear
        with np.errstate(all="ignore"):
            basis = self._basis(phi[:, :n_alphas])
            start = self._relative_fit(basis)
            predicted = np.matmul(self._law_linear(start)[:, None], basis)[:, 0]
            if objective.log:
                predicted = np.maximum(predicted, 1e-3 * target.priors.typical_loss)
            rows = np.empty((len(phi), basis.shape[1] + 1, basis.shape[2]))
            np.divide(basis, predicted[:, None] if objective.log else 1.0, out=rows[:, :-1])
            rows[:, -1] = objective.transform(predicted) - target.centred.problem.target
            white = target.likelihood.whiten(rows, phi[:, n_alphas:])
            weights = target.likelihood.reweighting(white[:, -1], phi[:, n_alphas:])
            weighted = white * weights[:, None] if isinstance(weights, np.ndarray) else white
            products = np.matmul(weighted, white[:, :-1].transpose(0, 2, 1))
        return self.newton_step(start, products[:, :-1], products[:, -1])

    def newton_step(self, start: Array, matrix: Array, gradient: Array) -> tuple[Array, Array]:
        expand = self._expand
        prior = 1 / self.target.priors.typical_loss**2
        matrix = expand.T @ matrix @ expand + prior * np.eye(self.n_linear)
        gradient = gradient @ expand + prior * (start - self.fitted)
        usable = np.isfinite(matrix).all(axis=(1, 2)) & np.isfinite(gradient).all(axis=1)
        matrix[~usable], gradient[~usable] = np.eye(self.n_linear), np.nan
        beta = start - np.linalg.solve(matrix, gradient[:, :, None])[:, :, 0]
        return beta, np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)

    def _moved(self, points: Array, sign: float) -> Array:
        moved = points.copy()
        for block in np.array_split(moved, self.target.n_blocks(len(points))):
            with np.errstate(all="ignore"):
                shift = self._relative_fit(self._basis(block[:, self.n_linear : self.target.n_free]))
            block[:, : self.n_linear] += sign * np.where(np.isfinite(shift), shift, 0.0)
        return moved

    def _relative_fit(self, basis: Array) -> Array:
        """b0 of equation (1): (B, n_linear)."""
        weighted = basis * self._row_weights
        gap = self._scaled_loss - np.matmul(self._law_linear(self.fitted[None]), weighted)[:, 0]
        matrix = self._expand.T @ np.matmul(weighted, weighted.transpose(0, 2, 1)) @ self._expand
        matrix += self.ridge * np.eye(self.n_linear)
        right = np.matmul(weighted, gap[:, :, None])[:, :, 0] @ self._expand
        usable = np.isfinite(matrix).all(axis=(1, 2))
        matrix[~usable] = np.eye(self.n_linear)
        return self.fitted + np.linalg.solve(matrix, right[:, :, None])[:, :, 0]

    def _basis(self, alphas: Array) -> Array:
        """(B, K + 1, n): exp(-alpha_k x_k) at (B, n_alphas) free exponents, and ones."""
        problem = self.target.centred.problem
        n_terms, n = problem.n_terms, problem.logs.shape[1]
        full = alphas @ problem.expand[n_terms + 1 :, self.n_linear :].T + problem.offset[n_terms + 1 :]
        basis = np.ones((len(alphas), n_terms + 1, n))
        np.exp(problem.per_term(full[:, :, None] * -problem.logs, axis=1), out=basis[:, :n_terms])
        return basis

    def _law_linear(self, beta: Array) -> Array:
        """(B, K + 1) coefficients C_k and L0 of the law, fixed ones included."""
        return beta @ self._expand.T + self.target.centred.problem.offset[: len(self._expand)]

    @cached_property
    def _expand(self) -> Array:
        problem = self.target.centred.problem
        return problem.expand[: problem.n_terms + 1, : self.n_linear]

    @cached_property
    def _row_weights(self) -> Array:
        problem = self.target.centred.problem
        relative = np.exp(-problem.target) if problem.objective.log else 1.0
        return np.asarray(self.target.likelihood.root_weights * relative)

    @cached_property
    def _scaled_loss(self) -> Array:
        problem = self.target.centred.problem
        loss = np.exp(problem.target) if problem.objective.log else problem.target
        return np.asarray(loss * self._row_weights)


def build_conditional(target: Target, start: Array) -> Conditional:
    """Take beta and the ridge from the (n_dim,) point of the fit."""
    n_linear = target.centred.problem.n_linear
    variance = float(np.exp(2 * start[target.n_free]))
    return Conditional(target, start[:n_linear], variance / target.priors.typical_loss**2)
