"""Selections that compare rows: the last or best row of each run, the best of each shape, all but the worst."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError, OptionError, ScalefitWarning
from scalefit.ingest.grid import FloatArray, IntArray
from scalefit.ingest.table import Table

__all__ = ["drop_worst", "label_codes", "select"]

_SELECTORS = {
    "last": "last row of its run",
    "best": "smallest loss of its run",
    "best-per-shape": "smallest loss of its shape",
}
_SHAPE = ("width", "depth", "params", "tokens", "flops")
_STEPS = frozenset(["step", "steps", "iter", "iteration", "global_step"])


def drop_worst(table: Table, k: int | str) -> Table:
    """Drop the k largest losses, those that tie with the k-th included; see `Runs.drop_worst`."""
    n = len(table)
    share = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*%", k) if isinstance(k, str) else None
    if share is not None:
        k = int(float(share[1]) / 100 * n)
    elif isinstance(k, str) and k.isascii() and k.removeprefix("-").isdigit():
        k = int(k)
    if not isinstance(k, (int, np.integer)) or not 0 <= k < n:
        raise OptionError(
            f"--drop-worst (drop_worst) is {k} and must be a whole number from 0 to {n - 1}: the table has {n} rows; "
            "a share is written 10%"
        )
    if k == 0:
        return table
    loss = table.columns["loss"]
    cut = np.partition(loss, n - k)[n - k]
    kept = table.keep(loss < cut, f"among the {k} largest losses", f"drop-worst {k}")
    gone, above = n - len(kept), int((loss > cut).sum())
    if gone == k:
        return kept
    message = (
        f"dropping the {k} largest losses meets a tie at the cut: {gone} rows went and {n - gone} remain; "
        f"keeping the tie would drop {above} and leave {n - above}."
    )
    action = "Fit both and compare, or choose a K that does not cut through a tie."
    counts = {"asked": k, "dropped": gone, "kept": n - gone}
    counts |= {"dropped_keeping_tie": above, "kept_keeping_tie": n - above}
    return kept.with_warning(ScalefitWarning("tie-at-cut", message, action, counts))


def select(table: Table, which: str, run_ids: IntArray | None) -> Table:
    """Keep one row of each run or shape; see `Runs.select`. `run_ids` is None where the file names no run."""
    if which not in _SELECTORS:
        raise OptionError(f"select is {which!r} and must be one of {', '.join(_SELECTORS)}")
    if which == "best-per-shape":
        names = [name for name in _SHAPE if name in table.columns]
        if not names:
            raise DataError(f"{table.origin.name} has none of the columns {', '.join(_SHAPE)}; name one with --column")
        shapes = np.column_stack([table.columns[name] for name in names])
        groups = np.unique(shapes, axis=0, return_inverse=True)[1].ravel()
    elif run_ids is None:
        raise DataError(
            f"{table.origin.name} does not say which run a row belongs to; name the column with --column run=COLUMN"
        )
    else:
        groups = run_ids
    order = progress(table) if which == "last" else -table.columns["loss"]
    at = np.lexsort((np.arange(len(groups)), order, groups))
    mask = np.zeros(len(table), dtype=np.bool_)
    mask[at[np.append(groups[at][1:] != groups[at][:-1], True)]] = True  # of equals the later row
    return table.keep(mask, f"not the {_SELECTORS[which]}", f"select {which}")


def progress(table: Table) -> FloatArray:
    """How far the training had come at each row; a missing count comes before all others."""
    steps = next((name for name in table.columns if name.lower() in _STEPS), None)
    name = "tokens" if "tokens" in table.columns else steps
    if name is None:
        return np.arange(len(table), dtype=np.float64)
    return np.nan_to_num(table.columns[name], nan=-np.inf)


def label_codes(labels: NDArray[Any]) -> IntArray:
    """Number labels in order of appearance; a missing label is one of its own."""
    missing = np.isnan(labels) if labels.dtype == np.float64 else labels == ""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = first[inverse]
    order[missing] = np.flatnonzero(missing)
    return np.unique(order, return_inverse=True)[1].astype(np.int64)
