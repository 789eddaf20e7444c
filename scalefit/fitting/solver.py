"""Minimise an objective over the parameters of a power law, for many problems or many starts at once.

With x_k = ln of the k-th column over a reference, the law is S_i = sum_k c_k exp(-alpha_k x_ki) + L0: linear in
beta = (c_1..c_K, L0) and nonlinear in alpha. One iteration

1. takes Newton's step with the exact Hessian where that is positive definite and the Gauss-Newton step (for the
   Huber penalty its reweighted form) elsewhere, parameters at a bound with an outward gradient held there;
2. shortens it so that no exponent moves by more than one and no positive parameter falls tenfold;
3. far from the optimum, refits beta at the new alpha by reweighted least squares (variable projection, Golub &
   Pereyra 1973), which needs no new exponentials;
4. is accepted where the objective falls enough; else it is tried without the refit, then with a quarter of the step.

All arrays carry the problem as their first axis, B problems at a time; rows are the last axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from scalefit.fitting.batched import hold, ridged, solve_each, weighted_products
from scalefit.fitting.damped import solve_damped
from scalefit.fitting.derivatives import State, evaluate, evaluate_at_one_point, evaluate_on
from scalefit.fitting.problem import Problem, basis_functions

__all__ = ["Solution", "solve"]

Array = NDArray[np.float64]

TOLERANCE = 1e-13
"""A problem is solved when the next step promises less than this share of the objective."""

QUICK_ITERATIONS = 30
"""Newton's steps with refits arrive within about ten; what has not by then is in the basin of something difficult."""

POOL = 64
POOL_ELEMENTS = 400_000
"""Problems, and problems x rows, worked on together: as many as stay in the processor's cache."""

_SMALLEST_STEP = 1e-7

_LAST_RISE = 1e-12
"""The last Newton step is more exact than the objective can show; it may raise it by this share."""

_ENOUGH = 1e-4
"""A step must lower the objective by this share of its promise: the refit may undo Newton's step for ever."""

_FALL = 0.1
_NEAR = 1e-4
"""A step that promises less than this share of the objective is close enough to do without the refit."""

_SHORT = 0.05
"""Steps shortened below this go straight along the direction of descent, which must then lead down."""

# Residuals carry rounding errors of this size relative to the target, the objective of twice this times the residual.
_ROUNDING = 16 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Solution:
    """Where each of B problems ended.

    Attributes
    ----------
    state : State
        Objective and derivatives at the end.
    converged : (B,) bool array
        Whether the next step promised less than the tolerance.
    iterations : (B,) int array
    """

    state: State
    converged: NDArray[np.bool_]
    iterations: NDArray[np.intp]

    @classmethod
    def unsolved(cls, starts: Array) -> Solution:
        """Starts that nobody has moved yet."""
        n, p = starts.shape
        state = State(starts.copy(), np.full(n, np.inf), np.zeros((n, p)), np.zeros((n, p, p)), np.zeros((n, p)))
        return cls(state, np.zeros(n, dtype=bool), np.zeros(n, dtype=np.intp))

    @classmethod
    def joined(cls, parts: Sequence[Solution]) -> Solution:
        """One after the other."""
        state = State(*(np.concatenate([getattr(part.state, f.name) for part in parts]) for f in fields(State)))
        converged = np.concatenate([part.converged for part in parts])
        return cls(state, converged, np.concatenate([part.iterations for part in parts]))


def solve(
    problem: Problem, starts: Array, max_iterations: int = 200, tolerance: float = TOLERANCE, exact: bool = True
) -> Solution:
    """Minimise each problem from its start.

    A pool of problems is worked on together: what is solved leaves it and the next problem takes its place.

    Parameters
    ----------
    problem : Problem
    starts : (B, P) float array
        Free parameters; they are moved inside the bounds. One problem with B starts, or B problems with one each.
    max_iterations : int
    tolerance : float
        Relative decrease of the objective, predicted by the quadratic model, below which a problem is solved.
    exact : bool
        Whether the last step, which promises less than the tolerance, is evaluated too. If not, `free` and `value`
        have it by the quadratic model, and the derivatives are those of the point before it.

    Returns
    -------
    Solution
        A problem that is not solved within `max_iterations` keeps the best point it reached.
    """
    starts = np.clip(starts, problem.lower, problem.upper)
    floor = _ROUNDING**2 * max(1.0, float(np.mean(problem.target**2)))
    quick = not problem.coupled
    if quick:
        solution = _solve_quickly(problem, starts, min(max_iterations, QUICK_ITERATIONS), (tolerance, floor), exact)
    else:
        solution = Solution.unsolved(starts)
    rest = np.flatnonzero(~solution.converged) if not quick or max_iterations > QUICK_ITERATIONS else np.arange(0)
    size = max(1, min(POOL, POOL_ELEMENTS // problem.logs.shape[1]))
    for first in range(0, len(rest), size):
        rows = rest[first : first + size]
        model, converged, iterations = solve_damped(
            problem, solution.state.free[rows], rows, max_iterations, tolerance, floor
        )
        state = State(model.free, model.value, model.gradient, model.hessian, np.zeros_like(model.free))
        solution.state.update(rows, state)
        solution.converged[rows] = converged
        solution.iterations[rows] += iterations
    return solution


def _solve_quickly(
    problem: Problem, starts: Array, max_iterations: int, precision: tuple[float, float], exact: bool
) -> Solution:
    """Newton's steps with refits; `precision` is the tolerance and the objective that is rounding."""
    tolerance, floor = precision
    size = max(1, min(POOL, POOL_ELEMENTS // problem.logs.shape[1]))
    workspace = np.empty((min(size, len(starts)), len(problem.expand), problem.logs.shape[1]))
    final = _first_states(problem, starts, workspace)
    n_problems = len(starts)
    iterations = np.zeros(n_problems, dtype=np.intp)
    converged = np.zeros(n_problems, dtype=bool)
    step_size = np.ones(n_problems)
    may_refit = np.ones(n_problems, dtype=bool)
    pool, waiting = np.arange(0), 0
    while True:
        joining = np.arange(waiting, min(n_problems, waiting + size - len(pool)))
        pool, waiting = np.concatenate([pool, joining]), waiting + len(joining)
        if not len(pool):
            return Solution(final, converged, iterations)
        state, length = final.where(pool), step_size[pool]
        promised = 0.5 * np.abs(np.einsum("bp,bp->b", state.gradient, state.step))
        rounding = np.sqrt(floor * state.value)
        solved = (promised <= np.maximum(tolerance * state.value, 0.01 * rounding)) | (state.value <= floor)
        if not exact and solved.any():
            # The step is taken without evaluating it: the value falls as the quadratic model says.
            last = pool[solved]
            converged[last] = True
            final.value[last] -= promised[solved]
            final.free[last] = np.clip(final.free[last] + final.step[last], problem.lower, problem.upper)
            pool, going = pool[~solved], ~solved
            if not len(pool):
                continue
            state = state.where(going)
            length, promised, rounding, solved = (a[going] for a in (length, promised, rounding, solved))
        far = (promised > _NEAR * state.value) & (length > _SHORT) & may_refit[pool]
        trial = _trial(problem, state, length, far, pool, workspace)
        enough = _ENOUGH * length * np.minimum(promised, state.value)
        accepted = trial.value <= np.where(solved, state.value * (1 + _LAST_RISE), state.value - enough)
        if accepted.all():
            final.update(pool, trial)
        else:
            final.update(pool[accepted], trial, accepted)
        may_refit[pool] = again = accepted | ~far
        length = np.where(accepted, np.minimum(1.0, 2.0 * length), np.where(again, 0.25 * length, length))
        step_size[pool] = length
        iterations[pool] += 1
        stuck = length < _SMALLEST_STEP
        value = final.value[pool]
        converged[pool] = solved | (stuck & (promised <= np.maximum(1e-7 * value, rounding)))
        pool = pool[~(solved | stuck | (iterations[pool] >= max_iterations))]


def _first_states(problem: Problem, starts: Array, workspace: Array) -> State:
    """States at the starts, together where problems differ in their weights only and start from one point."""
    weighted = problem.weights is not None and problem.weights.ndim == 2
    if weighted and problem.target.ndim == 1 and (starts == starts[0]).all():
        return evaluate_at_one_point(problem, starts[0])
    every, size = np.arange(len(starts)), max(1, len(workspace))
    states = [evaluate(problem, starts[rows], rows, workspace) for rows in np.split(every, every[size::size])]
    return State(*(np.concatenate([getattr(state, f.name) for state in states]) for f in fields(State)))


def _trial(
    problem: Problem,
    state: State,
    step_size: Array,
    far: NDArray[np.bool_],
    rows: NDArray[np.intp],
    workspace: Array,
) -> State:
    """The point that a shortened step leads to, with beta fitted again where `far` says so."""
    n_linear = problem.n_linear
    alpha, alpha_step = state.free[:, n_linear:], state.step[:, n_linear:]
    length = (step_size / np.maximum(1.0, np.abs(alpha_step).max(axis=1, initial=0.0)))[:, None]
    moved = length * state.step
    free = state.free + moved
    lower, upper = problem.lower[n_linear:], problem.upper[n_linear:]
    lowest = np.maximum(lower, np.where(alpha > 0, _FALL * alpha, -np.inf))
    free[:, n_linear:] = np.minimum(np.maximum(free[:, n_linear:], lowest), upper)
    basis = basis_functions(problem, problem.all_parameters(free), workspace)
    if n_linear:
        floor = _carry_beta(problem, state.free, free, moved[:, :n_linear])
        if far.all():
            free[:, :n_linear] = _refit(problem, free, basis, floor, rows)
        elif far.any():
            free[far, :n_linear] = _refit(problem, free[far], basis[far], floor[far], rows[far])
    return evaluate_on(problem, free, basis, rows)


def _carry_beta(problem: Problem, old: Array, new: Array, step: Array) -> Array:
    """Carry beta to the new exponents, inside `new`; returns how far a refit may let it fall.

    A term keeps its size at the mean of x_k, which matters where x_k is not centred: there c_k is multiplied by
    exp(mean x_k times the change of alpha_k), and `step` is used for the rest of the change.
    """
    n_terms, n_linear = problem.n_terms, problem.n_linear
    kept = beta = old[:, :n_linear]
    if problem.mean_logs.any():
        change = (new[:, n_linear:] - old[:, n_linear:]) @ problem.expand[n_terms + 1 :, n_linear:].T
        drift = problem.per_term(change * problem.mean_logs) @ problem.expand[:n_terms, :n_linear]
        kept, step = beta * np.exp(drift), step - beta * drift
    floor = np.where(problem.may_vanish | (_FALL * kept < problem.negligible), -np.inf, _FALL * kept)
    floor = np.maximum(floor, problem.lower[:n_linear])
    new[:, :n_linear] = np.minimum(np.maximum(kept + step, floor), problem.upper[:n_linear])
    return floor


def _refit(problem: Problem, free: Array, basis: Array, floor: Array, rows: NDArray[np.intp]) -> Array:
    """One reweighted least-squares solution for the linear parameters at fixed alpha, kept within bounds."""
    linear, n_linear = problem.n_terms + 1, problem.n_linear
    beta, upper = free[:, :n_linear], problem.upper[:n_linear]
    units = basis[:, :linear]
    with np.errstate(all="ignore"):
        predicted = np.matmul(problem.all_parameters(free)[:, None, :linear], units)[:, 0]
        first, reweighted = _secant_weights(problem, predicted, rows)
        downhill = -np.matmul(units, first[:, :, None])[:, :, 0]
        matrix = weighted_products(units, reweighted)
    if not problem.unconstrained:
        expand = problem.expand[:linear, :n_linear]
        downhill, matrix = downhill @ expand, expand.T @ matrix @ expand
    move = solve_each(ridged(matrix.copy()), downhill)
    inside = np.minimum(np.maximum(move, floor - beta), upper - beta)
    crossing = inside != move
    if crossing.any():
        rest = downhill - np.einsum("bij,bj->bi", matrix, np.where(crossing, inside, 0.0))
        move = solve_each(ridged(hold(matrix, crossing)), np.where(crossing, inside, rest))
        inside = np.minimum(np.maximum(move, floor - beta), upper - beta)
    return beta + np.where(np.isfinite(inside), inside, 0.0)


def _secant_weights(problem: Problem, predicted: Array, rows: NDArray[np.intp]) -> tuple[Array, Array]:
    """psi(r) sigma and psi(r) / r sigma^2 of each row, where sigma is the residual's secant: r = sigma (S - loss).

    For residuals in ln loss the secant reaches much further than the tangent 1 / S: with sigma held, the refit is
    exact for a law that passes through the data, however far S is.
    """
    target, weights = problem.of(rows)
    objective = problem.objective
    residuals = objective.transform(predicted) - target
    first, reweighted = objective.score(residuals), objective.reweighting(residuals)
    secant: Array | float = 1.0
    if objective.log:
        distance = predicted - np.exp(target)
        secant = np.where(np.abs(residuals) > 1e-6, residuals / distance, 1.0 / predicted)
    first, reweighted = first * secant, np.broadcast_to(reweighted * secant**2, first.shape)
    return (first, reweighted) if weights is None else (first * weights, reweighted * weights)
