"""Prior distributions: proper, documented, invariant to units, and replaceable one by one.

What is known of a law before its table is seen, by default:

- ``size_<column>``, the size of a term at the geometric mean of its column (nats per token): log-normal with the
  median a tenth of the table's typical loss and a standard deviation of 2 in ln (95 %: a 500th to 5 times the loss);
- ``alpha_<column>``: half-normal with scale 3 (95 % below 5.9);
- ``L0``: half-normal with the typical loss as its scale;
- ``sigma``, the noise of a row, and ``sigma_run``, that of a run: log-normal with the median at 1 % of the loss and a
  standard deviation of 2 in ln;
- ``nu``, the degrees of freedom of Student-t noise: gamma with shape 2 and rate 0.1 (Juarez & Steel 2010).

The typical loss is the geometric mean of the table's losses. A prior on the size at the centre of the table, unlike
one on c, does not depend on the units of the column. A flat prior of ln c would be improper: a term may vanish.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaln, ndtr

from scalefit.errors import OptionError

__all__ = ["Gamma", "HalfNormal", "LogNormal", "Normal", "Prior", "Priors", "Uniform"]

Array = NDArray[np.float64]

_LN_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_TINY = 1e-300


@runtime_checkable
class Prior(Protocol):
    """A proper distribution of one number; anything with these two methods may serve."""

    def log_density(self, x: Array) -> Array:
        """ln p(x), -inf or nan where x is impossible."""

    def cdf(self, x: Array) -> Array:
        """Probability of a value below x."""


@dataclass(frozen=True)
class Normal:
    """Normal distribution."""

    mean: float
    sd: float

    def __post_init__(self) -> None:
        _require_positive(self, sd=self.sd)

    def log_density(self, x: Array) -> Array:
        """-((x - mean) / sd)^2 / 2 - ln(sd sqrt(2 pi))."""
        z = (x - self.mean) / self.sd
        return -0.5 * z * z - math.log(self.sd) - _LN_SQRT_2PI

    def cdf(self, x: Array) -> Array:
        """Probability of a value below x."""
        return _array(ndtr((x - self.mean) / self.sd))


@dataclass(frozen=True)
class HalfNormal:
    """Normal distribution around zero, of positive values only; 95 % of them lie below 1.96 scales."""

    scale: float

    def __post_init__(self) -> None:
        _require_positive(self, scale=self.scale)

    def log_density(self, x: Array) -> Array:
        """-(x / scale)^2 / 2 - ln(scale sqrt(pi / 2)) from zero up."""
        z = x / self.scale
        return np.where(x >= 0, -0.5 * z * z - math.log(self.scale / 2) - _LN_SQRT_2PI, -np.inf)

    def cdf(self, x: Array) -> Array:
        """Probability of a value below x."""
        return _array(2 * ndtr(np.maximum(x, 0) / self.scale) - 1)


@dataclass(frozen=True)
class LogNormal:
    """Distribution of a positive number whose logarithm is normal.

    Parameters
    ----------
    median : float
    sd_log : float
        Standard deviation of the natural logarithm.
    """

    median: float
    sd_log: float

    def __post_init__(self) -> None:
        _require_positive(self, median=self.median, sd_log=self.sd_log)

    def log_density(self, x: Array) -> Array:
        """Density of x itself, not of its logarithm: the normal one less ln x."""
        log_x = np.log(np.maximum(x, _TINY))
        z = (log_x - math.log(self.median)) / self.sd_log
        return np.where(x > 0, -0.5 * z * z - log_x - (math.log(self.sd_log) + _LN_SQRT_2PI), -np.inf)

    def cdf(self, x: Array) -> Array:
        """Probability of a value below x."""
        return _array(ndtr((np.log(np.maximum(x, _TINY)) - math.log(self.median)) / self.sd_log))


@dataclass(frozen=True)
class Gamma:
    """Gamma distribution, density proportional to x^(shape - 1) exp(-rate x)."""

    shape: float
    rate: float

    def __post_init__(self) -> None:
        _require_positive(self, shape=self.shape, rate=self.rate)

    def log_density(self, x: Array) -> Array:
        """(shape - 1) ln x - rate x + shape ln rate - ln Gamma(shape) for positive x."""
        constant = self.shape * math.log(self.rate) - float(gammaln(self.shape))
        density = (self.shape - 1) * np.log(np.maximum(x, _TINY)) - self.rate * x + constant
        return np.where(x > 0, density, -np.inf)

    def cdf(self, x: Array) -> Array:
        """Probability of a value below x."""
        return _array(gammainc(self.shape, self.rate * np.maximum(x, 0)))


@dataclass(frozen=True)
class Uniform:
    """Equal density between two finite ends."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise OptionError(f"{self}: low and high must be finite, low below high; an endless one is improper")

    def log_density(self, x: Array) -> Array:
        """-ln(high - low) inside, -inf outside."""
        return np.where((x >= self.low) & (x <= self.high), -math.log(self.high - self.low), -np.inf)

    def cdf(self, x: Array) -> Array:
        """Probability of a value below x."""
        return np.clip((x - self.low) / (self.high - self.low), 0.0, 1.0)


SIZE_SD_LOG = 2.0
SIZE_SHARE = 0.1
EXPONENT_SCALE = 3.0
NOISE_SHARE = 0.01
NOISE_SD_LOG = 2.0


@dataclass(frozen=True)
class Priors:
    """Priors by name: the defaults of this module for a table, with the user's in their place.

    Parameters
    ----------
    chosen : mapping of str to Prior
        ``size_<column>``, ``alpha_<column>``, ``L0``, ``sigma``, ``sigma_run``, ``nu`` -> distribution.
    typical_loss : float
        Geometric mean of the losses, nats per token.
    noise_unit : float
        1 where residuals are differences of ln loss, the typical loss where they are differences of the loss.

    Examples
    --------
    >>> priors = Priors({"alpha_depth": Normal(1.0, 0.2)}, typical_loss=3.0, noise_unit=1.0)
    >>> priors["alpha_depth"], priors["alpha_width"]
    (Normal(mean=1.0, sd=0.2), HalfNormal(scale=3.0))
    """

    chosen: Mapping[str, Prior]
    typical_loss: float
    noise_unit: float

    def __post_init__(self) -> None:
        for name, prior in self.chosen.items():
            if not isinstance(prior, Prior):
                raise OptionError(f"the prior of {name} is {prior!r}; give a distribution such as LogNormal(0.5, 1)")
        object.__setattr__(self, "chosen", MappingProxyType(dict(self.chosen)))

    def __getitem__(self, name: str) -> Prior:
        return self.chosen[name] if name in self.chosen else self.default(name)

    def default(self, name: str) -> Prior:
        """The prior of this module for a parameter."""
        if name.startswith("size_"):
            return LogNormal(SIZE_SHARE * self.typical_loss, SIZE_SD_LOG)
        if name.startswith("alpha_"):
            return HalfNormal(EXPONENT_SCALE)
        if name == "nu":
            return Gamma(2.0, 0.1)
        if name.startswith("sigma"):
            return LogNormal(NOISE_SHARE * self.noise_unit, NOISE_SD_LOG)
        return HalfNormal(self.typical_loss)

    def signed(self, name: str) -> Priors:
        """The same with a normal prior, as wide as the loss, for a size or an L0 that the user lets be negative."""
        if name in self.chosen:
            return self
        return Priors({**self.chosen, name: Normal(0.0, self.typical_loss)}, self.typical_loss, self.noise_unit)

    def require_known(self, names: tuple[str, ...]) -> None:
        """Raise `OptionError` if a prior was given for something that is not estimated."""
        for name in self.chosen:
            if name not in names:
                raise OptionError(
                    f"a prior is given for {name!r}, which is not estimated; there are {', '.join(names)}"
                )


def _require_positive(prior: object, **values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise OptionError(f"{prior}: {name} is {value} and must be a positive number, or the prior is improper")


def _array(value: object) -> Array:
    return np.asarray(value, dtype=np.float64)
