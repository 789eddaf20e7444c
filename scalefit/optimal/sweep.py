"""The best shapes along a sweep of budgets, with intervals from draws of the law, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError
from scalefit.optimal.budget import Budget, Space
from scalefit.optimal.counts import Count
from scalefit.optimal.search import Shapes, find_shapes
from scalefit.optimal.tradeoff import TermsInLogs, Tradeoff
from scalefit.uncertainty.samples import Samples, check_level

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["QUANTITIES", "ShapeIntervals", "ShapeSweep", "central_interval", "quantities", "sweep_shapes"]

Array = NDArray[np.float64]
Interval = tuple[float, float]

QUANTITIES = ("width", "depth", "tokens", "ratio", "loss")


@dataclass(frozen=True)
class ShapeIntervals:
    """What one set of draws says of the best shape.

    Attributes
    ----------
    method : str
        What made the draws.
    level : float
    intervals : mapping of str to (float, float)
        Of width, depth, tokens, ratio, loss, params and tokens_per_param; of the two shares of `Flatness` as
        `halved` and `doubled`.
    exponents : mapping of str to (float, float)
        Of the exponents of width, depth, tokens, ratio and params against the budget.
    at_edge : float
        Share of the draws whose best shape stands at the end of a range, or whose term vanished.
    """

    method: str
    level: float
    intervals: Mapping[str, Interval]
    exponents: Mapping[str, Interval]
    at_edge: float


@dataclass(frozen=True, eq=False)
class ShapeSweep:
    """Best shapes along budgets.

    Attributes
    ----------
    budgets : tuple of Budget
    estimate, low, high : mapping of str to (n_budgets,) float array
        Of width, depth, tokens, ratio (width / depth) and loss; nan where there are no tokens or no draws.
    level : float
        Of the intervals from `low` to `high`.
    """

    budgets: tuple[Budget, ...]
    estimate: Mapping[str, Array]
    low: Mapping[str, Array]
    high: Mapping[str, Array]
    level: float


def sweep_shapes(
    fit: Fit,
    budgets: Sequence[Budget],
    draws: Samples | None = None,
    *,
    space: Space | None = None,
    level: float = 0.95,
) -> ShapeSweep:
    """Find the best shape at each of many budgets; memory grows with budgets plus draws, not with their product.

    Parameters
    ----------
    fit : Fit
    budgets : sequence of Budget
    draws : Samples, optional
        Draws of the same law, for the intervals.
    space : Space, optional
        The count of parameters and operations, and ranges of shapes; 12 m^2 l by default.
    level : float
        Confidence level.

    Raises
    ------
    OptionError
        If a budget is below the smallest model, or the law says nothing of the shape.

    Examples
    --------
    >>> import scalefit as sf
    >>> chinchilla = sf.fit(sf.load_dataset("chinchilla").drop_worst(40))
    >>> sweep = sweep_shapes(chinchilla, [Budget(params=1e9), Budget(params=1e10)])
    >>> sweep.estimate["ratio"].round(1).tolist()
    [64.2, 81.8]
    """
    check_level(level)
    if not budgets:
        raise OptionError("no budget is given; give at least one")
    space = space or Space()
    drawn = {name: np.empty(0) if draws is None else draws[name] for name in fit.params}
    # each parameter's estimate, followed by its draws
    law = TermsInLogs.of(fit.law, {name: np.concatenate([[x], drawn[name]]) for name, x in fit.params.items()})
    table = np.full((3, len(QUANTITIES), len(budgets)), np.nan)
    near: list[tuple[float, Array, Array]] = []
    for i, budget in enumerate(budgets):
        size = math.log(getattr(budget, budget.main))
        shapes = find_shapes(Tradeoff(law, budget, space), _continued(near, size))
        near = [*near[-1:], (size, shapes.log_width, shapes.log_depth)]
        found = quantities(shapes)
        for j, name in enumerate(QUANTITIES):
            table[0, j, i] = found[name][0]
            if draws is not None:
                table[1:, j, i] = central_interval(found[name][1:], level)
    estimate, low, high = (MappingProxyType(dict(zip(QUANTITIES, part, strict=True))) for part in table)
    return ShapeSweep(tuple(budgets), estimate, low, high, level)


def _continued(near: Sequence[tuple[float, Array, Array]], size: float) -> tuple[Array, Array] | None:
    """The last shapes, continued in a straight line through the last but one: where the next search starts."""
    if not near:
        return None
    (before, *first), (last, *shapes) = near[0], near[-1]
    stretch = 0.0 if before == last else (size - last) / (last - before)
    v, u = (x + stretch * (x - y) for x, y in zip(shapes, first, strict=True))
    return v, u


def quantities(shapes: Shapes, count: Count | None = None) -> dict[str, Array]:
    """`QUANTITIES` of each draw in plain units, with a count `params` and `tokens_per_param`, too.

    Those of tokens are nan for unlimited ones.
    """
    v, u, w = shapes.log_width, shapes.log_depth, shapes.log_tokens
    with np.errstate(over="ignore"):
        tokens = np.full(len(v), np.nan) if w is None else np.exp(w)
        found = dict(zip(QUANTITIES, (np.exp(v), np.exp(u), tokens, np.exp(v - u), shapes.loss), strict=True))
        if count is not None:
            found["params"] = np.exp(count.params.log(v, u))
            found["tokens_per_param"] = tokens / found["params"]
    return found


def central_interval(values: Array, level: float) -> tuple[float, float]:
    """The (1 - level) / 2 and (1 + level) / 2 quantiles, interpolated linearly.

    Equal to ``numpy.quantile`` but several times faster on the few thousand values of one call; nan for values that
    are all nan, infinite where the value below an end is.
    """
    if np.isnan(values[0]):
        return float("nan"), float("nan")
    last = len(values) - 1
    places = [last * (1 - level) / 2, last * (1 + level) / 2]
    below = [int(place) for place in places]
    sorted_there = np.partition(values, sorted({*below, *(min(k + 1, last) for k in below)}))
    ends = [
        (place - k, sorted_there[k], sorted_there[min(k + 1, last)]) for k, place in zip(below, places, strict=True)
    ]
    low, high = (float(x if rest == 0 or np.isinf(x) else x + rest * (y - x)) for rest, x, y in ends)
    return low, high


IN_LOGS = ("width", "depth", "tokens", "ratio", "params", "tokens_per_param", "loss")
"""Quantities whose intervals are formed for their logarithm."""


def analytic_intervals(
    fit: Fit, evaluate: Callable[[Mapping[str, Array]], tuple[Mapping[str, Array], Mapping[str, Array]]], level: float
) -> ShapeIntervals:
    """Student's t intervals by the errors that the fit prints, each quantity with degrees of its own.

    Parameters
    ----------
    fit : Fit
    evaluate : callable
        (B,) parameters in plain units to quantities and exponents, (B,) each.
    level : float
    """
    optimum = fit.optimum
    moved = np.flatnonzero(optimum.inside)
    # central differences: the cube root of the rounding error, of each free parameter that is not at a bound
    steps = 1e-5 * np.maximum(np.abs(optimum.free[moved]), 1e-3)
    points = np.tile(optimum.free, (2 * len(moved) + 1, 1))
    for k, (j, step) in enumerate(zip(moved, steps, strict=True)):
        points[2 * k + 1, j] += step
        points[2 * k + 2, j] -= step
    plain = optimum.centred.plain(points)
    parts = evaluate(dict(zip(fit.law.parameter_names, plain.T, strict=True)))
    found: list[dict[str, Interval]] = []
    for values in parts:
        inner = {name: np.log(x) if name in IN_LOGS and values is parts[0] else x for name, x in values.items()}
        gradients = np.zeros((len(inner), len(optimum.free)))
        for row, x in zip(gradients, inner.values(), strict=True):
            row[moved] = (x[1::2] - x[2::2]) / (2 * steps)
        known = np.asarray(np.isfinite(gradients).all(axis=1))
        half = fit.errors.contrast(np.where(known.reshape(-1, 1), gradients, 0.0)).half_width(level)
        half[~known] = np.nan
        ends = {name: (float(x[0] - h), float(x[0] + h)) for (name, x), h in zip(inner.items(), half, strict=True)}
        logs = values is parts[0]
        found.append({n: (math.exp(a), math.exp(b)) if logs and n in IN_LOGS else (a, b) for n, (a, b) in ends.items()})
    return ShapeIntervals("analytic", level, MappingProxyType(found[0]), MappingProxyType(found[1]), at_edge=0.0)
