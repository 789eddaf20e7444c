"""Width and depth of the Chinchilla runs, reconstructed from the two published tables.

The figure that shows the losses of Hoffmann et al. (2022) gives each run's parameter count and compute;
its Table A9 gives the architectures. Each run is matched to the architecture whose parameter count is
nearest, and its tokens follow from the compute.

``python data/chinchilla.py`` writes the reconstructed table to standard output.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from scalefit.datasets import read_table
from scalefit.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["match_architectures", "reconstruct", "tokens_from_flops"]

_Floats = npt.NDArray[np.float64]

MAX_RELATIVE_GAP = 0.01
"""A run counts as matched within 1 % in parameters (the largest gap in the published tables is 0.6 %)."""

MIN_SEPARATION = 2.0
"""The nearest architecture has to be this many times nearer than the next (the least published is 13)."""

COLUMNS = ("width", "depth", "tokens", "params", "flops", "loss")


def match_architectures(params: _Floats, architecture_params: _Floats) -> npt.NDArray[np.intp]:
    """Find the architecture whose parameter count is nearest in ratio.

    Parameters
    ----------
    params : (n_runs,) array
        Parameter counts of the runs.
    architecture_params : (n_architectures,) array
        Parameter counts of at least two architectures.

    Returns
    -------
    (n_runs,) int array
        Index of the matched architecture of each run.

    Raises
    ------
    DataError
        If a run has no architecture within 1 %, or a second one nearly as near.

    Examples
    --------
    >>> match_architectures(np.array([4.42e7]), np.array([44e6, 57e6])).tolist()
    [0]
    """
    gaps: _Floats = np.abs(np.log(params[:, np.newaxis] / architecture_params[np.newaxis, :]))
    nearest, second = np.sort(gaps, axis=1)[:, :2].T
    doubtful = (nearest > MAX_RELATIVE_GAP) | (nearest * MIN_SEPARATION > second)
    if doubtful.any():
        row = int(np.argmax(doubtful))
        raise DataError(
            f"run {row + 1} with {params[row]:.7g} parameters matches no architecture clearly: the nearest "
            f"is {nearest[row]:.2%} away (limit {MAX_RELATIVE_GAP:.0%}), the next {second[row]:.2%}; "
            "correct the count or add its architecture to the table"
        )
    matched: npt.NDArray[np.intp] = gaps.argmin(axis=1)
    return matched


def tokens_from_flops(flops: _Floats, params: _Floats) -> _Floats:
    """Training tokens D = C / (6 N) of a run of C floating-point operations and N parameters.

    Six operations per parameter and token are the usual count, two forward and four backward
    (Kaplan et al. 2020, section 2.1; Hoffmann et al. 2022, appendix F).
    """
    return flops / (6.0 * params)


def reconstruct(runs: pd.DataFrame, architectures: pd.DataFrame) -> pd.DataFrame:
    """Join runs given by size and compute with the architectures of that size.

    Parameters
    ----------
    runs : data frame
        Columns ``params``, ``flops`` and ``loss``, one row a run.
    architectures : data frame
        Columns ``params``, ``width`` and ``depth``, one row an architecture.

    Returns
    -------
    data frame
        Columns ``width``, ``depth``, ``tokens`` (whole numbers), ``params``, ``flops``, ``loss``; the rows of
        `runs` in their order.

    Raises
    ------
    DataError
        If a run cannot be matched to one architecture.
    """
    matched = match_architectures(runs["params"].to_numpy(float), architectures["params"].to_numpy(float))
    tokens = tokens_from_flops(runs["flops"].to_numpy(float), runs["params"].to_numpy(float))
    table = runs.assign(
        width=architectures["width"].to_numpy()[matched],
        depth=architectures["depth"].to_numpy()[matched],
        tokens=np.rint(tokens).astype(np.int64),
    )
    return table[list(COLUMNS)]


def main() -> None:
    """Write the reconstructed table to standard output."""
    table = reconstruct(read_table("chinchilla_figure4"), read_table("chinchilla_table_a9"))
    sys.stdout.write(table.to_csv(index=False, lineterminator="\n"))


if __name__ == "__main__":
    main()
