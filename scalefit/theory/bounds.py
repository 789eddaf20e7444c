"""The bound: BHyT's residual variance against LayerNorm Scaling's, with the assumptions that give it.

With a = lambda / kappa and L blocks, a <= 1/sqrt(L) gives m_BHyT < 1/l = m_LNS for every block l <= L (part A), since
tanh^2 y < y^2. If further BHyT starts no larger, its gains are no larger, rho_LNS >= 0 and rho_BHyT <= rho_LNS, then
its residual variance is strictly smaller after every block (part B), by induction over the variance recursion, whose
right side grows with v, V and rho. Derivation: docs/theory/bhyt-bound.md; it is this project's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError, OptionError
from scalefit.theory.streams import BlockStatistics
from scalefit.theory.verdict import (
    MIN_SEEDS,
    Assumption,
    Judgement,
    Outcome,
    judge_margin,
    judge_sampled_margin,
    simultaneous_z,
    standard_error,
)

__all__ = ["BoundComparison", "check_measured", "compare", "condition_holds"]

FloatArray = NDArray[np.float64]

ROUNDING = 1e-9
"""Relative slack for assumptions that are not strict: .1**2 > .01 in floating point."""


@dataclass(frozen=True)
class BoundComparison:
    """Two streams compared site by site.

    Attributes
    ----------
    ratio : float
        a = lambda / kappa.
    depth : int
        L, the number of blocks.
    increments, variances : Judgement
        Of m_BHyT < m_LNS at every site and of the smaller residual variance after it; `layer` counts blocks for the
        first, completed blocks for the second.
    increment_margins, variance_margins : (n_sites,) arrays
        m_LNS - m_BHyT, and v_LNS - v_BHyT after the site (means over seeds).
    assumptions : tuple of Assumption
        The condition a <= 1/sqrt(L) first, then those of part B, each with the block that first breaks it.
    """

    ratio: float
    depth: int
    increments: Judgement
    variances: Judgement
    increment_margins: FloatArray
    variance_margins: FloatArray
    assumptions: tuple[Assumption, ...]

    @property
    def condition(self) -> bool:
        """Whether a <= 1/sqrt(L)."""
        return condition_holds(self.ratio, self.depth)

    @property
    def assumptions_hold(self) -> bool:
        """Whether no assumption was measured to be broken."""
        return all(a.holds is not False for a in self.assumptions)

    @property
    def verdict(self) -> Outcome:
        """Outcome on the residual variance, the statement of the bound."""
        return self.variances.verdict


def condition_holds(ratio: float, depth: int) -> bool:
    """Return whether a <= 1/sqrt(L), to rounding."""
    if not ratio > 0:
        raise OptionError(f"the ratio lambda/kappa is {ratio} and must be a positive number, such as 0.1")
    return bool(ratio**2 * depth <= 1 + ROUNDING)


def compare(bhyt: BlockStatistics, lns: BlockStatistics, *, ratio: float) -> BoundComparison:
    """Compare BHyT's stream with LayerNorm Scaling's over the same blocks.

    Arrays without an axis of seeds are compared as they are; with one, the margins are judged over seeds paired by
    position, simultaneously over sites.

    Raises
    ------
    DataError
        The streams have different sites or different numbers of seeds.
    """
    if not np.array_equal(bhyt.block, lns.block) or bhyt.n_seeds != lns.n_seeds:
        raise DataError(
            f"the two streams have {bhyt.block.size} and {lns.block.size} sites and {bhyt.n_seeds} and "
            f"{lns.n_seeds} seeds; compare the same blocks of models measured with the same seeds"
        )
    judge = judge_sampled_margin if bhyt.n_seeds else judge_margin
    return BoundComparison(
        ratio=ratio,
        depth=int(bhyt.block[-1]),
        increments=judge(lns.second_moment, bhyt.second_moment, bhyt.block),
        variances=judge(lns.after, bhyt.after, bhyt.block),
        increment_margins=_seed_mean(lns.second_moment - bhyt.second_moment),
        variance_margins=_seed_mean(lns.after - bhyt.after),
        assumptions=_assumptions(bhyt, lns, ratio),
    )


def check_measured(
    bhyt: BlockStatistics | Mapping[str, Any], lns: BlockStatistics | Mapping[str, Any], *, ratio: float
) -> BoundComparison:
    """Check the bound on measured models, whose arrays a monitor yields as mappings.

    Parameters
    ----------
    bhyt, lns : BlockStatistics or mapping
        Measured arrays of the two models, see `BlockStatistics.from_mapping`.
    ratio : float
        a = lambda / kappa of the BHyT model.

    Raises
    ------
    DataError
        Arrays are missing, have other shapes, or break v' = v + V + 2 rho sqrt(v V), which honest means obey.
    """
    streams = []
    for name, given in (("BHyT", bhyt), ("LNS", lns)):
        stream = given if isinstance(given, BlockStatistics) else BlockStatistics.from_mapping(given)
        if stream.identity_error > 1e-3:
            raise DataError(
                f"the {name} arrays break v' = v + V + 2 rho sqrt(v V) by {stream.identity_error:.2g} relative; "
                "measure variance, increment_variance and alignment as means over the same tokens"
            )
        streams.append(stream)
    return compare(*streams, ratio=ratio)


def _seed_mean(values: FloatArray) -> FloatArray:
    return np.asarray(values.mean(axis=0) if values.ndim == 2 else values)


def _assumptions(bhyt: BlockStatistics, lns: BlockStatistics, ratio: float) -> tuple[Assumption, ...]:
    """Measure each assumption: the first block at which it is broken, that it holds, or that noise hides it."""
    block, depth = bhyt.block, int(bhyt.block[-1])
    tolerance = 1 / (ratio**2 * depth)
    bound = bhyt.variance_ratio * ratio**2
    slack = ROUNDING * np.abs(lns.gain)
    listed = [
        ("output", "m of BHyT is at most q a^2 (gain 1, lambda as stated)", 1 - bhyt.second_moment / bound, block),
        ("lns-output", "m of LNS is 1/l or more (to 1 %, for its epsilon)", lns.second_moment - 0.99 / block, block),
        ("start", "v_1 of BHyT is not larger", (lns.variance - bhyt.variance)[..., :1], block[:1]),
        ("gain", "gains V/m of BHyT are not larger", lns.gain - bhyt.gain + slack, block),
        ("alignment-sign", "rho of LNS is not negative", lns.alignment, block),
        ("alignment-order", "rho of BHyT is not above that of LNS", lns.alignment - bhyt.alignment, block),
        ("second-site", "true over approximated variance q <= 1/(a^2 L)", tolerance - bhyt.variance_ratio, block),
    ]
    holds = condition_holds(ratio, depth)
    text = f"a = {ratio:.6g} <= 1/sqrt(L) = {depth**-0.5:.6g}"
    condition = Assumption("condition", text, holds, None if holds else int((1 + ROUNDING) / ratio**2) + 1)
    # q <= 1/(a^2 L) with q = 1 is the condition itself: listed only where the norm approximates
    approximates = bool((bhyt.variance_ratio != 1).any())
    return (condition, *(_measured(*entry) for entry in listed if approximates or entry[0] != "second-site"))


def _measured(name: str, text: str, margin: FloatArray, block: NDArray[np.int64]) -> Assumption:
    """Call an assumption broken where its margin is below zero and held where it is not, for samples beyond noise."""
    noise = np.zeros(margin.shape[-1])
    if margin.ndim == 2:
        if len(margin) < MIN_SEEDS:
            return Assumption(name, text, None)
        noise = simultaneous_z(*margin.shape) * standard_error(margin)
        margin = margin.mean(axis=0)
    broken = margin + noise < -ROUNDING
    if broken.any():
        return Assumption(name, text, False, int(block[np.argmax(broken)]))
    return Assumption(name, text, True if (margin - noise >= -ROUNDING).all() else None)
