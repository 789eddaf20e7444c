"""The search for the global optimum: random starts, the best of them polished on all rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalefit.errors import FitError
from scalefit.fitting.derivatives import predict
from scalefit.fitting.objective import Objective
from scalefit.fitting.problem import Problem
from scalefit.fitting.solver import Solution, solve
from scalefit.fitting.starts import draw_starts

__all__ = ["search"]

ROWS_FOR_STARTS = 4096
"""Larger tables are searched on a random sample of so many rows; the best point is polished on all of them."""

SAME_PREDICTION = 1e-7
"""Starts agree when all their predictions of ln loss do to this."""

_START_TOLERANCE = 1e-10

_SAME_VALUE = 1e-6


def search(problem: Problem, n_starts: int, seed: int) -> tuple[Solution, int, int]:
    """Solve from random starts and polish the best; also the starts that agree with it and the rows searched.

    For a robust objective half of the starts first go to the optimum of its squared form, which has no flat regions.
    """
    rng = np.random.default_rng(seed)
    n = problem.logs.shape[1]
    searched = problem
    if n > ROWS_FOR_STARTS:
        searched = problem.subsample(np.sort(rng.choice(n, ROWS_FOR_STARTS, replace=False)))
    points = draw_starts(searched, n_starts, rng)
    if problem.objective.delta is not None:
        squared = replace(searched, objective=Objective(problem.objective.log))
        half = (n_starts + 1) // 2
        points[:half] = solve(squared, points[:half], tolerance=_START_TOLERANCE, exact=False).state.free
    solution = solve(searched, points, tolerance=_START_TOLERANCE, exact=False)
    points = solution.state.free
    if not np.isfinite(solution.state.value).any():
        raise FitError("no start gave a finite objective; check the columns' values and the constraints")
    best = _best(solution)
    with np.errstate(invalid="ignore", divide="ignore"):
        log_losses = np.log(predict(searched, points))
        agree = np.abs(log_losses - log_losses[best]).max(axis=1) <= SAME_PREDICTION
    polished = solve(problem, points[best : best + 1], exact=False)
    return polished, int(agree.sum()), searched.logs.shape[1]


def _best(solution: Solution) -> int:
    """The start of lowest objective: a solved one, unless one that is not solved got lower than all of them."""
    value = solution.state.value
    solved = np.where(solution.converged, value, np.inf)
    return int(np.argmin(solved if solved.min() <= value.min() * (1 + _SAME_VALUE) else value))
