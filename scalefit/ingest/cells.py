"""From the cells of a grid to numbers: one locale a file, then column by column."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import ScalefitWarning
from scalefit.ingest.grid import Grid
from scalefit.ingest.numbers import (
    MISSING,
    Locale,
    gather,
    looks_numeric,
    parse_column,
    plain_numbers,
    tells_marks,
)
from scalefit.ingest.options import ReadOptions
from scalefit.ingest.table import FloatArray

__all__ = ["Parsed", "parse_grid", "unreadable_warning"]

_PLAIN_COUNT = re.compile(r"0|[1-9][0-9]{0,14}", re.ASCII)
"""Whole numbers in their one plain form, below 2^53."""


@dataclass(frozen=True, eq=False)
class Parsed:
    """Columns of a grid by name, as numbers and as text.

    Attributes
    ----------
    numbers : dict of str to (n,) float64 array
        Finite or NaN.
    texts : dict of str to (n,) object array
    unreadable : dict of str to (n,) bool array
        For columns of numbers in which some cell is neither a number nor a sign for a missing one.
    cells : dict of str to (n,) object array
        The cells of columns of numbers that came as text, for messages.
    locale : Locale
    """

    numbers: dict[str, FloatArray]
    texts: dict[str, NDArray[np.object_]]
    unreadable: dict[str, NDArray[np.bool_]]
    cells: dict[str, NDArray[np.object_]]
    locale: Locale


def parse_grid(grid: Grid, options: ReadOptions, wanted: set[str], labels: set[str]) -> Parsed:
    """Turn columns into numbers where at least half of their filled cells are numbers, or they are wanted.

    Parameters
    ----------
    grid : Grid
        With distinct column names.
    options : ReadOptions
        Its decimal and thousands marks, when given, are taken instead of being inferred.
    wanted : set of str
        Columns that will be used as numbers.
    labels : set of str
        Columns that name things; numbers only when every filled cell is a whole number in its one plain form,
        so that two labels are never the same number ("1" and "01", "10m" and "10M").

    Raises
    ------
    DataError
        If the decimal mark cannot be told.
    """
    text_columns = {n: c for n, c in zip(grid.names, grid.columns, strict=True) if c.dtype == object}
    numeric = {
        n: c
        for n, c in text_columns.items()
        if n in wanted or (_numbers_in_labels(grid, n, c) if n in labels else _are_numbers(c, 0.5))
    }
    locale = _locale(grid, options, numeric)
    parsed = Parsed({}, {}, {}, {}, locale)
    for name, column in zip(grid.names, grid.columns, strict=True):
        if name in numeric:
            values, unreadable = parse_column(column, locale)
            parsed.numbers[name] = values
            parsed.cells[name] = column
            if unreadable.any():
                parsed.unreadable[name] = unreadable
        elif column.dtype == object:
            parsed.texts[name] = column
        else:
            finite = np.isfinite(column)
            parsed.numbers[name] = column if finite.all() else np.where(finite, column, np.nan)
    return parsed


def _are_numbers(column: NDArray[np.object_], share: float) -> bool:
    """Whether this share of the distinct filled cells (or more) has the form of numbers."""
    distinct = list(dict.fromkeys(column.tolist()))
    plain = plain_numbers(distinct)[1]
    rest = [distinct[i] for i in np.flatnonzero(~plain) if distinct[i].lower() not in MISSING]
    found, filled = int(plain.sum()) + sum(map(looks_numeric, rest)), int(plain.sum()) + len(rest)
    return filled > 0 and found >= share * filled


def _numbers_in_labels(grid: Grid, name: str, column: NDArray[np.object_]) -> bool:
    if grid.own:  # it writes labels of text first and a numbered run among the numbers
        return name != grid.names[0] and _are_numbers(column, 1.0)
    distinct = _distinct(column)
    return bool(distinct) and all(map(_PLAIN_COUNT.fullmatch, distinct))


def _distinct(column: NDArray[np.object_]) -> list[str]:
    """Return the distinct cells that are not missing."""
    return [cell for cell in dict.fromkeys(column.tolist()) if cell.lower() not in MISSING]


def _locale(grid: Grid, options: ReadOptions, numeric: dict[str, NDArray[np.object_]]) -> Locale:
    other = {".": ",", ",": "."}
    if options.decimal is not None:
        return Locale(options.decimal, options.thousands or other[options.decimal])
    if options.thousands is not None:
        return Locale(other.get(options.thousands, "."), options.thousands)
    if grid.own:
        return Locale()
    cells = [column.tolist() for column in numeric.values()]
    if not any(map(tells_marks, cells)):
        return Locale()
    return gather(dict.fromkeys(chain.from_iterable(cells))).locale(grid.name)


def unreadable_warning(grid: Grid, parsed: Parsed, used: set[str]) -> ScalefitWarning | None:
    """Return a warning about unreadable cells in columns that no role uses; they count as missing."""
    counts = {n: int(bad.sum()) for n, bad in parsed.unreadable.items() if n not in used}
    if not counts:
        return None
    name = next(iter(counts))
    i = int(np.flatnonzero(parsed.unreadable[name])[0])
    return ScalefitWarning(
        "unreadable-cells",
        f"{sum(counts.values())} cells in {', '.join(counts)} are no numbers and count as missing, the first "
        f"{str(parsed.cells[name][i])!r} in {grid.places.name(i)}.",
        "Correct them if a law is to use these columns.",
        counts,
    )
