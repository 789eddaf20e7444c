"""Roots of rising functions, for many draws at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["STEP_TOLERANCE", "rising_root"]

Array = NDArray[np.float64]

STEP_TOLERANCE = 1e-7
"""A step of Newton's method of this size in ln is the last: the next would be of the order of its square."""

_MOST_STEPS = 120


def rising_root(
    function: Callable[[Array], tuple[Array, Array]], low: Array, high: Array, start: Array | None = None
) -> Array:
    """Root of a rising function in [low, high] for all draws at once; an end where there is none inside.

    Newton's method, with the middle of the bracket where a step leaves it or is not half of the last but one. An end
    of the range is tried once before the bracket is halved on its side.

    Parameters
    ----------
    function : callable
        (B,) points to values and derivatives.
    low, high : (B,) float arrays
    start : (B,) float array, optional
    """
    left, right = low, high
    x = np.clip(0.5 * (low + high) if start is None else np.where(np.isfinite(start), start, 0.5), low, high)
    tried_left, tried_right = np.zeros(len(x), dtype=bool), np.zeros(len(x), dtype=bool)
    last_but_one = last = np.full(len(x), np.inf)
    for _ in range(_MOST_STEPS):
        value, rate = function(x)
        rising = value >= 0
        left, right = np.where(rising, left, x), np.where(rising, x, right)
        tried_left, tried_right = tried_left | ~rising, tried_right | rising
        with np.errstate(divide="ignore", invalid="ignore"):
            step = -value / rate
        step = np.where((rate > 0) & np.isfinite(step), step, np.where(rising, -np.inf, np.inf))
        target, middle = x + step, 0.5 * (left + right)
        small = np.abs(step) <= STEP_TOLERANCE
        slow = ~small & (2 * np.abs(step) > last_but_one)
        below, above = target < left, target > right
        target = np.where(below, np.where(tried_left, middle, left), np.where(above & ~tried_right, right, target))
        target = np.where((slow & ~below & ~above) | (above & tried_right), middle, target)
        last_but_one, last = last, np.abs(target - x)
        x = target
        if (small | (right - left <= 1e-15 * np.maximum(1.0, np.abs(right)))).all():
            break
    return x
