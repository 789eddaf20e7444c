"""Rows and files that repeat others: found, and counted once where that is certain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import ScalefitWarning
from scalefit.ingest.grid import FloatArray, IntArray
from scalefit.ingest.table import Table

__all__ = [
    "Distinct",
    "count_distinct",
    "counted_once",
    "duplicate_warning",
    "exact_duplicates",
    "hash_rows",
    "may_repeat",
    "without_copies",
]

_FEW = 5_000
"""Up to so many rows are compared cell by cell; of more, those whose hashes agree."""

_SAMPLE = 10_000

_NAMED = 3
"""Duplicates that a warning names."""

_TELLS_APART = frozenset(["run", "seed"])


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


def exact_duplicates(table: Table, counted: Mapping[str, Distinct] | None = None) -> IntArray:
    """Return the rows equal to an earlier one in every column, of numbers or of text.

    `counted` are the distinct values of columns where they are known; otherwise those of the loss are counted.
    """
    rows = may_repeat(table, ["loss"], counted or {"loss": count_distinct(table.columns["loss"])})
    numbers, texts = list(table.columns.values()), list(table.texts.values())
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


def may_repeat(table: Table, names: Sequence[str], counted: Mapping[str, Distinct]) -> IntArray:
    """Rows that may equal another: those that share their value in the column where fewest do.

    On large tables this leaves a handful to compare; missing cells rule a column out of the choice.
    """
    every = np.arange(len(table), dtype=np.int64)
    shared = {name: values for name in names if (values := counted[name].shared) is not None}
    if not shared:
        return every
    name, values = min(shared.items(), key=lambda item: len(item[1]))
    if not len(values):
        return every[:0]
    at = np.minimum(np.searchsorted(values, table.columns[name]), len(values) - 1)
    return np.flatnonzero(values[at] == table.columns[name]).astype(np.int64)


def counted_once(table: Table) -> Table:
    """Return the table without rows that equal an earlier one in every column, its run or seed among them.

    Without such a column rows may be repeats of a rounded loss, and stay.
    """
    names = {name.lower() for name in (*table.columns, *table.texts)}
    if table.keep_duplicates or not names & _TELLS_APART:
        return table
    later = exact_duplicates(table)
    if not len(later):
        return table
    mask = np.ones(len(table), dtype=np.bool_)
    mask[later] = False
    return table.keep(mask, "equals an earlier row in every column").with_warning(duplicate_warning(table, later))


def duplicate_warning(table: Table, later: IntArray) -> ScalefitWarning:
    """Rows that repeat an earlier row in every column, the first few by name."""
    named = ", ".join(table.places.name(int(i)) for i in later[:_NAMED])
    more = f" and {len(later) - _NAMED} more" if len(later) > _NAMED else ""
    rows = "1 row repeats" if len(later) == 1 else f"{len(later)} rows repeat"
    names = {name.lower() for name in (*table.columns, *table.texts)}
    action = "They count once in a fit; if they are trainings of their own, say --keep-duplicates."
    if table.keep_duplicates or not names & _TELLS_APART:
        action = (
            "Delete them if they count one measurement twice; trainings of their own differ in a seed or a run name."
        )
    return ScalefitWarning(
        "exact-duplicates",
        f"{rows} an earlier row in every column: {named}{more}.",
        action,
        {"rows": len(later), "lines": table.places.lines[later[:_NAMED]].tolist()},
    )


def without_copies(tables: Sequence[Table], labels: Sequence[str]) -> list[Table]:
    """Return the tables of several files, those that hold the rows of an earlier one without their rows.

    The run that a file name gives to its rows is no difference.
    """
    first: dict[tuple[object, ...], tuple[Table, str]] = {}
    kept = []
    for table, label in zip(tables, labels, strict=True):
        texts = {n: v for n, v in table.texts.items() if not (n == "run" and set(v.tolist()) <= {label})}
        key = (
            *((name, values.tobytes()) for name, values in sorted(table.columns.items())),
            *((name, *values.tolist()) for name, values in sorted(texts.items())),
        )
        original, as_ = first.setdefault(key, (table, label))
        if original is not table:
            this, other = table.places.file_of(0), original.places.file_of(0)
            this, other = (label, as_) if this == other else (this, other)
            nothing = np.zeros(len(table), dtype=np.bool_)
            table = table.keep(nothing, f"{this} holds the rows of {other}").with_warning(
                ScalefitWarning(
                    "equal-files",
                    f"{this} holds the same {len(original)} rows as {other}; they were counted once.",
                    "Name one of the files; if both are trainings of their own, say --keep-duplicates.",
                    {"files": [other, this], "rows": len(original)},
                )
            )
        kept.append(table)
    return kept
