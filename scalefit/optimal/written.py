"""Counts that users write down as arithmetic of `width` and `depth`."""

from __future__ import annotations

import ast
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError
from scalefit.expressions import evaluate, names_in
from scalefit.optimal.sizes import Posynomial, Size, SmoothSize

__all__ = ["read_size"]

Array = NDArray[np.float64]
Monomials = dict[tuple[float, float], float]

MAX_POWER = 8
"""Sums are multiplied out up to this power; beyond it they are differentiated numerically."""


def read_size(expression: str) -> Size:
    """Read an expression of width and depth as a size, a posynomial where it is one.

    Parameters
    ----------
    expression : str
        For example ``"12*width**2*depth + 64000*width"``; positive, smooth, growing with both.

    Raises
    ------
    OptionError
        If the expression is malformed, names anything else, or does not grow with width and depth.

    Examples
    --------
    >>> read_size("width*(12*width*depth + 64000)")
    Posynomial(terms=((12.0, 2.0, 1.0), (64000.0, 1.0, 0.0)))
    """
    for name in names_in(expression):
        if name not in ("width", "depth"):
            raise OptionError(f"count {expression!r} names {name!r}; a count is an expression of width and depth")

    def value(width: Array, depth: Array) -> Array:
        flat = evaluate(expression, {"width": width.ravel(), "depth": depth.ravel()})
        return flat.reshape(width.shape)

    size = SmoothSize(value)
    _require_growth(size, expression)
    monomials = _expand(ast.parse(expression.strip(), mode="eval").body)
    if monomials is None or min(monomials.values()) < 0:
        return size
    return Posynomial(tuple((a, p, q) for (p, q), a in monomials.items()))


def _require_growth(size: SmoothSize, expression: str) -> None:
    grid = np.logspace(0, 5, 26)
    values = size(grid[:, None], grid[None, :21])
    if not (np.isfinite(values) & (values > 0)).all():
        raise OptionError(f"count {expression!r} is not positive for every width and depth from 1 up")
    for axis, name in enumerate(("width", "depth")):
        if not (np.diff(values, axis=axis) > 0).all():
            raise OptionError(f"count {expression!r} does not grow with {name} everywhere; a count has to")


def _expand(node: ast.expr) -> Monomials | None:
    """Multiply a tree out into monomials {(p, q): a}; None where it is not a sum of them."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return {(0.0, 0.0): float(number)}
        case ast.Name(id="width"):
            return {(1.0, 0.0): 1.0}
        case ast.Name(id="depth"):
            return {(0.0, 1.0): 1.0}
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            a, b = _expand(left), _expand(right)
            return None if a is None or b is None else _OPERATIONS[type(op)](a, b)
        case _:
            return None


def _sum(a: Monomials, b: Monomials) -> Monomials:
    total = dict(a)
    for powers, coefficient in b.items():
        total[powers] = total.get(powers, 0.0) + coefficient
    return total


def _difference(a: Monomials, b: Monomials) -> Monomials:
    return _sum(a, {powers: -coefficient for powers, coefficient in b.items()})


def _product(a: Monomials, b: Monomials) -> Monomials:
    total: Monomials = {}
    for (p1, q1), c1 in a.items():
        total = _sum(total, {(p1 + p2, q1 + q2): c1 * c2 for (p2, q2), c2 in b.items()})
    return total


def _quotient(a: Monomials, b: Monomials) -> Monomials | None:
    inverse = _power(b, {(0.0, 0.0): -1.0})
    return None if inverse is None else _product(a, inverse)


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


_OPERATIONS: dict[type[ast.operator], Callable[[Monomials, Monomials], Monomials | None]] = {
    ast.Add: _sum,
    ast.Sub: _difference,
    ast.Mult: _product,
    ast.Div: _quotient,
    ast.Pow: _power,
}
