"""Figures of the theory: growth with depth, the phase diagram of the bound, attention and the second site."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scalefit.plots.fit import save_figures
from scalefit.theory.checks import BoundSetting, Sampling
from scalefit.theory.limits import PUBLIC_SETTINGS, Criterion, critical_ratio, depth_limit, second_site_tolerance
from scalefit.theory.moments import tanh_second_moment
from scalefit.theory.norms import Norm
from scalefit.theory.simulate import StackSetting, simulate_stack
from scalefit.theory.simulate_blocks import BlockSetting, measured_over_published, second_site_ratios
from scalefit.theory.streams import harmonic, norm_path
from scalefit.theory.verdict import standard_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "attention_figure",
    "growth_figure",
    "increments_figure",
    "phase_figure",
    "save_theory_figures",
    "second_site_figure",
]

BARS = 4
"""Standard errors that an error bar spans to each side, the limit of the equality checks."""


def save_theory_figures(folder: Path, setting: BoundSetting, sampling: Sampling) -> list[Path]:
    """Draw the five figures for a setting and write them as PNG; return their paths.

    Raises
    ------
    OptionError
        The folder cannot be made.
    """
    figures = {
        "variance-against-depth": growth_figure(setting, sampling),
        "increments-against-depth": increments_figure(setting),
        "phase-diagram": phase_figure(),
        "attention-ratio": attention_figure(sampling),
        "second-site": second_site_figure(setting, sampling),
    }
    return save_figures(folder, figures, dpi=130)


def growth_figure(setting: BoundSetting, sampling: Sampling) -> Figure:
    """Residual variance against completed blocks: recursion as lines, simulation as bars of 4 standard errors."""
    names = dict.fromkeys(("rmsnorm", "peri", "dyt", "lns", "control", setting.norm))
    norms = [Norm(name, lam=setting.lam, kappa=setting.kappa) for name in names]
    stack = StackSetting(
        setting.depth,
        width=setting.width,
        mean=setting.mean,
        alignment=dict.fromkeys(names, setting.alignment),
    )
    streams = simulate_stack(norms, stack, n_seeds=sampling.count(32), seed=sampling.seed)
    completed = np.arange(setting.depth + 1)
    shown = np.unique(np.linspace(0, setting.depth, 9).astype(int))
    figure, axes = _axes("completed blocks", "residual variance v")
    for norm in norms:
        path = norm_path(norm, setting.depth, alignment=setting.alignment, mean=setting.mean).variance
        (line,) = axes.plot(
            completed, path, label=norm.name, linestyle="--" if norm.name in ("peri", "control") else "-"
        )
        measured = streams[norm.name].variance[:, shown]
        bars = BARS * np.nan_to_num(standard_error(measured))
        axes.errorbar(shown, measured.mean(axis=0), bars, fmt="o", markersize=3, capsize=3, color=line.get_color())
    axes.set_yscale("log")
    axes.set_title(f"lambda {setting.lam:g}, kappa {setting.kappa:g}: recursion and {len(measured)} seeds")
    axes.legend()
    return figure


def increments_figure(setting: BoundSetting) -> Figure:
    """Second moments of the norms' outputs against 1/l, with the block at which each constant one crosses."""
    ratios = sorted({setting.lam / setting.kappa, 0.1, 0.2, 0.3, 0.5})
    deepest = max(4 * depth_limit(ratios[0], Criterion.INCREMENTS, deepest=10_000), setting.depth)
    blocks = np.arange(1, deepest + 1)
    figure, axes = _axes("block l", "second moment of the norm's output")
    axes.loglog(blocks, 1 / blocks, color="black", label="LNS: 1/l")
    for ratio in ratios:
        moment = float(tanh_second_moment(ratio))
        (line,) = axes.plot(blocks, np.full(deepest, moment), label=f"BHyT, a = {ratio:g}")
        crossing = depth_limit(ratio, Criterion.INCREMENTS) + 1
        if crossing <= deepest:
            axes.plot(crossing, moment, "o", color=line.get_color())
            axes.annotate(f"l = {crossing}", (crossing, moment), xytext=(4, 4), textcoords="offset points")
    axes.legend()
    return figure


def phase_figure() -> Figure:
    """Where BHyT stays below LNS in the plane of a = lambda/kappa and depth, with settings in public use."""
    depths = np.unique(np.geomspace(2, 1000, 160).astype(int))
    labels = {
        Criterion.CONDITION: "a = 1/sqrt(L): condition, any input law",
        Criterion.INCREMENTS: "m(a) = 1/L: increments, normal inputs",
        Criterion.ALIGNED: "residual variance, fully aligned updates",
        Criterion.VARIANCE: "m(a) = H_L/L: residual variance, independent updates",
    }
    curves = {each: np.array([critical_ratio(int(depth), each) for depth in depths]) for each in labels}
    figure, axes = _axes("a = lambda / kappa", "depth L, blocks")
    for criterion, label in labels.items():
        axes.plot(curves[criterion], depths, label=label)
    axes.fill_betweenx(depths, 0.02, curves[Criterion.CONDITION], alpha=0.12, label="bound proved")
    for setting in PUBLIC_SETTINGS:
        axes.plot(setting.ratio, setting.depth, "k*", markersize=9)
        text = f"lambda {setting.lam:g}, {setting.depth} blocks"
        # labels outside the bundle of boundaries: smaller ratios to the left, larger ones to the right
        side, place = (-6, "right") if setting.ratio < 0.25 else (6, "left")
        axes.annotate(
            text, (setting.ratio, setting.depth), (side, -3), textcoords="offset points", ha=place, fontsize=7
        )
    axes.set_title("stars: public settings, kappa 10")
    axes.set(xscale="log", yscale="log", xlim=(0.02, 2), ylim=(2, 1000))
    axes.legend(fontsize=7)
    return figure


def attention_figure(sampling: Sampling) -> Figure:
    """Attention's output variance over the published constant against the sequence length."""
    lengths = np.array([4, 16, 64, 256])
    figure, axes = _axes("sequence length T", "measured over published variance")
    fine = np.arange(2, 513)
    for causal, label, theory in (
        (True, "causal: H_T", harmonic(fine)),
        (False, "bidirectional: 1", np.ones(fine.size)),
    ):
        (line,) = axes.plot(fine, theory, label=label)
        n_seeds = sampling.count(64)
        drawn = [
            measured_over_published(int(length), causal=causal, n_seeds=n_seeds, seed=sampling.seed)
            for length in lengths
        ]
        samples = np.stack(drawn, axis=1)
        bars = BARS * np.nan_to_num(standard_error(samples))
        axes.errorbar(lengths, samples.mean(axis=0), bars, fmt="o", capsize=3, color=line.get_color())
    axes.set_xscale("log", base=2)
    axes.set_title("uniform attention, independent tokens")
    axes.legend()
    return figure


def second_site_figure(setting: BoundSetting, sampling: Sampling) -> Figure:
    """Histogram over tokens of the true over the approximated variance at BHyT's second site."""
    figure, axes = _axes("q = true / approximated variance", "share of tokens")
    norm = Norm("bhyt", lam=setting.lam, kappa=setting.kappa)
    bins = np.geomspace(0.2, 50, 60).tolist()
    for start, label in ((1.0, "unit embeddings"), (4e-4, "embeddings of deviation .02")):
        block = BlockSetting(1, tokens=64, start=start)
        q = second_site_ratios(norm, block, n_seeds=sampling.count(64), seed=sampling.seed).ravel()
        axes.hist(
            q, bins=bins, weights=np.full(q.size, 1 / q.size), histtype="step", label=f"{label}: mean {q.mean():.3g}"
        )
    tolerance = second_site_tolerance(setting.lam, setting.kappa, setting.depth)
    axes.axvline(
        tolerance, color="black", linestyle=":", label=f"tolerance for {setting.depth} blocks: {tolerance:.3g}"
    )
    axes.set_xscale("log")
    axes.set_title("first block, causal attention over 64 tokens, random weights")
    axes.legend()
    return figure


def _axes(x_label: str, y_label: str) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel=x_label, ylabel=y_label)
    axes.grid(alpha=0.25)
    return figure, axes
