"""Least-squares problems of a power law, in the coordinates and with the constraints the solver works with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scalefit.fitting.objective import Objective

__all__ = ["Problem"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """Data, objective and constraints of B least-squares problems that share their columns.

    Parameters
    ----------
    logs : (K, n) float array
        ln(column / reference) of each term.
    target : (n,) or (B, n) float array
        The objective's transform of the observed loss.
    objective : Objective
    weights : (n,) or (B, n) float array, optional
        Row weights; each problem's weights have mean one.
    expand : (2K + 1, P) float array
        All parameters (c_1..c_K, L0, alpha_1..alpha_K) are `offset + expand @ free`: 0/1 columns express ties,
        rows of zeros fixed values. No column mixes beta with alpha, and those of beta come first.
    offset : (2K + 1,) float array
    lower, upper : (P,) float arrays
        Bounds of the free parameters, -inf and inf allowed.
    """

    logs: Array
    target: Array
    objective: Objective
    expand: Array
    offset: Array
    lower: Array
    upper: Array
    weights: Array | None = None

    @cached_property
    def n_linear(self) -> int:
        """Number of free parameters among beta."""
        return int(np.count_nonzero(self.expand[: len(self.logs) + 1].any(axis=0)))

    @cached_property
    def mean_logs(self) -> Array:
        """(K,) mean of each x_k; zero for terms written at the geometric mean of their column."""
        means: Array = self.logs.mean(axis=1)
        return np.where(np.abs(means) < 1e-9, 0.0, means)

    @cached_property
    def negligible(self) -> Array:
        """(n_linear,) sizes of beta below which a term does not show: it may then go to zero in one step."""
        loss = np.exp(self.target.mean()) if self.objective.log else np.abs(self.target).mean()
        size: Array = 1e-10 * loss * np.exp(self.mean_logs @ self.expand[: len(self.logs), : self.n_linear])
        return size

    @cached_property
    def may_vanish(self) -> NDArray[np.bool_]:
        """(n_linear,) which of beta may reach zero or below in one step: L0, and what has no positive bound."""
        linear = self.n_linear
        vanishing: NDArray[np.bool_] = (self.expand[len(self.logs), :linear] != 0) | (self.lower[:linear] < 0)
        return vanishing

    @cached_property
    def unconstrained(self) -> bool:
        """Whether the free parameters are all the parameters, in their order."""
        return self.expand.shape[0] == self.expand.shape[1] and bool((self.expand == np.eye(len(self.expand))).all())

    def all_parameters(self, free: Array) -> Array:
        """(B, P) free parameters to the (B, 2K + 1) parameters of the law."""
        return free if self.unconstrained else free @ self.expand.T + self.offset

    def free_gradient(self, gradient: Array) -> Array:
        """(B, 2K + 1) derivatives by all parameters to (B, P) derivatives by the free ones."""
        return gradient if self.unconstrained else gradient @ self.expand

    def free_matrix(self, matrix: Array) -> Array:
        """(B, 2K + 1, 2K + 1) second derivatives by all parameters to (B, P, P) by the free ones."""
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
