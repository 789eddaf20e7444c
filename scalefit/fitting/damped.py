"""Levenberg-Marquardt on the exact Hessian: slower than `scalefit.fitting.solver`, and arrives where that does not.

With A the Hessian, N = J' W J / n its Gauss-Newton form and M = diag N, one iteration at B points

1. takes the step s = -(A + lambda M)^-1 g, or with N in place of A where that is not positive definite, parameters at a
   bound with an outward gradient held there (Marquardt 1963: diag N makes the damping independent of units);
2. accepts it where the objective falls; lambda falls tenfold where the fall is as promised, and grows sixfold where the
   point is rejected;
3. ends where the undamped step promises less than the tolerance, after looking along directions of negative curvature.

A term whose rows of information lie far from its reference is badly scaled: there D_k and a_j are hardly told apart.
Steps are therefore taken in the size of each term at zeta_j, where its information lies (`LocalModel.centres`):

    D~_k = D_k exp(-sum_j a_j zeta_j),    dD_k = dD~_k + D_k sum_j zeta_j da_j,                        (1)

and of coupled terms in the size of D_k^p there, so that a change of p leaves every term what it is:

    p ln D_k - sum_j a_j zeta_j kept,     dD_k = dD~_k + (D_k / p) (sum_j zeta_j da_j - ln D_k dp).    (2)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scalefit.fitting.batched import hold, positive_definite, ridged, solve_each
from scalefit.fitting.derivatives import LocalModel, local_model
from scalefit.fitting.problem import Problem

__all__ = ["solve_damped"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 1e-2, 1e-10, 1e12
RAISE, LOWER = 6.0, 0.1

FALL = 0.1
"""No coefficient falls to less than this share of itself in one step: at zero a term loses its exponent for good."""

TINY = 1e-100
"""In place of a coefficient of zero, whose logarithm would be none."""

ENOUGH = 1e-4
"""A step must lower the objective by this share of what it promised."""

AS_PROMISED = 0.7
"""Damping is lowered where the objective fell by more than this share of what was promised."""

SADDLE = -1e-6
"""Curvature, in units of the Gauss-Newton curvature, that is negative beyond rounding."""


def solve_damped(
    problem: Problem, starts: Array, rows: NDArray[np.intp], max_iterations: int, tolerance: float, floor: float
) -> tuple[LocalModel, Mask, NDArray[np.intp]]:
    """Minimise problems from points.

    Parameters
    ----------
    problem : Problem
    starts : (B, P) float array
    rows : (B,) int array
        Which of the problems the points belong to.
    max_iterations : int
    tolerance : float
        Relative decrease that the next step must promise.
    floor : float
        Objective that is rounding.

    Returns
    -------
    model : LocalModel
        Where the points ended.
    converged : (B,) bool array
    iterations : (B,) int array
    """
    final = local_model(problem, np.clip(starts, problem.lower, problem.upper), rows)
    damping = np.full(len(starts), FIRST_DAMPING)
    converged, iterations = np.zeros(len(starts), dtype=bool), np.zeros(len(starts), dtype=np.intp)
    going = np.flatnonzero(np.isfinite(final.value))
    while len(going):
        model = final.where(going)
        frames = _frames(problem, model)
        step, promised, definite = _steps(problem, model, frames, np.zeros(len(going)))
        rounding = np.sqrt(floor * model.value)
        solved = (promised <= np.maximum(tolerance * model.value, 0.01 * rounding)) | (model.value <= floor)
        for i in np.flatnonzero(solved & ~definite):
            escaped = _along_negative_curvature(problem, model.where(np.array([i])), rows[going[i]])
            if escaped is not None:
                solved[i] = False
                final.update(going[i : i + 1], escaped)
                damping[going[i]] = FIRST_DAMPING
        stuck = damping[going] > MOST_DAMPING
        converged[going] = solved | (stuck & (promised <= np.maximum(1e-7 * model.value, rounding)))
        done = solved | stuck | (iterations[going] >= max_iterations)
        last = going[solved]
        final.free[last] = _moved(problem, model.where(solved), step[solved])
        final.value[last] -= promised[solved]
        going = going[~done]
        if not len(going):
            break
        model = final.where(going)
        frames = frames[~done]
        step, promised, _ = _steps(problem, model, frames, damping[going])
        trial = local_model(problem, _moved(problem, model, step), rows[going])
        fall = model.value - trial.value
        accepted = fall > ENOUGH * np.maximum(promised, 0.0)
        final.update(going[accepted], trial.where(accepted))
        lowered = np.where(fall > AS_PROMISED * promised, LOWER, 1.0)
        factor = np.where(accepted, lowered, RAISE)
        damping[going] = np.maximum(damping[going] * factor, LEAST_DAMPING)
        iterations[going] += 1
    return final, converged, iterations


def _frames(problem: Problem, model: LocalModel) -> Array:
    """(B, P, P) matrices of equations (1) and (2), from steps in the sizes at zeta to steps of the parameters."""
    n_terms, n_factors = problem.n_terms, len(problem.logs)
    first = n_terms + 1
    parameters = problem.all_parameters(model.free)
    exponents = problem.expand[first : first + n_factors]
    drift = problem.per_term(model.centres[:, :, None] * exponents, axis=1)
    sizes = parameters[:, :n_terms]
    if problem.coupled:
        logarithms = np.log(np.maximum(sizes, TINY))
        drift = (drift - logarithms[:, :, None] * problem.expand[-1]) / parameters[:, -1, None, None]
        sizes = np.where(problem.plain_terms, 0.0, sizes)
    return np.eye(model.free.shape[1]) + problem.expand[:n_terms].T @ (drift * sizes[:, :, None])


def _carried(problem: Problem, model: LocalModel, new: Array) -> Array:
    """(B, K) factors by which equations (1) and (2) carry the coefficients along to new exponents and p."""
    first = problem.n_terms + 1
    before, after = problem.all_parameters(model.free), problem.all_parameters(new)
    change = (after - before)[:, first : first + len(problem.logs)]
    drift = problem.per_term(model.centres * change)
    if problem.coupled:
        logarithms = np.log(np.maximum(before[:, : problem.n_terms], TINY))
        drift = (drift - logarithms * (after - before)[:, -1:]) / after[:, -1:]
        drift = np.where(problem.plain_terms, 0.0, drift)
    # Beyond e^30 the step is none that will be accepted.
    factors: Array = np.exp(np.clip(drift, -30.0, 30.0))
    return factors


def _steps(problem: Problem, model: LocalModel, frames: Array, damping: Array) -> tuple[Array, Array, Mask]:
    """Damped steps in the coordinates of equation (1), what they promise, and where the Hessian was used."""
    free, lower, upper = model.free, problem.lower, problem.upper
    held = ((free <= lower) & (model.gradient > 0)) | ((free >= upper) & (model.gradient < 0))
    turned = frames.transpose(0, 2, 1)
    gradient = np.where(held, 0.0, np.matmul(turned, model.gradient[:, :, None])[:, :, 0])
    normal, hessian = hold(turned @ model.normal @ frames, held), hold(turned @ model.hessian @ frames, held)
    index = np.arange(free.shape[1])
    scale = np.where(normal[:, index, index] > 0, normal[:, index, index], 1.0)
    extra = np.zeros_like(normal)
    extra[:, index, index] = damping[:, None] * scale
    matrix = hessian + extra
    with np.errstate(all="ignore"):
        definite = positive_definite(matrix)
    if not definite.all():
        matrix = np.where(definite[:, None, None], matrix, ridged(normal + extra))
    step = solve_each(matrix, -gradient)
    # What would leave its bounds stops there at once, and the others step as far as that lets them.
    straight = np.matmul(frames, step[:, :, None])[:, :, 0]
    crossing = ((free + straight < lower) | (free + straight > upper)) & ~held
    if crossing.any():
        stop = np.clip(free + straight, lower, upper) - free
        fixed = np.where(crossing, stop, 0.0)
        right = np.where(crossing, stop, -gradient - np.einsum("bij,bj->bi", matrix, fixed))
        step = solve_each(hold(matrix, held | crossing), np.where(held, 0.0, right))
    promised = -np.einsum("bp,bp->b", gradient, step) - 0.5 * np.einsum("bi,bij,bj->b", step, matrix, step)
    uphill = ~(promised > 0)
    if uphill.any():
        # Against bounds a step of all parameters may lead up; each one by itself, scaled, leads down.
        alone = -gradient / (matrix[:, index, index])
        step = np.where(uphill[:, None], alone, step)
        promised = np.where(uphill, 0.5 * np.abs(np.einsum("bp,bp->b", gradient, step)), promised)
    return step, promised, definite


def _moved(problem: Problem, model: LocalModel, step: Array) -> Array:
    """Where a step in the coordinates of equation (1) leads to, no further than its limits."""
    n_terms, n_linear = problem.n_terms, problem.n_linear
    free = model.free
    # Beyond one in an exponent, and half of p, the quadratic model means nothing.
    size = np.abs(step[:, n_linear:])
    if problem.coupled:
        p = problem.all_parameters(free)[:, -1:]
        size = np.maximum(size, np.abs(step @ problem.expand[-1])[:, None] * 2 / p)
    length = 1.0 / np.maximum(1.0, size.max(axis=1, initial=0.0))
    new = free + length[:, None] * step
    new[:, n_linear:] = np.clip(new[:, n_linear:], problem.lower[n_linear:], problem.upper[n_linear:])
    factors = _carried(problem, model, new)
    kept = free[:, :n_linear] * (1.0 + (factors - 1.0) @ problem.expand[:n_terms, :n_linear])
    sizes = kept + length[:, None] * step[:, :n_linear]
    floor = np.where(problem.may_vanish | (FALL * kept < problem.negligible), -np.inf, FALL * kept)
    new[:, :n_linear] = np.maximum(sizes, floor)
    inside: Array = np.clip(new, problem.lower, problem.upper)
    return inside


def _along_negative_curvature(problem: Problem, model: LocalModel, row: np.intp) -> LocalModel | None:
    """A lower point along the direction of the most negative curvature of one point, if there is one."""
    free = model.free[0]
    inside = (free > problem.lower) & (free < problem.upper)
    diagonal = np.diag(model.normal[0])
    scale = np.where(diagonal > 0, 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 0.0) * inside
    values, vectors = np.linalg.eigh(model.hessian[0] * scale * scale[:, None])
    if values[0] > SADDLE:
        return None
    direction = vectors[:, 0] * scale
    direction /= np.abs(direction[problem.n_linear :]).max(initial=0.0) or np.abs(direction).max()
    lengths = 0.5 ** np.arange(1, 12)
    tried = np.clip(free + np.concatenate([lengths, -lengths])[:, None] * direction, problem.lower, problem.upper)
    trial = local_model(problem, tried, np.repeat(row, len(tried)))
    best = int(np.argmin(trial.value))
    return trial.where(np.array([best])) if trial.value[best] < model.value[0] * (1 - 1e-9) else None
