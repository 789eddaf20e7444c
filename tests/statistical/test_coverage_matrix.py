"""A seeded sample of the coverage matrix: what is printed holds, and what takes rows for independent fails."""

from __future__ import annotations

import numpy as np
import pytest
from coverage_matrix import DESIGNS, failures, matrix

pytestmark = pytest.mark.slow

SAMPLE = ("30 rows", "20 runs x 3", "40 runs x 8", "80 rows, t of 3 degrees", "40 rows, floor .25")


def test_a_sample_of_the_matrix_holds():
    cells = matrix(SAMPLE, n_tables=60)
    assert failures(cells) == []
    # Five designs of thirteen quantities that move together: known to about a per cent.
    assert 0.93 < np.mean([cell.share for cell in cells]) < 0.98


def test_the_matrix_fails_for_errors_that_take_rows_for_independent():
    """The negative control, and by much: a test that everything passes shows nothing."""
    failed = {cell.quantity for cell in failures(matrix(["40 runs x 8"], n_tables=60, errors="rows"))}
    assert {"alpha_width", "alpha_depth", "mean inside"} <= failed


def test_too_few_runs_are_withheld_and_not_guessed():
    cells = matrix(["8 runs x 10"], n_tables=20)
    assert all(cell.withheld >= 15 or cell.share >= DESIGNS[cell.design].least for cell in cells)
