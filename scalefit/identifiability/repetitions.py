"""Rows that repeat others, and the noise that repeated settings show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import ScalefitWarning
from scalefit.ingest.grid import FloatArray, IntArray
from scalefit.runs import Runs

__all__ = [
    "Distinct",
    "Repetitions",
    "count_distinct",
    "duplicate_warnings",
    "exact_duplicates",
    "find_repetitions",
    "hash_rows",
]

_FEW = 5_000
"""Up to so many rows are compared cell by cell; of more, those whose hashes agree."""

_SAMPLE = 10_000

_NAMED = 3
"""Duplicates that a warning names."""


@dataclass(frozen=True, eq=False)
class Distinct:
    """The values of a column, counted once.

    Attributes
    ----------
    levels : int
        Number of distinct values.
    shared : float array or None
        The values that occur more than once, sorted; None where they are many or a cell is missing.
    """

    levels: int
    shared: FloatArray | None


def count_distinct(values: FloatArray) -> Distinct:
    """Count the values of a column; missing cells do not count.

    A long column of few levels is counted by hashing, any other by one sort.
    """
    known = ~np.isnan(values)
    is_complete = bool(known.all())
    finite = values if is_complete else values[known]
    if len(finite) > _SAMPLE and len(np.unique(finite[:_SAMPLE])) < _SAMPLE // 10:
        return Distinct(len(np.unique(finite)), None)
    ordered = np.sort(finite)
    same = ordered[1:] == ordered[:-1]
    shared = np.unique(ordered[1:][same]) if is_complete else None
    return Distinct(len(finite) - int(same.sum()), shared)


@dataclass(frozen=True, eq=False)
class Repetitions:
    """Rows that repeat others.

    Attributes
    ----------
    duplicates : (k,) int64 array
        Rows equal to an earlier row in every column; they carry no information.
    replicated : int
        Settings (combinations of the design columns) measured more than once, duplicates apart.
    noise : float or None
        Standard deviation of ln loss within those settings, pooled; None without any.
    degrees : int
        Degrees of freedom of that estimate.
    """

    duplicates: IntArray
    replicated: int
    noise: float | None
    degrees: int

    def warnings(self, runs: Runs) -> list[ScalefitWarning]:
        """Duplicates and replicates of the table, in words."""
        found = duplicate_warnings(runs, self.duplicates)
        if self.noise is not None:
            found.append(
                ScalefitWarning(
                    "replicates",
                    f"{self.replicated} settings were measured more than once; within them ln loss varies with a "
                    f"standard deviation of {self.noise:.2g} ({self.degrees} degrees of freedom).",
                    "A good law leaves residuals of about this size; much larger ones mean that it misses something.",
                    {"settings": self.replicated, "noise": self.noise, "degrees": self.degrees},
                )
            )
        return found


def hash_rows(columns: Sequence[FloatArray]) -> NDArray[np.uint64]:
    """One 64-bit number a row, equal for equal rows (splitmix64 of the bits, column by column).

    Unequal rows collide with probability n^2 / 2^65, below 1e-7 for a million rows.
    """
    mixed = np.zeros(len(columns[0]), dtype=np.uint64)
    for values in columns:
        # adding zero turns -0.0 into 0.0; one NaN pattern stands for missing
        mixed += np.where(np.isnan(values), np.nan, values + 0.0).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(30)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(27)
        mixed *= np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed


def find_repetitions(runs: Runs, design: Sequence[str], counted: Mapping[str, Distinct]) -> Repetitions:
    """Count duplicates, and pool the variance of ln loss over settings that occur more than once.

    Parameters
    ----------
    runs : Runs
    design : sequence of str
        Columns that make up a setting.
    counted : mapping of str to Distinct
        For these columns and the loss.
    """
    later = exact_duplicates(runs, counted)
    # Without tokens or compute, rows of one run differ in how far they were trained.
    ambiguous = len(runs) - len(later) > runs.n_runs and not {"tokens", "flops"} & set(design)
    if not design or ambiguous:
        return Repetitions(later, 0, None, 0)
    single = runs["loss"] > 0
    single[later] = False
    rows = _may_repeat(runs, design, counted)
    rows = rows[single[rows]]
    settings = hash_rows([runs[name][rows] for name in design])
    _, group, counts = np.unique(settings, return_inverse=True, return_counts=True)
    degrees = len(rows) - len(counts)
    if degrees == 0:
        return Repetitions(later, 0, None, 0)
    y = np.log(runs["loss"][rows])
    residual = y - (np.bincount(group, weights=y) / counts)[group]
    noise = float(np.sqrt(residual @ residual / degrees))
    return Repetitions(later, int((counts > 1).sum()), noise, degrees)


def exact_duplicates(runs: Runs, counted: Mapping[str, Distinct] | None = None) -> IntArray:
    """Return the rows equal to an earlier one in every column, of numbers or of text.

    `counted` are the distinct values of columns where they are known; otherwise those of the loss are counted.
    """
    rows = _may_repeat(runs, ["loss"], counted or {"loss": count_distinct(runs["loss"])})
    numbers, texts = [runs[name] for name in runs.columns], list(runs.table.texts.values())
    if len(rows) > _FEW:
        _, group, counts = np.unique(hash_rows([x[rows] for x in numbers]), return_inverse=True, return_counts=True)
        rows = rows[counts[group] > 1]
    cells = [(column[rows] + 0.0).view(np.int64).tolist() for column in numbers]  # bits: missing equals missing
    cells += [column[rows].tolist() for column in texts]
    seen: set[tuple[object, ...]] = set()
    later = []
    for i, row in zip(rows.tolist(), zip(*cells, strict=True), strict=True):
        if row in seen:
            later.append(i)
        seen.add(row)
    return np.array(later, dtype=np.int64)


def duplicate_warnings(runs: Runs, later: IntArray) -> list[ScalefitWarning]:
    """Rows that repeat an earlier row in every column, the first few by name."""
    if not len(later):
        return []
    named = ", ".join(runs.row_name(int(i)) for i in later[:_NAMED])
    more = f" and {len(later) - _NAMED} more" if len(later) > _NAMED else ""
    rows = "1 row repeats" if len(later) == 1 else f"{len(later)} rows repeat"
    return [
        ScalefitWarning(
            "exact-duplicates",
            f"{rows} an earlier row in every column: {named}{more}.",
            "Delete them, for they count one measurement twice; trainings of their own differ in a seed or a run name.",
            {"rows": len(later), "lines": runs.lines[later[:_NAMED]].tolist()},
        )
    ]


def _may_repeat(runs: Runs, names: Sequence[str], counted: Mapping[str, Distinct]) -> IntArray:
    """Rows that may equal another: those that share their value in the column where fewest do.

    On large tables this leaves a handful to compare; missing cells rule a column out of the choice.
    """
    every = np.arange(len(runs), dtype=np.int64)
    shared = {name: values for name in names if (values := counted[name].shared) is not None}
    if not shared:
        return every
    name, values = min(shared.items(), key=lambda item: len(item[1]))
    if not len(values):
        return every[:0]
    at = np.minimum(np.searchsorted(values, runs[name]), len(values) - 1)
    return np.flatnonzero(values[at] == runs[name]).astype(np.int64)
