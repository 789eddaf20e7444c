"""What reading a file yields: numbers by column, the place of each row, and what was left out and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import ScalefitWarning

__all__ = [
    "Dropped",
    "DroppedRow",
    "FloatArray",
    "IntArray",
    "Origin",
    "Places",
    "Selection",
    "Table",
    "frozen",
]

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


@dataclass(frozen=True)
class Selection:
    """One step of the selection: what was asked and how many rows there were before and after."""

    name: str
    before: int
    after: int


@dataclass(frozen=True)
class Origin:
    """Where a table came from and how it was understood.

    Attributes
    ----------
    name : str
        File name or name of the shipped dataset, for messages.
    format : str
        Recognised format, such as "csv" or "wandb-chart".
    sha256 : str
        Of the bytes of the file; of several files, of their hashes in order; empty for a table from memory.
    columns : mapping of str to str
        Name here -> name or expression in the file.
    units : mapping of str to str
        Unit of a column, where known ("nats per token").
    ignored : tuple of str
        Columns of the file that hold no numbers or were left aside, with the reason.
    locale : str
        How numbers were written, such as "decimal comma, thousands dot".
    """

    name: str
    format: str
    sha256: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    locale: str = "decimal point"


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of numbers with their names, places and history; immutable.

    Attributes
    ----------
    columns : mapping of str to (n,) float64 array
        Read-only; every entry is finite or NaN (missing).
    texts : mapping of str to (n,) object array
        Columns of text, for conditions; the text column "run" names the training run of each row.
    places : Places
    dropped : Dropped
    origin : Origin
    selections : tuple of Selection
    warnings : tuple of ScalefitWarning
    """

    columns: Mapping[str, FloatArray]
    texts: Mapping[str, NDArray[np.object_]]
    places: Places
    dropped: Dropped
    origin: Origin
    selections: tuple[Selection, ...] = ()
    warnings: tuple[ScalefitWarning, ...] = ()

    def __len__(self) -> int:
        return len(self.places)

    def keep(self, mask: NDArray[np.bool_], reasons: str | Sequence[str], step: str | None = None) -> Table:
        """Return the rows where the mask is true; the others join `dropped`.

        Parameters
        ----------
        mask : (n,) bool array
        reasons : str or sequence of str
            Why the others go: one reason for all, or one per dropped row in order.
        step : str, optional
            Name of the selection to record with its counts.
        """
        selections = self.selections
        if step is not None:
            selections = (*selections, Selection(step, len(self), int(mask.sum())))
        if mask.all():
            return replace(self, selections=selections)
        gone = np.flatnonzero(~mask)
        places = self.places.take(gone)
        if isinstance(reasons, str):
            new = Dropped(places, frozen(np.zeros(len(gone), dtype=np.int64)), (reasons,))
        else:
            new = Dropped.of(places, reasons)
        index = np.flatnonzero(mask)
        return replace(self._rows(index), dropped=self.dropped + new, selections=selections)

    def _rows(self, index: IntArray) -> Table:
        return replace(
            self,
            columns={name: frozen(values[index]) for name, values in self.columns.items()},
            texts={name: frozen(values[index]) for name, values in self.texts.items()},
            places=self.places.take(index),
        )

    def with_warning(self, warning: ScalefitWarning) -> Table:
        """Return the table with one more warning."""
        return replace(self, warnings=(*self.warnings, warning))
