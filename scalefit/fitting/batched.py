"""Linear algebra over a batch of small symmetric matrices, (B, P, P), that may be singular or indefinite."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["hold", "positive_definite", "ridged", "solve_each"]

Array = NDArray[np.float64]


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
    """A semidefinite matrix made definite by a ridge at the rounding level of each diagonal entry, in place."""
    index = np.arange(matrix.shape[1])
    diagonal = matrix[:, index, index]
    matrix[:, index, index] = np.where(diagonal > 0, diagonal * (1 + 1e-10), 1.0)
    return matrix


def positive_definite(matrix: Array) -> NDArray[np.bool_]:
    """Which of B matrices are safely positive definite."""
    index = np.arange(matrix.shape[1])
    smallest = 1e-13 * np.abs(matrix[:, index, index])
    try:
        pivots = np.linalg.cholesky(matrix)[:, index, index] ** 2
    except np.linalg.LinAlgError:
        # LAPACK raises for all when one is indefinite: eliminate over the batch instead.
        pivots = _pivots(matrix)
    return np.asarray((pivots > smallest).all(axis=1))


def _pivots(matrix: Array) -> Array:
    """(B, P) pivots of symmetric elimination."""
    a = matrix.transpose(1, 2, 0).copy()
    size = len(a)
    for j in range(size - 1):
        a[j + 1 :, j + 1 :] -= (a[j + 1 :, j] / a[j, j])[:, None] * a[j, j + 1 :]
    index = np.arange(size)
    return a[index, index].T
