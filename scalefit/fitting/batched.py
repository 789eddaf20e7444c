"""Linear algebra over a batch of small symmetric matrices, (B, P, P), that may be singular or indefinite.

On top of it Newton's step within bounds: the exact Hessian is used where it is safely positive definite, and J' W J in
its place elsewhere, which is semidefinite everywhere and whose steps lead down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scalefit.fitting.problem import Problem

__all__ = ["BLOCK_ELEMENTS", "hold", "newton_step", "positive_definite", "ridged", "solve_each", "weighted_products"]

Array = NDArray[np.float64]

BLOCK_ELEMENTS = 12_000
"""Elements of a piece of the (B, F, n) functions that is worked on at once: 96 kB stay in the second-level cache."""


def weighted_products(functions: Array, weights: Array) -> Array:
    """(B, F, F) sums over rows of w_i f_i f_i', for (B, F, n) functions and (B, n) weights.

    A few problems at a time: the weighted copies then stay in the cache, and in memory that is used again.
    """
    n_problems, n_functions, n = functions.shape
    size = max(1, BLOCK_ELEMENTS // (n_functions * n))
    products = np.empty((n_problems, n_functions, n_functions))
    for first in range(0, n_problems, size):
        some = slice(first, first + size)
        copy = functions[some] * weights[some, None]
        np.matmul(copy, functions[some].transpose(0, 2, 1), out=products[some])
    return products


def solve_each(matrix: Array, right: Array) -> Array:
    """Solve B linear systems; one that is not finite gives a step of zero."""
    usable: NDArray[np.bool_] = np.isfinite(right.sum(axis=1) + matrix.sum(axis=(1, 2)))
    if not usable.all():
        matrix, right = np.array(matrix), np.array(right)
        matrix[~usable], right[~usable] = np.identity(matrix.shape[1]), 0.0
    return np.asarray(np.linalg.solve(matrix, right[:, :, None])[:, :, 0], dtype=np.float64)


def hold(matrix: Array, held: NDArray[np.bool_]) -> Array:
    """`matrix` with the rows and columns of held parameters replaced by those of the identity."""
    if not held.any():
        return matrix
    matrix = np.where(held[:, :, None] | held[:, None, :], 0.0, matrix)
    index = np.arange(held.shape[1])
    matrix[:, index, index] = np.where(held, 1.0, matrix[:, index, index])
    return matrix


def ridged(matrix: Array) -> Array:
    """A semidefinite matrix made definite by a ridge at the rounding level of each diagonal entry, in place.

    1e-10 of an entry is far above the rounding errors of a sum over rows and far below what the data determine, so
    that only directions of no information are held.
    """
    index = np.arange(matrix.shape[1])
    diagonal = matrix[:, index, index]
    matrix[:, index, index] = np.where(diagonal > 0, diagonal * (1 + 1e-10), 1.0)
    return matrix


def positive_definite(matrix: Array) -> NDArray[np.bool_]:
    """Which of B matrices are safely positive definite: no pivot below 1e-13 of its diagonal entry is trusted."""
    index = np.arange(matrix.shape[1])
    smallest = 1e-13 * np.abs(matrix[:, index, index])
    try:
        pivots = np.linalg.cholesky(matrix)[:, index, index] ** 2
    except np.linalg.LinAlgError:
        # LAPACK raises for all when one is indefinite: eliminate over the batch instead.
        a = matrix.transpose(1, 2, 0).copy()
        for j in range(len(a) - 1):
            a[j + 1 :, j + 1 :] -= (a[j + 1 :, j] / a[j, j])[:, None] * a[j, j + 1 :]
        pivots = a[index, index].T
    return np.asarray((pivots > smallest).all(axis=1))


_AT_ONCE = 0.01
"""A step meets a bound right away when less than this share of it is left inside."""


def newton_step(
    problem: Problem, point: tuple[Array, Array, Array], semidefinite: Callable[[NDArray[np.bool_]], Array]
) -> Array:
    """The step of `State` from (free, gradient, hessian); `semidefinite` gives J' W J / n of some of the points."""
    free, gradient, hessian = point
    held = ((free <= problem.lower) & (gradient > 0)) | ((free >= problem.upper) & (gradient < 0))
    matrix = hold(hessian, held)
    other = np.logical_not(positive_definite(matrix))
    if other.any():
        normal = semidefinite(other)
        exponents = np.arange(problem.n_linear, normal.shape[1])
        curvature = normal[:, exponents, exponents]
        normal[:, exponents, exponents] += 1e-10 * curvature.max(axis=1, initial=0.0)[:, None]
        matrix = np.array(matrix)
        matrix[other] = ridged(hold(normal, held[other]))
    step = solve_each(matrix, np.where(held, 0.0, -gradient))
    # Cut off at a bound right away, a step of all parameters together would be no descent: what would cross stops
    # there, and the others step as far as that lets them.
    stop = np.clip(free + step, problem.lower, problem.upper) - free
    crossing = (stop != step) & (np.abs(stop) <= _AT_ONCE * np.abs(step))
    if crossing.any():
        stop = np.where(crossing, stop, 0.0)
        rest = -gradient - np.einsum("bij,bj->bi", matrix, stop)
        right = np.where(held, 0.0, np.where(crossing, stop, rest))
        step = solve_each(hold(matrix, held | crossing), right)
    uphill = np.einsum("bp,bp->b", gradient, step) > 0
    if uphill.any():
        # Between bounds a step of all parameters may lead up; each one by itself, scaled, leads down.
        index = np.arange(step.shape[1])
        alone = free - gradient / matrix[:, index, index]
        step[uphill] = (np.clip(alone, problem.lower, problem.upper) - free)[uphill]
    return step
