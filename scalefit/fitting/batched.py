"""Linear algebra over a batch of small symmetric matrices, (B, P, P), that may be singular or indefinite."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK_ELEMENTS", "hold", "positive_definite", "ridged", "solve_each", "weighted_products"]

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
