"""From the optimum of the centred problem to estimates in plain units with standard errors and verdicts.

The Gauss-Newton covariance of the free parameters is

    cov = v (J' W J)^-1                                                                            (1)

with J the derivatives of the residuals by the free parameters that are not at a bound, and v the variance of the noise
that the residuals imply (`scalefit.fitting.m_estimator`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import ScalefitWarning
from scalefit.fitting.centred import CentredLaw
from scalefit.fitting.derivatives import State, jacobian, predict
from scalefit.fitting.m_estimator import row_scores
from scalefit.identifiability import Evidence, Identification, identify, null_parameters
from scalefit.runs import Runs

__all__ = ["Estimates", "estimate"]

Array = NDArray[np.float64]

Z95_ONE_SIDED = 1.644854

DESIGN_CODES = ("constant-column", "few-levels", "tied-columns")

NOISE_FREE = 1e-8
"""Residuals below this are rounding; the certificate's gradient is not divided by less."""


@dataclass(frozen=True, eq=False)
class Estimates:
    """What the optimum says; the fields are described at `scalefit.fitting.fit.Fit`.

    Attributes
    ----------
    at_bound : tuple of str
        Free parameters that ended at a bound.
    """

    params: Mapping[str, float]
    standard_errors: Mapping[str, float]
    covariance: Array
    limits: Mapping[str, float]
    at_bound: tuple[str, ...]
    gradient: float
    condition: float
    identification: Identification
    warnings: tuple[ScalefitWarning, ...]


def estimate(centred: CentredLaw, state: State, runs: Runs) -> Estimates:
    """Describe the optimum of a law on a table.

    Parameters
    ----------
    centred : CentredLaw
    state : State
        Of one point, at the optimum.
    runs : Runs
        The rows of the problem.
    """
    problem, free, names = centred.problem, state.free[0], centred.law.parameter_names
    weighted = jacobian(problem, free)
    if problem.weights is not None:
        weighted *= np.sqrt(problem.weights)[:, None]
    held = centred.at_bound(free)
    comparable = weighted * np.where(np.arange(len(free)) < problem.n_linear, centred.smallest_loss, 1.0)
    null, condition = null_parameters(comparable[:, ~held], tuple(np.flatnonzero(~held)))
    weights = np.ones(len(runs)) if problem.weights is None else problem.weights
    residuals = problem.objective.transform(predict(problem, state.free)[0]) - problem.target
    scores = row_scores(problem.objective, residuals, weights, int((~held).sum()))
    covariance_free = _inverse(weighted, ~held) * scores.variance
    reporting = centred.reporting_jacobian(free)
    with np.errstate(invalid="ignore"):
        covariance = reporting @ covariance_free @ reporting.T
        errors = np.sqrt(np.diag(covariance))
    index = {name: centred.free_index(name) for name in names}
    unsure = {name for name, j in index.items() if j is None or held[j] or j in null}
    standard_errors = {n: float("nan") if n in unsure else float(e) for n, e in zip(names, errors, strict=True)}
    limits = _limits(centred, weighted, held, scores.variance, free)
    evidence = Evidence(
        law=centred.law,
        arguments={t.column: t.argument(runs) for t in centred.law.terms},
        params=(params := centred.params(free)),
        free=tuple(name for name, j in index.items() if j is not None),
        standard_errors=standard_errors,
        relative_sizes=_relative_sizes(centred, free, covariance_free),
        null=frozenset(name for name, j in index.items() if j in null),
        limits=limits,
        smallest_loss=centred.smallest_loss,
        correlations=_correlations(covariance, names),
        covariance=covariance,
        noise=_noise(centred, state, runs),
    )
    return Estimates(
        params=MappingProxyType(params),
        standard_errors=MappingProxyType(standard_errors),
        covariance=covariance,
        limits=MappingProxyType(limits),
        at_bound=(at_bound := tuple(name for name, h in zip(centred.free_names, held, strict=True) if h)),
        gradient=_largest_cosine(weighted[:, ~held], scores.first * np.sqrt(weights)),
        condition=condition,
        identification=(identification := identify(evidence)),
        warnings=_bound_remarks(at_bound, params, limits, identification),
    )


def _inverse(weighted: Array, inside: NDArray[np.bool_]) -> Array:
    """(J' W J)^-1 over some columns, zero elsewhere; null directions get a large finite variance."""
    inverse = np.zeros((len(inside), len(inside)))
    information = weighted[:, inside].T @ weighted[:, inside]
    diagonal = np.diag(information)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(information * scale * scale[:, None])
    floored = np.maximum(values, 1e-15 * values.max(initial=1.0))
    inverse[np.ix_(inside, inside)] = (vectors / floored) @ vectors.T * scale * scale[:, None]
    return inverse


def _largest_cosine(weighted: Array, scores: Array) -> float:
    """Largest cosine between the scores and a column of the Jacobian: zero at an optimum."""
    lengths = np.sqrt(np.einsum("np,np->p", weighted, weighted))
    size = max(float(np.linalg.norm(scores)), NOISE_FREE * len(scores) ** 0.5)
    cosines = np.abs(scores @ weighted) / (np.where(lengths > 0, lengths, 1.0) * size)
    return float(cosines.max(initial=0.0))


def _limits(
    centred: CentredLaw, weighted: Array, held: NDArray[np.bool_], variance: float, free: Array
) -> dict[str, float]:
    """One-sided 95 % limits of parameters at a bound: 1.645 standard errors as though it were free, within bounds."""
    limits = {}
    for j in np.flatnonzero(held):
        parameter = centred.free_parameters[j]
        bounds = (float(centred.problem.lower[j]), float(centred.problem.upper[j]))
        if parameter.is_coefficient and bounds == parameter.natural_bounds:
            continue  # a term that vanished is named as such
        inside = ~held
        inside[j] = True
        error = float(np.sqrt(_inverse(weighted, inside)[j, j] * variance))
        sign = 1.0 if free[j] <= bounds[0] else -1.0
        limit = float(free[j]) + sign * Z95_ONE_SIDED * error
        highest = min(bounds[1], centred.smallest_loss if parameter.is_floor else np.inf)
        limits[parameter.name] = min(max(limit, bounds[0]), highest)
    return limits


def _relative_sizes(centred: CentredLaw, free: Array, covariance_free: Array) -> dict[str, float]:
    """Standard error of the logarithm of the size of each term; infinite for a term of size zero."""
    problem = centred.problem
    relative = {}
    for j, k in enumerate(centred.free_terms):
        relative[centred.free_names[j]] = float("inf")
        if free[j] != 0:
            gradient = -problem.mean_logs[k] * problem.expand[len(problem.logs) + 1 + k]
            gradient[j] = 1.0 / free[j]
            relative[centred.free_names[j]] = float(np.sqrt(max(0.0, gradient @ covariance_free @ gradient)))
    return relative


def _noise(centred: CentredLaw, state: State, runs: Runs) -> float:
    """Root mean square of the residuals, nats per token."""
    loss = predict(centred.problem, state.free)[0]
    return float(np.sqrt(np.mean((loss - runs["loss"]) ** 2)))


def _correlations(covariance: Array, names: tuple[str, ...]) -> dict[tuple[str, str], float]:
    with np.errstate(invalid="ignore", divide="ignore"):
        errors = np.sqrt(np.diag(covariance))
        matrix = covariance / errors / errors[:, None]
    exponents = [i for i, name in enumerate(names) if name.startswith("alpha_")]
    return {(names[i], names[j]): float(matrix[i, j]) for i, j in combinations(exponents, 2)}


def _bound_remarks(
    at_bound: tuple[str, ...], params: Mapping[str, float], limits: Mapping[str, float], found: Identification
) -> tuple[ScalefitWarning, ...]:
    """Remarks on bounds, but for terms that the design explains and exponents of terms that vanished."""
    explained = {n for w in found.warnings if w.code in DESIGN_CODES for n in w.numbers["parameters"]}
    explained |= {f"alpha_{name[2:]}" for name in at_bound if name.startswith("c_") and name not in limits}
    return tuple(_bound_remark(name, params[name], limits) for name in at_bound if name not in explained)


def _bound_remark(name: str, value: float, limits: Mapping[str, float]) -> ScalefitWarning:
    if name not in limits:
        return ScalefitWarning(
            "vanished-term",
            f"{name} went to zero: the data show no trace of this term.",
            f"Leave {name[2:]} out of the law, or add runs that vary it more.",
            {"parameter": name},
        )
    limit = limits[name]
    open_ended = name.startswith("alpha_") and limit < 0
    side = "below" if limit > value else "above"
    known = "the data set it no limit" if open_ended else f"at 95 % it is {side} {limit:.2g}"
    return ScalefitWarning(
        "at-bound",
        f"{name} is at its bound {value:g}; {known}.",
        "Read the one-sided limit; the other standard errors hold for this value of the parameter.",
        {"parameter": name, "bound": value, "limit": limit},
    )
