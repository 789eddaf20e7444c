"""What a table tells of one quantity to first order, and the runs that leave its least variance.

With the information M of what is known and g_i the derivative of run i's prediction over its noise, a set S leaves

    var_S = a' (M + sum_S g_i g_i')^-1 a                                                        (1)

of the quantity whose derivative is a (c-optimality; Atkinson, Donev & Tobias 2007, section 10.3). Adding one run to
V = M^-1 takes (a' V g)^2 / (1 + g' V g) off a' V a, so that all candidates are compared by two products. Exchange puts
every chosen run in turn to the test against all others until none is better (Fedorov 1972).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scalefit.design.candidates import Candidates
from scalefit.design.quantity import Quantity
from scalefit.errors import DataError, OptionError
from scalefit.fitting.centred import CentredLaw
from scalefit.fitting.optimum import NOISE_FREE, Optimum
from scalefit.fitting.problem import jacobian
from scalefit.identifiability import Verdict

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["ASSUMED_EXPONENT", "ASSUMED_SIZE", "Choice", "Linearised", "choose_runs", "linearise", "variance_after"]

Array = NDArray[np.float64]
Indices = list[int]

_PASSES = 100
_RANDOM_STARTS, _KNAPSACK_STARTS = 8, 64  # a budget leaves exchanges stuck where one dear run is worth several
_IMPROVES = 1 - 1e-10

VAGUE = 30.0
"""Prior standard deviation of an exponent, of a coefficient over its size and of L0 over the smallest loss. It lets
a table that determines nothing be planned from, and changes no error below one by more than 0.1 %."""

OPEN = 0.5
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
    degrees : int
        Rows less parameters.
    open_variance : float
        Variance of the quantity above which it is not determined: the vague prior accounts for much of it.
    assumed : tuple of str
        Columns whose terms vanished or ran to a bound, so that they are planned for at assumed values.
    """

    choice: Choice
    estimate: float
    degrees: int
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
    optimum = Optimum.of(table, free, inside)
    residuals = fit.residuals
    noise = float(np.sqrt(residuals @ residuals / max(1, optimum.degrees)))
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
        covariance=_inverse(optimum.information[np.ix_(inside, inside)] / noise**2, spread),
        gradients=jacobian(table.at(candidates.columns), free)[:, inside] / noise,
        direction=direction,
        costs=candidates.flops,
        budget=budget,
    )
    names = np.array(table.free_names)[inside]
    open_names = [n for n, d in zip(names, direction, strict=True) if d and fit.verdicts[n] is Verdict.NOT_DETERMINED]
    open_variance = float(OPEN**2 * ((direction * spread) ** 2).sum())
    known = not open_names and direction @ choice.covariance @ direction <= open_variance
    return Linearised(
        choice, quantity.value(fit.params) if known else float("nan"), optimum.degrees, open_variance, assumed
    )


def _free_point(table: CentredLaw, fit: Fit) -> tuple[Array, tuple[str, ...]]:
    """The free parameters of the centred law at the fit, and the columns of terms that had to be assumed."""
    open_at_bound = {n for n in fit.limits if fit.verdicts[n] is Verdict.NOT_DETERMINED}
    assumed = tuple(
        t.column
        for t in fit.law.factors
        if fit.params[fit.law.term_of(t).coefficient] == 0 or t.exponent in open_at_bound
    )
    free = table.free(fit.params)
    for j, parameter in enumerate(table.free_parameters):
        if parameter.column in assumed:
            free[j] = ASSUMED_SIZE * table.smallest_loss if parameter.is_coefficient else ASSUMED_EXPONENT
    return free, assumed


def _gradient(table: CentredLaw, quantity: Quantity, free: Array) -> Array:
    """Derivative of the quantity by the free parameters, by central differences."""
    gradient = np.empty(len(free))
    for i, value in enumerate(free):
        step = 1e-5 * max(abs(value), 1e-3)  # the cube root of the rounding error
        shifted = [free + sign * step * np.eye(len(free))[i] for sign in (1, -1)]
        high, low = (quantity.value(table.params(point)) for point in shifted)
        gradient[i] = (high - low) / (2 * step)
    return gradient


def _inverse(information: Array, spread: Array) -> Array:
    """Covariance of the parameters under the table's information and the prior, scaled for accuracy."""
    scaled = information * spread * spread[:, None] + np.eye(len(spread))
    return np.asarray(np.linalg.inv(scaled) * spread * spread[:, None])


@dataclass(frozen=True, eq=False)
class Choice:
    """What there is to choose from.

    Parameters
    ----------
    covariance : (p, p) float array
        V, of the parameters as they are known.
    gradients : (n, p) float array
        g_i.
    direction : (p,) float array
        a.
    costs : (n,) float array
    budget : float
        Most that the chosen runs may cost together.
    """

    covariance: Array
    gradients: Array
    direction: Array
    costs: Array
    budget: float


def choose_runs(choice: Choice, n_runs: int, seed: int = 0) -> Indices:
    """Choose up to `n_runs` different runs; the order is the one in which they help most.

    The best of exchanges from two greedy choices, by gain and by gain for its cost, and from random ones.
    """
    rng = np.random.default_rng(seed)
    n_random = _KNAPSACK_STARTS if choice.costs.sum() > choice.budget else _RANDOM_STARTS
    starts = [_greedy(choice, n_runs, by_cost) for by_cost in (False, True)]
    starts += [_random(choice, n_runs, rng) for _ in range(n_random)]
    ends = [_exchange(choice, start, n_runs) for start in starts]
    best = min(ends, key=lambda chosen: variance_after(choice, chosen))
    return _ordered(choice, best)


def variance_after(choice: Choice, chosen: Indices) -> float:
    """Equation (1)."""
    covariance = _covariance(choice, chosen)
    return float(choice.direction @ covariance @ choice.direction)


def _covariance(choice: Choice, chosen: Indices) -> Array:
    """V after the chosen runs, by the Woodbury identity."""
    g, v = choice.gradients[chosen], choice.covariance
    gv = g @ v
    return np.asarray(v - gv.T @ np.linalg.solve(np.eye(len(chosen)) + gv @ g.T, gv))


def _gains(choice: Choice, covariance: Array) -> Array:
    """What each run would take off the variance."""
    towards = choice.gradients @ covariance
    gains: Array = (towards @ choice.direction) ** 2 / (1 + np.einsum("np,np->n", towards, choice.gradients))
    return gains


def _free(choice: Choice, chosen: Indices) -> NDArray[np.bool_]:
    """Which runs can be added within the budget."""
    free: NDArray[np.bool_] = choice.costs <= (choice.budget - choice.costs[chosen].sum()) * (1 + 1e-9)
    free[chosen] = False
    return free


def _greedy(choice: Choice, n_runs: int, by_cost: bool) -> Indices:
    """Add the run that gains most, or most for its cost, while there is room."""
    chosen: Indices = []
    while len(chosen) < n_runs and (free := _free(choice, chosen)).any():
        gains = _gains(choice, _covariance(choice, chosen))
        score = gains / choice.costs if by_cost else gains
        chosen.append(int(np.argmax(np.where(free, score, -1.0))))
    return chosen


def _random(choice: Choice, n_runs: int, rng: np.random.Generator) -> Indices:
    chosen: Indices = []
    while len(chosen) < n_runs and (free := _free(choice, chosen)).any():
        chosen.append(int(rng.choice(np.flatnonzero(free))))
    return chosen


def _exchange(choice: Choice, chosen: Indices, n_runs: int) -> Indices:
    chosen = list(chosen)
    variance = variance_after(choice, chosen)
    for _ in range(_PASSES):
        before = variance
        for place in range(len(chosen)):
            others = chosen[:place] + chosen[place + 1 :]
            covariance = _covariance(choice, others)
            without = float(choice.direction @ covariance @ choice.direction)
            gains = np.where(_free(choice, others), _gains(choice, covariance), -1.0)
            best = int(np.argmax(gains))
            if without - gains[best] < variance * _IMPROVES:
                chosen[place], variance = best, without - float(gains[best])
        # a cheaper exchange may have made room for one more run
        if len(chosen) < n_runs and (free := _free(choice, chosen)).any():
            gains = np.where(free, _gains(choice, _covariance(choice, chosen)), -1.0)
            chosen.append(int(np.argmax(gains)))
            variance = variance_after(choice, chosen)
        if variance >= before * _IMPROVES:
            break
    return chosen


def _ordered(choice: Choice, chosen: Indices) -> Indices:
    """The chosen runs, each next one the most helpful of those left."""
    left, order = list(chosen), list[int]()
    while left:
        gains = _gains(choice, _covariance(choice, order))
        order.append(left.pop(int(np.argmax(gains[left]))))
    return order
