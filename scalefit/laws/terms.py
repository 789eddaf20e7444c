"""What laws are made of, and how they are written: powers of shifted columns, products of them, and laws by name.

T = c prod_j (x_j - s_j)^-alpha_j                                                              (1)

law    = joined ["+0"]
joined = sum | "(" sum ")^q" | "(" sum ")^(1/alpha_COLUMN)"
sum    = term {"+" term}
term   = factor {"*" factor}
factor = COLUMN | "(" COLUMN ("-" | "+") NUMBER ")"
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefit.errors import DataError, OptionError
from scalefit.expressions import reference
from scalefit.numbers import show_number

__all__ = [
    "DEFAULT_LAW",
    "NAMED_LAWS",
    "Columns",
    "NamedLaw",
    "PowerTerm",
    "Product",
    "Term",
    "power_term",
    "read_law",
]

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


DEFAULT_LAW = "width+depth+tokens"

_NAME = r"[A-Za-z_][A-Za-z0-9_.]*"
_FACTOR = re.compile(rf"\(?\s*({_NAME})\s*(?:([+-])\s*([0-9.eE]+(?:[eE][+-]?[0-9]+)?))?\s*\)?")
_COUPLED = re.compile(rf"\(((?:[^()]|\([^()]*\))*)\)\s*\^\s*(?:(q)|\(\s*1\s*/\s*({_NAME})\s*\))")
_NO_FLOOR = re.compile(r"\+\s*0\s*$")

_EXAMPLES = (
    "write for example width+depth+tokens, params+tokens, width+(depth-2), width*depth+tokens (a product), "
    "(params+tokens)^q (coupled) or depth+0 (no L0); scalefit laws lists the laws that have a name"
)


@dataclass(frozen=True)
class NamedLaw:
    """A law that has a name.

    Attributes
    ----------
    name : str
    text : str
        As `Law.parse` reads it.
    formula : str
    source : str
        Where it comes from, or what it is for.
    """

    name: str
    text: str
    formula: str
    source: str


_LAWS = (
    NamedLaw(
        "decomposed",
        DEFAULT_LAW,
        "L = c_m/m^a_m + c_l/l^a_l + c_D/D^a_D + L0",
        "the default: Hoffmann et al. (2022), equation 2, with width and depth in place of parameters",
    ),
    NamedLaw("chinchilla", "params+tokens", "L = c_N/N^a_N + c_D/D^a_D + L0", "Hoffmann et al. (2022), equation 2"),
    NamedLaw("hoffmann", "params+tokens", "L = c_N/N^a_N + c_D/D^a_D + L0", "another name of chinchilla"),
    NamedLaw(
        "kaplan",
        "(params+tokens)^(1/alpha_tokens)+0",
        "L = [(N_c/N)^(a_N/a_D) + D_c/D]^a_D,  c_N = N_c^a_N,  c_D = D_c^a_D",
        "Kaplan et al. (2020), equation 1.5",
    ),
    NamedLaw(
        "coupled",
        "(params+tokens)^q",
        "L = [(c_N/N^a_N)^q + (c_D/D^a_D)^q]^(1/q) + L0",
        "between the sum (q = 1) and the bottleneck, where the larger term alone decides (q large)",
    ),
    NamedLaw(
        "decomposed-coupled",
        "(width+depth+tokens)^q",
        "L = [(c_m/m^a_m)^q + (c_l/l^a_l)^q + (c_D/D^a_D)^q]^(1/q) + L0",
        "the default law with a coupling exponent",
    ),
    NamedLaw(
        "shape-product",
        "width*depth+tokens",
        "L = c_ml/(m^a_m l^a_l) + c_D/D^a_D + L0",
        "width and depth in one term, as in chinchilla with N = 12 m^2 l but with free exponents",
    ),
    NamedLaw(
        "moe",
        "active_params*params+tokens",
        "L = c_AN/(A^a_A N^a_N) + c_D/D^a_D + L0",
        "mixtures of experts: active and total parameters share a term",
    ),
    NamedLaw("hestness", "tokens", "L = c_D/D^a_D + L0", "Hestness et al. (2017): loss against data alone"),
    NamedLaw("henighan", "flops", "L = c_C/C^a_C + L0", "Henighan et al. (2020), equation 1.1, in compute"),
)

NAMED_LAWS = {law.name: law for law in _LAWS}


def read_law(text: str) -> tuple[tuple[Term, ...], bool, str | None]:
    """Read a formula or a name: terms, whether there is an irreducible loss, and the coupling as `Law` has it.

    Raises
    ------
    OptionError
        If the text is no formula of the grammar above, or a column occurs twice.
    """
    if text.strip() in NAMED_LAWS:
        return read_law(NAMED_LAWS[text.strip()].text)
    body = _NO_FLOOR.sub("", text).strip()
    irreducible = body == text.strip()
    coupled = _COUPLED.fullmatch(body)
    body = coupled[1] if coupled else body
    parts = [] if body in ("", "0") else _split(body, "+")
    terms = [tuple(_read_factor(factor, text) for factor in _split(part, "*")) for part in parts]
    coupling = coupled and (coupled[2] or coupled[3])
    factors = [factor for term in terms for factor in term]
    columns = [factor.column for factor in factors]
    for column in columns:
        if columns.count(column) > 1:
            raise OptionError(f"law {text!r} names the column {column!r} twice; each column stands in one term")
    if "loss" in columns:
        raise OptionError(f"law {text!r} explains the loss by the loss; name other columns")
    if not terms:
        raise OptionError(f"law {text!r} has no term; write one such as {DEFAULT_LAW}")
    if coupling not in (None, "q", *(factor.exponent for factor in factors)):
        raise OptionError(f"law {text!r} ties its coupling to {coupling!r}, which is none of its exponents")
    if coupling and len(terms) == 1:
        raise OptionError(f"law {text!r} couples one term, which has nothing to be coupled to; leave out the ^")
    return tuple(term[0] if len(term) == 1 else Product(term) for term in terms), irreducible, coupling


def _split(text: str, sign: str) -> list[str]:
    """Split at a sign outside parentheses."""
    return [part.strip() for part in re.split(rf"\{sign}(?![^(]*\))", text)]


def _read_factor(part: str, law: str) -> PowerTerm:
    match = _FACTOR.fullmatch(part)
    if match is None or part.startswith("(") != part.endswith(")"):
        raise OptionError(f"law {law!r}: {part!r} is not a column or a shifted column; {_EXAMPLES}")
    column, sign, shift = match.groups()
    if shift is None:
        return PowerTerm(column)
    try:
        value = float(shift)
    except ValueError:
        raise OptionError(f"law {law!r}: the shift {shift!r} of {column} is not a number") from None
    return PowerTerm(column, value if sign == "-" else -value)
