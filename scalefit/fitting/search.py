"""The search for the global optimum: random starts, more of them where they disagree, the best polished on all rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import FitError
from scalefit.fitting.objective import Objective
from scalefit.fitting.problem import Problem, predict
from scalefit.fitting.solver import Solution, solve
from scalefit.fitting.starts import draw_starts

__all__ = ["Certificate", "Found", "search"]

Array = NDArray[np.float64]

ROWS_FOR_STARTS = 4096
"""Larger tables are searched on a random sample of so many rows; the best point is polished on all of them."""

SAME_PREDICTION = 1e-7
"""Starts agree when all their predictions of ln loss do to this."""

MORE_STARTS = 64
"""Where fewer than half of the starts agree, so many more are made, all of them wide."""

POLISHED, POLISH_ITERATIONS = 4, 1500
"""The best starts that have not arrived, which may yet fall below those that have, and the steps they get for it."""

CONTINUED_P, SUM_STARTS = (1.0, 0.6, 0.35, 0.18, 1.8), 8
"""The optimum of the sum, from so many starts, is continued to a coupled law at these p."""

_START_TOLERANCE = 1e-10

_SAME_VALUE = 1e-6


@dataclass(frozen=True)
class Certificate:
    """Why to believe that the optimum was reached.

    Attributes
    ----------
    starts : int
        Random starts made: those asked for, and more where fewer than half of them agreed. Exponents of half of
        them come from 0.15 to 1.5; in the others one at a time comes from 0.002 to 0.05 or from 3 to 9.9.
    starts_at_best : int
        Starts whose predictions agree with the best one's within 1e-7 in ln loss on every row.
    gradient : float
        Largest cosine between the residuals and a column of the Jacobian; zero at an optimum.
    condition : float
        Condition number of the column-scaled Jacobian at the optimum.
    start_rows : int
        Rows on which the starts were made; the best was then polished on all rows.
    others : tuple of (int, float)
        Other points that starts ended at: how many did, and the objective there over the best, less one.
    """

    starts: int
    starts_at_best: int
    gradient: float
    condition: float
    start_rows: int
    others: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Found:
    """What a search found.

    Attributes
    ----------
    solution : Solution
        The best point, polished on all rows.
    starts, starts_at_best : int
        Starts made, and those whose predictions agree with the best one's.
    start_rows : int
        Rows searched.
    others : tuple of (int, float)
        The other points that starts ended at: how many did, and the objective there over the best, less one.
    """

    solution: Solution
    starts: int
    starts_at_best: int
    start_rows: int
    others: tuple[tuple[int, float], ...]


def search(problem: Problem, n_starts: int, seed: int) -> Found:
    """Solve from random starts, from more where fewer than half agree, and polish the best."""
    rng = np.random.default_rng(seed)
    n = problem.logs.shape[1]
    searched = problem
    if n > ROWS_FOR_STARTS:
        searched = problem.subsample(np.sort(rng.choice(n, ROWS_FOR_STARTS, replace=False)))
    half = (n_starts + 1) // 2
    points = [draw_starts(searched, half, rng), draw_starts(searched, n_starts - half, rng, wide=True)]
    if problem.coupled:
        points[0] = np.concatenate([_continued_starts(searched, rng), points[0]])[:half]
    solution = _solve_starts(searched, np.concatenate(points))
    same = _agreeing(searched, solution)
    if 2 * same.sum() < len(same):
        more = _solve_starts(searched, draw_starts(searched, MORE_STARTS, rng, wide=True))
        solution = Solution.joined([solution, more])
        same = _agreeing(searched, solution)
    best = _best(solution)
    polished = solve(problem, solution.state.free[best : best + 1], POLISH_ITERATIONS, exact=False)
    return Found(polished, len(same), int(same.sum()), searched.logs.shape[1], _others(solution, same, best))


def _solve_starts(problem: Problem, points: Array) -> Solution:
    """Solve from every start; the best that have not arrived get many more steps.

    For a robust objective half of the starts first go to the optimum of its squared form, which has no flat regions.
    """
    if problem.objective.delta is not None:
        squared = replace(problem, objective=Objective(problem.objective.log))
        half = np.arange(0, len(points), 2)
        points[half] = solve(squared, points[half], tolerance=_START_TOLERANCE, exact=False).state.free
    solution = solve(problem, points, tolerance=_START_TOLERANCE, exact=False)
    value = solution.state.value
    if not np.isfinite(value).any():
        raise FitError("no start gave a finite objective; check the columns' values and the constraints")
    on_their_way = np.flatnonzero(~solution.converged & np.isfinite(value))
    best = on_their_way[np.argsort(value[on_their_way])[:POLISHED]]
    if len(best):
        more = solve(problem, solution.state.free[best], POLISH_ITERATIONS, tolerance=_START_TOLERANCE, exact=False)
        solution.state.update(best, more.state)
        solution.converged[best] = more.converged
    return solution


def _agreeing(problem: Problem, solution: Solution) -> NDArray[np.bool_]:
    """Starts whose predictions agree with those of the best."""
    with np.errstate(invalid="ignore", divide="ignore"):
        log_losses = np.log(predict(problem, solution.state.free))
        gaps = np.abs(log_losses - log_losses[_best(solution)]).max(axis=1)
    return np.asarray(gaps <= SAME_PREDICTION)


def _best(solution: Solution) -> int:
    """The start of lowest objective: a solved one, unless one that is not solved got lower than all of them."""
    value = solution.state.value
    solved = np.where(solution.converged, value, np.inf)
    return int(np.argmin(solved if solved.min() <= value.min() * (1 + _SAME_VALUE) else value))


def _others(solution: Solution, same: NDArray[np.bool_], best: int) -> tuple[tuple[int, float], ...]:
    """The three points beside the best that most solved starts ended at, told apart by their objectives."""
    value = solution.state.value
    # On a table without noise the best objective may be zero; what lies above it is then infinitely worse.
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = value[~same & solution.converged] / value[best] - 1
    levels, counts = np.unique(np.round(excess, 6), return_counts=True)
    order = np.argsort(-counts, kind="stable")[:3]
    return tuple((int(counts[i]), float(levels[i])) for i in order if np.isfinite(levels[i]))


def _continued_starts(problem: Problem, rng: np.random.Generator) -> Array:
    """Points of a coupled problem that continue the optimum of its sum, q = 1, at several p.

    None where p is fixed, tied to an exponent, or a coefficient stands in plain units.
    """
    first_p = np.flatnonzero(problem.expand[-1])
    tied = len(first_p) and problem.expand[:-1, first_p[0]].any()
    if not len(first_p) or tied or problem.plain_terms.any():
        return np.empty((0, len(problem.lower)))
    j, n_terms = int(first_p[0]), problem.n_terms
    kept = np.delete(np.arange(len(problem.lower)), j)
    expand, upper = problem.expand[:-1][:, kept], problem.upper[kept]
    total = replace(
        problem,
        coupled=False,
        expand=expand,
        offset=problem.offset[:-1],
        lower=problem.lower[kept],
        upper=upper,
    )
    solution = solve(total, draw_starts(total, SUM_STARTS, rng), tolerance=1e-6, exact=False)
    summed = solution.state.free[int(np.argmin(solution.state.value))]
    p = np.array([q for q in CONTINUED_P if problem.lower[j] <= q <= problem.upper[j]])
    points = np.insert(np.repeat(summed[None], len(p), axis=0), j, p, axis=1)
    sizes = problem.expand[:n_terms, : problem.n_linear].any(axis=0)
    relative = np.maximum(points[:, : problem.n_linear][:, sizes] / problem.unit, 1e-6)
    points[:, np.flatnonzero(sizes)] = relative ** (1.0 / p[:, None])
    return points
