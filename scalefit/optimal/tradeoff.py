"""A law met by a budget: the loss as a function of two logarithms, and the limits within which they move.

The two are v = ln width and u = ln depth; the tokens, w = ln D, are fixed, unlimited, or what the compute leaves with F
operations a token,

    ln D(v, u) = min(ln C - ln F(v, u), ln D_max).                                              (1)

A term T(x) = c (x - s)^-alpha has, with k = x / (x - s),

    dT / dln x = -alpha k T,    d2T / d(ln x)2 = alpha k (alpha k + k - 1) T,                  (2)

which is convex in ln x for c > 0 and s >= 0. A law of coupled terms, L = L0 + [sum_k T_k^q]^(1/q), has its least loss
where the sum of T_k^q, terms of coefficient c^q and exponent q alpha, is least. For posynomial counts and falling terms
that sum is convex in (v, u), and so is the region that limits leave.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefit.errors import OptionError
from scalefit.laws.law import Law
from scalefit.optimal.budget import Budget, Limit, Space

__all__ = ["Slopes", "Term", "TermsInLogs", "Tradeoff"]

Array = NDArray[np.float64]


class Slopes(NamedTuple):
    """First and second derivatives of the loss by v and u, (B,) each."""

    v: Array
    u: Array
    vv: Array
    vu: Array
    uu: Array


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
        x = np.asarray(log_x)
        argument = x if self.shift == 0 else x + np.log1p(-self.shift * np.exp(-x))
        return np.asarray(np.exp(self.log_c - self.alpha * argument))

    def slopes(self, log_x: Array) -> tuple[Array, Array]:
        """Equation (2)."""
        k = 1.0 if self.shift == 0 else 1.0 / (1.0 - self.shift * np.exp(-log_x))
        rate = self.alpha * k
        first = -rate * self.value(log_x)
        return first, -first * rate if self.shift == 0 else -first * (rate + k - 1.0)

    def where(self, index: NDArray[Any]) -> Term:
        """Some of the draws."""
        return Term(self.log_c[index], self.alpha[index], self.shift)


@dataclass(frozen=True, eq=False)
class TermsInLogs:
    """The terms of B draws of a law, each to the power q; a term that the law lacks is None.

    Attributes
    ----------
    v, u, w : Term or None
        In width, depth and tokens, or in parameters and tokens.
    irreducible : (B,) float array
        L0.
    q : (B,) float array
        The coupling exponent; 1 for a sum.
    """

    v: Term | None
    u: Term | None
    w: Term | None
    irreducible: Array
    q: Array

    @classmethod
    def of(
        cls, law: Law, params: Mapping[str, ArrayLike] | Any, columns: tuple[str, ...] = ("width", "depth", "tokens")
    ) -> TermsInLogs:
        """Take a law with one value, or (B,) draws, of each parameter.

        Parameters
        ----------
        law : Law
        params : mapping of str to (B,) array_like
        columns : tuple of str
            The columns of v, u and w.

        Raises
        ------
        OptionError
            If the law has a term in another column, or in none of the first two.
        """
        if len(law.factors) > len(law.terms):
            raise OptionError(f"the law {law} multiplies columns; the best shape is found for terms of one column each")
        parts: dict[str, Term | None] = dict.fromkeys(columns)
        q = np.atleast_1d(coupling(law, params))
        for term in law.factors:
            if term.column not in columns:
                raise OptionError(
                    f"the law {law} has the column {term.column!r}; the best shape is found for laws in width, depth "
                    "and tokens, the best size for laws in params and tokens: fit one of them"
                )
            coefficient = law.term_of(term).coefficient
            c, alpha = (np.atleast_1d(np.asarray(params[n], float)) for n in (coefficient, term.exponent))
            if (c < 0).any():
                raise OptionError(f"{coefficient} is negative, so that the loss has no best {term.column}")
            with np.errstate(divide="ignore"):
                parts[term.column] = Term(q * np.log(c), q * alpha, term.shift)
        v, u, w = (*parts.values(), None)[:3]
        if v is None and u is None:
            raise OptionError(f"the law {law} has neither {columns[0]} nor {columns[1]} and says nothing of the shape")
        n = max(len(term.alpha) for term in (v, u, w) if term is not None)
        l0 = np.asarray(params["L0"], float) if law.irreducible else np.zeros(())
        return cls(v, u, w, np.broadcast_to(l0, (n,)), np.broadcast_to(q, (n,)))

    def __len__(self) -> int:
        return len(self.irreducible)

    @cached_property
    def _additive(self) -> bool:
        return bool((self.q == 1).all())

    @cached_property
    def convex(self) -> bool:
        """Whether every term is convex in ln x by its form, and falls."""
        terms = [term for term in (self.v, self.u, self.w) if term is not None]
        return all(term.shift >= 0 and bool((term.alpha > 0).all()) for term in terms)

    def loss(self, v: ArrayLike, u: ArrayLike, w: ArrayLike | None) -> Array:
        """Loss at logarithms; None stands for unlimited tokens."""
        parts = ((self.v, v), (self.u, u), (self.w, w))
        terms = [term.value(log_x) for term, log_x in parts if term is not None and log_x is not None]
        if self._additive:
            return sum(terms, start=self.irreducible)
        return np.asarray(self.irreducible + sum(terms) ** (1 / self.q))

    def where(self, index: NDArray[Any]) -> TermsInLogs:
        """Some of the draws."""
        v, u, w = (term and term.where(index) for term in (self.v, self.u, self.w))
        return TermsInLogs(v, u, w, self.irreducible[index], self.q[index])


def coupling(law: Law, params: Any) -> Array:
    """The exponent q that joins the terms of a law, of one or many draws; 1 for a sum."""
    return np.asarray(law.q(params), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Tradeoff:
    """A law (B draws of it), a budget and the space of shapes."""

    law: TermsInLogs
    budget: Budget
    space: Space

    @cached_property
    def limits(self) -> tuple[Limit, ...]:
        """The limits on width and depth."""
        return self.space.limits(self.budget)

    @property
    def tokens_follow(self) -> bool:
        """Whether the tokens are what the compute leaves."""
        return self.budget.flops is not None and self.budget.tokens is None

    @property
    def convex(self) -> bool:
        """Whether the problem is known to be convex."""
        return self.law.convex and self.space.convex

    @cached_property
    def v_range(self) -> tuple[float, float]:
        """ln of the widths allowed."""
        return _log_range(self.space.width, self.law.v)

    @cached_property
    def u_range(self) -> tuple[float, float]:
        """ln of the depths allowed."""
        return _log_range(self.space.depth, self.law.u)

    def where(self, index: NDArray[np.intp]) -> Tradeoff:
        """The same for some of the draws."""
        return replace(self, law=self.law.where(index))

    def log_tokens(self, v: Array, u: Array) -> Array | None:
        """ln D, equation (1); None for unlimited tokens."""
        if self.tokens_follow:
            return np.minimum(self.affordable(v, u), math.log(self.space.tokens[1]))
        return None if self.budget.tokens is None else np.full(np.shape(v), math.log(self.budget.tokens))

    def affordable(self, v: Array, u: Array) -> Array:
        """ln of the tokens that the compute pays for."""
        return math.log(self.budget.flops or math.nan) - self.space.count.training_flops.log(v, u)

    def loss(self, v: Array, u: Array) -> Array:
        """Loss of the law at its tokens."""
        return self.law.loss(v, u, self.log_tokens(v, u))

    def slopes(self, v: Array, u: Array) -> Slopes:
        """Derivatives of the loss (of a coupled law: of its sum of powers) at (B,) points."""
        zero = np.zeros(np.shape(v))
        by_v = self.law.v.slopes(v) if self.law.v else (zero, zero)
        by_u = self.law.u.slopes(u) if self.law.u else (zero, zero)
        if not self.tokens_follow or self.law.w is None:
            return Slopes(by_v[0], by_u[0], by_v[1], zero, by_u[1])
        flops = self.space.count.training_flops.log_derivatives(v, u)
        # without the most tokens allowed, which would put a kink there
        by_w = self.law.w.slopes(math.log(self.budget.flops or math.nan) - flops.log)
        first, second = -by_w[0], by_w[1]
        return Slopes(
            by_v[0] + first * flops.v,
            by_u[0] + first * flops.u,
            by_v[1] + second * flops.v**2 + first * flops.vv,
            second * flops.v * flops.u + first * flops.vu,
            by_u[1] + second * flops.u**2 + first * flops.uu,
        )


def _log_range(allowed: tuple[float, float], term: Term | None) -> tuple[float, float]:
    """ln of a range, cut where the term's argument would not be positive."""
    low = allowed[0] if term is None else max(allowed[0], term.shift * (1 + 1e-9))
    return math.log(low), math.log(max(low, allowed[1]))
