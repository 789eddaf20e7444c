"""Positive functions of two quantities, such as a parameter count of width and depth, with derivatives in logarithms.

A sum of monomials with positive coefficients,

    N(m, l) = sum_j a_j m^p_j l^q_j,    a_j > 0,                                               (1)

is a posynomial: ln N is a convex function of (ln m, ln l), which makes the best shape under a limit on N unique
(Boyd, Kim, Vandenberghe & Hassibi 2007, "A tutorial on geometric programming", section 2). Every exact count of
this package is one. Anything else, such as a count that a user writes down, is differentiated numerically.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefit.errors import OptionError
from scalefit.expressions import evaluate, names_in

__all__ = ["LogDerivatives", "Posynomial", "Size", "SmoothSize", "add_sizes", "read_size"]

Array = NDArray[np.float64]
Monomials = dict[tuple[float, float], float]


class LogDerivatives(NamedTuple):
    """ln N and its derivatives by v = ln width and u = ln depth, each of the points' shape."""

    log: Array
    v: Array
    u: Array
    vv: Array
    vu: Array
    uu: Array


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
        """Whether ln N is known to be convex in (ln width, ln depth): always."""
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
        monomials = np.stack(self._monomials(*np.broadcast_arrays(np.exp(v), np.exp(u))))
        total = monomials.sum(axis=0)
        by_v, by_u, vv, vu, uu = np.tensordot(self._moments, monomials / total, axes=1)
        return LogDerivatives(np.log(total), by_v, by_u, vv - by_v**2, vu - by_v * by_u, uu - by_u**2)

    @cached_property
    def _moments(self) -> Array:
        """The powers p and q, and their products pp, pq and qq, of each monomial."""
        _, p, q = np.array(self.terms).T
        return np.array([p, q, p * p, p * q, q * q])

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
        """Whether ln N is known to be convex: never."""
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


Size = Posynomial | SmoothSize


def add_sizes(sizes: Iterable[Size]) -> Size:
    """The sum of sizes, a posynomial where all are."""
    parts = list(sizes)
    posynomials = [part for part in parts if isinstance(part, Posynomial)]
    if len(posynomials) == len(parts):
        return Posynomial(tuple(term for part in posynomials for term in part.terms))
    return SmoothSize(lambda width, depth: np.asarray(sum(part(width, depth) for part in parts)))


MAX_POWER = 8
"""Sums are multiplied out up to this power; beyond it they are differentiated numerically."""


def read_size(expression: str, names: tuple[str, str] = ("width", "depth")) -> Size:
    """Read an expression of two columns as a size, a posynomial where it is one.

    Parameters
    ----------
    expression : str
        For example ``"12*width**2*depth + 64000*width"``; positive, smooth, growing with both.
    names : (str, str)
        The two columns.

    Raises
    ------
    OptionError
        If the expression is malformed, names anything else, or does not grow with both columns.

    Examples
    --------
    >>> read_size("width*(12*width*depth + 64000)")
    Posynomial(terms=((12.0, 2.0, 1.0), (64000.0, 1.0, 0.0)))
    """
    for name in names_in(expression):
        if name not in names:
            raise OptionError(
                f"count {expression!r} names {name!r}; a count is an expression of {names[0]} and {names[1]}"
            )

    def value(*columns: Array) -> Array:
        flat = evaluate(expression, {name: x.ravel() for name, x in zip(names, columns, strict=True)})
        return flat.reshape(columns[0].shape)

    size = SmoothSize(value)
    grid = np.logspace(0, 5, 26)
    values = size(grid[:, None], grid[None, :21])
    if not (np.isfinite(values) & (values > 0)).all():
        raise OptionError(f"count {expression!r} is not positive for every {names[0]} and {names[1]} from 1 up")
    for axis, name in enumerate(names):
        if not (np.diff(values, axis=axis) > 0).all():
            raise OptionError(f"count {expression!r} does not grow with {name} everywhere; a count has to")
    monomials = _expand(ast.parse(expression.strip(), mode="eval").body, names)
    if monomials is None or min(monomials.values()) < 0:
        return size
    return Posynomial(tuple((a, p, q) for (p, q), a in monomials.items()))


def _expand(node: ast.expr, names: tuple[str, str]) -> Monomials | None:
    """Multiply a tree out into monomials {(p, q): a}; None where it is not a sum of them."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return {(0.0, 0.0): float(number)}
        case ast.Name(id=name) if name in names:
            return {(1.0, 0.0) if name == names[0] else (0.0, 1.0): 1.0}
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            a, b = _expand(left, names), _expand(right, names)
            return None if a is None or b is None else _OPERATIONS[type(op)](a, b)
        case _:
            return None


def _sum(a: Monomials, b: Monomials, sign: float = 1.0) -> Monomials:
    total = dict(a)
    for powers, coefficient in b.items():
        total[powers] = total.get(powers, 0.0) + sign * coefficient
    return total


def _product(a: Monomials, b: Monomials) -> Monomials:
    total: Monomials = {}
    for (p1, q1), c1 in a.items():
        total = _sum(total, {(p1 + p2, q1 + q2): c1 * c2 for (p2, q2), c2 in b.items()})
    return total


def _power(a: Monomials, b: Monomials) -> Monomials | None:
    if set(b) != {(0.0, 0.0)}:
        return None
    exponent = b[0.0, 0.0]
    if len(a) == 1:
        (((p, q), coefficient),) = a.items()
        return {(p * exponent, q * exponent): coefficient**exponent} if coefficient > 0 else None
    if exponent != int(exponent) or not 0 <= exponent <= MAX_POWER:
        return None
    total: Monomials = {(0.0, 0.0): 1.0}
    for _ in range(int(exponent)):
        total = _product(total, a)
    return total


def _quotient(a: Monomials, b: Monomials) -> Monomials | None:
    inverse = _power(b, {(0.0, 0.0): -1.0})
    return None if inverse is None else _product(a, inverse)


_OPERATIONS: dict[type[ast.operator], Callable[[Monomials, Monomials], Monomials | None]] = {
    ast.Add: _sum,
    ast.Sub: lambda a, b: _sum(a, b, -1.0),
    ast.Mult: _product,
    ast.Div: _quotient,
    ast.Pow: _power,
}
