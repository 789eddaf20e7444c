"""Second moments of bounded functions of a normal variable, by the trapezoidal rule.

The trapezoidal rule on the line converges geometrically for functions analytic in a strip (Trefethen and Weideman
2014, section 5). Gauss-Hermite rules overflow at the degrees that steep tanh curves ask for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import expit

from scalefit.errors import OptionError

__all__ = [
    "ideal_break_even",
    "ideal_moment_bound",
    "ideal_second_moment",
    "scale_of_second_moment",
    "silu_second_moment",
    "sphere_second_moment",
    "swiglu_increment",
    "tanh_second_moment",
]

FloatArray = NDArray[np.float64]

# the normal density is below 1e-43 outside; a step of 0.01 is exact to rounding for slopes up to about 30
_NODES = np.linspace(-14.0, 14.0, 2801)
_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.sqrt(2 * np.pi) * (_NODES[1] - _NODES[0])


def tanh_second_moment(scale: ArrayLike, mean: ArrayLike = 0.0) -> FloatArray:
    """Return m = E tanh^2(scale (Z + mean)) for standard normal Z, = scale^2 - 2 scale^4 + ... at mean 0.

    Parameters
    ----------
    scale, mean : array_like
        Broadcast against each other; `mean` is in standard deviations.

    Examples
    --------
    >>> float(tanh_second_moment(0.1).round(9))
    0.009805469
    """
    slope, shift = np.broadcast_arrays(np.asarray(scale, float), np.asarray(mean, float))
    return np.asarray(np.tanh(slope[..., None] * (_NODES + shift[..., None])) ** 2 @ _WEIGHTS)


def sphere_second_moment(scale: float, width: int) -> float:
    """Return E tanh^2(scale x / rms(x)) for a normal token of finite width, `tanh_second_moment` as width grows.

    u = x / rms(x) is sqrt(width) times a coordinate of a uniform point on the sphere, with density proportional to
    (1 - u^2 / width)^((width - 3) / 2); lighter tails than the normal make the moment larger by 4 scale^4 / (width + 2)
    to leading order.
    """
    if width < 3:
        raise OptionError(f"width is {width} and must be at least 3 for a token on the sphere")
    # u = sqrt(width) cos(theta) has density sin(theta)^(width - 2) in theta: smooth and periodic
    theta = np.linspace(0.0, np.pi, 20_001)
    weights = np.sin(theta) ** (width - 2)
    return float(np.tanh(scale * np.sqrt(width) * np.cos(theta)) ** 2 @ weights / weights.sum())


def scale_of_second_moment(moment: float) -> float:
    """Return the scale a with E tanh^2(a Z) = moment, for a moment in (0, 0.9)."""
    if not 0 < moment < 0.9:
        raise OptionError(f"the second moment of a tanh is {moment} and must lie in (0, 0.9) to be inverted")
    return float(brentq(lambda a: float(tanh_second_moment(a)) - moment, 1e-9, 30.0, xtol=1e-15, rtol=1e-13))


def ideal_moment_bound(lam: float, kappa: float, mean: ArrayLike) -> FloatArray:
    """Return lambda^2 (1 + t^2) / (kappa + t)^2, which tanh^2 y <= y^2 gives for the ideal form with t = abs(mu)/s.

    The ideal form tanh(lambda x / (kappa s + abs(mu))) divides by less than it should once the mean is large.
    """
    t = np.abs(np.asarray(mean, float))
    return np.asarray(lam**2 * (1 + t**2) / (kappa + t) ** 2)


def ideal_second_moment(lam: float, kappa: float, mean: ArrayLike) -> FloatArray:
    """Return E tanh^2(lambda (Z + t) / (kappa + t)), the ideal form on a normal token with mean t s."""
    t = np.abs(np.asarray(mean, float))
    return tanh_second_moment(lam / (kappa + t), t)


def ideal_break_even(kappa: float) -> float:
    """Return the t above which `ideal_moment_bound` exceeds (lambda/kappa)^2: 2 kappa / (kappa^2 - 1).

    Infinite for kappa <= 1, where no mean exceeds it.
    """
    return 2 * kappa / (kappa**2 - 1) if kappa > 1 else np.inf


def silu_second_moment(variance: ArrayLike) -> FloatArray:
    """Return E silu(h)^2 for h normal with mean 0 and the given variance; variance/4 at small variance."""
    h = np.sqrt(np.asarray(variance, float))[..., None] * _NODES
    return np.asarray((h * expit(h)) ** 2 @ _WEIGHTS)


def swiglu_increment(moment: ArrayLike, gain: float = 1.0) -> FloatArray:
    """Return V = gain m E silu(sqrt(m) Z)^2, the increment of W3 (silu(W1 u) * W2 u) with independent weights.

    `moment` is m = E mean u^2 and rows of W1, W2 and W3 have unit squared norm. At small m it is m^2 / 4: the fourth
    power of the scale of u, so closed forms linear in m do not apply.
    """
    m = np.asarray(moment, float)
    return np.asarray(gain * m * silu_second_moment(m))
