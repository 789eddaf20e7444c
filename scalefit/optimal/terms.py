"""A law in width, depth and tokens, for one or many draws of its parameters, with derivatives in logarithms.

A term T(x) = c (x - s)^-alpha has, with k = x / (x - s),

    dT / dln x = -alpha k T,    d2T / d(ln x)2 = alpha k (alpha k + k - 1) T,                  (1)

which is convex in ln x for c > 0 and s >= 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefit.errors import OptionError
from scalefit.laws.law import Law

__all__ = ["Derivatives", "ShapeLaw", "Term"]

Array = NDArray[np.float64]

COLUMNS = ("width", "depth", "tokens")


class Derivatives(NamedTuple):
    """A term and its derivatives by ln x."""

    value: Array
    first: Array
    second: Array


@dataclass(frozen=True, eq=False)
class Term:
    """One term for B draws.

    Attributes
    ----------
    log_c : (B,) float array
        -inf for a term that vanished.
    alpha : (B,) float array
    shift : float
    """

    log_c: Array
    alpha: Array
    shift: float = 0.0

    def value(self, log_x: ArrayLike) -> Array:
        """T at ln x, broadcast against the draws."""
        return np.exp(self.log_c - self.alpha * self._log_argument(np.asarray(log_x)))

    def derivatives(self, log_x: Array) -> Derivatives:
        """T and equation (1)."""
        value = self.value(log_x)
        k = 1.0 if self.shift == 0 else 1.0 / (1.0 - self.shift * np.exp(-log_x))
        rate = self.alpha * k
        first = -rate * value
        return Derivatives(value, first, -first * rate if self.shift == 0 else -first * (rate + k - 1.0))

    def _log_argument(self, log_x: Array) -> Array:
        return log_x if self.shift == 0 else log_x + np.log1p(-self.shift * np.exp(-log_x))

    def where(self, index: NDArray[Any]) -> Term:
        """Some of the draws."""
        return Term(self.log_c[index], self.alpha[index], self.shift)


@dataclass(frozen=True, eq=False)
class ShapeLaw:
    """The terms that the shape of the next model acts on; a term that the law lacks is None.

    Attributes
    ----------
    width, depth, tokens : Term or None
    irreducible : (B,) float array
        L0.
    """

    width: Term | None
    depth: Term | None
    tokens: Term | None
    irreducible: Array

    @classmethod
    def of(cls, law: Law, params: Mapping[str, ArrayLike] | Any) -> ShapeLaw:
        """Take a law with one value, or (B,) draws, of each parameter.

        Raises
        ------
        OptionError
            If the law has a term in anything but width, depth and tokens, or in neither width nor depth.
        """
        terms: dict[str, Term | None] = dict.fromkeys(COLUMNS)
        for term in law.terms:
            if term.column not in COLUMNS:
                raise OptionError(
                    f"the law {law} has the column {term.column!r}; the best shape is found for laws in "
                    "width, depth and tokens: fit one, such as width+depth+tokens"
                )
            c, alpha = (np.atleast_1d(np.asarray(params[n], float)) for n in (term.coefficient, term.exponent))
            if (c < 0).any():
                raise OptionError(f"{term.coefficient} is negative, so that the loss has no best {term.column}")
            with np.errstate(divide="ignore"):
                terms[term.column] = Term(np.log(c), alpha, term.shift)
        if terms["width"] is None and terms["depth"] is None:
            raise OptionError(f"the law {law} has neither width nor depth and says nothing of the shape")
        n = len(next(term for term in terms.values() if term is not None).alpha)
        l0 = np.asarray(params["L0"], float) if law.irreducible else np.zeros(())
        return cls(terms["width"], terms["depth"], terms["tokens"], np.broadcast_to(l0, (n,)))

    def __len__(self) -> int:
        return len(self.irreducible)

    @property
    def convex(self) -> bool:
        """Whether every term is convex in ln x by its form, and falls."""
        terms = [term for term in (self.width, self.depth, self.tokens) if term is not None]
        return all(term.shift >= 0 and bool((term.alpha > 0).all()) for term in terms)

    def loss(self, v: ArrayLike, u: ArrayLike, w: ArrayLike | None) -> Array:
        """Loss at v = ln width, u = ln depth, w = ln tokens; None stands for unlimited tokens."""
        total = self.irreducible
        for term, log_x in ((self.width, v), (self.depth, u), (self.tokens, w)):
            if term is not None and log_x is not None:
                total = total + term.value(log_x)
        return total

    def where(self, index: NDArray[Any]) -> ShapeLaw:
        """Some of the draws."""
        width, depth, tokens = (t and t.where(index) for t in (self.width, self.depth, self.tokens))
        return ShapeLaw(width, depth, tokens, self.irreducible[index])
