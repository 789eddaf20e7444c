"""The spread of each column of a table and how columns move together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from scalefit.ingest.table import FloatArray

__all__ = ["ColumnDesign", "Correlation", "Distinct", "column_design", "correlate", "count_distinct"]

SAME_DIRECTION = 1 - 1e-9
"""Two ln columns that correlate more than this are one column."""

_SAMPLE = 10_000


@dataclass(frozen=True)
class ColumnDesign:
    """Spread of one column: distinct values, range, decades between its ends, rows in which it is missing."""

    name: str
    levels: int
    minimum: float
    maximum: float
    decades: float
    missing: int


@dataclass(frozen=True)
class Correlation:
    """Correlation of the logarithms of two columns."""

    first: str
    second: str
    value: float


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


def column_design(name: str, values: FloatArray, levels: int) -> ColumnDesign:
    """Describe one column; missing cells do not count."""
    missing = int(np.isnan(values).sum())
    if levels == 0:
        return ColumnDesign(name, 0, math.nan, math.nan, math.nan, missing)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    decades = float(np.log10(high / low)) if low > 0 else float("nan")
    return ColumnDesign(name, levels, low, high, decades, missing)


def correlate(columns: Mapping[str, FloatArray]) -> tuple[Correlation, ...]:
    """Correlate the logarithms of every pair of columns that vary, over rows where both are known."""
    logs = {name: np.log(x, out=np.full(len(x), np.nan), where=x > 0) for name, x in columns.items()}
    found = []
    units = {name: _unit(x) for name, x in logs.items() if not np.isnan(x).any()}
    for a, b in combinations(columns, 2):
        if a in units and b in units:
            x, y = units[a], units[b]
        else:
            known = ~np.isnan(logs[a] + logs[b])
            x, y = _unit(logs[a][known]), _unit(logs[b][known])
        if x is not None and y is not None:
            value = float(x @ y)
            exact = abs(value) > SAME_DIRECTION
            found.append(Correlation(a, b, float(np.sign(value)) if exact else value))
    return tuple(found)


def _unit(x: FloatArray) -> FloatArray | None:
    """Return x less its mean, at length one; None where it does not vary beyond rounding."""
    if len(x) < 2:
        return None
    centred = x - x.mean()
    square = float(centred @ centred)
    return None if square < 1e-24 * len(x) * max(1.0, float(x[0]) ** 2) else centred / np.sqrt(square)
