"""A budget met by a law: the loss as a function of width and depth alone, and where its limits lie.

With v = ln m, u = ln l and F the operations a token, the tokens are fixed, unlimited, or what the compute leaves,

    ln D(v, u) = min(ln C - ln F(v, u), ln D_max).                                              (1)

For posynomial counts and falling terms the loss is convex in (v, u), and so is the region that limits leave.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalefit.optimal.budget import Budget, Limit, Space
from scalefit.optimal.terms import ShapeLaw, Term

__all__ = ["BISECTIONS", "Plan", "Slopes", "increasing_root"]

Array = NDArray[np.float64]

BISECTIONS = 52
"""Halvings of a bracket: a span of twenty in ln shrinks below 1e-14."""

NEWTON_STEPS = 60


class Slopes(NamedTuple):
    """Loss and its first and second derivatives by v = ln width and u = ln depth, (B,) each."""

    value: Array
    v: Array
    u: Array
    vv: Array
    vu: Array
    uu: Array


@dataclass(frozen=True, eq=False)
class Plan:
    """A law (B draws of it), a budget and the space of shapes."""

    law: ShapeLaw
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
    def log_compute(self) -> float:
        """ln C; nan without a compute budget."""
        return math.nan if self.budget.flops is None else math.log(self.budget.flops)

    @property
    def convex(self) -> bool:
        """Whether the problem is known to be convex."""
        return self.law.convex and self.space.convex

    @cached_property
    def v_range(self) -> tuple[float, float]:
        """ln of the widths allowed."""
        return _log_range(self.space.width, self.law.width)

    @cached_property
    def u_range(self) -> tuple[float, float]:
        """ln of the depths allowed."""
        return _log_range(self.space.depth, self.law.depth)

    def where(self, index: NDArray[np.intp]) -> Plan:
        """The same for some of the draws."""
        return Plan(self.law.where(index), self.budget, self.space)

    def log_tokens(self, v: Array, u: Array) -> Array | None:
        """ln D, equation (1); None for unlimited tokens."""
        if self.tokens_follow:
            spent = self.log_compute - self.space.count.training_flops.log(v, u)
            return np.minimum(spent, math.log(self.space.tokens[1]))
        return None if self.budget.tokens is None else np.full(np.shape(v), math.log(self.budget.tokens))

    def unspent(self, v: Array, u: Array) -> Array:
        """ln of the tokens that the compute would pay for over the most allowed: positive where some is left."""
        return self.log_compute - self.space.count.training_flops.log(v, u) - math.log(self.space.tokens[1])

    def loss(self, v: Array, u: Array) -> Array:
        """Loss of the law at its tokens."""
        return self.law.loss(v, u, self.log_tokens(v, u))

    def slopes(self, v: Array, u: Array) -> Slopes:
        """Loss and derivatives at (B,) points."""
        zero = np.zeros(np.shape(v))
        width = self.law.width.derivatives(v) if self.law.width else (zero, zero, zero)
        depth = self.law.depth.derivatives(u) if self.law.depth else (zero, zero, zero)
        value = self.law.irreducible + width[0] + depth[0]
        if not self.tokens_follow or self.law.tokens is None:
            w = self.log_tokens(v, u)
            if w is not None and self.law.tokens is not None:
                value = value + self.law.tokens.value(w)
            return Slopes(value, width[1], depth[1], width[2], zero, depth[2])
        flops = self.space.count.training_flops.log_derivatives(v, u)
        w = self.log_compute - flops.log
        most = math.log(self.space.tokens[1])
        tokens = self.law.tokens.derivatives(np.minimum(w, most))
        first = np.where(w < most, -tokens.first, 0.0)
        second = np.where(w < most, tokens.second, 0.0)
        return Slopes(
            value + tokens.value,
            width[1] + first * flops.v,
            depth[1] + first * flops.u,
            width[2] + second * flops.v**2 + first * flops.vv,
            second * flops.v * flops.u + first * flops.vu,
            depth[2] + second * flops.u**2 + first * flops.uu,
        )

    def widest(self, u: Array) -> tuple[Array, Array]:
        """The largest ln width that every limit allows at ln depth u, and its derivative by u."""
        low, high = self.v_range
        ceiling, slope = np.full(np.shape(u), high), np.zeros(np.shape(u))
        for limit in self.limits:
            v = _root(limit, low, high, u)
            lower = v < ceiling
            if lower.any():
                size = limit.size.log_derivatives(v, u)
                slope = np.where(lower, -size.u / size.v, slope)
                ceiling = np.where(lower, v, ceiling)
        return ceiling, slope

    def deepest(self) -> float:
        """The largest ln depth that every limit allows at the smallest width."""
        low, high = self.u_range
        v = np.array(self.v_range[0])
        for limit in self.limits:
            high = float(increasing_root(partial(limit.excess, v), np.array(low), np.array(high)))
        return high


def _log_range(allowed: tuple[float, float], term: Term | None) -> tuple[float, float]:
    """ln of a range, cut where the term's argument would not be positive."""
    low = allowed[0] if term is None else max(allowed[0], term.shift * (1 + 1e-9))
    return math.log(low), math.log(max(low, allowed[1]))


def _root(limit: Limit, low: float, high: float, u: Array) -> Array:
    """v in [low, high] at which a limit binds; high where it never does.

    ln of a posynomial is convex and grows, so that Newton's steps from the right come down to the root.
    """
    ends = np.full(np.shape(u), low), np.full(np.shape(u), high)
    if not limit.size.convex:
        return increasing_root(lambda v: limit.excess(v, u), *ends)
    v = ends[1]
    for _ in range(NEWTON_STEPS):
        size = limit.size.log_derivatives(v, u)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.maximum(size.log - math.log(limit.bound), 0.0) / size.v
        v = np.maximum(v - np.where(np.isfinite(step), step, high - low), low)
        if (np.abs(step) <= 1e-14 * np.maximum(1.0, np.abs(v))).all():
            break
    return v


def increasing_root(function: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Root of an increasing function in [low, high] by bisection; an end where there is none inside."""
    top = high
    below = function(high) <= 0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        positive = function(middle) > 0
        high, low = np.where(positive, middle, high), np.where(positive, low, middle)
    return np.where(below, top, low)
