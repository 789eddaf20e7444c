"""N* ~ C^a through valleys of the loss, and along the lower envelope of loss curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalefit.fitting.student import t_quantile

__all__ = ["Approach", "Points", "Valley", "envelope", "through"]

Array = NDArray[np.float64]
Interval = tuple[float, float]

ENVELOPE_POINTS, ENVELOPE_DRAWS = 60, 400


@dataclass(frozen=True)
class Valley:
    """The runs of one budget and the minimum between them.

    Attributes
    ----------
    flops : float
    n_runs : int
    params, tokens, loss : float
        At the minimum, D = C / 6 N; nan where there is none.
    interval : (float, float)
        Of `params`, by Student's t.
    remark : str
        Why there is no minimum; empty where there is one.
    """

    flops: float
    n_runs: int
    params: float
    tokens: float
    loss: float
    interval: Interval
    remark: str


@dataclass(frozen=True)
class Approach:
    """One way to N* ~ C^a.

    Attributes
    ----------
    name : str
        ``"envelope"``, ``"valleys"`` or the law.
    exponent : float
        a.
    interval : (float, float)
        Of a; nan where there is none.
    params, tokens : float
        At the budget asked for, on 6 N D = C.
    params_interval : (float, float)
    basis : str
        What it stands on: how many valleys or runs; empty for a law.
    """

    name: str
    exponent: float
    interval: Interval
    params: float
    tokens: float
    params_interval: Interval
    basis: str


class Points(NamedTuple):
    """Rows in logarithms, and the run of each."""

    params: Array
    flops: Array
    loss: Array
    run: NDArray[np.intp]


def through(valleys: Sequence[Valley], flops: float, level: float) -> Approach | None:
    """A straight line in logarithms through the valleys; none below three."""
    found = [valley for valley in valleys if not valley.remark]
    if len(found) < 3:
        return None
    log_c, log_n = (np.log([getattr(valley, name) for valley in found]) for name in ("flops", "params"))
    x = log_c - log_c.mean()
    slope, spread = float(x @ log_n / (x @ x)), float(x @ x)
    residuals = log_n - log_n.mean() - slope * x
    noise = float(residuals @ residuals) / (len(found) - 2)
    quantile = t_quantile(len(found) - 2, (1 + level) / 2)
    far = math.log(flops) - float(log_c.mean())
    best, half = float(log_n.mean()) + slope * far, quantile * math.sqrt(noise * (1 / len(found) + far**2 / spread))
    error = quantile * math.sqrt(noise / spread)
    return Approach(
        "valleys",
        slope,
        (slope - error, slope + error),
        math.exp(best),
        flops / 6 / math.exp(best),
        (math.exp(best - half), math.exp(best + half)),
        f"{len(found)} of {len(valleys)}",
    )


def envelope(points: Points, flops: float, level: float) -> Approach | None:
    """The size of the lowest run along compute, where runs have curves; its interval resamples runs."""
    labels, counts = np.unique(points.run, return_counts=True)
    curves = [np.flatnonzero(points.run == label) for label in labels[counts >= 3]]
    if len(curves) < 5:
        return None
    curves = [rows[np.argsort(points.flops[rows], kind="stable")] for rows in curves]
    low, high = min(points.flops[rows[0]] for rows in curves), max(points.flops[rows[-1]] for rows in curves)
    grid = np.linspace(low, high, ENVELOPE_POINTS)
    # ln loss against ln compute of a run is nearly straight between its rows; outside them it has no loss
    losses = np.stack(
        [np.interp(grid, points.flops[rows], np.log(points.loss[rows]), left=np.inf, right=np.inf) for rows in curves]
    )
    sizes = np.array([points.params[rows[0]] for rows in curves])
    # the envelope ends where fewer than two runs are compared, and where the largest run ends it
    compared = np.isfinite(losses).sum(axis=0) >= 2

    def line(chosen: NDArray[np.intp]) -> tuple[float, float]:
        lowest = losses[chosen][:, compared]
        there = np.isfinite(lowest).any(axis=0)
        winners = sizes[chosen][np.argmin(lowest[:, there], axis=0)]
        slope, offset = np.polyfit(grid[compared][there] - math.log(flops), winners, 1)
        return float(slope), float(offset)

    if compared.sum() < 3:
        return None
    slope, best = line(np.arange(len(curves)))
    rng = np.random.default_rng(0)
    drawn = np.array([line(rng.integers(len(curves), size=len(curves))) for _ in range(ENVELOPE_DRAWS)])
    ends = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Approach(
        "envelope",
        slope,
        (float(ends[0, 0]), float(ends[1, 0])),
        math.exp(best),
        flops / 6 / math.exp(best),
        (math.exp(ends[0, 1]), math.exp(ends[1, 1])),
        f"{len(curves)} runs",
    )
