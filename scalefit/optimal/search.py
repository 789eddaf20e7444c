"""Find the best shapes by one method: Newton's, guarded by a bracket, for all draws at once.

Over the depth u, and at each depth over the width v within its limits. With V(u) the best width, and V' and V'' its
derivatives, the loss along the best widths has the derivatives

    h'(u) = f_u + f_v V',    h''(u) = f_uu + 2 f_uv V' + f_vv V'^2 + f_v V'',                     (1)

by Danskin's theorem. Where the width is free V' = -f_uv / f_vv and f_v = 0; where a limit g(V, u) = ln bound holds it

    V' = -g_u / g_v,    V'' = -(g_uu + 2 g_uv V' + g_vv V'^2) / g_v.                             (2)

A monomial cost K prod_k x_k^p_k = B without further limits needs no search. With the multiplier lambda

    alpha_k c_k x_k^-alpha_k = p_k lambda    for every k,                                       (3)
    ln lambda = [sum_k p_k ln(alpha_k c_k / p_k) / alpha_k + ln K - ln B] / sum_k (p_k / alpha_k),      (4)

hence x_k ~ B^e_k with e_k = (1 / alpha_k) / sum_j (p_j / alpha_j). Any other cost is near a monomial, whose solution
starts the search: p = (2, 1), K = 12 for parameters 12 m^2 l, p = (2, 1, 1), K = 72 for their compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import FitError
from scalefit.optimal.budget import Limit
from scalefit.optimal.roots import STEP_TOLERANCE, rising_root
from scalefit.optimal.sizes import Posynomial, Size
from scalefit.optimal.tradeoff import Slopes, Term, Tradeoff

__all__ = ["AT_LIMIT", "Shapes", "best_at_ratio", "best_depths", "find_shapes"]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

AT_LIMIT = 1e-9
"""Relative distance within which a shape stands at a limit."""

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


def find_shapes(tradeoff: Tradeoff, near: tuple[Array, Array] | None = None) -> Shapes:
    """Minimise the loss within the budget, for every draw of the law.

    Parameters
    ----------
    tradeoff : Tradeoff
    near : (B,) float array, (B,) float array, optional
        ln width and ln depth to start from, such as those of a budget nearby.

    Raises
    ------
    OptionError
        If the budget is below the smallest model allowed.
    """

    def search(part: Tradeoff, rows: Rows) -> tuple[Array, Array]:
        v, u, exact = _start(part, near, rows)
        rest = np.flatnonzero(~_allowed(part, v, u)) if exact else np.arange(len(v))
        if len(rest):
            v[rest], u[rest] = _over_depths(part.where(rest), v[rest], u[rest])
        return v, u

    return _within_tokens(tradeoff, search)


def best_at_ratio(tradeoff: Tradeoff, log_ratio: Array) -> Shapes:
    """Minimise the loss within the budget among models of given ln(width / depth); nan where none is allowed.

    Parameters
    ----------
    tradeoff : Tradeoff
    log_ratio : (B,) float array
    """

    def search(part: Tradeoff, rows: Rows) -> tuple[Array, Array]:
        ratio = log_ratio[rows]
        line = _Line(ratio, np.zeros(len(ratio)), 1.0, 1.0)
        low = np.maximum(part.u_range[0], part.v_range[0] - ratio)
        high = np.minimum(part.u_range[1], part.v_range[1] - ratio)
        v, u = line(_best_along(part, line, low, np.maximum(low, high)))
        allowed = (low <= high) & _allowed(part, v, u)
        return np.where(allowed, v, np.nan), np.where(allowed, u, np.nan)

    return _within_tokens(tradeoff, search)


def best_depths(tradeoff: Tradeoff, log_width: Array) -> Array:
    """The best ln depth at each of B ln widths."""

    def search(part: Tradeoff, rows: Rows) -> tuple[Array, Array]:
        line = _Line(log_width[rows], np.zeros(len(rows)), 0.0, 1.0)
        return line(_best_along(part, line, *(np.full(len(rows), end) for end in part.u_range)))

    return _within_tokens(tradeoff, search).log_depth


def _within_tokens(tradeoff: Tradeoff, search: Callable[[Tradeoff, Rows], tuple[Array, Array]]) -> Shapes:
    """Search at the tokens that the compute pays for; where those are more than allowed, at just the most allowed.

    The loss is convex in ln D, too: where its best tokens lie above the most allowed, the most allowed are best.
    """
    rows = np.arange(len(tradeoff.law))
    v, u = search(tradeoff, rows)
    if tradeoff.tokens_follow:
        most = tradeoff.space.tokens[1]
        rows = np.flatnonzero(tradeoff.affordable(v, u) > math.log(most))
        if len(rows):
            fixed = replace(tradeoff.where(rows), budget=replace(tradeoff.budget, tokens=most))
            v[rows], u[rows] = search(fixed, rows)
    return Shapes(v, u, tradeoff.log_tokens(v, u), tradeoff.loss(v, u))


def _allowed(tradeoff: Tradeoff, v: Array, u: Array) -> NDArray[np.bool_]:
    """Which shapes keep within every range and limit."""
    (v_low, v_high), (u_low, u_high) = tradeoff.v_range, tradeoff.u_range
    fine = (v >= v_low - AT_LIMIT) & (v <= v_high + AT_LIMIT) & (u >= u_low - AT_LIMIT) & (u <= u_high + AT_LIMIT)
    for limit in tradeoff.limits:
        fine &= limit.excess(v, u) <= AT_LIMIT
    return fine


def _start(tradeoff: Tradeoff, near: tuple[Array, Array] | None, rows: Rows) -> tuple[Array, Array, bool]:
    """Equations (3) and (4) on the monomial that the cost is near the first draw's solution; whether they are exact."""
    law = tradeoff.law
    terms = [law.v, law.u, law.w] if tradeoff.tokens_follow else [law.v, law.u]
    present = [term for term in terms if term is not None]
    guess = np.log([[1024.0], [16.0]])
    size: Size
    if tradeoff.tokens_follow:
        size, log_bound = tradeoff.space.count.training_flops, math.log(tradeoff.budget.flops or math.nan)
    else:
        # of several limits the first is as good a start as any
        size, log_bound = tradeoff.limits[0].size, math.log(tradeoff.limits[0].bound)
    monomial = isinstance(size, Posynomial) and len(size.terms) == 1
    if near is not None and not monomial:
        return near[0][rows], near[1][rows], False
    if len(present) < len(terms) or not tradeoff.convex:
        v, u = guess * np.ones(len(law))
        return v, u, False
    first, at = [term.where(np.array([0])) for term in present], guess
    for last in range(0 if monomial else _CONDENSATIONS - 1, -1, -1):
        local = size.log_derivatives(at[0], at[1])
        powers = [float(local.v[0]), float(local.u[0]), 1.0][: len(terms)]
        log_k = float(local.log[0] - local.v[0] * at[0][0] - local.u[0] * at[1][0])
        if not last:
            break
        at = np.clip(_on_monomial(first, powers, log_bound - log_k), -1.0, 60.0)
        if not np.isfinite(at).all():
            v, u = guess * np.ones(len(law))
            return v, u, False
    v, u = _on_monomial(present, powers, log_bound - log_k)
    simple = all(term.shift == 0 for term in present) and (tradeoff.tokens_follow or len(tradeoff.limits) == 1)
    return v, u, monomial and simple


def _on_monomial(terms: Sequence[Term], powers: Sequence[float], log_bound: float) -> list[Array]:
    """ln x of the first two variables by equations (3) and (4) at ln(B / K); not finite where a term vanished."""
    sizes = [t.log_c + np.log(t.alpha) - np.log(p) for t, p in zip(terms, powers, strict=True)]
    rates = [p / t.alpha for t, p in zip(terms, powers, strict=True)]
    with np.errstate(invalid="ignore"):
        total = np.asarray(sum(r * s for r, s in zip(rates, sizes, strict=True)))
        log_lambda = (total - log_bound) / np.asarray(sum(rates))
        return [np.asarray((s - log_lambda) / t.alpha) for s, t in zip(sizes[:2], terms[:2], strict=True)]


def _over_depths(tradeoff: Tradeoff, v: Array, u: Array) -> tuple[Array, Array]:
    """Minimise over the depth, and at each depth over the width, from a start."""
    low, high = (np.full(len(u), end) for end in tradeoff.u_range)
    high = _cut_to_limits(tradeoff, _Line(np.full(len(u), tradeoff.v_range[0]), np.zeros(len(u)), 0.0, 1.0), low, high)
    # the best width at `u` and its derivatives, which predict it at the next depth
    v, at, first, second = v.copy(), u, np.zeros(len(u)), np.zeros(len(u))

    def predicted(u: Array) -> Array:
        step = u - at
        return np.asarray(v + step * (first + 0.5 * step * second))

    def best_width(u: Array) -> Array:
        line = _Line(np.zeros(len(u)), u, 1.0, 0.0)
        low, high = (np.full(len(u), end) for end in tradeoff.v_range)
        return _best_along(tradeoff, line, low, high, predicted(u))

    def slope(u: Array) -> tuple[Array, Array]:
        nonlocal v, at, first, second
        v, at = best_width(u), u
        f = tradeoff.slopes(v, u)
        first, second = _along_best_widths(tradeoff, f, v, u)
        return f.u + f.v * first, f.uu + first * (2 * f.vu + f.vv * first) + f.v * second

    if not tradeoff.convex:
        low, high = _scanned(lambda u: tradeoff.loss(best_width(u), u), low, high)
    u = rising_root(slope, low, high, u)
    return predicted(u), u  # over a last step below the tolerance the prediction errs by its cube


def _along_best_widths(tradeoff: Tradeoff, f: Slopes, v: Array, u: Array) -> tuple[Array, Array]:
    """V' and V'' of equations (1) and (2) at the best widths v, where the loss has the slopes f."""
    inside = (v > tradeoff.v_range[0]) & (v < tradeoff.v_range[1]) & (f.vv > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = np.where(inside, -f.vu / f.vv, 0.0), np.zeros(len(v))
    # a width at the lower end of its range that would rather be smaller is held by the range, not by the limit
    pushed = f.v < -STEP_TOLERANCE * np.abs(f.vv)
    for limit in tradeoff.limits if pushed.any() else ():
        g = limit.size.log_derivatives(v, u)
        held = pushed & (g.log >= math.log(limit.bound) - AT_LIMIT)
        if held.any():
            along = -g.u / g.v
            first = np.where(held, along, first)
            second = np.where(held, -(g.uu + along * (2 * g.vu + g.vv * along)) / g.v, second)
    return first, second


@dataclass(frozen=True, eq=False)
class _Line:
    """The points (v + dv x, u + du x) of B draws."""

    v: Array
    u: Array
    dv: float
    du: float

    def __call__(self, x: Array) -> tuple[Array, Array]:
        return self.v + self.dv * x, self.u + self.du * x


def _best_along(tradeoff: Tradeoff, line: _Line, low: Array, high: Array, start: Array | None = None) -> Array:
    """Where on a line, within its ends and the limits, the loss is least."""

    def slope(x: Array) -> tuple[Array, Array]:
        f = tradeoff.slopes(*line(x))
        bend = line.dv**2 * f.vv + 2 * line.dv * line.du * f.vu + line.du**2 * f.uu
        return line.dv * f.v + line.du * f.u, bend

    def loss(x: Array) -> Array:
        at = line(x)
        broken = np.any([limit.excess(*at) > AT_LIMIT for limit in tradeoff.limits], axis=0)
        return np.where(broken, np.inf, tradeoff.loss(*at))

    if not tradeoff.tokens_follow and tradeoff.law.convex:
        return _cut_to_limits(tradeoff, line, low, high, start)  # larger models are better
    if not tradeoff.convex:
        low, high = _scanned(loss, low, high)
    return _cut_to_limits(tradeoff, line, low, rising_root(slope, low, high, start))


def _cut_to_limits(tradeoff: Tradeoff, line: _Line, low: Array, high: Array, start: Array | None = None) -> Array:
    """The largest x up to `high` at which every limit allows the line's point."""
    for limit in tradeoff.limits:

        def excess(x: Array, limit: Limit = limit) -> tuple[Array, Array]:
            g = limit.size.log_derivatives(*line(x))
            return g.log - math.log(limit.bound), line.dv * g.v + line.du * g.u

        if start is not None or (limit.excess(*line(high)) > 0).any():
            high = rising_root(excess, low, high, high if start is None else start)
    return high


def _scanned(value: Callable[[Array], Array], low: Array, high: Array) -> tuple[Array, Array]:
    """The neighbours of the best of a grid: between them a loss that is not convex has one valley."""
    grid = low + np.linspace(0, 1, _SCAN)[:, None] * (high - low)
    values = np.stack([value(x) for x in grid])
    if not np.isfinite(values).any(axis=0).all():
        raise FitError("the loss is not finite for any shape allowed; narrow the ranges of width and depth")
    best = np.nanargmin(values, axis=0)
    pick = np.arange(grid.shape[1])
    return grid[np.maximum(best - 1, 0), pick], grid[np.minimum(best + 1, _SCAN - 1), pick]
