"""Intervals by method and parameter, and where they disagree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scalefit.errors import ScalefitWarning
from scalefit.fitting.fit import Fit
from scalefit.uncertainty.asymptotic import Asymptotic
from scalefit.uncertainty.groups import Plan
from scalefit.uncertainty.profile import Profile
from scalefit.uncertainty.samples import Samples
from scalefit.uncertainty.settings import Settings

__all__ = ["Comparison", "Interrupted", "Interval"]

Interval = tuple[float, float]

DISAGREE = 1.5
"""Intervals disagree when one is so many times as wide as the other, or misses the other's centre."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Intervals by method and parameter.

    Attributes
    ----------
    fit : Fit
    settings : Settings
    plan : Plan
        The bootstrap that suits the table or the clusters asked for, and why.
    default : str
        The method that suits the table.
    intervals : mapping of str to mapping of str to (float, float)
        Method -> parameter -> interval in plain units; an open end is infinite. ``"pairs-bca"`` and
        ``"cluster-bca"`` stand beside the percentile intervals where they exist.
    samples, profiles : mappings
        The draws and curves behind them, by method and by parameter.
    theory : Asymptotic or None
    withheld : mapping of str to str
        Method -> why it gives no interval on this table.
    reservations : mapping of str to str
        Method -> why its intervals are not claimed to hold their level.
    warnings : tuple of ScalefitWarning
    """

    fit: Fit
    settings: Settings
    plan: Plan
    default: str
    intervals: Mapping[str, Mapping[str, Interval]]
    samples: Mapping[str, Samples]
    profiles: Mapping[str, Profile]
    theory: Asymptotic | None
    withheld: Mapping[str, str]
    reservations: Mapping[str, str]
    warnings: tuple[ScalefitWarning, ...]

    @property
    def trusted(self) -> str | None:
        """The default where it has intervals; None where it was not asked for or is withheld."""
        return self.default if self.default in self.intervals else None

    def disagreements(self) -> list[dict[str, Any]]:
        """Where a method's interval differs from the default's: in width, or in not holding its centre."""
        found = []
        trusted = self.intervals.get(self.default, {})
        for method, intervals in self.intervals.items():
            for name, (low, high) in intervals.items():
                if method == self.default or name not in trusted:
                    continue
                ratio, apart = _difference((low, high), trusted[name], name.startswith("c_"))
                if apart or not 1 / DISAGREE <= ratio <= DISAGREE:
                    found.append({"method": method, "parameter": name, "width_ratio": ratio, "apart": apart})
        return found


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during `compare_intervals`; nothing of what was finished is lost.

    Attributes
    ----------
    comparison : Comparison
        The methods that were finished; the others are withheld.
    """

    def __init__(self, comparison: Comparison) -> None:
        super().__init__("interrupted")
        self.comparison = comparison


def _difference(one: Interval, other: Interval, log: bool) -> tuple[float, bool]:
    """Ratio of the widths (of ln c for coefficients), and whether one misses the centre of the other."""
    if log and min(*one, *other) > 0:
        one, other = (math.log(one[0]), math.log(one[1])), (math.log(other[0]), math.log(other[1]))
    widths = one[1] - one[0], other[1] - other[0]
    if not all(math.isfinite(width) for width in widths):
        return (1.0 if widths[0] == widths[1] else math.inf if math.isinf(widths[0]) else 0.0), False
    if widths[1] == 0:
        return (1.0 if widths[0] == 0 else math.inf), one != other
    centre = (other[0] + other[1]) / 2
    return widths[0] / widths[1], not one[0] <= centre <= one[1]
