"""What a table of runs can tell before any fit: its design, its repetitions, the laws it may determine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalefit.errors import ScalefitWarning
from scalefit.identifiability.columns import ColumnDesign, Correlation, column_design, correlate, count_distinct
from scalefit.identifiability.outlook import LAWS, LawOutlook, law_outlook
from scalefit.identifiability.repetitions import Repetitions, find_repetitions, hash_rows
from scalefit.identifiability.warn import correlation_warnings, level_warnings, repetition_warnings, run_warnings
from scalefit.runs import Runs

__all__ = ["DESIGN", "ColumnDesign", "Correlation", "Inspection", "LawOutlook", "Repetitions", "inspect_runs"]

DESIGN = ("width", "depth", "tokens", "params", "flops")
"""Columns that describe a run rather than measure it."""


@dataclass(frozen=True)
class Inspection:
    """What `inspect_runs` found.

    Attributes
    ----------
    columns : tuple of ColumnDesign
    correlations : tuple of Correlation
    n_shapes : int or None
        Distinct combinations of width and depth, over rows that have both; None without such columns.
    rows_per_run : tuple of int
        Smallest, median and largest number of rows of a run.
    repetitions : Repetitions
    laws : tuple of LawOutlook
    warnings : tuple of ScalefitWarning
    """

    columns: tuple[ColumnDesign, ...]
    correlations: tuple[Correlation, ...]
    n_shapes: int | None
    rows_per_run: tuple[int, int, int]
    repetitions: Repetitions
    laws: tuple[LawOutlook, ...]
    warnings: tuple[ScalefitWarning, ...]


def inspect_runs(runs: Runs) -> Inspection:
    """Describe the design of a table and what each common law can hope for.

    Parameters
    ----------
    runs : Runs
        Missing cells are allowed; they are left out column by column.

    Examples
    --------
    >>> runs = Runs.from_columns({"width": [64, 128, 256], "depth": [1, 2, 4], "loss": [4.0, 3.5, 3.2]})
    >>> inspect_runs(runs).correlations[0].value
    1.0
    """
    names = [name for name in DESIGN if name in runs]
    counted = {name: count_distinct(runs[name]) for name in (*names, "loss")}
    levels = {name: values.levels for name, values in counted.items()}
    columns = tuple(column_design(name, runs[name], n) for name, n in levels.items())
    correlations = correlate({name: runs[name] for name in names})
    shapes = None
    if "width" in names and "depth" in names:
        known = ~np.isnan(runs["width"] + runs["depth"])
        shapes = len(np.unique(hash_rows([runs["width"][known], runs["depth"][known]])))
    rows = np.bincount(runs.run_ids) if len(runs) else np.ones(1, dtype=np.int64)
    repetitions = find_repetitions(runs, names, counted)
    laws = tuple(law_outlook(law, runs, levels, correlations) for law in LAWS if set(law.split("+")) <= set(names))
    warnings = (
        *level_warnings(columns),
        *correlation_warnings(correlations),
        *repetition_warnings(runs, repetitions),
        *run_warnings(runs, rows),
    )
    per_run = (int(rows.min()), int(np.median(rows)), int(rows.max()))
    return Inspection(columns, correlations, shapes, per_run, repetitions, laws, warnings)
