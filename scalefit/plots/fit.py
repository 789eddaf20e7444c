"""Figures of a fit: each term with its data, residuals against each column, observed against predicted."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError
from scalefit.files import make_folder, refuse_to_overwrite, write_atomically
from scalefit.fitting.fit import Fit
from scalefit.identifiability import Verdict
from scalefit.laws.terms import PowerTerm, power_term

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = ["fit_figure", "require_image", "save_figure"]

Array = NDArray[np.float64]

DATA, LAW, GUIDE = "#3b6fb6", "#c8452d", "#888888"

LABELS = {
    "width": "width m (d_model)",
    "depth": "depth l (layers)",
    "tokens": "training tokens D",
    "params": "parameters N",
    "flops": "training FLOPs C",
}


def fit_figure(fit: Fit) -> Figure:
    """Draw a fit.

    The upper row shows each term on log axes, with the loss less all other terms as points, and the observed
    against the predicted loss; the lower row shows the residuals against each column and their distribution.

    Parameters
    ----------
    fit : Fit

    Returns
    -------
    matplotlib Figure
    """
    from matplotlib.figure import Figure

    law, n_factors = fit.law, len(fit.law.factors)
    figure = Figure(figsize=(3.5 * (n_factors + 1), 6.6), layout="constrained")
    axes = figure.subplots(2, n_factors + 1, squeeze=False)
    predicted, loss = fit.predict(fit.runs), fit.runs["loss"]
    slopes = law.jacobian(fit.runs, fit.params)
    for k, factor in enumerate(law.factors):
        term = law.term_of(factor)
        by_term = slopes[:, law.parameter_names.index(term.coefficient)] * fit.params[term.coefficient]
        # To first order the losses ask for a term larger by the error over dL/dln(term).
        relative = 1 + np.divide(loss - predicted, by_term, out=np.zeros_like(loss), where=by_term > 0)
        draw_term(axes[0, k], fit, factor, relative)
        draw_residuals(axes[1, k], fit, factor.column)
    draw_agreement(axes[0, -1], predicted, loss)
    draw_distribution(axes[1, -1], fit)
    runs = fit.runs
    figure.suptitle(f"{fit.law} on {runs.origin.name}: {len(runs)} rows, {fit.objective.name}", fontsize=11)
    return figure


def require_image(path: Path) -> None:
    """Complain about a path whose suffix is not png, pdf or svg."""
    if path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise OptionError(f"{path} has no image suffix; end it with .png, .pdf or .svg")


def save_figure(figure: Figure, path: str | Path, overwrite: bool = False, dpi: int = 150) -> Path:
    """Write a figure in the format of the file's suffix (png, pdf, svg); the same figure is the same bytes.

    Raises
    ------
    OptionError
        If the file exists and `overwrite` is false, its folder does not, or the suffix is no image format.
    """
    path = Path(path)
    require_image(path)
    refuse_to_overwrite(overwrite, path)
    form = path.suffix.lower()[1:]
    changing = {"pdf": "CreationDate", "svg": "Date", "png": "Software"}[form]
    content = io.BytesIO()  # a backend that meets a full disk in the middle fails with errors of its own
    figure.savefig(content, format=form, dpi=dpi, metadata={changing: None})
    return write_atomically(path, content.getvalue())


def save_figures(folder: str | Path, figures: Mapping[str, Figure], dpi: int = 150) -> list[Path]:
    """Write figures as PNG into a folder, in place of those of the same names, and return their paths."""
    folder = make_folder(folder)
    return [save_figure(figure, folder / f"{name}.png", True, dpi) for name, figure in figures.items()]


def draw_term(axis: Axes, fit: Fit, factor: PowerTerm, relative: Array) -> None:
    """One term against one of its columns as a line, and the loss less everything else as points.

    `relative` is what the losses say of the term, over its value; the other columns of a product stand at their
    geometric means.
    """
    term, x = fit.law.term_of(factor), fit.runs[factor.column]
    size = fit.params[term.coefficient]
    for other in term.factors:
        if other != factor:
            middle = np.exp(np.mean(np.log(other.argument(fit.runs))))
            size *= float(power_term(middle, 1.0, fit.params[other.exponent]))
    partial = relative * power_term(factor.argument(fit.runs), size, fit.params[factor.exponent])
    shown = partial > 0
    axis.plot(x[shown], partial[shown], "o", ms=3.5, alpha=0.45, color=DATA, mec="none")
    grid = np.geomspace(x.min(), x.max(), 200)
    law = power_term(grid - factor.shift, size, fit.params[factor.exponent])
    axis.plot(grid, law, color=LAW, lw=1.8)
    hidden = int((~shown).sum())
    note = f"\n{hidden} points at or below zero not shown" if hidden else ""
    axis.set_title(f"{factor.column} part: exponent {_exponent_text(fit, factor)}{note}", fontsize=9)
    axis.set_xscale("log")
    low, high = float(law.min()), float(law.max())
    if shown.any() or high > 0:
        axis.set_yscale("log")
    if 0 < low < high:
        margin = max((high / low) ** 0.25, 1.5)
        axis.set_ylim(low / margin, high * margin)
        _log_labels(axis.yaxis, low / margin, high * margin)
    _log_labels(axis.xaxis, float(x.min()), float(x.max()))
    _label(axis, factor.column, "loss less the other terms" if factor == fit.law.factors[0] else "")


def _exponent_text(fit: Fit, term: PowerTerm) -> str:
    if fit.verdicts.get(term.exponent) is Verdict.NOT_DETERMINED:
        return "not determined"
    error = fit.standard_errors[term.exponent]
    return f"{fit.params[term.exponent]:.3g}" + (f" ± {error:.2g}" if math.isfinite(error) else "")


def _log_labels(side: Axis, low: float, high: float) -> None:
    """Label a logarithmic axis: plain numbers where it spans less than a decade and a half, powers beyond."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    if math.log10(high / low) < 1.5:
        side.set_minor_formatter(FuncFormatter(_plain_tick))
        side.set_major_formatter(FuncFormatter(_plain_tick))
    else:
        side.set_minor_formatter(NullFormatter())


def _plain_tick(value: float, _: Any) -> str:
    """Label 1, 2, 3 and 5 times a power of ten, and nothing between."""
    leading = value / 10 ** math.floor(math.log10(value) + 1e-9)
    return f"{value:g}" if min(abs(leading - k) for k in (1, 2, 3, 5)) < 1e-6 else ""


def draw_residuals(axis: Axes, fit: Fit, column: str) -> None:
    """Residuals against a column."""
    axis.axhline(0, color=GUIDE, lw=0.8)
    x = fit.runs[column]
    axis.plot(x, fit.residuals, "o", ms=3.5, alpha=0.45, color=DATA, mec="none")
    axis.set_xscale("log")
    _log_labels(axis.xaxis, float(x.min()), float(x.max()))
    unit = "ln loss" if fit.objective.log else "nats per token"
    _label(axis, column, f"predicted - observed, {unit}" if column == fit.law.columns[0] else "")


def draw_agreement(axis: Axes, predicted: Array, loss: Array) -> None:
    """Observed against predicted loss."""
    ends = [min(predicted.min(), loss.min()), max(predicted.max(), loss.max())]
    axis.plot(ends, ends, color=LAW, lw=1.2)
    axis.plot(predicted, loss, "o", ms=3.5, alpha=0.45, color=DATA, mec="none")
    axis.set_xlabel("predicted loss")
    axis.set_ylabel("observed loss")
    axis.set_title("observed against predicted", fontsize=9)


def draw_distribution(axis: Axes, fit: Fit) -> None:
    """How the residuals are distributed."""
    residuals = fit.residuals
    axis.hist(residuals, bins=min(40, max(8, len(residuals) // 6)), color=DATA, alpha=0.7)
    axis.axvline(0, color=GUIDE, lw=0.8)
    axis.set_xlabel("residual")
    axis.set_ylabel("rows")
    axis.set_title(f"root mean square {np.sqrt(np.mean(residuals**2)):.3g}", fontsize=9)


def _label(axis: Axes, column: str, y: str) -> None:
    axis.set_xlabel(LABELS.get(column, column))
    axis.set_ylabel(y)
