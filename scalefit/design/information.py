"""A fitted law to first order: what its table tells of the parameters, and what further runs would add."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scalefit.design.candidates import Candidates
from scalefit.design.exchange import Choice
from scalefit.design.quantity import Quantity
from scalefit.errors import DataError, OptionError
from scalefit.fitting.centred import CentredLaw
from scalefit.fitting.derivatives import jacobian
from scalefit.fitting.fit import Fit
from scalefit.fitting.problem import Problem
from scalefit.identifiability import Verdict

__all__ = ["Linearised", "linearise"]

Array = NDArray[np.float64]

VAGUE = 30.0
"""Prior standard deviation of an exponent, of a coefficient over its size and of L0 over the smallest loss. It lets
a table that determines nothing be planned from, and changes no error below one by more than 0.1 %."""

NOISE_FREE = 1e-12
"""Residuals below this are rounding."""

_DIFFERENCE = 1e-5


_OPEN = 0.5
"""A quantity whose error is above this share of what the vague prior alone gives is not determined."""

ASSUMED_SIZE, ASSUMED_EXPONENT = 0.1, 0.5
"""A term that vanished, or whose open exponent ran to its bound, is planned for at this share of the smallest loss
and this exponent."""


@dataclass(frozen=True, eq=False)
class Linearised:
    """A choice of runs in the free parameters of the centred law.

    Attributes
    ----------
    choice : Choice
    estimate : float
        The quantity at the fit, on its scale; nan where the table does not determine it.
    open_variance : float
        Variance of the quantity above which it is not determined: the vague prior accounts for much of it.
    assumed : tuple of str
        Columns whose terms vanished or ran to a bound, so that they are planned for at assumed values.
    """

    choice: Choice
    estimate: float
    open_variance: float
    assumed: tuple[str, ...]


def linearise(fit: Fit, quantity: Quantity, candidates: Candidates, budget: float) -> Linearised:
    """Write what the table tells and what candidates would add to first order around the fit.

    Raises
    ------
    DataError
        If the fit leaves no residuals.
    OptionError
        If the quantity follows from parameters at their bounds alone.
    """
    table = CentredLaw.of(fit)
    free, assumed = _free_point(table, fit)
    inside = np.array([p.name not in fit.limits or p.column in assumed for p in table.free_parameters])
    own = jacobian(table.problem, free)[:, inside]
    if table.problem.weights is not None:
        own *= np.sqrt(table.problem.weights)[:, None]
    residuals = fit.residuals
    noise = float(np.sqrt(residuals @ residuals / max(1, len(residuals) - inside.sum())))
    if noise < NOISE_FREE:
        raise DataError("the law fits every row exactly, so that nothing is known of the scatter; give measured losses")
    sizes = [
        1.0 if p.is_exponent else table.smallest_loss if p.is_floor else max(value, 1e-12)
        for p, value in zip(table.free_parameters, free, strict=True)
    ]
    spread = VAGUE * np.array(sizes)[inside]
    direction = _gradient(table, quantity, free)[inside]
    if not direction.any():
        raise OptionError(
            f"{quantity.name} follows from parameters at their bounds alone ({', '.join(fit.limits)}), where the "
            "formula knows no error; choose another quantity, or widen the bounds and fit again"
        )
    choice = Choice(
        covariance=_inverse(own.T @ own / noise**2, spread),
        gradients=jacobian(_on_candidates(table, candidates), free)[:, inside] / noise,
        direction=direction,
        costs=candidates.flops,
        budget=budget,
    )
    names = np.array(table.free_names)[inside]
    open_names = [n for n, d in zip(names, direction, strict=True) if d and fit.verdicts[n] is Verdict.NOT_DETERMINED]
    open_variance = float(_OPEN**2 * ((direction * spread) ** 2).sum())
    known = not open_names and direction @ choice.covariance @ direction <= open_variance
    return Linearised(choice, quantity.value(fit.params) if known else float("nan"), open_variance, assumed)


def _free_point(table: CentredLaw, fit: Fit) -> tuple[Array, tuple[str, ...]]:
    """The free parameters of the centred law at the fit, and the columns of terms that had to be assumed."""
    open_at_bound = {n for n in fit.limits if fit.verdicts[n] is Verdict.NOT_DETERMINED}
    assumed = tuple(t.column for t in fit.law.terms if fit.params[t.coefficient] == 0 or t.exponent in open_at_bound)
    free = table.free(fit.params)
    for j, parameter in enumerate(table.free_parameters):
        if parameter.column in assumed:
            free[j] = ASSUMED_SIZE * table.smallest_loss if parameter.is_coefficient else ASSUMED_EXPONENT
    return free, assumed


def _gradient(table: CentredLaw, quantity: Quantity, free: Array) -> Array:
    """Derivative of the quantity by the free parameters, by central differences."""
    gradient = np.empty(len(free))
    for i, value in enumerate(free):
        step = _DIFFERENCE * max(abs(value), 1e-3)
        shifted = [free + sign * step * np.eye(len(free))[i] for sign in (1, -1)]
        high, low = (quantity.value(table.params(point)) for point in shifted)
        gradient[i] = (high - low) / (2 * step)
    return gradient


def _on_candidates(table: CentredLaw, candidates: Candidates) -> Problem:
    """The problem's law at the candidates in place of the table's rows."""
    logs = np.log(np.stack([term.argument(candidates.columns) for term in table.law.terms]))
    target = np.zeros(len(candidates))
    return replace(table.problem, logs=logs - table.log_references[:, None], target=target, weights=None)


def _inverse(information: Array, spread: Array) -> Array:
    """Covariance of the parameters under the table's information and the prior, scaled for accuracy."""
    scaled = information * spread * spread[:, None] + np.eye(len(spread))
    return np.asarray(np.linalg.inv(scaled) * spread * spread[:, None])
