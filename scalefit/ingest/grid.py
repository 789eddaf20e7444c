"""The common form of every reader's output: named columns of cells, not yet understood."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError, ScalefitWarning
from scalefit.ingest.table import Dropped, Places, frozen

__all__ = ["MAX_EXACT", "Grid", "cells_of", "simple_places"]

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
    if all(v is None or isinstance(v, float) or _is_exact(v) for v in values):
        return np.array([np.nan if v is None else float(v) for v in values])
    cells = np.empty(len(values), dtype=object)
    cells[:] = ["" if v is None else str(v).strip() for v in values]
    return cells


def _is_exact(value: object) -> bool:
    """Whether a value is an integer that a double holds; identifiers of runs may be longer."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_EXACT
