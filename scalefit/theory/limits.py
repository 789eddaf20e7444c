"""How far the bound reaches: depth and ratio per criterion, and searches for counterexamples.

The searches draw stacks inside the assumptions, or with one of them dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError
from scalefit.theory.moments import scale_of_second_moment, tanh_second_moment
from scalefit.theory.norms import validate_depth
from scalefit.theory.streams import harmonic, variance_path

__all__ = [
    "DROPPABLE",
    "PUBLIC_SETTINGS",
    "Counterexample",
    "Criterion",
    "PublicSetting",
    "SearchResult",
    "critical_ratio",
    "depth_limit",
    "first_variance_violation",
    "search_counterexamples",
    "second_site_tolerance",
]

FloatArray = NDArray[np.float64]


class Criterion(StrEnum):
    """What "BHyT stays below LayerNorm Scaling up to depth L" is taken to mean, for v_1 = g = 1."""

    CONDITION = "condition"  # a^2 <= 1/L: sufficient for everything, for any input law
    INCREMENTS = "increments"  # m(a) <= 1/L: the increments, normal inputs
    VARIANCE = "variance"  # m(a) <= H_L / L: the residual variance, independent updates
    ALIGNED = "aligned"  # m(a) <= (mean of l^-1/2)^2: the residual variance, fully aligned updates


@dataclass(frozen=True)
class PublicSetting:
    """A (lambda, kappa, depth) in public use."""

    lam: float
    kappa: float
    depth: int

    @property
    def ratio(self) -> float:
        """a = lambda / kappa."""
        return self.lam / self.kappa


PUBLIC_SETTINGS = (PublicSetting(2, 10, 16), PublicSetting(2, 10, 28), PublicSetting(3, 10, 28))
"""Settings of public code for BHyT (Byun et al. 2026) at the depths of Llama models of 1 and 3 billion parameters."""


def critical_ratio(depth: int, criterion: Criterion) -> float:
    """Return the largest a = lambda/kappa that meets the criterion over `depth` blocks; infinite if every a does."""
    validate_depth(depth)
    limit = float(_limiting_moment(depth, criterion)[-1])
    if criterion is Criterion.CONDITION:
        return float(np.sqrt(limit))
    # a bounded tanh has m < 1: at one block every ratio obeys
    return float("inf") if limit >= 1 else scale_of_second_moment(limit)


def depth_limit(ratio: float, criterion: Criterion, *, deepest: int = 100_000) -> int:
    """Return the largest number of blocks at which `ratio` = lambda/kappa meets the criterion, at most `deepest`.

    The next block is the first violation: the block whose increment exceeds LayerNorm Scaling's (`INCREMENTS`), or
    the number of completed blocks after which the residual variance does.
    """
    if not (np.isfinite(ratio) and ratio > 0):
        raise OptionError(f"the ratio lambda/kappa is {ratio} and must be a positive number, such as 0.1")
    moment = ratio**2 if criterion is Criterion.CONDITION else float(tanh_second_moment(ratio))
    # the limits fall with depth; the slack is for .1**2 > .01 in floating point
    return int(np.sum(_limiting_moment(deepest, criterion) * (1 + 1e-9) >= moment))


def _limiting_moment(depth: int, criterion: Criterion) -> FloatArray:
    """Return the largest second moment that meets the criterion, for depths 1 .. depth."""
    blocks = np.arange(1, depth + 1)
    if criterion is Criterion.VARIANCE:
        return np.asarray(harmonic(blocks) / blocks)
    if criterion is Criterion.ALIGNED:
        return np.asarray((np.cumsum(blocks**-0.5) / blocks) ** 2)
    return np.asarray(1 / blocks)


def first_variance_violation(
    moment: float,
    *,
    start: tuple[float, float] = (1.0, 1.0),
    alignment: tuple[float, float] = (0.0, 0.0),
    deepest: int = 16_384,
) -> int | None:
    """Return the number of completed blocks after which BHyT's residual variance is larger than LNS's, by recursion.

    Parameters
    ----------
    moment : float
        BHyT's second moment m, the same in every block; both gains are 1 (other gains rescale `start`).
    start, alignment : (BHyT, LNS)
        v_1 and rho of the two streams.
    deepest : int
        Depth at which the search ends with None.
    """
    if not moment > 0 or not min(start) > 0 or not max(abs(rho) for rho in alignment) <= 1:
        raise OptionError(
            f"moment is {moment}, start {start}, alignment {alignment}: moment and starts must be positive, "
            "alignments in [-1, 1]"
        )
    depth = min(64, deepest)
    while True:
        increments = np.stack([np.full(depth, moment), 1 / np.arange(1, depth + 1)])
        bhyt, lns = variance_path(increments, np.array(start), np.array(alignment)[:, None])
        larger = bhyt[1:] > lns[1:]
        if larger.any():
            return int(np.argmax(larger)) + 1
        if depth == deepest:
            return None
        depth = min(4 * depth, deepest)


def second_site_tolerance(lam: float, kappa: float, depth: int) -> float:
    """Return the largest q = true / approximated variance that keeps q a^2 <= 1/L: kappa^2 / (lambda^2 L)."""
    validate_depth(depth)
    if not (lam > 0 and kappa > 0):
        raise OptionError(f"lambda is {lam} and kappa {kappa}; both must be positive")
    return kappa**2 / (lam**2 * depth)


DROPPABLE = ("condition", "start", "gain", "alignment-sign", "alignment-order", "mean", "second-site")
"""Assumptions a search can drop: `mean` swaps the exact statistic for the ideal form on tokens with a mean,
`second-site` lets the approximated variance be too small."""


@dataclass(frozen=True)
class Counterexample:
    """A stack whose residual variance under BHyT is not smaller after `layer` completed blocks, by `excess` of LNS's.

    `settings` are the numbers drawn, per-block ones as their means.
    """

    layer: int
    excess: float
    settings: dict[str, float]


@dataclass(frozen=True)
class SearchResult:
    """Outcome of a search.

    Attributes
    ----------
    dropped : str or None
        The assumption left out; None searches inside all of them.
    n_draws, n_violations : int
        Stacks drawn, and those whose residual variance is not smaller after some block up to their depth.
    smallest_margin : float
        Least (v_LNS - v_BHyT) / v_LNS over all draws and blocks.
    earliest : Counterexample or None
        The draw violated after the fewest blocks.
    """

    dropped: str | None
    n_draws: int
    n_violations: int
    smallest_margin: float
    earliest: Counterexample | None


def search_counterexamples(
    dropped: str | None = None, *, n_draws: int = 2000, deepest: int = 128, seed: int = 0
) -> SearchResult:
    """Draw stacks at random, run the variance recursion for both norms and look for a violation.

    Drawn: the depth L up to `deepest`, a up to 1/sqrt(L), kappa, the mean, starts, gains and alignments per block, and
    sublayers whose increment is g m^p, p from 1 (linear) to 2 (SwiGLU at small amplitude).

    Parameters
    ----------
    dropped : str, optional
        One of `DROPPABLE`; None keeps every assumption, and then theory says that nothing is found.
    """
    if dropped is not None and dropped not in DROPPABLE:
        raise OptionError(f"assumption {dropped!r} is unknown; use one of {', '.join(DROPPABLE)}")
    if n_draws < 1 or deepest < 2:
        raise OptionError(f"n_draws is {n_draws} and deepest {deepest}; they must be at least 1 and 2")
    rng = np.random.default_rng(seed)
    blocks = np.arange(1, deepest + 1)
    settings = _draw_moment(dropped, rng, n_draws, deepest) | _draw_updates(dropped, rng, (n_draws, deepest))
    power = rng.uniform(1, 2, (n_draws, 1))
    increments = np.stack(
        [
            settings["gain_bhyt"] * settings["moment"][:, None] ** power,
            settings["gain_lns"] * (1 / blocks) ** power,
        ]
    )
    start = np.stack([settings["start_bhyt"], settings["start_lns"]])
    alignment = np.stack([settings["alignment_bhyt"], settings["alignment_lns"]])
    bhyt, lns = variance_path(increments, start, alignment)[..., 1:]
    margin = np.where(blocks <= settings["depth"][:, None], (lns - bhyt) / lns, np.inf)
    violated = margin <= 0
    earliest = None
    if violated.any():
        layers = np.where(violated.any(axis=1), np.argmax(violated, axis=1), margin.shape[1])
        at = int(np.argmin(layers))
        layer = int(layers[at])
        numbers = {name: float(np.mean(values[at])) for name, values in settings.items()}
        earliest = Counterexample(layer + 1, float(-margin[at, layer]), numbers)
    return SearchResult(dropped, len(margin), int(violated.any(axis=1).sum()), float(margin.min()), earliest)


def _draw_moment(dropped: str | None, rng: np.random.Generator, n: int, deepest: int) -> dict[str, FloatArray]:
    """Draw depth, a, kappa, the mean t, q and BHyT's second moment under them."""
    depth = np.floor(np.exp(rng.uniform(np.log(2), np.log(deepest + 1), n)))
    share = 10 ** rng.uniform(-1, 0, n)
    share[::4] = 1.0  # a quarter of the draws at equality, a = 1/sqrt(L)
    ratio = (rng.uniform(1, 8, n) if dropped == "condition" else share) / np.sqrt(depth)
    kappa, mean = 10 ** rng.uniform(0, 1.5, n), rng.uniform(0, 3, n)
    q = rng.uniform(1, 100, n) if dropped == "second-site" else np.ones(n)
    # exact: tanh(a x / rms x) on a token with mean t s; ideal: tanh(lambda x / (kappa s + abs(mu))), lambda = a kappa
    slope = ratio * kappa / (kappa + mean) if dropped == "mean" else ratio * np.sqrt(q / (1 + mean**2))
    moment = tanh_second_moment(slope, mean)
    return {"depth": depth, "ratio": ratio, "kappa": kappa, "mean": mean, "q": q, "moment": moment}


def _draw_updates(dropped: str | None, rng: np.random.Generator, shape: tuple[int, int]) -> dict[str, FloatArray]:
    """Draw starts, gains and alignments of both streams; half the draws make BHyT's equal to LNS's."""
    column, equal = (shape[0], 1), rng.random((shape[0], 1)) < 0.5
    start_lns, gain_lns = 10 ** rng.uniform(-1, 1, column), 10 ** rng.uniform(-1, 1, shape)
    alignment_lns = rng.uniform(0, 1, column) * rng.uniform(0, 1, shape)
    start_bhyt = start_lns * np.where(equal, 1, rng.uniform(0.2, 1, column))
    gain_bhyt = gain_lns * np.where(equal, 1, rng.uniform(0.2, 1, shape))
    alignment_bhyt = alignment_lns - np.where(equal, 0, rng.uniform(0, 0.5, shape))
    if dropped == "start":
        start_bhyt = start_lns * rng.uniform(1, 3, column)
    elif dropped == "gain":
        gain_bhyt = gain_lns * rng.uniform(1, 20, column)
    elif dropped == "alignment-sign":
        alignment_lns = alignment_bhyt = -rng.uniform(0, 0.5, column) * np.ones(shape)
    elif dropped == "alignment-order":
        alignment_bhyt = alignment_lns + (1 - alignment_lns) * rng.uniform(0, 1, column)
    return {
        "start_bhyt": start_bhyt[:, 0],
        "start_lns": start_lns[:, 0],
        "gain_bhyt": gain_bhyt,
        "gain_lns": gain_lns,
        "alignment_bhyt": alignment_bhyt,
        "alignment_lns": alignment_lns,
    }
