"""How much a shape off the optimum costs: the valley of the loss along the ratio of width to depth.

At each ratio the rest of the shape, and the tokens where compute is the budget, are the best ones for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from scalefit.optimal.plan import Plan
from scalefit.optimal.search import best_at_ratio

__all__ = ["Flatness", "flatness"]

Array = NDArray[np.float64]

WITHIN = (0.001, 0.01)
"""Shares of the loss for which the range of ratios is given."""

FURTHEST = math.log(1e4)
"""Ratios further than this factor from the optimum are not looked at."""

_BISECTIONS = 34


@dataclass(frozen=True)
class Flatness:
    """The cost of a ratio off the optimum.

    Attributes
    ----------
    halved, doubled : float
        By which share the loss grows when width / depth is halved or doubled; nan where no such model is allowed.
    within : mapping of float to (float, float)
        Share of the loss -> the range of ratios that cost no more. It ends where the shapes allowed end, and at 0 or
        inf where the loss does not grow so much within a factor of 10,000.
    """

    halved: float
    doubled: float
    within: Mapping[float, tuple[float, float]]


def flatness(plan: Plan, log_ratio: float) -> Flatness:
    """Measure the valley around the best ratio.

    Parameters
    ----------
    plan : Plan
        Of one draw, the estimate.
    log_ratio : float
        ln(width / depth) at the optimum.
    """
    offsets = math.log(2) * np.array([0.0, -1.0, 1.0])
    best, halved, doubled = best_at_ratio(plan.where(np.zeros(3, dtype=np.intp)), log_ratio + offsets).loss
    sides, shares = np.array([-1.0, 1.0] * len(WITHIN)), np.repeat(WITHIN, 2)
    walking = plan.where(np.zeros(len(sides), dtype=np.intp))
    low, high = np.zeros(len(sides)), np.full(len(sides), FURTHEST)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        cheap = best_at_ratio(walking, log_ratio + sides * middle).loss <= (1 + shares) * best
        low, high = np.where(cheap, middle, low), np.where(cheap, high, middle)
    reached = np.where(high >= FURTHEST, np.inf, low)
    ends = np.exp(log_ratio + sides * reached)
    within = {share: (float(ends[2 * i]), float(ends[2 * i + 1])) for i, share in enumerate(WITHIN)}
    return Flatness(float(halved / best - 1), float(doubled / best - 1), MappingProxyType(within))
