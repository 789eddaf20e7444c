"""Data, objective and constraints of least-squares problems, in the coordinates the solver works with.

All parameters stand in the order (D_1..D_K, L0, a_1..a_M) for K terms of M factors, and for coupled terms p = 1/q
after them. With z_j = ln of the j-th factor's column over its reference and k(j) the term of factor j, the law is

    S_i = sum_k D_k exp(-sum_(j in k) a_j z_ji) + L0                                                  (1)

for a sum, where D_k = c_k. For coupled terms D_k = (c_k / unit)^(1/p) and

    S_i = sum_k D_k exp(-sum_(j in k) (a_j / p) z_ji),    L_i = L0 + unit S_i^p.                      (2)

Equation (2) is solved in D_k since the derivative by c_k vanishes at c_k = 0 for q > 1, where every term that went to
zero would look stationary. `unit`, of the size of the loss, keeps S near one, where S^p hardly feels p.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scalefit.fitting.batched import BLOCK_ELEMENTS
from scalefit.fitting.coupling import chart_slopes, core_parameters, raise_to_power
from scalefit.fitting.objective import Objective

__all__ = ["Problem", "basis_functions", "fill_slopes", "jacobian", "law_values", "per_factor", "predict"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """B least-squares problems that share their columns.

    Parameters
    ----------
    logs : (M, n) float array
        z_j, ln(column / reference) of each factor.
    owners : (M,) int array
        k(j), the term of each factor, ascending.
    target : (n,) or (B, n) float array
        The objective's transform of the observed loss.
    objective : Objective
    weights : (n,) or (B, n) float array, optional
        Row weights; each problem's weights have mean one.
    expand : (K + 1 + M, P) float array, one row more for coupled terms
        All parameters are `offset + expand @ free`: 0/1 columns express ties, rows of zeros fixed values. No column
        mixes (D, L0) with the others, and those of (D, L0) come first.
    offset : (K + 1 + M,) float array, one entry more for coupled terms
    lower, upper : (P,) float arrays
        Bounds of the free parameters, -inf and inf allowed.
    coupled : bool
        Whether equation (2) holds in place of (1).
    unit : float
        Of equation (2), nats per token.
    plain_terms : (K,) bool array
        Terms of a coupled law whose coefficient stands as c_k itself, since the user fixed or bounded it.
    """

    logs: Array
    owners: NDArray[np.intp]
    target: Array
    objective: Objective
    expand: Array
    offset: Array
    lower: Array
    upper: Array
    weights: Array | None = None
    coupled: bool = False
    unit: float = 1.0
    plain_terms: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    @cached_property
    def n_terms(self) -> int:
        """K."""
        return int(self.owners[-1]) + 1

    @cached_property
    def has_products(self) -> bool:
        """Whether a term has more than one factor."""
        return len(self.owners) > self.n_terms

    @cached_property
    def firsts(self) -> NDArray[np.intp]:
        """(K,) index of each term's first factor, for `np.add.reduceat`."""
        return np.searchsorted(self.owners, np.arange(self.n_terms))

    @cached_property
    def pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """All pairs of factors that belong to one term, each factor with itself among them."""
        left, right = np.nonzero(self.owners[:, None] == self.owners)
        return left, right

    @cached_property
    def n_linear(self) -> int:
        """Number of free parameters among (D, L0)."""
        return int(np.count_nonzero(self.expand[: self.n_terms + 1].any(axis=0)))

    @cached_property
    def mean_logs(self) -> Array:
        """(M,) mean of each z_j; zero for factors written at the geometric mean of their column."""
        means: Array = self.logs.mean(axis=1)
        return np.where(np.abs(means) < 1e-9, 0.0, means)

    @cached_property
    def negligible(self) -> Array:
        """(n_linear,) sizes below which a term does not show: it may then go to zero in one step.

        1e-10 of the loss is far below the noise of any training run, and far above rounding.
        """
        loss = np.exp(self.target.mean()) if self.objective.log else np.abs(self.target).mean()
        means = self.per_term(self.mean_logs)
        size: Array = 1e-10 * loss * np.exp(means @ self.expand[: self.n_terms, : self.n_linear])
        return size

    @cached_property
    def may_vanish(self) -> NDArray[np.bool_]:
        """(n_linear,) which of (D, L0) may reach zero or below in one step: L0, and what has no positive bound."""
        linear = self.n_linear
        vanishing: NDArray[np.bool_] = (self.expand[self.n_terms, :linear] != 0) | (self.lower[:linear] < 0)
        return vanishing

    @cached_property
    def unconstrained(self) -> bool:
        """Whether the free parameters are all the parameters, in their order."""
        return self.expand.shape[0] == self.expand.shape[1] and bool((self.expand == np.eye(len(self.expand))).all())

    def exponents(self, parameters: Array) -> Array:
        """(B, M) columns of the exponents a among all parameters."""
        first = self.n_terms + 1
        return parameters[:, first : first + len(self.owners)]

    def per_term(self, factors: Array, axis: int = -1) -> Array:
        """Numbers of the M factors along an axis, added up to numbers of the K terms."""
        if not self.has_products:
            return factors
        return np.asarray(np.add.reduceat(factors, self.firsts, axis=axis))

    def all_parameters(self, free: Array) -> Array:
        """(B, P) free parameters to all the parameters of the law."""
        return free if self.unconstrained else free @ self.expand.T + self.offset

    def core(self, parameters: Array) -> Array:
        """All the parameters of the law to those of equation (1), or of equation (2) with D_k and a_j / p."""
        return core_parameters(self, parameters) if self.coupled else parameters

    def free_gradient(self, gradient: Array) -> Array:
        """Derivatives by all parameters to (B, P) derivatives by the free ones."""
        return gradient if self.unconstrained else gradient @ self.expand

    def free_matrix(self, matrix: Array) -> Array:
        """Second derivatives by all parameters to (B, P, P) by the free ones."""
        return matrix if self.unconstrained else self.expand.T @ matrix @ self.expand

    def of(self, rows: NDArray[np.intp] | slice) -> tuple[Array, Array | None]:
        """Targets and weights of some of the problems, ready to broadcast against (B, n)."""
        target = self.target[rows] if self.target.ndim == 2 else self.target
        weights = self.weights
        if weights is not None and weights.ndim == 2:
            weights = weights[rows]
        return target, weights

    def subsample(self, rows: NDArray[np.intp]) -> Problem:
        """The same problems on some rows of the table."""
        weights = None
        if self.weights is not None:
            chosen = self.weights[..., rows]
            weights = chosen / chosen.mean(axis=-1, keepdims=True)
        return replace(self, logs=self.logs[:, rows], target=self.target[..., rows], weights=weights)


def predict(problem: Problem, free: Array) -> Array:
    """(B, n) predicted losses at B points, nats per token."""
    parameters = problem.all_parameters(free)
    n_functions, n = parameters.shape[1], problem.logs.shape[1]
    predicted = np.empty((len(free), n))
    size = max(1, BLOCK_ELEMENTS // (n_functions * n))
    for first in range(0, len(free), size):
        some = slice(first, first + size)
        core = problem.core(parameters[some])
        predicted[some] = law_values(problem, core, basis_functions(problem, parameters[some]))
    return predicted


def jacobian(problem: Problem, free: Array) -> Array:
    """(n, P) derivatives of the residuals at one point, given by its (P,) free parameters."""
    parameters = problem.all_parameters(free[None])
    core = problem.core(parameters)
    basis = basis_functions(problem, parameters)
    predicted = law_values(problem, core, basis)
    derivative = fill_slopes(problem, core, basis)[0]
    if problem.objective.log:
        derivative /= predicted
    if problem.coupled:
        derivative = chart_slopes(problem, parameters, core)[0].T @ derivative
    free_derivative: Array = derivative.T @ problem.expand
    return free_derivative


def basis_functions(problem: Problem, parameters: Array, workspace: Array | None = None) -> Array:
    """(B, F, n): u_k and ones in the first K + 1 places, the rest not yet filled."""
    n_terms, n = problem.n_terms, problem.logs.shape[1]
    basis = np.empty((*parameters.shape, n)) if workspace is None else workspace[: len(parameters)]
    units = basis[:, :n_terms]
    exponents = problem.exponents(problem.core(parameters))
    if problem.has_products:
        factors = basis[:, n_terms + 1 : n_terms + 1 + len(problem.logs)]
        np.multiply(exponents[:, :, None], -problem.logs, out=factors)
        np.add.reduceat(factors, problem.firsts, axis=1, out=units)
    else:
        np.multiply(exponents[:, :, None], -problem.logs, out=units)
    np.exp(units, out=units)
    basis[:, n_terms] = 1.0
    return basis


def law_values(problem: Problem, core: Array, basis: Array) -> Array:
    """(B, n) predicted losses; of `basis`, dL/dD_k stands in the first K places then."""
    if problem.coupled:
        return raise_to_power(problem, core, basis)
    linear = problem.n_terms + 1
    predicted: Array = np.matmul(core[:, None, :linear], basis[:, :linear])[:, 0]
    return predicted


def per_factor(problem: Problem, terms: Array) -> Array:
    """(B, K, ...) numbers of the terms at each of their factors, (B, M, ...)."""
    return terms[:, problem.owners] if problem.has_products else terms


def fill_slopes(problem: Problem, core: Array, basis: Array) -> Array:
    """Fill the derivatives by the exponents, -D_k z_j dL/dD_k, into their places; `_predicted` was called before."""
    n_terms = problem.n_terms
    slopes = basis[:, n_terms + 1 : n_terms + 1 + len(problem.logs)]
    np.multiply(per_factor(problem, basis[:, :n_terms]), problem.logs, out=slopes)
    slopes *= -per_factor(problem, core[:, :n_terms, None])
    return basis
