"""Minimise an objective over the parameters of a power law, for many problems or many starts at once.

With x_k = ln of the k-th column over a reference, the law is S_i = sum_k c_k exp(-alpha_k x_ki) + L0: linear in
beta = (c_1..c_K, L0) and nonlinear in alpha. One iteration

1. takes Newton's step with the exact Hessian where that is positive definite and the Gauss-Newton step (for the
   Huber penalty its reweighted form) elsewhere, parameters at a bound with an outward gradient held there;
2. shortens it so that no exponent moves by more than one and no positive parameter falls tenfold;
3. refits beta at the new alpha by one reweighted least-squares step (variable projection, Golub & Pereyra 1973),
   which needs no new exponentials;
4. is accepted where the objective does not rise; else the problem's step is quartered.

All arrays carry the problem as their first axis, B problems at a time; rows are the last axis.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.objectives import Objective

__all__ = ["Problem", "Solution", "State", "evaluate", "gauss_newton", "jacobian", "predict", "solve"]

Array = NDArray[np.float64]

TOLERANCE = 1e-13
"""A problem is solved when the next step promises less than this share of the objective."""

BLOCK_ELEMENTS = 400_000
"""Problems x rows solved together: fixed, so that results do not depend on the number of workers."""

_SMALLEST_STEP = 1e-7

_LAST_RISE = 1e-12
"""The last Newton step is more exact than the objective can show; it may raise it by this share."""

_FALL = 0.1
_ROUNDING = 16 * np.finfo(np.float64).eps


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

    def all_parameters(self, free: Array) -> Array:
        """(B, P) free parameters to the (B, 2K + 1) parameters of the law."""
        return free @ self.expand.T + self.offset

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
        return Problem(
            self.logs[:, rows],
            self.target[..., rows],
            self.objective,
            self.expand,
            self.offset,
            self.lower,
            self.upper,
            weights,
        )


@dataclass(frozen=True)
class State:
    """Objective and derivatives by the free parameters at B points.

    Attributes
    ----------
    free : (B, P) float array
    value : (B,) float array
        inf where the law predicts a loss that is not positive.
    gradient : (B, P) float array
    hessian : (B, P, P) float array
        Exact second derivatives.
    """

    free: Array
    value: Array
    gradient: Array
    hessian: Array

    def where(self, index: NDArray[Any]) -> State:
        """Some of the points."""
        return State(*(getattr(self, f.name)[index] for f in fields(self)))

    def replaced(self, mask: NDArray[np.bool_], other: State) -> State:
        """The points of `other` where `mask` holds."""
        merged = []
        for f in fields(self):
            mine, theirs = getattr(self, f.name), getattr(other, f.name)
            merged.append(np.where(mask.reshape(-1, *[1] * (mine.ndim - 1)), theirs, mine))
        return State(*merged)


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


def solve(problem: Problem, starts: Array, max_iterations: int = 200, tolerance: float = TOLERANCE) -> Solution:
    """Minimise each problem from its start.

    Parameters
    ----------
    problem : Problem
    starts : (B, P) float array
        Free parameters; they are moved inside the bounds. One problem with B starts, or B problems with one each.
    max_iterations : int
    tolerance : float
        Relative decrease of the objective, predicted by the quadratic model, below which a problem is solved.

    Returns
    -------
    Solution
        A problem that is not solved within `max_iterations` keeps the best point it reached.
    """
    size = max(1, min(32, BLOCK_ELEMENTS // problem.logs.shape[1]))
    blocks = [np.arange(first, min(first + size, len(starts))) for first in range(0, len(starts), size)]
    parts = [_solve_block(problem, rows, starts[rows], max_iterations, tolerance) for rows in blocks]
    if len(parts) == 1:
        return parts[0]
    state = State(*(np.concatenate([getattr(p.state, f.name) for p in parts]) for f in fields(State)))
    return Solution(
        state,
        np.concatenate([p.converged for p in parts]),
        np.concatenate([p.iterations for p in parts]),
    )


def _solve_block(
    problem: Problem, rows: NDArray[np.intp], starts: Array, max_iterations: int, tolerance: float
) -> Solution:
    n_problems = len(starts)
    iterations = np.zeros(n_problems, dtype=np.intp)
    converged = np.zeros(n_problems, dtype=bool)
    state = evaluate(problem, np.clip(starts, problem.lower, problem.upper), rows)
    final = state
    active = np.arange(n_problems)
    step_size = np.ones(n_problems)
    floor = _ROUNDING**2 * np.maximum(1.0, np.mean(problem.target**2))
    for _ in range(max_iterations):
        step = _step(problem, state, rows[active])
        promised = 0.5 * np.abs(np.einsum("bp,bp->b", state.gradient, step))
        solved = (promised <= tolerance * state.value) | (state.value <= floor)
        trial = _trial(problem, state, step, step_size, rows[active])
        accepted = trial.value <= np.where(solved, state.value * (1 + _LAST_RISE), state.value)
        state = state.replaced(accepted, trial)
        step_size = np.where(accepted, np.minimum(1.0, 2.0 * step_size), 0.25 * step_size)
        stuck = step_size < _SMALLEST_STEP
        iterations[active] += 1
        at_rounding = promised <= np.maximum(1e-7 * state.value, np.sqrt(floor * state.value))
        converged[active] = solved | (stuck & at_rounding)
        done = solved | stuck
        if done.any():
            mask = np.zeros(n_problems, dtype=bool)
            mask[active] = True
            final = final.replaced(mask, _scattered(final, state, active))
            active, state, step_size = active[~done], state.where(~done), step_size[~done]
            if not len(active):
                break
    if len(active):
        mask = np.zeros(n_problems, dtype=bool)
        mask[active] = True
        final = final.replaced(mask, _scattered(final, state, active))
    return Solution(final, converged, iterations)


def _scattered(shape: State, state: State, index: NDArray[np.intp]) -> State:
    """`state` at the places `index` of arrays shaped like those of `shape`."""
    scattered = []
    for f in fields(State):
        target = np.empty_like(getattr(shape, f.name))
        target[index] = getattr(state, f.name)
        scattered.append(target)
    return State(*scattered)


def evaluate(problem: Problem, free: Array, rows: NDArray[np.intp] | slice = slice(None)) -> State:
    """Objective, gradient and both Hessians at B points.

    Parameters
    ----------
    problem : Problem
    free : (B, P) float array
    rows : index
        Which of the problems the points belong to, where targets or weights differ between them.
    """
    parameters = problem.all_parameters(free)
    return _evaluate_on(problem, free, parameters, _basis(problem, parameters), rows)


def _basis(problem: Problem, parameters: Array) -> Array:
    """(B, 2K + 1, n): exp(-alpha_k x_k) and ones in the first K + 1 places, the rest not yet filled."""
    n_terms, n = problem.logs.shape
    basis = np.empty((len(parameters), 2 * n_terms + 1, n))
    units = basis[:, :n_terms]
    np.multiply(parameters[:, n_terms + 1 :, None], -problem.logs, out=units)
    np.exp(units, out=units)
    basis[:, n_terms] = 1.0
    return basis


def _row_derivatives(
    problem: Problem, predicted: Array, rows: NDArray[np.intp] | slice
) -> tuple[Array, Array, Array, Array]:
    """Penalty, dF/dS, d2F/dS2 and its reweighted form, row by row and times the row weight."""
    target, weights = problem.of(rows)
    objective = problem.objective
    if objective.log:
        residuals = np.log(predicted) - target
        slope = 1.0 / predicted
        score = objective.score(residuals)
        first = score * slope
        squared = slope * slope
        second = (objective.curvature(residuals) - score) * squared
        reweighted = objective.reweighting(residuals) * squared
    else:
        residuals = predicted - target
        first = objective.score(residuals)
        second = np.broadcast_to(objective.curvature(residuals), first.shape)
        reweighted = np.broadcast_to(objective.reweighting(residuals), first.shape)
    penalty = objective.penalty(residuals)
    if weights is not None:
        penalty, first, second, reweighted = (a * weights for a in (penalty, first, second, reweighted))
    return penalty, first, second, reweighted


def _evaluate_on(
    problem: Problem, free: Array, parameters: Array, basis: Array, rows: NDArray[np.intp] | slice
) -> State:
    """Fill the derivatives into `basis` and contract them over the rows."""
    logs = problem.logs
    n_terms, n = logs.shape
    linear = n_terms + 1
    coefficients = parameters[:, :n_terms]
    with np.errstate(all="ignore"):
        predicted = np.matmul(parameters[:, None, :linear], basis[:, :linear])[:, 0]
        penalty, first, second, _ = _row_derivatives(problem, predicted, rows)
        value = penalty.mean(axis=1)
        value = np.where((predicted.min(axis=1) > 0) & np.isfinite(value), value, np.inf)
        slopes = basis[:, linear:]
        np.multiply(basis[:, :n_terms], logs, out=slopes)
        mixed = np.matmul(slopes, first[:, :, None])[:, :, 0] / n
        pure = np.einsum("bkn,bkn->bk", slopes, logs * first[:, None]) / n
        slopes *= -coefficients[:, :, None]
        gradient = np.matmul(basis, first[:, :, None])[:, :, 0] / n
        hessian = np.matmul(basis * (second / n)[:, None], basis.transpose(0, 2, 1))
    k = np.arange(n_terms)
    hessian[:, k, linear + k] -= mixed
    hessian[:, linear + k, k] -= mixed
    hessian[:, linear + k, linear + k] += coefficients * pure
    expand = problem.expand
    return State(free, value, gradient @ expand, expand.T @ hessian @ expand)


def predict(problem: Problem, free: Array) -> Array:
    """(B, n) predicted losses at B points, nats per token."""
    parameters = problem.all_parameters(free)
    linear = len(problem.logs) + 1
    return np.matmul(parameters[:, None, :linear], _basis(problem, parameters)[:, :linear])[:, 0]


def jacobian(problem: Problem, free: Array) -> Array:
    """(n, P) derivatives of the residuals at one point, given by its (P,) free parameters."""
    parameters = problem.all_parameters(free[None])
    n_terms = len(problem.logs)
    basis = _basis(problem, parameters)[0]
    basis[n_terms + 1 :] = -parameters[0, :n_terms, None] * basis[:n_terms] * problem.logs
    if problem.objective.log:
        basis /= parameters[0, : n_terms + 1] @ basis[: n_terms + 1]
    return basis.T @ problem.expand


def gauss_newton(problem: Problem, free: Array, rows: NDArray[np.intp] | slice = slice(None)) -> Array:
    """(B, P, P) matrices J' W J / n with the weights of iteratively reweighted least squares.

    Positive semidefinite, and for the squared penalty the expectation of the Hessian at the true law.
    """
    parameters = problem.all_parameters(free)
    basis = _basis(problem, parameters)
    n_terms, n = problem.logs.shape
    linear = n_terms + 1
    with np.errstate(all="ignore"):
        predicted = np.matmul(parameters[:, None, :linear], basis[:, :linear])[:, 0]
        reweighted = _row_derivatives(problem, predicted, rows)[3]
        slopes = basis[:, linear:]
        np.multiply(basis[:, :n_terms], problem.logs, out=slopes)
        slopes *= -parameters[:, :n_terms, None]
        matrix = np.matmul(basis * (reweighted / n)[:, None], basis.transpose(0, 2, 1))
    return problem.expand.T @ matrix @ problem.expand


def _step(problem: Problem, state: State, rows: NDArray[np.intp]) -> Array:
    """Newton's step where the Hessian is positive definite, the Gauss-Newton step elsewhere."""
    held = ((state.free <= problem.lower) & (state.gradient > 0)) | (
        (state.free >= problem.upper) & (state.gradient < 0)
    )
    matrix = _hold(state.hessian, held)
    definite = _positive_definite(matrix)
    if not definite.all():
        other = ~definite
        semidefinite = gauss_newton(problem, state.free[other], rows[other])
        exponents = np.arange(problem.n_linear, semidefinite.shape[1])
        curvature = semidefinite[:, exponents, exponents]
        semidefinite[:, exponents, exponents] += 1e-10 * curvature.max(axis=1, initial=0.0)[:, None]
        matrix = matrix.copy()
        matrix[other] = _ridged(_hold(semidefinite, held[other]))
    return _solve(matrix, np.where(held, 0.0, -state.gradient))


def _solve(matrix: Array, right: Array) -> Array:
    solution: Array = np.linalg.solve(matrix, right[:, :, None])[:, :, 0]
    return solution


def _hold(matrix: Array, held: NDArray[np.bool_]) -> Array:
    """`matrix` with the rows and columns of held parameters replaced by those of the identity."""
    if not held.any():
        return matrix
    matrix = np.where(held[:, :, None] | held[:, None, :], 0.0, matrix)
    index = np.arange(held.shape[1])
    matrix[:, index, index] = np.where(held, 1.0, matrix[:, index, index])
    return matrix


def _ridged(matrix: Array) -> Array:
    """A semidefinite matrix made definite by a ridge at the rounding level of each diagonal entry."""
    matrix = matrix.copy()
    index = np.arange(matrix.shape[1])
    diagonal = matrix[:, index, index]
    matrix[:, index, index] = np.where(diagonal > 0, diagonal * (1 + 1e-10), 1.0)
    return matrix


def _positive_definite(matrix: Array) -> NDArray[np.bool_]:
    """Which of B matrices are safely positive definite, by the pivots of symmetric elimination.

    Written over the batch because LAPACK's batched Cholesky raises for all when one matrix is indefinite.
    """
    index = np.arange(matrix.shape[1])
    smallest = 1e-13 * np.abs(matrix[:, index, index].T)
    a = matrix.transpose(1, 2, 0).copy()
    definite = np.ones(len(matrix), dtype=bool)
    with np.errstate(all="ignore"):
        for j in index:
            definite &= a[j, j] > smallest[j]
            a[j + 1 :, j + 1 :] -= (a[j + 1 :, j] / a[j, j])[:, None] * a[j, j + 1 :]
    return definite


def _trial(problem: Problem, state: State, step: Array, step_size: Array, rows: NDArray[np.intp]) -> State:
    """The point that a shortened step and the refit of beta lead to."""
    n_linear = problem.n_linear
    alpha, alpha_step = state.free[:, n_linear:], step[:, n_linear:]
    lowest = np.where(alpha > 0, np.maximum(problem.lower[n_linear:], _FALL * alpha), problem.lower[n_linear:])
    length = (step_size / np.maximum(1.0, np.abs(alpha_step).max(axis=1, initial=0.0)))[:, None]
    free = state.free + length * step
    free[:, n_linear:] = np.clip(free[:, n_linear:], lowest, problem.upper[n_linear:])
    parameters = problem.all_parameters(free)
    basis = _basis(problem, parameters)
    if n_linear:
        beta, floor = _carried_beta(problem, state.free, free, length * step[:, :n_linear])
        free[:, :n_linear] = _refit(problem, beta, problem.all_parameters(free), basis, floor, rows)
        parameters = problem.all_parameters(free)
    return _evaluate_on(problem, free, parameters, basis, rows)


def _carried_beta(problem: Problem, old: Array, new: Array, step: Array) -> tuple[Array, Array]:
    """Carry beta to new exponents, and how far a refit may let it fall; `new` receives the carried values.

    A term keeps its size at the mean of x_k, which matters where x_k is not centred: there c_k is multiplied by
    exp(mean x_k times the change of alpha_k), and `step` is used for the rest of the change.
    """
    n_terms, n_linear = len(problem.logs), problem.n_linear
    beta = old[:, :n_linear]
    change = (new[:, n_linear:] - old[:, n_linear:]) @ problem.expand[n_terms + 1 :, n_linear:].T
    drift = (change * problem.mean_logs) @ problem.expand[:n_terms, :n_linear]
    growth = np.exp(drift)
    fallen = _FALL * beta * growth
    floor = np.where(problem.may_vanish | (fallen < problem.negligible), -np.inf, fallen)
    floor = np.maximum(floor, problem.lower[:n_linear])
    new[:, :n_linear] = np.clip(beta * (growth - drift) + step, floor, problem.upper[:n_linear])
    return new[:, :n_linear], floor


def _refit(
    problem: Problem, beta: Array, parameters: Array, basis: Array, floor: Array, rows: NDArray[np.intp]
) -> Array:
    """One reweighted least-squares step of the linear parameters at fixed alpha, kept within bounds."""
    linear = len(problem.logs) + 1
    expand = problem.expand[:linear, : problem.n_linear]
    upper = problem.upper[: problem.n_linear]
    with np.errstate(all="ignore"):
        predicted = np.matmul(parameters[:, None, :linear], basis[:, :linear])[:, 0]
        _, first, _, reweighted = _row_derivatives(problem, predicted, rows)
        gradient = np.matmul(basis[:, :linear], first[:, :, None])[:, :, 0] @ expand
        matrix = np.matmul(basis[:, :linear] * reweighted[:, None], basis[:, :linear].transpose(0, 2, 1))
    matrix = expand.T @ matrix @ expand
    usable = np.isfinite(gradient).all(axis=1) & np.isfinite(matrix).all(axis=(1, 2))
    gradient = np.where(usable[:, None], gradient, 0.0)
    matrix = np.where(usable[:, None, None], matrix, np.eye(len(upper)))
    move = np.zeros_like(beta)
    held = np.zeros(beta.shape, dtype=bool)
    for _ in range(2):
        right = np.where(held, move, -gradient - np.einsum("bij,bj->bi", matrix, np.where(held, move, 0.0)))
        move = _solve(_ridged(_hold(matrix, held)), right)
        inside = np.clip(move, floor - beta, upper - beta)
        crossing = inside != move
        if not crossing.any():
            break
        held |= crossing
        move = inside
    return np.clip(beta + move, floor, upper)
