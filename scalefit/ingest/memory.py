"""Columns that are already in memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefit.errors import DataError
from scalefit.expressions import evaluate
from scalefit.ingest.names import SYNONYMS, normal_name
from scalefit.ingest.options import ReadOptions
from scalefit.ingest.table import Dropped, FloatArray, Origin, Places, Table, frozen

__all__ = ["table_from_columns"]


def table_from_columns(columns: Mapping[str, ArrayLike], options: ReadOptions, name: str) -> Table:
    """Build a table from columns of equal length; a row without a finite loss is dropped."""
    arrays = {str(key): np.asarray(value) for key, value in columns.items()}
    lengths = {key: len(value) for key, value in arrays.items()}
    if len(set(lengths.values())) != 1:
        raise DataError(f"{name}: columns differ in length: {lengths}; give each one entry a row")
    numbers: dict[str, FloatArray] = {}
    texts: dict[str, NDArray[np.object_]] = {}
    renamed = {key: _role(key) or key for key in arrays}
    for key, values in arrays.items():
        if values.dtype.kind in "iufb":
            column = values.astype(np.float64)
            column[~np.isfinite(column)] = np.nan
            numbers[renamed[key]] = column
        else:
            texts[renamed[key]] = frozen(np.array([str(value) for value in values], dtype=object))
    for target, expression in (options.columns or {}).items():
        numbers[target] = evaluate(
            expression, {**numbers, **{k: numbers[renamed[k]] for k in arrays if renamed[k] in numbers}}
        )
    n = next(iter(lengths.values()))
    rows = np.arange(1, n + 1)
    places = Places(frozen(rows), frozen(rows + 1), None, (name,))
    origin = Origin(name, "columns", columns={new: old for old, new in renamed.items()})
    table = Table(
        {key: frozen(value) for key, value in numbers.items()}, texts, places, Dropped.none(name), origin
    )
    if "loss" not in numbers:
        raise DataError(f"{name} has no loss column; its columns are {', '.join(arrays)}")
    return table.keep(np.isfinite(numbers["loss"]), "loss is missing")


def _role(name: str) -> str | None:
    return next((role for role, names in SYNONYMS.items() if normal_name(name) in names), None)
