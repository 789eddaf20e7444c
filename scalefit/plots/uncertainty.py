"""Figures of uncertainty: the intervals of every method, and the profile curves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from scalefit.uncertainty.comparison import Comparison

__all__ = ["interval_figure"]

OTHERS, TRUSTED, GUIDE = "#3b6fb6", "#c8452d", "#999999"


def interval_figure(result: Comparison) -> Figure:
    """Draw each parameter's intervals, one line a method, the trusted one in another colour, above its profile curve.

    An open end is an arrow at the edge of the panel.
    """
    from matplotlib.figure import Figure

    names = list(next(iter(result.intervals.values())))
    figure = Figure(figsize=(3.2 * len(names), 5.6), layout="constrained")
    axes = figure.subplots(2, len(names), squeeze=False, sharex="col", sharey="row")
    for i, name in enumerate(names):
        _draw_intervals(axes[0, i], result, name)
        _draw_profile(axes[1, i], result, name)
    methods = list(result.intervals)
    axes[0, 0].set_yticks(range(len(methods)), methods)
    axes[0, 0].invert_yaxis()
    axes[1, 0].set_ylabel("signed root z of the profile")
    figure.suptitle(f"{result.fit.law} on {result.fit.runs.origin.name}: {result.settings.level:.0%} intervals")
    return figure


def _draw_intervals(axes: Axes, result: Comparison, name: str) -> None:
    ends = [e for i in result.intervals.values() for e in i.get(name, ()) if math.isfinite(e)]
    log = result.fit.law.parameter(name).in_logs and min(ends, default=0) > 0
    axes.axvline(result.fit.params[name], color=GUIDE, linewidth=1)
    if log:
        _log_axis(axes)
    span = (max(ends) - min(ends)) if ends else 1.0
    for row, (method, intervals) in enumerate(result.intervals.items()):
        if name not in intervals:
            continue
        low, high = intervals[name]
        shown = [
            low if math.isfinite(low) else (min(ends) / 2 if log else min(ends) - 0.2 * span),
            high if math.isfinite(high) else (max(ends) * 2 if log else max(ends) + 0.2 * span),
        ]
        colour = TRUSTED if method == result.trusted_for(name) else OTHERS
        axes.plot(shown, [row, row], color=colour, linewidth=3, solid_capstyle="butt")
        if not math.isfinite(low):
            axes.plot(shown[0], row, marker="<", color=colour)
        if not math.isfinite(high):
            axes.plot(shown[1], row, marker=">", color=colour)
    axes.set_title(name, fontsize=10)


def _log_axis(axes: Axes) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def _draw_profile(axes: Axes, result: Comparison, name: str) -> None:
    axes.axhline(0, color=GUIDE, linewidth=0.8)
    if name in result.profiles:
        curve = result.profiles[name]
        axes.plot(curve.values, curve.z, color=OTHERS, marker=".")
        for end in curve.interval:
            if math.isfinite(end):
                axes.axvline(end, color=GUIDE, linestyle=":", linewidth=1)
    axes.set_xlabel(name)
