"""Functions of a model's width and depth, such as a parameter count, with their derivatives in logarithms.

A sum of monomials with positive coefficients,

    N(m, l) = sum_j a_j m^p_j l^q_j,    a_j > 0,                                               (1)

is a posynomial: ln N is a convex function of (ln m, ln l), which makes the best shape under a limit on N unique
(Boyd, Kim, Vandenberghe & Hassibi 2007, "A tutorial on geometric programming", section 2). Every exact count of
this package is one. Anything else, such as a count that a user writes down, is differentiated numerically.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefit.errors import OptionError

__all__ = ["LogDerivatives", "Posynomial", "Size", "SmoothSize", "add_sizes"]

Array = NDArray[np.float64]


class LogDerivatives(NamedTuple):
    """ln N and its derivatives by v = ln width and u = ln depth, each of the points' shape."""

    log: Array
    v: Array
    u: Array
    vv: Array
    vu: Array
    uu: Array


class Size(Protocol):
    """A positive function of width and depth."""

    @property
    def convex(self) -> bool:
        """Whether ln N is known to be convex in (ln width, ln depth)."""

    def __call__(self, width: ArrayLike, depth: ArrayLike) -> Array:
        """N(width, depth)."""

    def log(self, v: Array, u: Array) -> Array:
        """ln N at v = ln width, u = ln depth."""

    def log_derivatives(self, v: Array, u: Array) -> LogDerivatives:
        """ln N and its derivatives at v = ln width, u = ln depth."""

    def scaled(self, factor: float) -> Size:
        """factor x N."""


@dataclass(frozen=True)
class Posynomial:
    """Equation (1).

    Parameters
    ----------
    terms : tuple of (float, float, float)
        (a_j, p_j, q_j): coefficient, power of the width, power of the depth.

    Examples
    --------
    >>> blocks = Posynomial(((12, 2, 1),))
    >>> float(blocks(1024, 16))
    201326592.0
    """

    terms: tuple[tuple[float, float, float], ...]

    def __post_init__(self) -> None:
        merged: dict[tuple[float, float], float] = {}
        for a, p, q in self.terms:
            if a < 0:
                raise OptionError(f"the coefficient {a:g} of a size is negative; sizes are sums of positive terms")
            if a > 0:
                merged[p, q] = merged.get((p, q), 0.0) + a
        if not merged:
            raise OptionError("a size needs at least one term with a positive coefficient")
        object.__setattr__(self, "terms", tuple((a, p, q) for (p, q), a in merged.items()))

    @property
    def convex(self) -> bool:
        """Always true."""
        return True

    def __call__(self, width: ArrayLike, depth: ArrayLike) -> Array:
        """N(width, depth)."""
        return np.asarray(sum(self._monomials(np.asarray(width, float), np.asarray(depth, float))))

    def _monomials(self, width: Array, depth: Array) -> list[Array]:
        # powers 1 and 2 have fast paths in `**` with a Python float, unlike np.power
        return [a * width**p * depth**q for a, p, q in self.terms]

    def log(self, v: Array, u: Array) -> Array:
        """ln N at v = ln width, u = ln depth."""
        if len(self.terms) == 1:
            a, p, q = self.terms[0]
            return np.asarray(np.log(a) + p * v + q * u)
        return np.asarray(np.log(self(np.exp(v), np.exp(u))))

    def log_derivatives(self, v: Array, u: Array) -> LogDerivatives:
        """ln N and its derivatives: means and covariances of the powers, weighted by the monomials."""
        if len(self.terms) == 1:
            _, p, q = self.terms[0]
            zero = np.zeros(np.broadcast(v, u).shape)
            return LogDerivatives(self.log(v, u), zero + p, zero + q, zero, zero, zero)
        monomials = self._monomials(np.exp(v), np.exp(u))
        total = np.asarray(sum(monomials))
        sums: dict[str, Any] = {"v": 0.0, "u": 0.0, "vv": 0.0, "vu": 0.0, "uu": 0.0}
        for (_, p, q), monomial in zip(self.terms, monomials, strict=True):
            for key, factor in (("v", p), ("u", q), ("vv", p * p), ("vu", p * q), ("uu", q * q)):
                if factor:
                    sums[key] = sums[key] + factor * monomial
        by_v, by_u, vv, vu, uu = (np.asarray(part / total) for part in sums.values())
        return LogDerivatives(np.log(total), by_v, by_u, vv - by_v**2, vu - by_v * by_u, uu - by_u**2)

    def scaled(self, factor: float) -> Posynomial:
        """factor x N."""
        return Posynomial(tuple((factor * a, p, q) for a, p, q in self.terms))


STEP = 1e-3
"""Step in ln of the numerical derivatives: with four points the first derivative errs by about 1e-12."""


@dataclass(frozen=True)
class SmoothSize:
    """A size known only by its values; it must be smooth and grow with width and depth.

    Parameters
    ----------
    function : callable
        (width, depth) arrays to values.
    """

    function: Callable[[Array, Array], Array]

    @property
    def convex(self) -> bool:
        """Never known."""
        return False

    def __call__(self, width: ArrayLike, depth: ArrayLike) -> Array:
        """N(width, depth)."""
        width, depth = np.broadcast_arrays(np.asarray(width, float), np.asarray(depth, float))
        return np.asarray(self.function(width, depth))

    def log(self, v: Array, u: Array) -> Array:
        """ln N at v = ln width, u = ln depth."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(self(np.exp(v), np.exp(u))))

    def log_derivatives(self, v: Array, u: Array) -> LogDerivatives:
        """ln N and central differences of fourth order (of second order for the mixed derivative)."""
        at = self.log(v, u)
        first_v, second_v = _differences(lambda h: self.log(v + h, u), at)
        first_u, second_u = _differences(lambda h: self.log(v, u + h), at)
        corners = [i * j * self.log(v + i * STEP, u + j * STEP) for i in (-1, 1) for j in (-1, 1)]
        mixed = np.asarray(sum(corners)) / (4 * STEP**2)
        return LogDerivatives(at, first_v, first_u, second_v, mixed, second_u)

    def scaled(self, factor: float) -> SmoothSize:
        """factor x N."""
        return SmoothSize(lambda width, depth: factor * self(width, depth))


def _differences(along: Callable[[float], Array], at: Array) -> tuple[Array, Array]:
    """First and second derivative along a line, of fourth order in the step."""
    minus2, minus1, plus1, plus2 = (along(i * STEP) for i in (-2, -1, 1, 2))
    first = (8 * (plus1 - minus1) - (plus2 - minus2)) / (12 * STEP)
    second = (16 * (plus1 + minus1) - (plus2 + minus2) - 30 * at) / (12 * STEP**2)
    return first, second


def add_sizes(sizes: Iterable[Size]) -> Size:
    """The sum of sizes, a posynomial where all are."""
    parts = list(sizes)
    posynomials = [part for part in parts if isinstance(part, Posynomial)]
    if len(posynomials) == len(parts):
        return Posynomial(tuple(term for part in posynomials for term in part.terms))
    return SmoothSize(lambda width, depth: np.asarray(sum(part(width, depth) for part in parts)))
