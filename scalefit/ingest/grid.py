"""The common form of every reader's output: named columns of cells, and the place of each row in its file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError, ScalefitWarning

__all__ = ["MAX_EXACT", "Dropped", "DroppedRow", "FloatArray", "Grid", "IntArray", "Places", "cells_of", "frozen"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def frozen(values: NDArray[Any]) -> NDArray[Any]:
    """Return the array, made read-only."""
    values.flags.writeable = False
    return values


@dataclass(frozen=True, eq=False)
class Places:
    """Where each row of a table stands in the file it came from.

    Attributes
    ----------
    rows : (n,) int64 array
        Number of the data row in its file, from 1.
    lines : (n,) int64 array
        Line of its file, from 1 (the header is usually line 1).
    files : (n,) int64 array or None
        Index into `names`; None when there is one file.
    names : tuple of str
        The file names, for messages.
    """

    rows: IntArray
    lines: IntArray
    files: IntArray | None
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: NDArray[Any]) -> Places:
        """Return the places of some rows."""
        files = None if self.files is None else frozen(self.files[index])
        return Places(frozen(self.rows[index]), frozen(self.lines[index]), files, self.names)

    def file_of(self, i: int) -> str:
        """Return the name of the file that row i came from."""
        return self.names[0 if self.files is None else int(self.files[i])]

    def name(self, i: int) -> str:
        """Return a phrase for row i, such as "row 5 (line 6) of runs.csv"."""
        return f"row {self.rows[i]} (line {self.lines[i]}) of {self.file_of(i)}"

    @staticmethod
    def join(parts: Sequence[Places]) -> Places:
        """Return the places of several tables under one another."""
        names = tuple(dict.fromkeys(name for part in parts for name in part.names))
        code = {name: i for i, name in enumerate(names)}
        files = []
        for part in parts:
            lookup = np.array([code[name] for name in part.names], dtype=np.int64)
            own = np.zeros(len(part), dtype=np.int64) if part.files is None else part.files
            files.append(lookup[own])
        return Places(
            frozen(np.concatenate([part.rows for part in parts])),
            frozen(np.concatenate([part.lines for part in parts])),
            None if len(names) == 1 else frozen(np.concatenate(files)),
            names,
        )


@dataclass(frozen=True)
class DroppedRow:
    """One row that was left out: its data row and line in the file (both from 1), the reason, the file."""

    row: int
    line: int
    reason: str
    file: str = ""


@dataclass(frozen=True, eq=False)
class Dropped(Sequence[DroppedRow]):
    """The rows left out, in the order in which they were dropped; a sequence of `DroppedRow`.

    Reasons are stored once each, so a million dropped rows cost a few integers a row.
    """

    places: Places
    codes: IntArray
    reasons: tuple[str, ...]

    @staticmethod
    def none(name: str) -> Dropped:
        """Return the empty list of a file."""
        empty = np.zeros(0, dtype=np.int64)
        return Dropped(Places(empty, empty, None, (name,)), empty, ())

    @staticmethod
    def of(places: Places, reasons: Sequence[str]) -> Dropped:
        """Return rows dropped each with its own reason."""
        unique = tuple(dict.fromkeys(reasons))
        code = {reason: i for i, reason in enumerate(unique)}
        codes = np.array([code[reason] for reason in reasons], dtype=np.int64)
        return Dropped(places, codes, unique)

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, i: int) -> DroppedRow: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[DroppedRow, ...]: ...
    def __getitem__(self, i: int | slice) -> DroppedRow | tuple[DroppedRow, ...]:
        if isinstance(i, slice):
            return tuple(self[j] for j in range(*i.indices(len(self))))
        j = range(len(self))[i]
        places = self.places
        return DroppedRow(
            int(places.rows[j]), int(places.lines[j]), self.reasons[int(self.codes[j])], places.file_of(j)
        )

    def __iter__(self) -> Iterator[DroppedRow]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __add__(self, other: Dropped) -> Dropped:
        if not len(other):
            return self
        if not len(self):
            return other
        reasons = tuple(dict.fromkeys(self.reasons + other.reasons))
        code = {reason: i for i, reason in enumerate(reasons)}
        lookups = [np.array([code[r] for r in part.reasons], dtype=np.int64) for part in (self, other)]
        codes = np.concatenate([lookups[0][self.codes], lookups[1][other.codes]])
        return Dropped(Places.join([self.places, other.places]), frozen(codes), reasons)

    def counts(self) -> dict[str, int]:
        """Return how many rows each reason took, in order of first appearance."""
        number = np.bincount(self.codes, minlength=len(self.reasons))
        return {reason: int(n) for reason, n in zip(self.reasons, number, strict=True)}


MAX_EXACT = 2**53
"""Up to here a double holds every integer."""


@dataclass(frozen=True, eq=False)
class Grid:
    """Columns as they stand in a file.

    Attributes
    ----------
    name : str
        Of the file, for messages.
    format : str
        Recognised format.
    names : tuple of str
        Column names in the order of the file, stripped; a nameless column is "".
    columns : tuple of (n,) arrays
        float64 where the format itself holds numbers (NaN is missing), otherwise an object array of
        stripped strings.
    places : Places
    dropped : Dropped
        Rows that are no data: repeated headers, footers, blank lines.
    loss : str or None
        The loss column this format defines by itself, if it does.
    own : bool
        Whether the file is this package's own tidy form, whose names need no interpretation.
    loss_unit : str
        Unit that an own file states for its loss.
    ignored : tuple of str
    empty : tuple of str
        Names among these of columns without an entry.
    warnings : tuple of ScalefitWarning
    """

    name: str
    format: str
    names: tuple[str, ...]
    columns: tuple[NDArray[Any], ...]
    places: Places
    dropped: Dropped
    loss: str | None = None
    own: bool = False
    loss_unit: str = ""
    ignored: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    warnings: tuple[ScalefitWarning, ...] = ()

    def __len__(self) -> int:
        return len(self.places)

    def column(self, name: str) -> NDArray[Any]:
        """Return a column by its name."""
        return self.columns[self.names.index(name)]

    def refuse_duplicates(self) -> None:
        """Raise `DataError` if two columns share a name; nameless ones may."""
        for name, count in Counter(self.names).items():
            if name and count > 1:
                at = [str(i + 1) for i, other in enumerate(self.names) if other == name]
                times = "twice" if count == 2 else f"{count} times"
                raise DataError(
                    f"{self.name}: column {name} appears {times} (columns {', '.join(at)}); rename or remove one"
                )

    def keep(self, mask: NDArray[np.bool_], reasons: Sequence[str]) -> Grid:
        """Return the rows where the mask is true; the others are dropped, each with its reason."""
        if mask.all():
            return self
        index, gone = np.flatnonzero(mask), np.flatnonzero(~mask)
        return replace(
            self,
            columns=tuple(column[index] for column in self.columns),
            places=self.places.take(index),
            dropped=self.dropped + Dropped.of(self.places.take(gone), reasons),
        )

    def without(self, which: set[int], reason: str) -> Grid:
        """Return the grid without some columns, which `ignored` then lists."""
        kept = [i for i in range(len(self.names)) if i not in which]
        listed = tuple(f"{self.names[i] or f'column {i + 1}'} ({reason})" for i in sorted(which))
        return replace(
            self,
            names=tuple(self.names[i] for i in kept),
            columns=tuple(self.columns[i] for i in kept),
            ignored=self.ignored + listed,
        )


def simple_places(name: str, n: int, first_line: int = 2) -> Places:
    """Return the places of n rows on consecutive lines."""
    rows = np.arange(1, n + 1, dtype=np.int64)
    return Places(frozen(rows), frozen(rows + (first_line - 1)), None, (name,))


def cells_of(values: Sequence[Any]) -> NDArray[Any]:
    """Return Python values as a column: float64 when all are numbers it holds or None, otherwise text."""
    # identifiers of runs may be integers that a double does not hold
    if all(v is None or isinstance(v, float) or (type(v) is int and abs(v) <= MAX_EXACT) for v in values):
        return np.array([np.nan if v is None else float(v) for v in values])
    cells = np.empty(len(values), dtype=object)
    cells[:] = ["" if v is None else str(v).strip() for v in values]
    return cells
