"""The neighbours of a best shape: what a ratio off the optimum costs, and the shapes that can be built.

At each ratio of width to depth the rest of the shape, and the tokens where compute is the budget, are the best ones
for it. Shapes that can be built have whole heads, whole layers, and widths that the hardware likes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError
from scalefit.optimal.search import AT_LIMIT, best_at_ratio, best_depths
from scalefit.optimal.tradeoff import Tradeoff

__all__ = ["FeasibleShape", "Flatness", "Rounding", "feasible_shapes", "flatness"]

Array = NDArray[np.float64]

WITHIN = (0.001, 0.01)
"""Shares of the loss for which the range of ratios is given."""

FURTHEST = math.log(1e4)
"""Ratios further than this factor from the optimum are not looked at."""

_BISECTIONS = 34


@dataclass(frozen=True)
class Flatness:
    """The cost of a ratio off the optimum.

    Attributes
    ----------
    halved, doubled : float
        By which share the loss grows when width / depth is halved or doubled; nan where no such model is allowed.
    within : mapping of float to (float, float)
        Share of the loss -> the range of ratios that cost no more. It ends where the shapes allowed end, and at 0 or
        inf where the loss does not grow so much within a factor of 10,000.
    """

    halved: float
    doubled: float
    within: Mapping[float, tuple[float, float]]


def flatness(tradeoff: Tradeoff, log_ratio: float) -> Flatness:
    """Measure the valley around the best ratio.

    Parameters
    ----------
    tradeoff : Tradeoff
        Of one draw, the estimate.
    log_ratio : float
        ln(width / depth) at the optimum.
    """
    offsets = math.log(2) * np.array([0.0, -1.0, 1.0])
    best, halved, doubled = best_at_ratio(tradeoff.where(np.zeros(3, dtype=np.intp)), log_ratio + offsets).loss
    sides, shares = np.array([-1.0, 1.0] * len(WITHIN)), np.repeat(WITHIN, 2)
    walking = tradeoff.where(np.zeros(len(sides), dtype=np.intp))
    low, high = np.zeros(len(sides)), np.full(len(sides), FURTHEST)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        cheap = best_at_ratio(walking, log_ratio + sides * middle).loss <= (1 + shares) * best
        low, high = np.where(cheap, middle, low), np.where(cheap, high, middle)
    reached = np.where(high >= FURTHEST, np.inf, low)
    ends = np.exp(log_ratio + sides * reached)
    within = {share: (float(ends[2 * i]), float(ends[2 * i + 1])) for i, share in enumerate(WITHIN)}
    return Flatness(float(halved / best - 1), float(doubled / best - 1), MappingProxyType(within))


MOST_WIDTHS = 400
"""Widths tried, those nearest to the optimum in ratio."""


@dataclass(frozen=True)
class Rounding:
    """What a shape has to be a multiple of.

    Parameters
    ----------
    head_size : int
        Width of one attention head.
    multiple : int
        The width is a multiple of this, too: 64 or 128 suit matrix units.
    layers : int
        The depth is a multiple of this.
    n_best : int
        How many shapes to name.
    """

    head_size: int = 64
    multiple: int = 64
    layers: int = 1
    n_best: int = 5

    def __post_init__(self) -> None:
        for name in ("head_size", "multiple", "layers", "n_best"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} is {getattr(self, name)} and must be at least 1")

    @property
    def width(self) -> int:
        """The width is a multiple of this."""
        return math.lcm(self.head_size, self.multiple)


@dataclass(frozen=True)
class FeasibleShape:
    """One shape that can be built.

    Attributes
    ----------
    width, depth, heads : int
    tokens : float
        nan for unlimited ones.
    params, flops : float
        By the count; `flops` is nan for unlimited tokens.
    loss : float
    excess : float
        How much the loss exceeds that of the real-valued optimum, as a share of it.
    memory, latency : float
        Bytes where the model is served, and seconds per generated token, both as in `Serving`.
    inference_flops, cached : float
        Operations per generated token, and numbers in the key-value cache per token of context.
    """

    width: int
    depth: int
    heads: int
    tokens: float
    params: float
    flops: float
    loss: float
    excess: float
    memory: float
    latency: float
    inference_flops: float
    cached: float


def feasible_shapes(tradeoff: Tradeoff, log_width: float, loss: float, rounding: Rounding) -> tuple[FeasibleShape, ...]:
    """Name the best shapes that can be built within the budget, best first; none where none fits.

    At each width near the optimum the best n depths are among the n whole numbers on either side of the best real
    one, since the loss is convex in ln depth. Heads come in whole groups that share keys and values.

    Parameters
    ----------
    tradeoff : Tradeoff
        Of one draw, the estimate.
    log_width, loss : float
        The real-valued optimum.
    rounding : Rounding
    """
    widths = _widths(tradeoff, log_width, rounding)
    if not len(widths):
        return ()
    along = tradeoff.where(np.zeros(len(widths), dtype=np.intp))
    real = np.exp(best_depths(along, np.log(widths))) / rounding.layers
    near = np.arange(1 - rounding.n_best, rounding.n_best + 1)
    whole = rounding.layers * (np.floor(real + AT_LIMIT)[:, None] + near)
    width, depth = np.repeat(widths, len(near))[whole.ravel() > 0], whole[whole > 0]
    v, u = np.log(width), np.log(depth)
    fits = (u >= tradeoff.u_range[0]) & (u <= tradeoff.u_range[1])
    for limit in tradeoff.limits:
        fits &= limit.excess(v, u) <= AT_LIMIT
    width, depth, v, u = width[fits], depth[fits], v[fits], u[fits]
    losses = tradeoff.loss(v, u)
    log_tokens = tradeoff.log_tokens(v, u)
    tokens = np.full(len(v), np.nan) if log_tokens is None else np.exp(log_tokens)
    order = np.argsort(losses, kind="stable")[: rounding.n_best]
    count, serving = tradeoff.space.count, tradeoff.space.serving
    memory, latency = serving.memory(count), serving.latency(count)
    return tuple(
        FeasibleShape(
            width=int(width[i]),
            depth=int(depth[i]),
            heads=round(count.attention_ratio * width[i] / rounding.head_size),
            tokens=float(tokens[i]),
            params=float(count.params(width[i], depth[i])),
            flops=float(count.train(width[i], depth[i], tokens[i])),
            loss=float(losses[i]),
            excess=float(losses[i] / loss - 1),
            memory=float(memory(width[i], depth[i])),
            latency=float(latency(width[i], depth[i])),
            inference_flops=float(count.inference_flops(width[i], depth[i])),
            cached=float(count.cache(width[i], depth[i])),
        )
        for i in order
    )


def _widths(tradeoff: Tradeoff, log_width: float, rounding: Rounding) -> Array:
    """The multiples nearest to the optimum within the range, in ascending order."""
    step, (low, high) = rounding.width, tradeoff.space.width
    middle = round(math.exp(log_width) / step)
    first, last = max(1, math.ceil(low / step), middle // 4), min(math.floor(high / step), 4 * middle + 4)
    if last - first > MOST_WIDTHS:
        first = max(first, middle - MOST_WIDTHS // 2)
        last = min(last, first + MOST_WIDTHS)
    widths = step * np.arange(first, last + 1, dtype=np.float64)
    count = tradeoff.space.count
    group = count.heads_per_kv if float(count.heads_per_kv).is_integer() else 1.0
    groups = count.attention_ratio * widths / (rounding.head_size * group)
    fits = np.abs(groups - np.round(groups)) <= AT_LIMIT * groups  # whole heads, in whole groups
    smallest = np.full(len(widths), tradeoff.u_range[0])
    for limit in tradeoff.limits:
        fits &= limit.excess(np.log(widths), smallest) <= AT_LIMIT
    return widths[fits]
