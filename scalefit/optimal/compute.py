"""The parameters N and tokens D with the least loss for a compute budget, by a law in both.

    L = L0 + [(c_N N^-a)^q + (c_D D^-b)^q]^(1/q)    on    cost(N, D) = C                       (1)

With the cost k N D the optimum has a closed form, for any q,

    ln N* = (ln(a / b) / q + ln c_N - ln c_D) / (a + b) + b / (a + b) ln(C / k),    ln D* = ln(C / k) - ln N*,   (2)

so that N* ~ C^(b / (a + b)) (Hoffmann et al. 2022, appendix D.3). Any other cost, such as training and serving together
or attention's own operations, is followed along its curve: with n = ln N, w(n) = ln D on the curve, g = ln cost,

    w' = -g_n / g_w,    w'' = -(g_nn + 2 g_nw w' + g_ww w'^2) / g_w,                             (3)

the loss along it is a convex function of n whose slope rises through zero once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefit.errors import OptionError
from scalefit.laws.law import Law
from scalefit.optimal.counts import BLOCKS, Count
from scalefit.optimal.roots import rising_root
from scalefit.optimal.sizes import Posynomial, Size, SmoothSize, read_size
from scalefit.optimal.tradeoff import Term, TermsInLogs

__all__ = ["BestSizes", "Cost", "best_sizes", "cost_of_runs", "least_compute", "losses_at_ratio", "parse_cost"]

Array = NDArray[np.float64]
Range = tuple[float, float]

MOST: Range = (1.0, 1e30)
"""Parameters and tokens looked at."""

CURVE_STEP = 1e-3
"""Step in ln C of the exponents, whose error is of its square."""


@dataclass(frozen=True)
class Cost:
    """What a model of N parameters trained on D tokens costs, in floating-point operations.

    Attributes
    ----------
    name : str
        As people read it: ``"6 N D"``.
    size : Size
        Of N and D; smooth, growing with both.
    """

    name: str
    size: Size

    @property
    def factor(self) -> float | None:
        """k where the cost is k N D, as equation (2) needs it; else None."""
        match self.size:
            case Posynomial(terms=((k, 1, 1),)):
                return float(k)
        return None


def cost_of_runs(served: float = 0.0, count: Count = BLOCKS, ratio: float | None = None) -> Cost:
    """Cost of training, and of serving a number of tokens over the model's life.

    Parameters
    ----------
    served : float
        Tokens that the model will read and write once trained, at 2 N operations each.
    count : Count
        Counts the operations. Any but k m^2 l needs `ratio`, the shape that a number of parameters stands for.
    ratio : float, optional
        width / depth.

    Raises
    ------
    OptionError
        If `served` is negative, or the count's operations depend on a shape that is not given.
    """
    if not (math.isfinite(served) and served >= 0):
        raise OptionError(f"the number of tokens served is {served:g} and must be zero or positive")
    also = f" + 2 N x {served:.4g} served" if served else ""
    if isinstance(count.params, Posynomial) and len(count.params.terms) == 1:
        return Cost("6 N D" + also, Posynomial(((6.0, 1, 1), (2.0 * served, 1, 0))))
    if ratio is None:
        raise OptionError(
            f"the operations of {count.name} depend on width and depth; give --ratio, the width over the depth"
        )
    if not (math.isfinite(ratio) and ratio > 0):
        raise OptionError(f"the ratio of width to depth is {ratio:g} and must be positive")

    def operations(params: Array, tokens: Array) -> Array:
        log_n = np.log(params).ravel()

        def excess(u: Array) -> tuple[Array, Array]:
            size = count.params.log_derivatives(u + math.log(ratio), u)
            return size.log - log_n, size.v + size.u

        ends = np.full(len(log_n), -30.0), np.full(len(log_n), 60.0)
        depth = np.exp(rising_root(excess, *ends)).reshape(params.shape)
        width = ratio * depth
        return count.training_flops(width, depth) * tokens + count.inference_flops(width, depth) * served

    return Cost(f"{count.name} at width / depth {ratio:g}{also}", SmoothSize(operations))


def parse_cost(text: str) -> Cost:
    """Read a cost that a user declares, an expression of `params` and `tokens`.

    Examples
    --------
    >>> parse_cost("6*params*tokens + 2e12*params").size
    Posynomial(terms=((6.0, 1.0, 1.0), (2000000000000.0, 1.0, 0.0)))
    """
    return Cost(text.strip(), read_size(text, ("params", "tokens")))


@dataclass(frozen=True, eq=False)
class BestSizes:
    """The best N and D for each of B draws, in logarithms.

    Attributes
    ----------
    log_params, log_tokens, loss : (B,) float arrays
    exponent, token_exponent : (B,) float arrays
        d ln N* / d ln C and d ln D* / d ln C.
    at_end : (B,) bool array
        Whether a range holds N or D.
    """

    log_params: Array
    log_tokens: Array
    loss: Array
    exponent: Array
    token_exponent: Array
    at_end: NDArray[np.bool_]


def terms_of(law: Law, params: Mapping[str, ArrayLike] | Any) -> TermsInLogs:
    """The terms of a law in params and tokens, for one or many draws.

    Raises
    ------
    OptionError
        If the law has other columns or lacks one.
    """
    terms = TermsInLogs.of(law, params, ("params", "tokens"))
    if terms.v is None or terms.u is None:
        raise OptionError(f"the law {law} lacks params or tokens; N and D for a budget follow from a law in both")
    return terms


def best_sizes(
    law: Law,
    params: Mapping[str, ArrayLike] | Any,
    compute: ArrayLike,
    cost: Cost,
    ranges: tuple[Range, Range] = (MOST, MOST),
) -> BestSizes:
    """Minimise the loss at a compute budget, for every draw of the law's parameters.

    Parameters
    ----------
    law : Law
        In params and tokens.
    params : mapping of str to (B,) array_like
    compute : float or (B,) array_like
        C, one for all draws or one for each.
    cost : Cost
    ranges : (float, float), (float, float)
        Of N and of D.

    Raises
    ------
    OptionError
        If the law has other columns or lacks one, or the budget is below the smallest run allowed.
    """
    terms = terms_of(law, params)
    least = float(np.min(compute))
    if not (np.isfinite(compute).all() and least > 0):
        raise OptionError(f"the compute budget is {least:g} and must be a positive number")
    smallest = float(cost.size(ranges[0][0], ranges[1][0]))
    if least < smallest:
        raise OptionError(f"the compute budget is {least:.4g}, below the {smallest:.4g} of the smallest run allowed")
    log_compute = np.asarray(np.log(compute), dtype=np.float64)
    found = _optimum(terms, log_compute, cost, ranges)
    before, after = (_optimum(terms, log_compute + s * CURVE_STEP, cost, ranges) for s in (-1, 1))
    by_params, by_tokens = ((y - x) / (2 * CURVE_STEP) for x, y in zip(before, after, strict=True))
    at_end = np.zeros(len(terms), dtype=bool)
    for x, ends in zip(found, ranges, strict=True):
        at_end |= (x <= math.log(ends[0]) + 1e-9) | (x >= math.log(ends[1]) - 1e-9)
    return BestSizes(*found, terms.loss(*found, None), by_params, by_tokens, at_end)


def _optimum(
    terms: TermsInLogs, log_compute: Array, cost: Cost, ranges: tuple[Range, Range] = (MOST, MOST)
) -> tuple[Array, Array]:
    """ln N* and ln D* within ranges."""
    v, u = terms.v, terms.u
    assert v is not None
    assert u is not None
    if cost.factor is not None and v.shift == u.shift == 0:
        n, w = closed_form(v, u, log_compute - math.log(cost.factor))
        inside = [(x >= math.log(low)) & (x <= math.log(high)) for x, (low, high) in zip((n, w), ranges, strict=True)]
        if np.all(inside):
            return n, w
    (n_low, n_high), (w_low, w_high) = (
        (np.full(len(terms), math.log(max(low, term.shift * (1 + 1e-9)))), np.full(len(terms), math.log(high)))
        for (low, high), term in zip(ranges, (v, u), strict=True)
    )

    def excess(n: Array, w: Array) -> tuple[Array, Array, Array]:
        g = cost.size.log_derivatives(n, w)
        return g.log - log_compute, g.v, g.u

    def tokens(n: Array) -> Array:
        return rising_root(lambda w: excess(n, w)[::2], w_low, w_high)

    def params(w: Array) -> Array:
        return rising_root(lambda n: excess(n, w)[:2], n_low, n_high)

    def slope(n: Array) -> tuple[Array, Array]:
        w = tokens(n)
        g = cost.size.log_derivatives(n, w)
        first = -g.v / g.u
        second = -(g.vv + first * (2 * g.vu + g.uu * first)) / g.u
        (t_n, t_nn), (t_w, t_ww) = v.slopes(n), u.slopes(w)
        # over their size, which leaves the root where it is and the numbers near one
        size = np.abs(t_n) + np.abs(t_w)
        return (t_n + t_w * first) / size, (t_nn + t_ww * first**2 + t_w * second) / size

    n = rising_root(slope, params(w_high), params(w_low))
    return n, tokens(n)


def least_compute(law: Law, params: Mapping[str, ArrayLike] | Any, loss: ArrayLike, cost: Cost) -> Array:
    """ln of the least compute at which each draw's law reaches a loss; inf where none does.

    Along the optimum ln(L - L0) falls nearly in a straight line in ln C, which Newton's method follows.
    """
    terms = terms_of(law, params)
    with np.errstate(divide="ignore", invalid="ignore"):
        target = np.log(np.asarray(loss) - terms.irreducible)

    def excess(log_compute: Array) -> tuple[Array, Array]:
        near, far = (
            np.log(terms.loss(*_optimum(terms, log_compute + step, cost), None) - terms.irreducible)
            for step in (0.0, CURVE_STEP)
        )
        return target - near, (near - far) / CURVE_STEP

    low = np.full(len(terms), math.log(float(cost.size(MOST[0], MOST[0]))))
    high = np.full(len(terms), math.log(float(cost.size(*np.sqrt(MOST)[::-1]))) + 60.0)
    found = rising_root(excess, low, high)
    return np.where(np.isfinite(target) & (found < high - 1.0), found, np.inf)


def closed_form(v: Term, u: Term, log_product: Array) -> tuple[Array, Array]:
    """Equation (2), with terms to the power q, at ln(N D)."""
    n = (np.log(v.alpha / u.alpha) + v.log_c - u.log_c + u.alpha * log_product) / (v.alpha + u.alpha)
    return n, log_product - n


def losses_at_ratio(
    law: Law, params: Mapping[str, ArrayLike] | Any, compute: float, cost: Cost, ratio: float
) -> tuple[Array, Array, Array]:
    """ln N, ln D and the loss of each draw where a budget is spent at a number of tokens a parameter."""
    terms = terms_of(law, params)

    def excess(n: Array) -> tuple[Array, Array]:
        g = cost.size.log_derivatives(n, n + math.log(ratio))
        return g.log - math.log(compute), g.v + g.u

    ends = (np.full(len(terms), math.log(end)) for end in MOST)
    n = rising_root(excess, *ends)
    w = n + math.log(ratio)
    return n, w, terms.loss(n, w, None)
