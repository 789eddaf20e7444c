"""Figures of best shapes: the ratio against the budget, the loss over shapes, the interval against compute."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scalefit.design import Suggestion
from scalefit.errors import OptionError
from scalefit.fitting.fit import Fit
from scalefit.optimal import Budget, Space, sweep_shapes
from scalefit.uncertainty.samples import Samples

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["shape_figure", "suggestion_figure"]

Array = NDArray[np.float64]

BAND, LINE, RUNS, GUIDE = "#3b6fb6", "#c8452d", "#555555", "#999999"

SWEEP = 41


def shape_figure(
    fit: Fit, budgets: Sequence[Budget], draws: Samples | None = None, space: Space | None = None
) -> Figure:
    """Draw the best width / depth against the budget, and the loss over width and depth.

    Left, the best ratio over the budgets and those of the table, its 95 % band, and the runs. Right, lines of equal
    loss (tokens as in the first budget, unlimited where it gives none) and of equal parameters, and the frontier.

    Parameters
    ----------
    fit : Fit
        A law with width and depth.
    budgets : sequence of Budget
        All with the same main limit, parameters or compute.
    draws : Samples, optional
    space : Space, optional
    """
    from matplotlib.figure import Figure

    space = space or Space()
    main = budgets[0].main
    if main not in ("params", "flops"):
        raise OptionError(f"the figure needs budgets in params or flops, and the first limit given is {main}")
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_ratio(left, fit, budgets, draws, space)
    draw_contours(right, fit, budgets, space)
    return figure


def _table_budgets(fit: Fit, main: str, space: Space) -> Array:
    runs = fit.runs
    if main == "params":
        return space.count.params(runs["width"], runs["depth"])
    return space.count.train(runs["width"], runs["depth"], runs["tokens"])


def draw_ratio(axes: Axes, fit: Fit, budgets: Sequence[Budget], draws: Samples | None, space: Space) -> None:
    main, runs = budgets[0].main, fit.runs
    sizes = _table_budgets(fit, main, space)
    given = np.array([getattr(budget, main) for budget in budgets])
    ends = min(sizes.min(), given.min()), max(sizes.max(), given.max())
    line = np.geomspace(*ends, SWEEP)
    sweep = sweep_shapes(fit, [budgets[0].times(x / given[0]) for x in line], draws, space=space)
    axes.scatter(sizes, runs["width"] / runs["depth"], s=9, color=RUNS, alpha=0.4, label="runs", zorder=1)
    if draws is not None:
        label = f"95 % ({draws.method})"
        axes.fill_between(line, sweep.low["ratio"], sweep.high["ratio"], color=BAND, alpha=0.25, label=label)
    axes.plot(line, sweep.estimate["ratio"], color=LINE, label="best", zorder=3)
    if ends[1] > sizes.max():
        axes.axvline(sizes.max(), color=GUIDE, linestyle=":", label="largest of the table")
    label = "parameters N" if main == "params" else "training FLOPs C"
    axes.set(xscale="log", yscale="log", xlabel=f"{label} ({space.count.name})", ylabel="width / depth, m / l")
    axes.legend(frameon=False, fontsize=8)
    _plain_labels(axes)


def draw_contours(axes: Axes, fit: Fit, budgets: Sequence[Budget], space: Space) -> None:
    runs, main = fit.runs, budgets[0].main
    sweep = sweep_shapes(fit, budgets, space=space)
    best_width, best_depth = sweep.estimate["width"], sweep.estimate["depth"]
    width, depth = np.meshgrid(_span(runs["width"], best_width), _span(runs["depth"], best_depth))
    tokens = budgets[0].tokens or math.inf
    if main == "flops" and budgets[0].tokens is None:
        tokens = float(np.median(sweep.estimate["tokens"]))
    columns = {"width": width, "depth": depth, "tokens": np.full_like(width, min(tokens, 1e30))}
    loss = fit.law.predict({name: columns[name] for name in fit.law.columns}, fit.params)
    excess = loss - fit.params.get("L0", 0.0)
    levels = np.unique(np.quantile(loss[excess < 20 * excess.min()], np.linspace(0.02, 0.95, 12)).round(3))
    lines = axes.contour(width, depth, loss, levels=levels, colors=BAND, linewidths=0.8)
    axes.clabel(lines, fontsize=7, fmt="%.2f")
    size = space.count.params(width, depth)
    axes.contour(
        width, depth, np.log10(size), levels=np.arange(5, 16), colors=GUIDE, linewidths=0.7, linestyles="dashed"
    )
    axes.scatter(runs["width"], runs["depth"], s=9, color=RUNS, alpha=0.4, label="runs")
    axes.plot(best_width, best_depth, "o-", color=LINE, markersize=4, label="best shapes")
    title = "unlimited tokens" if math.isinf(tokens) else f"{tokens:.3g} tokens"
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="width m",
        ylabel="depth l",
        title=f"loss at {title}; dashed: 10^n parameters",
    )
    axes.title.set_fontsize(9)
    axes.legend(fontsize=8, loc="upper left", framealpha=0.9, edgecolor="none")
    _plain_labels(axes)


def _plain_labels(axes: Axes) -> None:
    """Label the logarithmic y axis by plain numbers, 60 in place of 6 x 10^1."""
    from matplotlib.ticker import LogFormatter

    axes.yaxis.set_major_formatter(LogFormatter(labelOnlyBase=False))
    axes.yaxis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(2, 0.6)))


def _span(*values: Array) -> Array:
    """From half the smallest to twice the largest."""
    return np.geomspace(min(x.min() for x in values) / 2, max(x.max() for x in values) * 2, 120)


def suggestion_figure(suggestion: Suggestion) -> Figure:
    """Draw the expected standard error of a quantity, and its interval where known, against the extra compute."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4.2), layout="constrained")
    axes = figure.subplots()
    spent = np.concatenate([[0.0], np.cumsum([run.flops for run in suggestion.runs])])
    if math.isfinite(suggestion.estimate):
        ends = np.array([suggestion.before, *(run.expected for run in suggestion.runs)])
        axes.fill_between(spent, ends[:, 0], ends[:, 1], step="post", color=BAND, alpha=0.25)
        axes.step(spent, ends, where="post", color=BAND)
        axes.axhline(suggestion.estimate, color=LINE)
        label = f"{suggestion.quantity}, expected {100 * suggestion.level:g} % interval"
    else:
        errors = [run.error for run in suggestion.runs]
        axes.step(spent[1:], errors, where="post", color=BAND)
        label = f"{suggestion.quantity}, expected standard error"
    axes.set(xlabel="extra training FLOPs" if suggestion.costed else "extra runs", ylabel=label)
    return figure
