"""What a table of runs can tell before any fit: its design, its repetitions, the laws it may determine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import ScalefitWarning
from scalefit.identifiability.design import (
    COLLINEAR,
    LEVELS,
    ColumnDesign,
    Correlation,
    collinear_columns,
    column_design,
    correlate,
    design_verdicts,
    few_levels,
)
from scalefit.identifiability.repetitions import Repetitions, find_repetitions
from scalefit.ingest.duplicates import count_distinct, hash_rows
from scalefit.laws.law import Law
from scalefit.runs import Runs

__all__ = ["DESIGN", "Inspection", "LawOutlook", "inspect_runs"]

DESIGN = ("width", "depth", "tokens", "params", "flops")
"""Columns that describe a run rather than measure it."""

LAWS = ("width+depth+tokens", "params+tokens", "width+tokens", "depth+tokens", "width+depth", "tokens", "flops")
"""Laws that people fit, from the most to the least telling."""


@dataclass(frozen=True)
class LawOutlook:
    """What a design says of one law, before any fit.

    Attributes
    ----------
    law : str
    n_parameters : int
    n_rows : int
        Rows that have all its columns: those that a fit would use.
    not_determined : tuple of str
        Parameters that no losses on this design can determine; empty when the design allows all.
    reason : str
        Why; empty when all is well.
    """

    law: str
    n_parameters: int
    n_rows: int
    not_determined: tuple[str, ...]
    reason: str


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
    laws = [law for law in map(Law.parse, LAWS) if set(law.columns) <= set(names)]
    varying = [name for name in names if levels[name] > 1 and name != "flops"]
    laws += [Law.parse(name) for name in ("width", "depth", "params") if varying == [name]]
    warnings = (
        *(few_levels(name, levels[name], LEVELS) for name in names if 0 < levels[name] < LEVELS),
        *filter(None, map(_pair_remark, correlations)),
        *repetitions.warnings(runs),
        *_run_warnings(runs, rows),
    )
    per_run = (int(rows.min()), int(np.median(rows)), int(rows.max()))
    outlooks = tuple(_outlook(law, runs, levels, correlations) for law in laws)
    return Inspection(columns, correlations, shapes, per_run, repetitions, outlooks, warnings)


def _outlook(law: Law, runs: Runs, levels: Mapping[str, int], correlations: Sequence[Correlation]) -> LawOutlook:
    """What the design says of one law with all its parameters free."""
    names = law.parameter_names
    n = int(np.logical_and.reduce([np.isfinite(runs[column]) for column in law.columns]).sum())
    if n < len(names) + 1:
        reason = f"{len(names)} parameters need at least {len(names) + 1} rows, {n} given"
        return LawOutlook(str(law), len(names), n, names, reason)
    of_law = [pair for pair in correlations if {pair.first, pair.second} <= set(law.columns)]
    found, _ = design_verdicts(law, levels, of_law, names)
    # That a constant term leaves L0 open too goes without saying in an outlook.
    named = {name: reason for name, reason in found.items() if not law.parameter(name).is_floor}
    return LawOutlook(str(law), len(names), n, tuple(named), "; ".join(dict.fromkeys(named.values())))


def _pair_remark(pair: Correlation) -> ScalefitWarning | None:
    """A pair of columns that a law would hold apart and the design does not."""
    a, b = pair.first, pair.second
    size = {a, b} == {"params", "tokens"}
    if not (size or {a, b} <= {"width", "depth", "tokens"}) or abs(pair.value) <= COLLINEAR:
        return None
    if abs(pair.value) < 1:
        return collinear_columns(pair)
    message = f"{b} is a power of {a} in every row, so that their exponents cannot be separated."
    if size:
        message = "tokens per parameter is tied to the size in every row, so that one curve is all there is."
    action = f"Train runs with {a} and {b} off this line, or leave one of them out of the law."
    return ScalefitWarning("tied-columns", message, action, {"columns": [a, b], "correlation": pair.value})


def _run_warnings(runs: Runs, rows: NDArray[np.int64]) -> list[ScalefitWarning]:
    """Several rows of one run."""
    if not runs.has_runs or rows.max() < 2:
        return []
    largest, of = int(rows.max()), "1 run" if runs.n_runs == 1 else f"{runs.n_runs} runs"
    message = f"{len(runs)} rows come from {of}, up to {largest} each; rows of one run are not independent."
    action = "Intervals must resample runs; if only the end of training counts, say --select last."
    numbers = {"rows": len(runs), "runs": runs.n_runs, "largest": largest}
    return [ScalefitWarning("several-rows-per-run", message, action, numbers)]
