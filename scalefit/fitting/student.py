"""Quantiles of Student's t for any degrees of freedom.

SciPy has them too, but importing scipy.special takes a fifth of the time of a whole `scalefit fit`, and a fit needs
nothing else of it. With x = nu / (nu + t^2) the tail of t on nu degrees is

    P(T > t) = I_x(nu / 2, 1 / 2) / 2,                                                             (1)

I the regularised incomplete beta function, by its continued fraction (Abramowitz & Stegun 1964, 26.5.8 and 26.7.1).
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError

MANY = 1000.0
"""From so many degrees on the expansion about the normal quantile is exact to 1e-12."""


@lru_cache(maxsize=256)
def t_quantile(degrees: float, probability: float) -> float:
    """The value that Student's t on `degrees` degrees of freedom stays below with this probability.

    Examples
    --------
    >>> round(t_quantile(10, 0.975), 6), round(t_quantile(12.4, 0.025), 6)
    (2.228139, -2.171043)
    """
    if not (degrees > 0 and 0 < probability < 1):
        raise OptionError(f"t has no quantile at the probability {probability:g} on {degrees:g} degrees of freedom")
    if probability < 0.5:
        return -t_quantile(degrees, 1 - probability)
    value = _expansion(NormalDist().inv_cdf(probability), max(degrees, 3.0))
    if degrees >= MANY:
        return value
    # Newton's steps inside a bracket: for few degrees the expansion may start far below the quantile.
    low, high = 0.0, math.inf
    for _ in range(200):
        excess = 1 - probability - _tail(value, degrees)
        low, high = (value, high) if excess < 0 else (low, value)
        moved = value - excess / _density(value, degrees)
        if not low <= moved <= high:
            moved = 2 * value + 1 if math.isinf(high) else (low + high) / 2
        if abs(moved - value) <= 1e-14 * max(1.0, abs(value)):
            return moved
        value = moved
    return value


def t_quantiles(degrees: NDArray[np.float64], probability: float) -> NDArray[np.float64]:
    """`t_quantile` of each of (m,) degrees of freedom; nan where they are."""
    return np.array([t_quantile(float(d), probability) if d > 0 else np.nan for d in degrees])


def _expansion(z: float, nu: float) -> float:
    """Quantile from the normal one, z, in powers of 1 / nu (Abramowitz & Stegun 26.7.5)."""
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / nu ** (i + 1) for i, term in enumerate(terms))


def _density(t: float, nu: float) -> float:
    constant = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - 0.5 * math.log(nu * math.pi)
    return math.exp(constant - (nu + 1) / 2 * math.log1p(t * t / nu))


def _tail(t: float, nu: float) -> float:
    """Equation (1), from the side on which the continued fraction converges fast."""
    x = nu / (nu + t * t)
    if x < (nu / 2 + 1) / (nu / 2 + 2.5):
        return _incomplete_beta(nu / 2, 0.5, x) / 2
    return (1 - _incomplete_beta(0.5, nu / 2, 1 - x)) / 2


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b) by Lentz's evaluation of the continued fraction."""
    if x <= 0:
        return 0.0
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    numerator, denominator, result, m = 1.0, 0.0, 1.0, 0
    for step in range(10_000):
        m = step // 2
        if step == 0:
            part = 1.0
        elif step % 2:
            part = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            part = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        denominator = 1 / (1 + part * denominator)
        numerator = 1 + part / numerator
        result *= numerator * denominator
        if step and abs(numerator * denominator - 1) < 1e-16:
            break
    return math.exp(front) * (result - 1) / a
