"""Which rows of a table belong together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError
from scalefit.laws.law import Law
from scalefit.runs import Runs

__all__ = ["Labels", "group_labels", "shared_unit"]

Labels = NDArray[np.int64]


def group_labels(runs: Runs, law: Law, by: str) -> Labels:
    """(n_rows,) codes from 0 of the group of each row.

    Parameters
    ----------
    runs : Runs
    law : Law
    by : str
        ``"row"``: each alone; ``"run"``: the table's runs; ``"shape"``: rows that agree in all columns of the law
        but tokens; else a column of the table.

    Raises
    ------
    OptionError
        If the grouping is unknown or the law has no column but tokens.
    """
    if by == "row":
        return np.arange(len(runs), dtype=np.int64)
    if by == "run":
        return runs.run_ids
    if by == "shape":
        columns = [runs[name] for name in law.columns if name != "tokens"]
        if not columns:
            raise OptionError(f"the law {law} has no column but tokens, so that its rows have no shape")
        return np.unique(np.stack(columns), axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)
    if by in runs:
        return np.unique(runs[by], return_inverse=True)[1].astype(np.int64)
    raise OptionError(f"unknown grouping {by!r}; choose row, run, shape or a column of the table")


def shared_unit(runs: Runs, law: Law) -> str:
    """What rows share: ``"shape"`` where several runs have one, ``"run"`` where one has several rows, else ``"row"``.

    A shape counts only where it holds whole runs; along a run of a law in flops, say, the shape changes.
    """
    n_runs = runs.n_runs
    if any(name != "tokens" for name in law.columns):
        shapes = group_labels(runs, law, "shape")
        n_shapes = int(shapes.max()) + 1
        if n_shapes < n_runs and len(np.unique(shapes + n_shapes * runs.run_ids)) == n_runs:
            return "shape"
    return "run" if n_runs < len(runs) else "row"
