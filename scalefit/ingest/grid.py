"""The common form of every reader's output: named columns of cells, not yet understood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import ScalefitWarning
from scalefit.ingest.table import Dropped, Places, frozen

__all__ = ["Grid", "cells_of", "simple_places"]


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
    warnings: tuple[ScalefitWarning, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.places)

    def column(self, name: str) -> NDArray[Any]:
        """Return a column by its name."""
        return self.columns[self.names.index(name)]

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
    """Return Python values as a column: float64 when all are numbers or None, otherwise text."""
    if all(v is None or (isinstance(v, (int, float)) and not isinstance(v, bool)) for v in values):
        return np.array([_double(v) for v in values], dtype=np.float64)
    cells = np.empty(len(values), dtype=object)
    cells[:] = ["" if v is None else str(v).strip() for v in values]
    return cells


def _double(value: float | None) -> float:
    try:
        return float("nan") if value is None else float(value)
    except OverflowError:
        return float("inf")
