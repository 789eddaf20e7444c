"""Rows that belong together: codes of labels, and the one row of each group that is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.ingest.table import FloatArray, IntArray

__all__ = ["label_codes", "largest_of_each"]


def largest_of_each(groups: IntArray, values: FloatArray) -> IntArray:
    """Return for each group the index of its largest value, the later row among equals."""
    order = np.lexsort((np.arange(len(groups)), values, groups))
    is_end = np.append(groups[order][1:] != groups[order][:-1], True)
    return np.asarray(order[is_end], dtype=np.int64)


def label_codes(labels: NDArray[Any]) -> IntArray:
    """Number labels in order of appearance; a missing label is one of its own."""
    missing = np.isnan(labels) if labels.dtype == np.float64 else labels == ""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = first[inverse]
    order[missing] = np.flatnonzero(missing)
    return np.unique(order, return_inverse=True)[1].astype(np.int64)
