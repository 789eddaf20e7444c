"""Columns that are already in memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from scalefit.errors import DataError
from scalefit.ingest.binary import frame_grid
from scalefit.ingest.build import build_table
from scalefit.ingest.options import ReadOptions
from scalefit.ingest.table import Table

__all__ = ["table_from_columns"]


def table_from_columns(columns: Mapping[str, ArrayLike], options: ReadOptions, name: str) -> Table:
    """Build a table from columns of equal length, by the rules of files.

    Raises
    ------
    DataError
        If lengths differ, no row is left, or names are ambiguous.
    """
    arrays = {str(key): np.atleast_1d(np.asarray(value)) for key, value in columns.items()}
    lengths = {key: len(array) for key, array in arrays.items()}
    if len(set(lengths.values())) != 1:
        raise DataError(f"{name}: the columns have {lengths} entries; give each one entry a row")
    if not next(iter(lengths.values())):
        raise DataError(f"{name}: the columns are empty; give at least one row")
    return build_table(frame_grid(name, "memory", list(arrays), list(arrays.values())), options)
