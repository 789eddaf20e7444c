"""Where the solver starts: drawn exponents, with the linear parameters at their least-squares values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError
from scalefit.fitting.batched import BLOCK_ELEMENTS
from scalefit.fitting.problem import Problem

__all__ = ["check_seed", "draw_starts"]

Array = NDArray[np.float64]

EXPONENT_RANGE = (0.15, 1.5)
"""Exponents are drawn log-uniformly between these; the solver leaves the range where the data ask for it."""

CANDIDATES = 2
"""Draws a start: the first whose linear fit needs no coefficient to be clipped are taken."""


def check_seed(seed: int) -> int:
    """Return a seed, or raise `OptionError` if it is negative."""
    if seed < 0:
        raise OptionError(f"the seed is {seed} and must not be negative")
    return seed


def draw_starts(problem: Problem, n_starts: int, rng: np.random.Generator) -> Array:
    """Draw starting points.

    Exponents are random. Given them the law is linear, and c and L0 solve the least-squares problem of the
    relative (for objectives in ln loss) or absolute residuals, with negative solutions set to zero; draws in
    which no term had to vanish come first.

    Parameters
    ----------
    problem : Problem
        One problem with shared target and weights.
    n_starts : int
    rng : numpy Generator

    Returns
    -------
    (n_starts, P) float array of free parameters
    """
    n_linear = problem.n_linear
    lower, upper = problem.lower[n_linear:], problem.upper[n_linear:]
    low, high = _ranges(lower, upper)
    draws = rng.random((CANDIDATES * n_starts, len(low)))
    positive = (low > 0) & (high > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        alpha: Array = np.where(positive, low * (high / low) ** draws, low + (high - low) * draws)
    if not n_linear:
        return alpha[:n_starts]
    beta, unclipped = _linear_fits(problem, alpha)
    order = np.argsort(~unclipped, kind="stable")[:n_starts]
    return np.concatenate([beta, alpha], axis=1)[order]


def _ranges(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Where exponents are drawn: in `EXPONENT_RANGE` as far as the bounds allow, else beside it within the bounds."""
    smallest, largest = EXPONENT_RANGE
    low, high = np.clip(smallest, lower, upper), np.clip(largest, lower, upper)
    high = np.where(lower >= largest, np.minimum(upper, lower + largest), high)
    low = np.where(upper <= smallest, np.maximum(lower, upper - largest), low)
    return low, high


def _linear_fits(problem: Problem, alpha: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Free linear parameters at given free exponents, and whether none was clipped at zero."""
    n_terms, n, n_linear = problem.n_terms, problem.logs.shape[1], problem.n_linear
    free = np.concatenate([np.zeros((len(alpha), n_linear)), alpha], axis=1)
    full = problem.all_parameters(free)
    loss = np.exp(problem.target) if problem.objective.log else problem.target
    scale = 1.0 / loss if problem.objective.log else np.ones(n)
    if problem.weights is not None:
        scale = scale * np.sqrt(problem.weights)
    matrix, vector = np.empty((len(alpha), n_terms + 1, n_terms + 1)), np.empty((len(alpha), n_terms + 1))
    size = max(1, BLOCK_ELEMENTS // ((n_terms + 1) * n))
    for first in range(0, len(alpha), size):
        some = slice(first, first + size)
        units = np.ones((len(full[some]), n_terms + 1, n))
        factors = -full[some, n_terms + 1 :, None] * problem.logs
        np.exp(problem.per_term(factors, axis=1), out=units[:, :n_terms])
        units *= scale
        np.matmul(units, units.transpose(0, 2, 1), out=matrix[some])
        np.matmul(units, loss * scale, out=vector[some])
    vector -= np.einsum("bij,bj->bi", matrix, full[:, : n_terms + 1])
    expand = problem.expand[: n_terms + 1, :n_linear]
    matrix, vector = expand.T @ matrix @ expand, vector @ expand
    beta, clipped = _bounded_solutions(matrix, vector, problem.lower[:n_linear], problem.upper[:n_linear])
    smallest = np.where(problem.lower[:n_linear] == 0, 0.01 * loss.min(), -np.inf)
    if problem.expand[n_terms].any():
        smallest[problem.expand[n_terms, :n_linear].argmax()] = -np.inf
        clipped = np.delete(clipped, problem.expand[n_terms, :n_linear].argmax(), axis=1)
    unclipped: NDArray[np.bool_] = np.logical_not(np.logical_or.reduce(clipped, axis=1))
    return np.maximum(beta, smallest), unclipped


def _bounded_solutions(matrix: Array, vector: Array, lower: Array, upper: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Solve normal equations, putting what leaves its bounds onto them, in at most three passes."""
    index = np.arange(matrix.shape[1])
    held = np.zeros(vector.shape, dtype=bool)
    solution = np.zeros_like(vector)
    for _ in range(3):
        reduced = np.where(held[:, :, None] | held[:, None, :], 0.0, matrix)
        diagonal = np.where(held, 1.0, matrix[:, index, index] * (1 + 1e-10))
        reduced[:, index, index] = np.where(diagonal > 0, diagonal, 1.0)
        known = np.where(held, solution, 0.0)
        right = np.where(held, solution, vector - np.einsum("bij,bj->bi", matrix, known))
        solution = np.linalg.solve(reduced, right[:, :, None])[:, :, 0]
        outside = (solution < lower) | (solution > upper)
        solution = np.clip(solution, lower, upper)
        if not (outside & ~held).any():
            break
        held |= outside
    return solution, held
