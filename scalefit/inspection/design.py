"""The spread of each column of a table and how columns move together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from scalefit.ingest.table import FloatArray

__all__ = ["SAME_DIRECTION", "ColumnDesign", "Correlation", "column_design", "correlate", "distinct"]

SAME_DIRECTION = 1 - 1e-9
"""Two ln columns that correlate more than this are one column."""

_SAMPLE = 10_000


@dataclass(frozen=True)
class ColumnDesign:
    """Spread of one column: distinct values, range, decades between its ends."""

    name: str
    levels: int
    minimum: float
    maximum: float
    decades: float


@dataclass(frozen=True)
class Correlation:
    """Correlation of the logarithms of two columns."""

    first: str
    second: str
    value: float


def column_design(name: str, values: FloatArray) -> ColumnDesign:
    """Describe one column; missing cells do not count."""
    known = ~np.isnan(values)
    finite = values if known.all() else values[known]
    if not len(finite):
        return ColumnDesign(name, 0, float("nan"), float("nan"), float("nan"))
    low, high = float(finite.min()), float(finite.max())
    decades = float(np.log10(high / low)) if low > 0 else float("nan")
    return ColumnDesign(name, distinct(finite)[0], low, high, decades)


def distinct(values: FloatArray) -> tuple[int, FloatArray | None]:
    """Return the number of distinct values, and those that occur more than once (None: most of them).

    A long column of few levels is counted by hashing, any other by one sort.
    """
    if len(values) > _SAMPLE and len(np.unique(values[:_SAMPLE])) < _SAMPLE // 10:
        return len(np.unique(values)), None
    ordered = np.sort(values)
    same = ordered[1:] == ordered[:-1]
    return len(values) - int(same.sum()), np.unique(ordered[1:][same])


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
