"""Where the solver starts: drawn exponents, with the linear parameters at their least-squares values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError
from scalefit.fitting.batched import BLOCK_ELEMENTS
from scalefit.fitting.problem import Problem, basis_functions, predict

__all__ = ["check_seed", "draw_starts"]

Array = NDArray[np.float64]

EXPONENT_RANGE = (0.15, 1.5)
"""Exponents are drawn log-uniformly between these; the solver leaves the range where the data ask for it."""

STEEP, SHALLOW = (3.0, 9.9), (0.002, 0.05)
"""One exponent of every wide start comes from here: basins of steps and of logarithms are not found otherwise."""

P_RANGE = (0.15, 2.0)
"""p = 1/q is drawn log-uniformly between these."""

COUPLED_CANDIDATES = 4
"""Draws a start of a coupled law: L0 and p are drawn too, and most draws are far from any law."""

SMALLEST_SHARE = 1e-3
"""Coefficients D of starts are no smaller than this, relative to a sum of one: at zero an exponent has no effect."""

CANDIDATES = 2
"""Draws a start: the first whose linear fit needs no coefficient to be clipped are taken."""


def check_seed(seed: int) -> int:
    """Return a seed, or raise `OptionError` if it is negative."""
    if seed < 0:
        raise OptionError(f"the seed is {seed} and must not be negative")
    return seed


def draw_starts(problem: Problem, n_starts: int, rng: np.random.Generator, wide: bool = False) -> Array:
    """Draw starting points.

    Exponents are random. Given them a sum is linear, and c and L0 solve the least-squares problem of the relative (for
    objectives in ln loss) or absolute residuals, with negative solutions set to zero; draws in which no term had to
    vanish come first. For coupled terms p and L0 are random too, and D solves the problem of (loss - L0)^(1/p); of
    every `COUPLED_CANDIDATES` draws the one of the least objective is taken.

    Parameters
    ----------
    problem : Problem
        One problem with shared target and weights.
    n_starts : int
    rng : numpy Generator
    wide : bool
        Whether one exponent of each start is drawn from `STEEP` or `SHALLOW`.

    Returns
    -------
    (n_starts, P) float array of free parameters
    """
    n_linear = problem.n_linear
    candidates = CANDIDATES if not problem.coupled else COUPLED_CANDIDATES
    alpha = _exponents(problem, candidates * n_starts, rng, wide)
    if not n_linear:
        return alpha[:n_starts]
    if problem.coupled:
        return _coupled_starts(problem, alpha, n_starts, rng)
    beta, unclipped = _linear_fits(problem, alpha)
    order = np.argsort(~unclipped, kind="stable")[:n_starts]
    return np.concatenate([beta, alpha], axis=1)[order]


def _exponents(problem: Problem, n_draws: int, rng: np.random.Generator, wide: bool) -> Array:
    """(n_draws, P - n_linear) exponents, and p where it is free, log-uniform within their ranges and bounds."""
    n_linear = problem.n_linear
    lower, upper = problem.lower[n_linear:], problem.upper[n_linear:]
    low, high = _ranges(lower, upper, EXPONENT_RANGE)
    is_p = np.zeros(len(low), dtype=bool)
    if problem.coupled:
        p_row = problem.expand[-1, n_linear:] != 0
        is_p = p_row & ~problem.expand[problem.n_terms + 1 : -1, n_linear:].any(axis=0)
        p_low, p_high = _ranges(lower, upper, P_RANGE)
        low, high = np.where(is_p, p_low, low), np.where(is_p, p_high, high)
    low, high = np.repeat(low[None], n_draws, axis=0), np.repeat(high[None], n_draws, axis=0)
    exponents = np.flatnonzero(~is_p)
    if wide and len(exponents):
        chosen = (np.arange(n_draws), exponents[np.arange(n_draws) % len(exponents)])
        steep = rng.random(n_draws) < 0.5
        ends = [_ranges(lower, upper, span) for span in (STEEP, SHALLOW)]
        for edge, bound in ((low, 0), (high, 1)):
            edge[chosen] = np.where(steep, ends[0][bound][chosen[1]], ends[1][bound][chosen[1]])
    draws = rng.random(low.shape)
    positive = (low > 0) & (high > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        alpha: Array = np.where(positive, low * (high / low) ** draws, low + (high - low) * draws)
    return alpha


def _ranges(lower: Array, upper: Array, span: tuple[float, float]) -> tuple[Array, Array]:
    """Where parameters are drawn: in `span` as far as the bounds allow, else beside it within the bounds."""
    smallest, largest = span
    low, high = np.clip(smallest, lower, upper), np.clip(largest, lower, upper)
    high = np.where(lower >= largest, np.minimum(upper, lower + largest), high)
    low = np.where(upper <= smallest, np.maximum(lower, upper - largest), low)
    return low, high


def _coupled_starts(problem: Problem, alpha: Array, n_starts: int, rng: np.random.Generator) -> Array:
    """Complete drawn exponents and p to points: L0 drawn, D by least squares, the best of each few draws."""
    n_terms, n_linear = problem.n_terms, problem.n_linear
    loss = np.exp(problem.target) if problem.objective.log else problem.target
    free = np.concatenate([np.zeros((len(alpha), n_linear)), alpha], axis=1)
    floors = np.flatnonzero(problem.expand[n_terms, :n_linear])
    if len(floors):
        free[:, floors[0]] = np.clip(rng.uniform(0.0, 0.98, len(alpha)) * loss.min(), *_bounds(problem, floors[0]))
    with np.errstate(all="ignore"):
        sizes = _coupled_sizes(problem, free, loss)
    for i, k in enumerate(np.flatnonzero(problem.expand[:n_terms, :n_linear].any(axis=1))):
        j = int(problem.expand[k, :n_linear].argmax())
        size = np.maximum(sizes[:, i], SMALLEST_SHARE)
        if problem.plain_terms[k]:
            size = problem.unit * size ** problem.all_parameters(free)[:, -1]
        free[:, j] = np.clip(size, *_bounds(problem, j))
    with np.errstate(all="ignore"):
        residuals = problem.objective.transform(predict(problem, free)) - problem.target
        penalty = problem.objective.penalty(residuals)
        values = np.average(penalty, axis=1, weights=problem.weights)
    values = np.where(np.isfinite(values), values, np.inf).reshape(-1, n_starts)
    best: Array = free.reshape(-1, n_starts, free.shape[1])[values.argmin(axis=0), np.arange(n_starts)]
    return best


def _coupled_sizes(problem: Problem, free: Array, loss: Array) -> Array:
    """D of the free coefficients by weighted least squares of S = ((loss - L0) / unit)^(1/p), clipped at zero."""
    n_terms, n = problem.n_terms, problem.logs.shape[1]
    parameters = problem.all_parameters(free)
    core, p = problem.core(parameters), parameters[:, -1:]
    which = np.flatnonzero(problem.expand[:n_terms, : problem.n_linear].any(axis=1))
    sums = (np.maximum(loss - core[:, n_terms, None], 1e-3 * loss.min()) / problem.unit) ** (1.0 / p)
    scale = sums ** (p - 1.0) / (loss if problem.objective.log else 1.0)
    if problem.weights is not None:
        scale = scale * np.sqrt(problem.weights)
    units = basis_functions(problem, parameters)[:, :n_terms]
    known = np.where(problem.expand[:n_terms, : problem.n_linear].any(axis=1), 0.0, core[:, :n_terms])
    right = (sums - np.matmul(known[:, None], units)[:, 0]) * scale
    functions = units[:, which] * scale[:, None]
    matrix = np.matmul(functions, functions.transpose(0, 2, 1)) / n
    vector = np.matmul(functions, right[:, :, None])[:, :, 0] / n
    zero = np.zeros(len(which))
    return _bounded_solutions(matrix, vector, zero, np.full(len(which), np.inf))[0]


def _bounds(problem: Problem, j: int) -> tuple[float, float]:
    return float(problem.lower[j]), float(problem.upper[j])


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
