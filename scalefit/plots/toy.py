"""Figures of teacher-student sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from scalefit.experiments.depth_exponents import DepthExponent, by_condition, longest_horizons, total_units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_exponents", "plot_loss_against_depth", "plot_paths", "plot_total_units", "sweep_figures"]

COLOURS = {"tied": "#1f77b4", "independent": "#d62728"}
MARKERS = "os^Dv<>Pp"

PATHS = {"angle": "angle between successive updates (degrees)", "coherence": "|sum of updates| / sum of |update|"}
"""Columns that tell how states move, with their names on an axis; a teacher's open with ``teacher_``."""

LOSS_NAMES = {"mse": "mean square error of the final state", "kl": "KL divergence (nats per sample)"}

MOST_TICKS = 6
"""With more points than this an axis keeps its own ticks."""


def sweep_figures(table: pd.DataFrame, found: Sequence[DepthExponent]) -> dict[str, Figure]:
    """Draw every figure that a sweep's results have something for, by file name.

    Parameters
    ----------
    table : DataFrame
        Results as `scalefit.experiments.depth_exponents.read_sweep` gives them.
    found : sequence of DepthExponent
        Their exponents; none at a fixed total number of hidden units.
    """
    figures: dict[str, Figure] = {}
    if PATHS.keys() <= set(table.columns):
        figures["paths"] = plot_paths(table)
    if total_units(table) is not None:
        return {**figures, "total_units": plot_total_units(table)}
    figures["loss_depth"] = plot_loss_against_depth(table, found)
    if table["horizon"].nunique() > 1:
        figures["exponent_steps"] = plot_exponents(found, "horizon", "steps (each point annealed)")
    if table["temperature"].nunique() > 1:
        figures["exponent_temperature"] = plot_exponents(longest_horizons(found), "temperature", "temperature")
    return figures


def _colour(label: str) -> str:
    """Colour of a condition; its label opens with the kind of teacher."""
    return COLOURS[label.split()[0]]


def _panel(width: float = 5.2) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 4.2), layout="constrained")
    return figure, figure.subplots()


def _trained(rows: pd.DataFrame, horizon: int) -> pd.DataFrame:
    """Rows of a horizon whose student did not diverge."""
    return rows[(rows["horizon"] == horizon) & (rows["status"] == "ok")]


def plot_loss_against_depth(table: pd.DataFrame, found: Sequence[DepthExponent]) -> Figure:
    """Draw loss against depth at the longest horizon: geometric means, range over teachers, fitted power laws."""
    figure, axes = _panel()
    conditions = dict(by_condition(table))
    for item, marker in zip(longest_horizons(found), cycle(MARKERS), strict=False):
        losses = _trained(conditions[item.label], item.horizon).pivot(index="seed", columns="depth", values="loss")
        depths = losses.columns.to_numpy(dtype=float)
        centre = np.exp(np.log(losses).mean())
        colour = _colour(item.label)
        # The least-squares line in logarithms passes through the means of both logarithms.
        line = np.exp(np.log(centre).mean() - item.alpha * (np.log(depths) - np.log(depths).mean()))
        axes.fill_between(depths, losses.min(), losses.max(), color=colour, alpha=0.2, linewidth=0)
        axes.plot(depths, centre, marker, color=colour, label=f"{item.label}: depth^-{item.alpha:.2f}")
        axes.plot(depths, line, "-", color=colour, linewidth=1)
    objectives = table["objective"].unique()
    axes.set(yscale="log", ylabel=LOSS_NAMES[objectives[0]] if len(objectives) == 1 else "loss")
    _depth_axis(axes, table, "depth of the student")
    axes.legend(fontsize="small")
    return figure


def plot_exponents(found: Sequence[DepthExponent], against: str, name: str) -> Figure:
    """Draw exponents without floor and their t intervals against the horizon or a column of the condition."""
    figure, axes = _panel()
    curves: dict[str, list[tuple[float, DepthExponent]]] = {}
    for item in found:
        x = item.horizon if against == "horizon" else item.condition[against]
        label = " ".join(part for part in item.label.split() if not part.startswith(f"{against}="))
        curves.setdefault(label, []).append((float(x), item))
    for (label, points), marker in zip(curves.items(), cycle(MARKERS), strict=False):
        points.sort(key=lambda point: point[0])
        alphas = np.array([item.alpha for _, item in points])
        reach = np.array([item.interval[1] - item.alpha for _, item in points])
        colour = _colour(label)
        axes.errorbar(
            [x for x, _ in points], alphas, yerr=reach, fmt=f"{marker}-", color=colour, label=label, capsize=3
        )
    for level in (1, 2, 3):
        axes.axhline(level, color="0.8", linewidth=0.8, zorder=0)
    axes.set(xscale="log", xlabel=name, ylabel="exponent of loss against depth")
    places = sorted({x for points in curves.values() for x, _ in points})
    if len(places) <= MOST_TICKS:
        axes.set_xticks(places, labels=[f"{x:g}" for x in places])
        axes.set_xticks([], minor=True)
    axes.legend(fontsize="small")
    return figure


def plot_total_units(table: pd.DataFrame) -> Figure:
    """Draw loss against depth at a fixed total number of hidden units, relative to the shallowest student."""
    figure, axes = _panel()
    for (label, rows), marker in zip(by_condition(table), cycle(MARKERS), strict=False):
        losses = _trained(rows, rows["horizon"].max()).pivot(index="seed", columns="depth", values="loss")
        relative = losses.div(losses.iloc[:, 0], axis=0)
        depths, colour = relative.columns.to_numpy(dtype=float), _colour(label)
        axes.fill_between(depths, relative.min(), relative.max(), color=colour, alpha=0.2, linewidth=0)
        axes.plot(depths, relative.mean(), f"{marker}-", color=colour, label=label)
    axes.set(yscale="log", ylabel="loss over that of the shallowest")
    _depth_axis(axes, table, f"depth, with depth x hidden units = {total_units(table)}")
    axes.legend()
    return figure


def plot_paths(table: pd.DataFrame) -> Figure:
    """Draw angles between successive updates and path coherence of students, the teachers' as dashed lines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.2), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, (column, name) in zip(panels, PATHS.items(), strict=True):
        for (label, condition), marker in zip(by_condition(table), cycle(MARKERS), strict=False):
            rows, colour = _trained(condition, condition["horizon"].max()), _colour(label)
            found = rows.groupby("depth")[column].agg(["mean", "min", "max"])
            axes.fill_between(found.index, found["min"], found["max"], color=colour, alpha=0.2, linewidth=0)
            axes.plot(found["mean"], f"{marker}-", color=colour, label=f"{label}, students")
            axes.axhline(rows[f"teacher_{column}"].mean(), color=colour, linestyle="--", label=f"{label}, teachers")
        axes.set_ylabel(name)
        _depth_axis(axes, table, "depth of the student")
    # Beside the panels: the teachers' lines cross a panel from side to side, wherever they lie.
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize="small")
    return figure


def _depth_axis(axes: Axes, table: pd.DataFrame, name: str) -> None:
    """A logarithmic axis with a tick at every depth of the sweep."""
    depths = sorted(table["depth"].unique())
    axes.set_xscale("log")
    axes.set_xticks(depths, labels=[str(depth) for depth in depths])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(name)
