"""The objective of a `Problem` and its exact derivatives, for B points at once.

With u_k = exp(-sum_j a_j z_j), S = sum_k D_k u_k + L0, and first_i, second_i the derivatives of row i's penalty by S_i,
the Hessian of the objective of a sum is

    mean_i [ second_i dS_i dS_i' + first_i d2S_i ],                                                (1)

where d2S_i is nonzero only within a term: (D_k, a_j) has -z_j u_k and (a_j, a_l) has D_k z_j z_l u_k. For coupled terms
the same holds of the core's parameters, with dL/dS on top (`scalefit.fitting.coupling`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.fitting.batched import newton_step, weighted_products
from scalefit.fitting.coupling import add_power_curvature, chart_curvature, chart_slopes
from scalefit.fitting.problem import Problem, basis_functions, fill_slopes, law_values, per_factor

__all__ = [
    "LocalModel",
    "Rows",
    "State",
    "evaluate",
    "evaluate_at_one_point",
    "evaluate_on",
    "gauss_newton",
    "local_model",
]

Array = NDArray[np.float64]

Rows = NDArray[np.intp] | slice
"""Which of the problems the points belong to, where targets or weights differ between problems."""

ALL = slice(None)


@dataclass(frozen=True)
class State:
    """Objective and derivatives by the free parameters at B points, and the step they suggest.

    Attributes
    ----------
    free : (B, P) float array
    value : (B,) float array
        inf where the law predicts a loss that is not positive.
    gradient : (B, P) float array
    hessian : (B, P, P) float array
        Exact second derivatives, equation (1).
    step : (B, P) float array
        Newton's step where the Hessian is positive definite, the Gauss-Newton step elsewhere; zero for parameters
        at a bound with an outward gradient.
    """

    free: Array
    value: Array
    gradient: Array
    hessian: Array
    step: Array

    def where(self, index: NDArray[Any]) -> State:
        """Some of the points."""
        return State(*(getattr(self, f.name)[index] for f in fields(self)))

    def update(self, index: NDArray[Any], other: State, chosen: NDArray[Any] | slice = ALL) -> None:
        """Overwrite the points at `index` with (some of) those of `other`."""
        for f in fields(self):
            getattr(self, f.name)[index] = getattr(other, f.name)[chosen]


def evaluate(problem: Problem, free: Array, rows: Rows = ALL, workspace: Array | None = None) -> State:
    """Objective, gradient, Hessian and step at B points.

    Parameters
    ----------
    problem : Problem
    free : (B, P) float array
    rows : index
        Which of the problems the points belong to.
    workspace : (at least B, F, n) float array, optional
        Memory to use again instead of new; what it holds is overwritten.
    """
    return evaluate_on(problem, free, basis_functions(problem, problem.all_parameters(free), workspace), rows)


def evaluate_on(problem: Problem, free: Array, basis: Array, rows: Rows) -> State:
    """`evaluate`, on basis functions that are known for the exponents of `free`; fills the rest of `basis`."""
    parameters = problem.all_parameters(free)
    core = problem.core(parameters)
    with np.errstate(all="ignore"):
        predicted, value, gradient, full = _second_order(problem, core, basis, rows)
        gradient, hessian = _free_derivatives(problem, parameters, core, gradient, full)

        def semidefinite(some: NDArray[np.bool_]) -> Array:
            chosen = np.flatnonzero(some) if isinstance(rows, slice) else rows[some]
            reweighted = _row_weights(problem, predicted[some], chosen)
            functions = basis if some.all() else basis[some]
            products = weighted_products(functions, reweighted) / basis.shape[2]
            return _free_normal(problem, parameters[some], core[some], products)

        step = newton_step(problem, (free, gradient, hessian), semidefinite)
    return State(free, value, gradient, hessian, step)


@dataclass(frozen=True)
class LocalModel:
    """Objective and derivatives at B points, with both forms of the second ones.

    Attributes
    ----------
    free, gradient : (B, P) float array
    value : (B,) float array
    hessian, normal : (B, P, P) float array
        Exact second derivatives, and J' W J / n.
    centres : (B, M) float array
        Mean of each z_j over the rows, weighted by what they tell of the size of its term: where D_k and a_j are
        uncorrelated. In terms of J' W J by the core's parameters, -N[D_k, a_j] / (D_k N[D_k, D_k]).
    """

    free: Array
    value: Array
    gradient: Array
    hessian: Array
    normal: Array
    centres: Array

    def where(self, index: NDArray[Any]) -> LocalModel:
        """Some of the points."""
        return LocalModel(*(getattr(self, f.name)[index] for f in fields(self)))

    def update(self, index: NDArray[Any], other: LocalModel) -> None:
        """Overwrite the points at `index` with those of `other`."""
        for f in fields(self):
            getattr(self, f.name)[index] = getattr(other, f.name)


def local_model(problem: Problem, free: Array, rows: Rows = ALL) -> LocalModel:
    """Expand the objective to second order at B points, which belong to the problems `rows`."""
    parameters = problem.all_parameters(free)
    core = problem.core(parameters)
    basis = basis_functions(problem, parameters)
    with np.errstate(all="ignore"):
        predicted, value, gradient, full = _second_order(problem, core, basis, rows)
        gradient, hessian = _free_derivatives(problem, parameters, core, gradient, full)
        products = weighted_products(basis, _row_weights(problem, predicted, rows)) / basis.shape[2]
        owners, j = problem.owners, problem.n_terms + 1 + np.arange(len(problem.logs))
        centres = -products[:, owners, j] / (core[:, owners] * products[:, owners, owners])
        centres = np.where(np.isfinite(centres), centres, problem.mean_logs)
        normal = _free_normal(problem, parameters, core, products)
    return LocalModel(free, value, gradient, hessian, normal, centres)


def gauss_newton(problem: Problem, free: Array, rows: Rows = ALL) -> Array:
    """(B, P, P) matrices J' W J / n with the weights of iteratively reweighted least squares.

    Positive semidefinite, and for the squared penalty the expectation of the Hessian at the true law.
    """
    parameters = problem.all_parameters(free)
    core = problem.core(parameters)
    basis = basis_functions(problem, parameters)
    with np.errstate(all="ignore"):
        reweighted = _row_weights(problem, law_values(problem, core, basis), rows)
        products = weighted_products(fill_slopes(problem, core, basis), reweighted) / basis.shape[2]
    return _free_normal(problem, parameters, core, products)


def evaluate_at_one_point(problem: Problem, free: Array, rows: Rows = ALL) -> State:
    """`evaluate` for sums that differ in their row weights alone, all of them at one point.

    Objective, gradient and Hessians are linear in the weights, so that many problems cost one matrix product of
    their weights with what each row contributes.

    Parameters
    ----------
    problem : Problem
        With a (n,) target and (B, n) weights, not coupled.
    free : (P,) float array
    rows : index
        Which of the problems.
    """
    n_terms, n = problem.n_terms, problem.logs.shape[1]
    size = n_terms + 1 + len(problem.logs)
    unweighted = replace(problem, weights=None)
    parameters = problem.all_parameters(free[None])
    basis = basis_functions(problem, parameters)
    with np.errstate(all="ignore"):
        predicted = law_values(problem, parameters, basis)
        _, first, second = _row_derivatives(unweighted, predicted, ALL)
        penalty = problem.objective.penalty(problem.objective.transform(predicted) - problem.target)
        reweighted = _row_weights(unweighted, predicted, ALL)
    slopes = fill_slopes(problem, parameters, basis)[0]
    products = slopes[:, None] * slopes
    exact = products * second
    owners, j = problem.owners, np.arange(n_terms + 1, size)
    mixed = slopes[owners] * problem.logs * first
    exact[owners, j] -= mixed
    exact[j, owners] -= mixed
    left, right = problem.pairs
    exact[j[left], j[right]] += parameters[0, owners[left], None] * problem.logs[right] * mixed[left]
    contributions = np.concatenate(
        [penalty, slopes * first, exact.reshape(size**2, n), (products * reweighted).reshape(size**2, n)]
    )
    weights = problem.of(rows)[1]
    assert weights is not None
    value, gradient, hessian, normal = np.split(weights @ contributions.T / n, np.cumsum([1, size, size**2]), axis=1)
    gradient = problem.free_gradient(gradient)
    hessian, normal = (problem.free_matrix(m.reshape(-1, size, size)) for m in (hessian, normal))
    points = np.repeat(free[None], len(weights), axis=0)
    step = newton_step(problem, (points, gradient, hessian), lambda some: normal[some])
    return State(points, np.where(np.isfinite(value[:, 0]), value[:, 0], np.inf), gradient, hessian, step)


def _second_order(problem: Problem, core: Array, basis: Array, rows: Rows) -> tuple[Array, Array, Array, Array]:
    """Predicted losses, objective, gradient and Hessian by the core's parameters; fills `basis` with dL by each."""
    n_terms, n = problem.n_terms, problem.logs.shape[1]
    predicted = law_values(problem, core, basis)
    value, first, second = _row_derivatives(problem, predicted, rows)
    owners, j = problem.owners, np.arange(n_terms + 1, n_terms + 1 + len(problem.logs))
    slopes = basis[:, n_terms + 1 : n_terms + 1 + len(problem.logs)]
    np.multiply(per_factor(problem, basis[:, :n_terms]), problem.logs, out=slopes)
    mixed = np.matmul(slopes, first[:, :, None])[:, :, 0] / n
    left, right = problem.pairs
    of_pairs = (slopes[:, left], problem.logs[right]) if problem.has_products else (slopes, problem.logs)
    pure = np.einsum("bkn,kn,bn->bk", *of_pairs, first, optimize=False) / n
    slopes *= -per_factor(problem, core[:, :n_terms, None])
    gradient = np.matmul(basis, first[:, :, None])[:, :, 0] / n
    full = weighted_products(basis, second) / n
    full[:, owners, j] -= mixed
    full[:, j, owners] -= mixed
    full[:, j[left], j[right]] += core[:, owners[left]] * pure
    if problem.coupled:
        add_power_curvature(problem, core, predicted, basis, first, full)
    return predicted, value, gradient, full


def _free_derivatives(
    problem: Problem, parameters: Array, core: Array, gradient: Array, full: Array
) -> tuple[Array, Array]:
    """Gradient and Hessian by the free parameters from those by the core's."""
    if problem.coupled:
        slopes = chart_slopes(problem, parameters, core)
        full = slopes.transpose(0, 2, 1) @ full @ slopes + chart_curvature(problem, parameters, core, gradient)
        gradient = np.matmul(gradient[:, None], slopes)[:, 0]
    return problem.free_gradient(gradient), problem.free_matrix(full)


def _free_normal(problem: Problem, parameters: Array, core: Array, products: Array) -> Array:
    """Products of the derivatives of L by the free parameters, from those by the core's."""
    if problem.coupled:
        slopes = chart_slopes(problem, parameters, core)
        products = slopes.transpose(0, 2, 1) @ products @ slopes
    return problem.free_matrix(products)


def _row_weights(problem: Problem, predicted: Array, rows: Rows) -> Array:
    """Weight of each row in reweighted least squares, in the place of the second derivative of its penalty by S."""
    target, weights = problem.of(rows)
    objective = problem.objective
    residuals = objective.transform(predicted) - target
    reweighted = np.broadcast_to(objective.reweighting(residuals), residuals.shape)
    if objective.log:
        slope = 1.0 / predicted
        reweighted = reweighted * (slope * slope)
    return reweighted if weights is None else reweighted * weights


def _row_derivatives(problem: Problem, predicted: Array, rows: Rows) -> tuple[Array, Array, Array]:
    """Objective of each point, and the first and second derivative of each row's penalty by S."""
    target, weights = problem.of(rows)
    objective = problem.objective
    residuals = objective.transform(predicted) - target
    penalty, score = objective.penalty(residuals), objective.score(residuals)
    if objective.log:
        slope = 1.0 / predicted
        first = score * slope
        second = (objective.curvature(residuals) - score) * (slope * slope)
    else:
        first, second = score, np.broadcast_to(objective.curvature(residuals), score.shape)
    if weights is not None:
        penalty, first, second = penalty * weights, first * weights, second * weights
    value = penalty.mean(axis=1)
    value[~((predicted.min(axis=1) > 0) & np.isfinite(value))] = np.inf
    return value, first, second
