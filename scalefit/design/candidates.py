"""Runs that could be trained next, and what each costs."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError
from scalefit.optimal.budget import parse_values
from scalefit.optimal.counts import BLOCKS, Count
from scalefit.runs import Runs

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["Candidates", "candidate_grid", "parse_levels", "run_cost", "tells_cost"]

Array = NDArray[np.float64]

LEVELS = 10
MOST_CANDIDATES = 200_000
WIDTH_STEP = 64


@dataclass(frozen=True, eq=False)
class Candidates:
    """Runs to choose from.

    Attributes
    ----------
    columns : mapping of str to (n,) float array
        The law's columns.
    flops : (n,) float array
        Training compute of each; ones where the columns do not tell it.
    """

    columns: Mapping[str, Array]
    flops: Array

    def __len__(self) -> int:
        return len(self.flops)

    def where(self, keep: NDArray[np.bool_]) -> Candidates:
        """Some of the candidates."""
        return Candidates({name: x[keep] for name, x in self.columns.items()}, self.flops[keep])


def candidate_grid(
    fit: Fit,
    levels: Mapping[str, Array] | None = None,
    *,
    count: Count = BLOCKS,
    max_flops: float | None = None,
) -> Candidates:
    """Combine levels of the law's columns into a grid of runs.

    Parameters
    ----------
    fit : Fit
    levels : mapping of str to array, optional
        Values of each column. A column left out takes ten values in equal ratios over the range of the table,
        or its one value with the half and the double of it; widths rounded to multiples of 64, depths to whole layers.
    count : Count
        Counts the operations of a run.
    max_flops : float, optional
        Most compute of one run; by default the largest of the table's own runs.

    Raises
    ------
    OptionError
        If a level is not positive, a column is not one of the law's, or nothing is left below `max_flops`.
    """
    levels = dict(levels or {})
    for name, values in levels.items():
        if name not in fit.law.columns:
            raise OptionError(f"the law {fit.law} has no column {name!r}; it has {', '.join(fit.law.columns)}")
        if not (np.isfinite(values) & (values > 0)).all():
            raise OptionError(f"a level of {name} is not a positive number")
    axes = [np.unique(levels.get(name, _levels(name, fit.runs))) for name in fit.law.columns]
    if (n := math.prod(len(axis) for axis in axes)) > MOST_CANDIDATES:
        raise OptionError(f"the grid has {n} runs, more than {MOST_CANDIDATES}; give fewer levels of a column")
    grid = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
    columns = dict(zip(fit.law.columns, grid, strict=True))
    candidates = Candidates(columns, run_cost(columns, count))
    most = float(run_cost(fit.runs, count).max()) if max_flops is None else max_flops
    if not most > 0:
        raise OptionError(f"the most operations of one run are {most:g} and must be positive")
    affordable = candidates.flops <= most * (1 + 1e-9)
    if not affordable.any():
        raise OptionError(
            f"every run of the grid costs more than {most:.3g} operations; the cheapest costs "
            f"{candidates.flops.min():.3g}: raise --max-flops or give smaller levels"
        )
    return candidates.where(affordable)


def run_cost(columns: Mapping[str, Array] | Runs, count: Count) -> Array:
    """Training compute of runs, from width, depth and tokens or from params and tokens; else one each."""
    if not tells_cost(columns):
        return np.ones(len(columns) if isinstance(columns, Runs) else len(next(iter(columns.values()))))
    if "width" in columns and "depth" in columns:
        return count.train(columns["width"], columns["depth"], columns["tokens"])
    return np.asarray(6.0 * columns["params"] * columns["tokens"])


def tells_cost(columns: Container[str]) -> bool:
    """Whether columns of these names tell the compute of a run."""
    return "tokens" in columns and (("width" in columns and "depth" in columns) or "params" in columns)


def _levels(name: str, runs: Runs) -> Array:
    low, high = float(runs[name].min()), float(runs[name].max())
    if low == high:  # more runs of the same value would say nothing of the column's term
        low, high = low / 2, high * 2
        values = np.geomspace(low, high, 3)
    else:
        values = np.geomspace(low, high, LEVELS)
    if name == "depth":
        values = np.maximum(np.round(values), 1.0)
    elif name == "width" and low >= WIDTH_STEP:
        values = WIDTH_STEP * np.round(values / WIDTH_STEP)
    return np.unique(np.clip(values, low, high))


def parse_levels(text: str, name: str) -> Array:
    """Read levels: numbers with commas, or ``FROM:TO:HOW_MANY`` in equal ratios, of depths in whole layers.

    Examples
    --------
    >>> parse_levels("8,16", "depth").tolist(), parse_levels("1B:1e11:3", "tokens").round(-6).tolist()
    ([8.0, 16.0], [1000000000.0, 10000000000.0, 100000000000.0])
    """
    values = np.array(parse_values(text, f"levels of {name}"))
    if not (values > 0).all():
        raise OptionError(f"levels of {name} {text!r}: every level must be a positive number")
    return np.maximum(np.round(values), 1.0) if name == "depth" and ":" in text else values
