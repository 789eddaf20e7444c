"""What coupled terms add to the derivatives of a `Problem`: the map of its parameters, and the power of the sum.

With p = 1/q the solver's parameters (c_k or D_k, L0, a_j, p) lead to the core's (D_k, L0, a_j / p, p), in which

    L = L0 + unit S^p,    S = sum_k D_k exp(-sum_j (a_j / p) z_j),                                    (1)
    dL/dS = unit p S^(p-1),    d2L/dS2 = (p - 1) / (p unit S^p) (dL/dS)^2,
    dL/dp = unit S^p ln S,     d2L/dSdp = (dL/dS) (1 + p ln S) / p,    d2L/dp2 = unit S^p (ln S)^2.

Exponents, their ties and bounds and Kaplan's tie p = a_tokens are linear in the solver's parameters; only a coefficient
that the user constrained is not, D = (c / unit)^(1/p).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scalefit.fitting.batched import weighted_products

if TYPE_CHECKING:
    from scalefit.fitting.problem import Problem

__all__ = ["add_power_curvature", "chart_curvature", "chart_slopes", "core_parameters", "raise_to_power"]

Array = NDArray[np.float64]

SMALLEST_SUM = 1e-300
"""In place of an S of zero, where every term has vanished and ln S would be no number."""


def core_parameters(problem: Problem, parameters: Array) -> Array:
    """Equation (1)'s parameters from all the parameters of the law, at B points."""
    first = problem.n_terms + 1
    core, p = parameters.copy(), parameters[:, -1:]
    core[:, first:-1] /= p
    if problem.plain_terms.any():
        chosen = np.flatnonzero(problem.plain_terms)
        core[:, chosen] = np.maximum(core[:, chosen] / problem.unit, 0.0) ** (1.0 / p)
    return core


def chart_slopes(problem: Problem, parameters: Array, core: Array) -> Array:
    """(B, F, F) derivatives of the core's parameters (rows) by those of the law (columns)."""
    size, first = parameters.shape[1], problem.n_terms + 1
    slopes = np.repeat(np.eye(size)[None], len(parameters), axis=0)
    p, j = parameters[:, -1:], np.arange(first, size - 1)
    slopes[:, j, j] = 1.0 / p
    slopes[:, j, -1] = -core[:, j] / p
    for k in np.flatnonzero(problem.plain_terms):
        c, d = parameters[:, k], core[:, k]
        slopes[:, k, k] = _ratio(d, c) / p[:, 0]
        slopes[:, k, -1] = -_times_log(d) / p[:, 0]
    return slopes


def chart_curvature(problem: Problem, parameters: Array, core: Array, gradient: Array) -> Array:
    """(B, F, F) second derivatives of the core's parameters, each times its entry of the (B, F) gradient by them."""
    size, first = parameters.shape[1], problem.n_terms + 1
    curvature = np.zeros((len(parameters), size, size))
    p, j = parameters[:, -1:], np.arange(first, size - 1)
    curvature[:, j, -1] = curvature[:, -1, j] = -gradient[:, j] / p**2
    curvature[:, -1, -1] = np.sum(2 * gradient[:, j] * core[:, j] / p**2, axis=1)
    e = 1.0 / p[:, 0]
    for k in np.flatnonzero(problem.plain_terms):
        # D = C^e with C = c / unit: with ln D = e ln C, every derivative is D over a power of c times one of ln D.
        c, d = parameters[:, k], core[:, k]
        logarithm, over_c = _times_log(d), _ratio(d, c)
        squared = _times_log(logarithm, d)
        curvature[:, k, k] = gradient[:, k] * e * (e - 1) * _ratio(over_c, c)
        curvature[:, k, -1] = curvature[:, -1, k] = -gradient[:, k] * e * (e * over_c + e * _ratio(logarithm, c))
        curvature[:, -1, -1] += gradient[:, k] * e * e * (squared + 2 * logarithm)
    return curvature


def raise_to_power(problem: Problem, core: Array, basis: Array) -> Array:
    """(B, n) predicted losses; the first K of `basis` become dL/dD_k and the last dL/dp."""
    n_terms, p = problem.n_terms, core[:, -1:]
    sums = np.maximum(np.matmul(core[:, None, :n_terms], basis[:, :n_terms])[:, 0], SMALLEST_SUM)
    raised = problem.unit * sums**p
    basis[:, :n_terms] *= (p * raised / sums)[:, None]
    np.multiply(raised, np.log(sums), out=basis[:, -1])
    predicted: Array = raised + core[:, n_terms, None]
    return predicted


def add_power_curvature(
    problem: Problem, core: Array, predicted: Array, basis: Array, first: Array, full: Array
) -> None:
    """Add what the second derivatives of equation (1) by S and p contribute to the Hessian `full`, in place.

    `basis` holds dL by every parameter, `first` the derivative of each row's penalty by L.
    """
    n_terms, n, p = problem.n_terms, basis.shape[2], core[:, -1:]
    raised = predicted - core[:, n_terms, None]
    log_sums = basis[:, -1] / raised
    terms = np.delete(np.arange(basis.shape[1] - 1), n_terms)
    functions = basis[:, terms]
    within = weighted_products(functions, first * (p - 1) / (p * raised)) / n
    full[:, terms[:, None], terms] += within
    across = np.matmul(functions, (first * (1 + p * log_sums) / p)[:, :, None])[:, :, 0] / n
    full[:, terms, -1] += across
    full[:, -1, terms] += across
    full[:, -1, -1] += np.einsum("bn,bn,bn->b", basis[:, -1], log_sums, first) / n


def _ratio(numerator: Array, denominator: Array) -> Array:
    """Their ratio; 0 where the denominator is."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator != 0)


def _times_log(factor: Array, of: Array | None = None) -> Array:
    """factor ln(of); 0 where that is 0."""
    of = factor if of is None else of
    return factor * np.log(np.where(of > 0, of, 1.0))
