"""What laws are made of: powers of shifted columns, and products of them.

T = c prod_j (x_j - s_j)^-alpha_j                                                              (1)
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefit.errors import DataError
from scalefit.expressions import reference
from scalefit.numbers import show_number

__all__ = ["Columns", "PowerTerm", "Product", "Term", "power_term"]

Array = NDArray[np.float64]

Columns = Any
"""Anything with columns by name: a mapping, a Runs, a pandas DataFrame."""


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


@dataclass(frozen=True)
class PowerTerm:
    """The power 1 / (column - shift)^alpha: a term of its own, or a factor of a `Product`.

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
    def factors(self) -> tuple[PowerTerm, ...]:
        """The powers that the term multiplies: itself alone."""
        return (self,)

    @property
    def name(self) -> str:
        """What the term is called in tables: its column."""
        return self.column

    @property
    def coefficient(self) -> str:
        """Name of the coefficient of a term of its own, `c_<column>`."""
        return f"c_{self.column}"

    @property
    def exponent(self) -> str:
        """Name of the exponent, `alpha_<column>`."""
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
class Product:
    """The term c / (x_1^alpha_1 x_2^alpha_2 ...), written `width*depth`.

    Parameters
    ----------
    factors : tuple of PowerTerm
        Two or more.
    """

    factors: tuple[PowerTerm, ...]

    @property
    def name(self) -> str:
        """Its columns joined by `*`."""
        return "*".join(factor.column for factor in self.factors)

    @property
    def coefficient(self) -> str:
        """Name of the coefficient, `c_<column>_<column>`."""
        return "c_" + "_".join(factor.column for factor in self.factors)

    def __str__(self) -> str:
        return "*".join(map(str, self.factors))


Term = PowerTerm | Product
