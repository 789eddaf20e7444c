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

from scalefit.fitting.objective import Objective

__all__ = ["Problem"]

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
