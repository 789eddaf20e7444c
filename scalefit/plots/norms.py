"""Figures of the depth experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scalefit.experiments.norms import NormTables, predicted_start

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_variance_against_depth"]

COLOURS = {
    "rmsnorm": "#222222",
    "peri": "#9467bd",
    "lns": "#d62728",
    "dyt": "#8c564b",
    "control": "#7f7f7f",
    "bhyt": "#1f77b4",
    "bhyt-exact": "#2ca02c",
    "bhyt-ideal": "#17becf",
}


def plot_variance_against_depth(tables: NormTables) -> Figure:
    """Draw the residual variance against depth for every norm, at the start and trained.

    Left: means over tokens and seeds of untrained models, with the recursion's prediction as lines (see
    `predicted_start`). Right: medians over tokens of trained ones, the line at the seeds' geometric mean and
    the band over their range.

    Returns
    -------
    Figure
        Two panels with a common, logarithmic axis of variance.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    start, trained = figure.subplots(1, 2, sharey=True)
    for norm in tables.norms:
        mean, colour = tables.path(norm, "start").mean(axis=0)[::2], COLOURS[norm]
        blocks = np.arange(mean.size)
        start.plot(blocks, mean, ".", color=colour, label=norm)
        start.plot(blocks, predicted_start(tables, norm)[::2], "-", color=colour, linewidth=1)
        if (paths := tables.path(norm, "trained", "variance_median")).size:
            ends = paths[:, ::2]
            trained.plot(blocks, np.exp(np.log(ends).mean(axis=0)), "-", color=colour)
            trained.fill_between(blocks, ends.min(axis=0), ends.max(axis=0), color=colour, alpha=0.2, linewidth=0)
    start.set_title("at the start: points measured, lines predicted", fontsize="medium")
    start.set_ylabel("variance of the residual stream")
    steps = int(tables.runs["steps"].max())
    trained.set_title(f"after {steps} steps: median over tokens, range of seeds", fontsize="medium")
    for axes in (start, trained):
        axes.set_yscale("log")
        axes.set_xlabel("completed blocks")
    trained.legend(*start.get_legend_handles_labels(), loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
