"""The optimum of a fit to second order, which every error of the fit is made of.

With the penalties' total n F, its Hessian A at the optimum, J the derivatives of the residuals by the free parameters
that are not at a bound, W the weights, psi the derivative of the penalty and s_i = w_i psi_i J_i that of row i's,

    Gauss-Newton    v (J' W J)^-1                                           (right if the law and its noise are)
    observed        v m A^-1                                                (Efron & Hinkley 1978)
    robust          n / (n - p)  A^-1 [sum_i s_i s_i'] A^-1                 (rows of unequal noise, HC1)
    cluster         G / (G - 1) (n - 1) / (n - p)  A^-1 [sum_g s_g s_g'] A^-1    (rows that share a run or shape)   (1)

are covariances of the M-estimator form (Huber 1981, section 7.6), with v, m (the mean of psi') and the second
derivatives psi' in A from `scalefit.fitting.objective`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scalefit.fitting.centred import CentredLaw
from scalefit.fitting.derivatives import evaluate
from scalefit.fitting.objective import Scores, row_scores
from scalefit.fitting.problem import jacobian, predict

__all__ = ["NOISE_FREE", "Optimum", "inverse"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

NOISE_FREE = 1e-8
"""Residuals below this are rounding; the certificate's gradient is not divided by less."""

NULL_EIGENVALUE = 1e-12
"""Eigen-directions of the scaled information matrix below this share of the largest carry rounding errors only."""


def inverse(matrix: Array) -> Array:
    """Inverse of a symmetric semidefinite matrix; null directions get a large finite variance.

    Scaled to a unit diagonal first, so that units do not matter; eigenvalues below 1e-15 of the largest, which are
    rounding, count as that.
    """
    half, _ = _half_inverse(matrix)
    return np.asarray(half @ half.T)


def _half_inverse(matrix: Array) -> tuple[Array, Array]:
    """R with R R' the inverse of a matrix, and the eigenvalues of the scaled matrix that its columns belong to."""
    diagonal = np.diag(matrix)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(matrix * scale * scale[:, None])
    return vectors / np.sqrt(np.maximum(values, 1e-15 * values.max(initial=1.0))) * scale[:, None], values


@dataclass(frozen=True)
class Optimum:
    """A law at its optimum, to second order.

    Attributes
    ----------
    centred : CentredLaw
    free : (P,) float array
    inside : (P,) bool array
        Which free parameters are not at a bound; covariances are zero for the others.
    matrix : (n, P) float array
        Derivatives of the residuals by the free parameters.
    residuals : (n,) float array
    weights : (n,) float array
        Of mean one.
    """

    centred: CentredLaw
    free: Array
    inside: Mask
    matrix: Array
    residuals: Array
    weights: Array

    @classmethod
    def of(cls, centred: CentredLaw, free: Array, inside: Mask | None = None) -> Optimum:
        """Linearise at an optimum; `inside` in place of the parameters that are not at a bound."""
        problem = centred.problem
        residuals = problem.objective.transform(predict(problem, free[None])[0]) - problem.target
        weights = np.ones(len(residuals)) if problem.weights is None else problem.weights
        inside = ~centred.at_bound(free) if inside is None else inside
        return cls(centred, free, inside, jacobian(problem, free), residuals, weights)

    @cached_property
    def scores(self) -> Scores:
        """Derivatives of the rows' penalties."""
        return row_scores(self.centred.problem.objective, self.residuals, self.weights, int(self.inside.sum()))

    @property
    def degrees(self) -> int:
        """n - p."""
        return len(self.residuals) - int(self.inside.sum())

    @cached_property
    def information(self) -> Array:
        """(P, P) matrix J' W J of all free parameters."""
        return np.asarray((self.matrix.T * self.weights) @ self.matrix)

    @cached_property
    def hessian(self) -> Array:
        """(P, P) matrix A of all free parameters, psi' averaged over the window of `row_scores`."""
        problem = self.centred.problem
        exact = len(self.residuals) * evaluate(problem, self.free[None]).hessian[0]
        excess = self.scores.second - problem.objective.curvature(self.residuals)
        return np.asarray(exact + (self.matrix.T * (self.weights * excess)) @ self.matrix)

    @cached_property
    def normal(self) -> Array:
        """(J' W J)^-1 of the parameters inside."""
        return self._inverse(self.information)

    @cached_property
    def bread(self) -> Array:
        """A^-1 of the parameters inside."""
        return self._inverse(self.hessian)

    @cached_property
    def orthonormal(self) -> tuple[Array, Array]:
        """(P, r) R such that the columns of W^1/2 J R are orthonormal, and (P, k) null directions likewise scaled.

        R R' and what the null directions add to it, a large finite number, are (J' W J)^-1.
        """
        index = np.flatnonzero(self.inside)
        half, values = _half_inverse(self.information[np.ix_(index, index)])
        found = np.zeros((len(self.inside), len(index)))
        found[index] = half
        null = values < NULL_EIGENVALUE * values.max(initial=0.0)
        return found[:, ~null], found[:, null]

    def _inverse(self, matrix: Array, inside: Mask | None = None) -> Array:
        chosen = np.ix_(*[np.flatnonzero(self.inside if inside is None else inside)] * 2)
        found = np.zeros_like(matrix)
        found[chosen] = inverse(matrix[chosen])
        return found

    @property
    def gauss_newton(self) -> Array:
        """(P, P) covariance v (J' W J)^-1."""
        return self.normal * self.scores.variance

    @property
    def observed(self) -> Array:
        """(P, P) covariance v m A^-1."""
        return self.bread * (self.scores.variance * self.scores.slope)

    @property
    def robust(self) -> Array:
        """(P, P) covariance of independent rows of unequal noise."""
        rows = (self.weights * self.scores.first)[:, None] * self.matrix
        return np.asarray(self.bread @ (rows.T @ rows) @ self.bread * (len(rows) / self.degrees))

    def clustered(self, labels: NDArray[np.int64]) -> Array:
        """(P, P) covariance of rows that depend within groups, given by (n,) labels from 0."""
        n, n_groups = len(labels), int(labels.max()) + 1
        rows = (self.weights * self.scores.first)[:, None] * self.matrix
        sums = np.stack([np.bincount(labels, column, n_groups) for column in rows.T], axis=1)
        factor = n_groups / (n_groups - 1) * (n - 1) / self.degrees
        return np.asarray(self.bread @ (sums.T @ sums) @ self.bread * factor)

    @cached_property
    def reporting(self) -> Array:
        """(n_parameters, P) derivatives of ln c, alpha and L0 by the free parameters."""
        return self.centred.reporting_jacobian(self.free)

    def reported(self, covariance: Array, known_only: bool = False) -> Array:
        """Covariance of ln c, alpha and L0 from that of the free parameters.

        With `known_only` it is nan for fixed parameters and those at a bound, which have none.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            rows = np.where(self.inside, self.reporting, 0.0) if known_only else self.reporting
            matrix = np.asarray(rows @ covariance @ rows.T)
        if known_only:
            index = [self.centred.free_index(name) for name in self.centred.law.parameter_names]
            unknown = np.array([j is None or not self.inside[j] for j in index])
            matrix[unknown | unknown[:, None]] = np.nan
        return matrix

    def log_sizes(self) -> tuple[Array, Array]:
        """ln of each term's size at the geometric means of its columns, and its derivatives by the free parameters.

        ln c_k - sum_j alpha_j mean ln x_j; not finite for a term that vanished.
        """
        centred, law = self.centred, self.centred.law
        means = centred.log_references + centred.problem.logs.mean(axis=1)
        falls = np.zeros((len(law.terms), len(law.parameters)))
        names = law.parameter_names
        for k, term in enumerate(law.terms):
            falls[k, names.index(term.coefficient)] = 1.0
        for factor, k, mean in zip(law.factors, law.owners, means, strict=True):
            falls[k, names.index(factor.exponent)] = -mean
        plain = centred.plain(self.free).tolist()
        values = np.array([p.inner(x) if p.is_coefficient else x for p, x in zip(law.parameters, plain, strict=True)])
        known = np.isfinite(values)
        sizes = falls @ np.where(known, values, 0.0)
        gradients = falls @ np.where(known[:, None], self.reporting, 0.0)
        return np.where((falls[:, ~known] == 0).all(axis=1), sizes, -np.inf), gradients

    @cached_property
    def gradient(self) -> float:
        """Largest cosine between the scores and a column of the Jacobian: zero at an optimum."""
        roots = np.sqrt(self.weights)
        weighted, scores = (self.matrix * roots[:, None])[:, self.inside], self.scores.first * roots
        lengths = np.sqrt(np.einsum("np,np->p", weighted, weighted))
        size = max(float(np.linalg.norm(scores)), NOISE_FREE * len(scores) ** 0.5)
        return float((np.abs(scores @ weighted) / (np.where(lengths > 0, lengths, 1.0) * size)).max(initial=0.0))

    @cached_property
    def null(self) -> tuple[frozenset[int], float]:
        """Free parameters in null directions of the information, and the condition number of the scaled Jacobian.

        A parameter without any effect, such as the exponent of a term that vanished, is one. The condition number is
        inf where there are any.
        """
        index = np.flatnonzero(self.inside)
        # Coefficients and L0 in units of the smallest loss are comparable with exponents.
        unit = np.where(index < self.centred.problem.n_linear, self.centred.smallest_loss, 1.0)
        information = self.information[np.ix_(index, index)] * unit * unit[:, None]
        lengths = np.sqrt(np.diag(information))
        dead = lengths <= 1e-12 * lengths.max(initial=0.0)
        scale = np.where(dead, 1.0, lengths)
        values, vectors = np.linalg.eigh(information / scale / scale[:, None])
        null = vectors[:, values < NULL_EIGENVALUE * values[-1]] if len(values) else vectors
        involved = dead | (np.abs(null) > 0.1).any(axis=1)
        condition = float("inf") if involved.any() else float(np.sqrt(values[-1] / values[0])) if len(values) else 1.0
        return frozenset(index[involved].tolist()), condition
