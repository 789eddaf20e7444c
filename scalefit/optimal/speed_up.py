"""The compute that one recipe saves over another.

The effective speed-up of recipe B over A at a compute C is what A would have to spend for B's loss,

    S(C) = C_A(L_B(C)) / C,    each at its best N and D,                                         (1)

so that 1 means no gain and 2 half the compute.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefit.errors import OptionError, ScalefitWarning
from scalefit.optimal.compute import Cost, best_sizes, cost_of_runs, least_compute
from scalefit.optimal.sweep import central_interval
from scalefit.uncertainty.samples import Samples, check_level

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["SpeedUp", "SpeedUpAt", "are_paired", "shared_budgets", "speed_up"]

Array = NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True)
class SpeedUpAt:
    """Recipe B against A at one compute.

    Attributes
    ----------
    flops : float
    loss_a, loss_b : float
        Each at its best N and D.
    speed_up : float
        Equation (1); inf where A never reaches B's loss.
    interval : (float, float)
    probability : float
        Share of the draws in which B has the lower loss.
    """

    flops: float
    loss_a: float
    loss_b: float
    speed_up: float
    interval: Interval
    probability: float


@dataclass(frozen=True)
class SpeedUp:
    """Recipe B against A along compute.

    Attributes
    ----------
    at : tuple of SpeedUpAt
    cost, method : str
    level : float
    paired : bool
        Whether the tables match row by row, so that draws resample the same rows of both.
    warnings : tuple of ScalefitWarning
    """

    at: tuple[SpeedUpAt, ...]
    cost: str
    method: str
    level: float
    paired: bool
    warnings: tuple[ScalefitWarning, ...] = ()


def are_paired(a: Fit, b: Fit) -> bool:
    """Whether two tables hold the same configurations row by row."""
    names = [name for name in a.law.columns if name in b.law.columns]
    return len(a.runs) == len(b.runs) and all(np.array_equal(a.runs[name], b.runs[name]) for name in names)


def shared_budgets(a: Fit, b: Fit, n: int = 4) -> tuple[float, ...]:
    """Computes in equal ratios over what the runs of both tables spent.

    Raises
    ------
    OptionError
        If a law has other columns than params and tokens, or no compute lies within both tables.
    """
    for fit in (a, b):
        if set(fit.law.columns) != {"params", "tokens"}:
            raise OptionError(f"the law {fit.law} is not one in params and tokens, which recipes are compared by")
    spent = [6 * f.runs["params"] * f.runs["tokens"] for f in (a, b)]
    low, high = max(x.min() for x in spent), min(x.max() for x in spent)
    if not low < high:
        raise OptionError("the two tables share no range of compute; name budgets with --flops")
    return tuple(np.geomspace(low, high, n).tolist())


def speed_up(
    a: Fit,
    b: Fit,
    budgets: Sequence[float],
    draws: tuple[Samples, Samples] | None = None,
    *,
    cost: Cost | None = None,
    level: float = 0.95,
) -> SpeedUp:
    """Find the compute that recipe A needs for the loss of recipe B, over B's own.

    Parameters
    ----------
    a, b : Fit
        Laws in params and tokens of the two recipes' runs, with losses on the same text in the same unit.
    budgets : sequence of float
        Computes.
    draws : (Samples, Samples), optional
        Of A and of B; the i-th of one belongs to the i-th of the other.
    cost : Cost, optional
    level : float

    Raises
    ------
    OptionError
        If a law has other columns, or a budget is no positive number.
    """
    check_level(level)
    cost = cost or cost_of_runs()
    rows = []
    for flops in budgets:
        loss_a, loss_b = (float(best_sizes(f.law, f.params, flops, cost).loss[0]) for f in (a, b))
        interval, probability = (math.nan, math.nan), math.nan
        if draws is not None:
            n = min(len(draws[0].draws), len(draws[1].draws))
            in_a, in_b = (
                {name: samples[name][:n] for name in fit.params} for fit, samples in zip((a, b), draws, strict=True)
            )
            drawn_a, drawn_b = (best_sizes(f.law, p, flops, cost).loss for f, p in ((a, in_a), (b, in_b)))
            interval = central_interval(_ratio(a, in_a, drawn_b, flops, cost), level)
            probability = float(np.mean(drawn_b < drawn_a))
        ratio = float(_ratio(a, a.params, loss_b, flops, cost)[0])
        rows.append(SpeedUpAt(flops, loss_a, loss_b, ratio, interval, probability))
    method = "none" if draws is None else draws[0].method
    doubts = () if draws is None else (*draws[0].warnings, *draws[1].warnings)
    return SpeedUp(tuple(rows), cost.name, method, level, are_paired(a, b), doubts)


def _ratio(a: Fit, params: Any, loss: ArrayLike, flops: float, cost: Cost) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(least_compute(a.law, params, loss, cost) - math.log(flops)))
