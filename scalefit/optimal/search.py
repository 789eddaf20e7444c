"""Find the best shapes: in closed form where there is one, by Newton's method inside, by bisection at limits.

Three ways, each for all draws at once. A monomial cost without further limits has the closed form of
`scalefit.optimal.closed`. Any other posynomial cost is near a monomial, whose solution starts Newton's method. What
neither solves (a range or a second limit binds, a term vanished, the problem is not known to be convex) goes
to nested bisection: over the depth, and at each depth over the width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import FitError
from scalefit.optimal.budget import Limit
from scalefit.optimal.closed import minimise_on_monomial
from scalefit.optimal.plan import BISECTIONS, Plan, increasing_root
from scalefit.optimal.sizes import Posynomial, Size
from scalefit.optimal.terms import Term

__all__ = ["AT_LIMIT", "Shapes", "best_at_ratio", "bisect_shapes", "find_shapes", "minimise_slope"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

AT_LIMIT = 1e-9
"""Relative distance within which a shape stands at a limit."""

STEP_TOLERANCE = 1e-9
"""Newton's method ends after a step of this size in ln; the next would be of the order of its square."""

_NEWTON_STEPS = 40
_CONDENSATIONS = 8
_SCAN = 49


@dataclass(frozen=True, eq=False)
class Shapes:
    """The best shape for each of B draws, in logarithms.

    Attributes
    ----------
    log_width, log_depth : (B,) float arrays
    log_tokens : (B,) float array or None
        None for unlimited tokens.
    loss : (B,) float array
    """

    log_width: Array
    log_depth: Array
    log_tokens: Array | None
    loss: Array

    @property
    def log_ratio(self) -> Array:
        """ln(width / depth)."""
        return self.log_width - self.log_depth


def find_shapes(plan: Plan) -> Shapes:
    """Minimise the loss within the budget, for every draw of the law.

    Raises
    ------
    OptionError
        If the budget is below the smallest model allowed.
    """
    _ = plan.limits
    v, u = _inside(plan)
    solved = np.isfinite(v) & np.isfinite(u) & _allowed(plan, v, u)
    if not solved.all():
        rest = np.flatnonzero(~solved)
        v, u = v.copy(), u.copy()
        v[rest], u[rest] = bisect_shapes(plan.where(rest))
    return _shapes(plan, v, u)


def best_at_ratio(plan: Plan, log_ratio: Array) -> Shapes:
    """Minimise the loss within the budget among models of given ln(width / depth); nan where none is allowed.

    Parameters
    ----------
    plan : Plan
    log_ratio : (B,) float array
    """
    low = np.maximum(plan.u_range[0], plan.v_range[0] - log_ratio)
    high = np.minimum(plan.u_range[1], plan.v_range[1] - log_ratio)
    for limit in plan.limits:
        high = increasing_root(partial(_excess_along, limit, log_ratio), low, high)

    def slope(u: Array) -> Array:
        slopes = plan.slopes(u + log_ratio, u)
        return slopes.v + slopes.u

    u = minimise_slope(lambda u: plan.loss(u + log_ratio, u), slope, low, high, scan=not plan.convex)
    for limit in plan.limits:
        u = np.where(limit.excess(u + log_ratio, u) > AT_LIMIT, np.nan, u)
    return _shapes(plan, u + log_ratio, np.where(low <= high, u, np.nan))


def _excess_along(limit: Limit, log_ratio: Array, u: Array) -> Array:
    return limit.excess(u + log_ratio, u)


def _shapes(plan: Plan, v: Array, u: Array) -> Shapes:
    return Shapes(v, u, plan.log_tokens(v, u), plan.loss(v, u))


def _inside(plan: Plan) -> tuple[Array, Array]:
    """Solutions where at most one limit binds; not finite where this method has none."""
    law = plan.law
    terms = [law.width, law.depth] + ([law.tokens] if plan.tokens_follow else [])
    present = [term for term in terms if term is not None]
    unsolved = np.full(len(law), np.nan), np.full(len(law), np.nan)
    simple = len(present) == len(terms) and all(term.shift == 0 for term in present)
    if not simple or not plan.convex or (not plan.tokens_follow and len(plan.limits) > 1):
        return unsolved
    if plan.tokens_follow:
        assert plan.budget.flops is not None
        size, bound = plan.space.count.training_flops, plan.budget.flops
    else:
        size, bound = plan.limits[0].size, plan.limits[0].bound
    v, u, exact = _start(present, size, math.log(bound))
    if exact:
        return v, u
    return _newton(plan, size, v, u)


def _start(terms: list[Term], size: Size, log_bound: float) -> tuple[Array, Array, bool]:
    """The closed form on the monomial that the size is near the first draw's solution; whether it is exact."""
    exact = isinstance(size, Posynomial) and len(size.terms) == 1
    first = [term.where(np.array([0])) for term in terms]
    at = [np.array([math.log(1024)]), np.array([math.log(16)])]
    for condensation in range(1 if exact else _CONDENSATIONS):
        local = size.log_derivatives(at[0], at[1])
        powers = [float(local.v[0]), float(local.u[0]), 1.0][: len(terms)]
        if min(powers) <= 0 or not np.isfinite(powers).all():
            break
        log_k = float(local.log[0] - local.v[0] * at[0][0] - local.u[0] * at[1][0])
        if exact or condensation == _CONDENSATIONS - 1:
            break
        at = [np.clip(x, -1.0, 60.0) for x in minimise_on_monomial(first, powers, log_bound - log_k)[:2]]
        if not np.isfinite(at).all():
            at = [np.array([math.log(1024)]), np.array([math.log(16)])]
            break
    v, u = minimise_on_monomial(terms, powers, log_bound - log_k)[:2]
    return v, u, exact


def _newton(plan: Plan, size: Size, v: Array, u: Array) -> tuple[Array, Array]:
    """Newton's method for all draws at once; nan where it does not converge."""
    v, u = v.copy(), u.copy()
    active = np.flatnonzero(np.isfinite(v) & np.isfinite(u))
    step = _free_step if plan.tokens_follow else _curve_step
    part = plan if len(active) == len(v) else plan.where(active)
    for _ in range(_NEWTON_STEPS):
        if not len(active):
            break
        dv, du = step(part, size, v[active], u[active])
        v[active] += dv
        u[active] += du
        moving = ~(np.maximum(np.abs(dv), np.abs(du)) <= STEP_TOLERANCE)
        if not moving.all():
            active = active[moving]
            part = part.where(np.flatnonzero(moving))
    v[active] = np.nan
    return v, u


def _free_step(plan: Plan, size: Size, v: Array, u: Array) -> tuple[Array, Array]:
    """Newton's step of the loss in (v, u), at most one in ln."""
    del size
    f = plan.slopes(v, u)
    with np.errstate(all="ignore"):
        determinant = f.vv * f.uu - f.vu**2
        dv = (f.vu * f.u - f.uu * f.v) / determinant
        du = (f.vu * f.v - f.vv * f.u) / determinant
        length = np.maximum(1.0, np.maximum(np.abs(dv), np.abs(du)))
    return dv / length, du / length


def _curve_step(plan: Plan, size: Size, v: Array, u: Array) -> tuple[Array, Array]:
    """Newton's step along the curve size(v, u) = bound, and back onto it.

    On the curve v' = -g_u / g_v and v'' = -(g_uu + 2 g_uv v' + g_vv v'^2) / g_v for g = ln size.
    """
    f, g = plan.slopes(v, u), size.log_derivatives(v, u)
    with np.errstate(all="ignore"):
        first = -g.u / g.v
        second = -(g.uu + first * (2 * g.vu + g.vv * first)) / g.v
        curvature = f.uu + f.vv * first**2 + f.v * second
        du = np.clip(-(f.u + f.v * first) / curvature, -1.0, 1.0)
        off = (g.log - math.log(plan.limits[0].bound)) / g.v
    return first * du + 0.5 * second * du**2 - off, du


def _allowed(plan: Plan, v: Array, u: Array) -> Mask:
    """Which shapes keep within every range and limit."""
    (v_low, v_high), (u_low, u_high) = plan.v_range, plan.u_range
    fine: Mask = (v >= v_low) & (v <= v_high) & (u >= u_low) & (u <= u_high)
    for limit in plan.limits:
        fine &= limit.excess(v, u) <= AT_LIMIT
    if plan.tokens_follow:
        fine &= plan.unspent(v, u) < 0
    return fine


def bisect_shapes(plan: Plan) -> tuple[Array, Array]:
    """Bisect over the depth; at each depth the width is the best within its limits.

    The derivative of the loss along the best widths is f_u, and f_u + f_v dv/du where a limit, or the most tokens
    allowed, hold the width (Danskin's theorem).
    """
    low = np.full(len(plan.law), plan.u_range[0])
    high = np.full(len(plan.law), plan.deepest())

    def slope(u: Array) -> Array:
        v, along = _best_width(plan, u)
        slopes = plan.slopes(v, u)
        return slopes.u + slopes.v * along

    u = minimise_slope(lambda u: plan.loss(_best_width(plan, u)[0], u), slope, low, high, scan=not plan.convex)
    return _best_width(plan, u)[0], u


def _best_width(plan: Plan, u: Array) -> tuple[Array, Array]:
    """The best ln width at each ln depth, and how it moves with the depth where something holds it (else 0)."""
    ceiling, along = plan.widest(u)
    low = np.full(np.shape(u), plan.v_range[0])
    if not plan.tokens_follow and plan.law.convex:
        return ceiling, along
    v = minimise_slope(lambda v: plan.loss(v, u), lambda v: plan.slopes(v, u).v, low, ceiling, scan=not plan.convex)
    # at its lower end a width that would rather be smaller is held by the range, not by the limit
    held = (v >= ceiling) & (plan.slopes(v, u).v < 0)
    return v, np.where(held, along, _along_most_tokens(plan, v, u))


def _along_most_tokens(plan: Plan, v: Array, u: Array) -> Array:
    """dv/du of equal operations where they leave just the most tokens allowed, else 0: there the loss has a kink."""
    if not plan.tokens_follow:
        return np.zeros(np.shape(v))
    flops = plan.space.count.training_flops.log_derivatives(v, u)
    return np.where(np.abs(plan.unspent(v, u)) <= AT_LIMIT, -flops.u / flops.v, 0.0)


def minimise_slope(
    value: Callable[[Array], Array], slope: Callable[[Array], Array], low: Array, high: Array, *, scan: bool
) -> Array:
    """Minimise in [low, high] by bisecting the slope, after a scan where it may change its sign more than once."""
    bottom, top = low, high
    if scan:
        low, high = _scanned(value, low, high)
    else:
        at_bottom, at_top = slope(low) >= 0, slope(high) <= 0
        if (at_bottom | at_top).all():
            return np.where(at_bottom, low, high)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        rising = slope(middle) >= 0
        high, low = np.where(rising, middle, high), np.where(rising, low, middle)
    middle = 0.5 * (low + high)
    near = 1e-13 * np.maximum(1.0, np.abs(middle))
    return np.where(top - middle <= near, top, np.where(middle - bottom <= near, bottom, middle))


def _scanned(value: Callable[[Array], Array], low: Array, high: Array) -> tuple[Array, Array]:
    """The neighbours of the best of a grid."""
    grid = low + np.linspace(0, 1, _SCAN)[:, None] * (high - low)
    values = np.stack([value(x) for x in grid])
    if not np.isfinite(values).any(axis=0).all():
        raise FitError("the loss is not finite for any shape allowed; narrow the ranges of width and depth")
    best = np.nanargmin(values, axis=0)
    pick = np.arange(grid.shape[1])
    return grid[np.maximum(best - 1, 0), pick], grid[np.minimum(best + 1, _SCAN - 1), pick]
