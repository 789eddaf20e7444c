"""Scaling laws: sums of power terms in the columns of a table, plus an irreducible loss.

    L(x) = sum_k c_k / (x_k - s_k)^alpha_k + L0                                                (1)

With columns width m, depth l and tokens D this is the decomposed law

    L(m, l, D) = c_m / m^alpha_m + c_l / l^alpha_l + c_D / D^alpha_D + L0,

the generalisation of Hoffmann et al. (2022), equation 2, to width and depth.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefit.errors import DataError, OptionError
from scalefit.expressions import reference
from scalefit.laws.parameter import Kind, Parameter
from scalefit.numbers import show_number

__all__ = ["DEFAULT_LAW", "Law", "PowerTerm", "power_term", "power_term_gradient"]

Array = NDArray[np.float64]

Columns = Any
"""Anything with columns by name: a mapping, a Runs, a pandas DataFrame."""

DEFAULT_LAW = "width+depth+tokens"

_NAME = r"[A-Za-z_][A-Za-z0-9_.]*"
_TERM = re.compile(rf"\(?\s*({_NAME})\s*(?:([+-])\s*([0-9.eE]+(?:[eE][+-]?[0-9]+)?))?\s*\)?")


def power_term(x: ArrayLike, c: float, alpha: float) -> Array:
    """One term of equation (1), c x^-alpha.

    Parameters
    ----------
    x : array_like
        Positive values of the column, less its shift.
    c : float
        Coefficient: the term's size at x = 1, nats per token.
    alpha : float
        Exponent, dimensionless.
    """
    value: Array = c * np.power(np.asarray(x, dtype=np.float64), -alpha)
    return value


def power_term_gradient(x: ArrayLike, c: float, alpha: float) -> tuple[Array, Array]:
    """Derivatives of `power_term` with respect to c and alpha: x^-alpha and -c x^-alpha ln x."""
    x = np.asarray(x, dtype=np.float64)
    unit = power_term(x, 1.0, alpha)
    return unit, -c * unit * np.log(x)


@dataclass(frozen=True)
class PowerTerm:
    """The term c / (column - shift)^alpha.

    Parameters
    ----------
    column : str
        Name of a column of the table.
    shift : float
        What is subtracted from the column first, in its units; `(depth-2)` has shift 2.
    """

    column: str
    shift: float = 0.0

    @property
    def coefficient(self) -> str:
        """Name of the term's coefficient, `c_<column>`."""
        return f"c_{self.column}"

    @property
    def exponent(self) -> str:
        """Name of the term's exponent, `alpha_<column>`."""
        return f"alpha_{self.column}"

    def __str__(self) -> str:
        if self.shift == 0:
            return self.column
        return f"({self.column}{'-' if self.shift > 0 else '+'}{show_number(abs(self.shift))})"

    def argument(self, columns: Columns) -> Array:
        """x - s for every row.

        Raises
        ------
        DataError
            If the column is missing or a shifted value is not positive.
        """
        if self.column not in columns:
            names: Any = getattr(columns, "columns", columns)
            there = ", ".join(map(str, names))
            raise DataError(f"the law needs the column {self.column!r}; there are {there}")
        x = np.asarray(columns[self.column], dtype=np.float64) - self.shift
        if not np.all(x > 0):
            row = int(np.flatnonzero(~(x > 0))[0])
            raise DataError(
                f"row {row + 1}: {self} is {x.flat[row]:g} and must be positive; "
                f"drop such rows with --where {shlex.quote(f'{reference(self.column)} > {show_number(self.shift)}')}"
            )
        return x


@dataclass(frozen=True)
class Law:
    """Equation (1): power terms and whether there is an irreducible loss.

    Examples
    --------
    >>> law = Law.parse("width+(depth-2)+tokens")
    >>> law.parameter_names
    ('c_width', 'alpha_width', 'c_depth', 'alpha_depth', 'c_tokens', 'alpha_tokens', 'L0')
    >>> str(Law.parse("depth+0"))
    'depth+0'
    """

    terms: tuple[PowerTerm, ...]
    irreducible: bool = True

    @classmethod
    def parse(cls, text: str | Law) -> Law:
        """Read a law from columns joined by `+`; a final `+0` leaves out the irreducible loss.

        Raises
        ------
        OptionError
            If the text is not a sum of columns or a column occurs twice.
        """
        if isinstance(text, Law):
            return text
        parts = [part.strip() for part in re.split(r"\+(?![^(]*\))", text)]
        irreducible = parts[-1] != "0"
        terms = tuple(_parse_term(part, text) for part in (parts if irreducible else parts[:-1]))
        columns = [term.column for term in terms]
        for column in columns:
            if columns.count(column) > 1:
                raise OptionError(f"law {text!r} names the column {column!r} twice; each column has one term")
        if "loss" in columns:
            raise OptionError(f"law {text!r} explains the loss by the loss; name other columns")
        if not terms:
            raise OptionError(f"law {text!r} has no term; write one such as {DEFAULT_LAW}")
        return cls(terms, irreducible)

    def __str__(self) -> str:
        return "+".join(map(str, self.terms)) + ("" if self.irreducible else "+0")

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns the law needs, in order."""
        return tuple(term.column for term in self.terms)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """In reporting order: coefficient and exponent of each term, then the floor L0."""
        pairs = [
            Parameter(name, kind, k, term.column)
            for k, term in enumerate(self.terms)
            for name, kind in ((term.coefficient, Kind.COEFFICIENT), (term.exponent, Kind.EXPONENT))
        ]
        return (*pairs, Parameter("L0", Kind.FLOOR)) if self.irreducible else tuple(pairs)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names in reporting order: c and alpha of each term, then L0."""
        return tuple(parameter.name for parameter in self.parameters)

    def parameter(self, name: str) -> Parameter:
        """The parameter of this name.

        Raises
        ------
        OptionError
            If the law has none; the text lists those it has.
        """
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise OptionError(f"the law {self} has no parameter {name!r}; it has {', '.join(self.parameter_names)}")

    def term_values(self, columns: Columns, params: Mapping[str, float]) -> dict[str, Array]:
        """Each term's share of the loss by column name, nats per token."""
        return {
            t.column: power_term(t.argument(columns), params[t.coefficient], params[t.exponent]) for t in self.terms
        }

    def predict(self, columns: Columns, params: Mapping[str, float]) -> Array:
        """L(x) of equation (1).

        Parameters
        ----------
        columns : mapping of str to (n_rows,) array_like
            Values in the units the parameters were fitted in.
        params : mapping of str to float
            One value for each of `parameter_names`.

        Returns
        -------
        (n_rows,) float array
            Loss, nats per token.

        Raises
        ------
        DataError
            If a column is missing or not positive after its shift.
        """
        total: Array = sum(self.term_values(columns, params).values(), start=np.zeros(()))
        return total + params["L0"] if self.irreducible else total

    def jacobian(self, columns: Columns, params: Mapping[str, float]) -> Array:
        """Derivatives of `predict` by the parameters: an (n_rows, n_parameters) float array."""
        parts = [
            derivative
            for t in self.terms
            for derivative in power_term_gradient(t.argument(columns), params[t.coefficient], params[t.exponent])
        ]
        if self.irreducible:
            parts.append(np.ones_like(parts[0]))
        return np.stack(parts, axis=-1)


def _parse_term(part: str, law: str) -> PowerTerm:
    match = _TERM.fullmatch(part)
    if match is None or part.startswith("(") != part.endswith(")"):
        raise OptionError(
            f"law {law!r}: {part!r} is not a column or a shifted column; "
            "write for example width+depth+tokens, params+tokens, width+(depth-2) or depth+0 (no L0)"
        )
    column, sign, shift = match.groups()
    if shift is None:
        return PowerTerm(column)
    try:
        value = float(shift)
    except ValueError:
        raise OptionError(f"law {law!r}: the shift {shift!r} of {column} is not a number") from None
    return PowerTerm(column, value if sign == "-" else -value)
