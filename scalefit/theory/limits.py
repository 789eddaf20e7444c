"""How deep the bound reaches for a ratio a = lambda/kappa, and the largest ratio for a depth, per criterion."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError
from scalefit.theory.moments import scale_of_second_moment, tanh_second_moment
from scalefit.theory.norms import validate_depth
from scalefit.theory.recursion import harmonic, variance_path

__all__ = [
    "PUBLIC_SETTINGS",
    "Criterion",
    "PublicSetting",
    "critical_ratio",
    "depth_limit",
    "first_variance_violation",
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
