"""Chebyshev's inequality: how kappa bounds the share of entries in tanh's linear range."""

from __future__ import annotations

import math

from scalefit.errors import OptionError

__all__ = ["coverage_of_kappa", "kappa_of_coverage"]


def kappa_of_coverage(p: float) -> float:
    """Return kappa = 1/sqrt(1 - p), for which P(abs(X - mu) < kappa s) >= p under any law; p = .99 gives 10."""
    if not 0 <= p < 1:
        raise OptionError(f"the probability p is {p} and must lie in [0, 1), such as 0.99")
    return 1 / math.sqrt(1 - p)


def coverage_of_kappa(kappa: float) -> float:
    """Return p = 1 - 1/kappa^2, the inverse of `kappa_of_coverage`; 0 below kappa = 1, where nothing is promised."""
    if not (math.isfinite(kappa) and kappa > 0):
        raise OptionError(f"kappa is {kappa} and must be a positive finite number, such as 10")
    return max(0.0, 1 - 1 / kappa**2)
