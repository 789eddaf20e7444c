"""Files and rows that repeat others: a copy makes no estimate surer."""

import numpy as np
import pytest

from scalefit.fitting.fit import fit
from scalefit.ingest import ReadOptions, read_table
from scalefit.runs import Runs

ROWS = [(n, d, 400 / n**0.34 + 410 / d**0.28 + 1.7) for n in (1e7, 1e8, 1e9) for d in (1e9, 1e10, 1e11)]


def text_of(rows, header="params,tokens,loss", delimiter=","):
    return "\n".join([header.replace(",", delimiter), *(delimiter.join(map(str, row)) for row in rows)]) + "\n"


@pytest.mark.parametrize("delimiters", ["\t", ";", "|", ",,,,,"])
def test_equal_files_count_once(write, delimiters):
    first = write(text_of(ROWS), "a.csv")
    others = [write(text_of(ROWS, delimiter=mark), f"b{i}.tsv") for i, mark in enumerate(delimiters)]
    runs = Runs(read_table([first, *others]))
    assert (len(runs), runs.n_dropped) == (9, 9 * len(others))
    assert runs.dropped[0].reason == "b0.tsv holds the rows of a.csv"
    (warning,) = [w for w in runs.warnings if w.code == "equal-files"]
    assert "b0.tsv holds the same 9 rows as a.csv; they were counted once." in warning.message
    assert len(Runs(read_table([first, *others], ReadOptions(keep_duplicates=True)))) == 9 * (1 + len(others))


def test_files_that_differ_in_one_cell_are_two(write):
    other = [*ROWS[:-1], (*ROWS[-1][:2], ROWS[-1][2] + 1e-9)]
    assert len(Runs(read_table([write(text_of(ROWS), "a.csv"), write(text_of(other), "b.csv")]))) == 18


@pytest.mark.parametrize("column", ["run", "seed", "Seed"])
def test_rows_equal_in_every_column_count_once_in_a_fit(write, column):
    rows = [(*row, f"{i}") for i, row in enumerate(ROWS)]
    once = fit(Runs.from_csv(write(text_of(rows, f"params,tokens,loss,{column}"))), "params+tokens", n_starts=4)
    path = write(text_of(rows * 6, f"params,tokens,loss,{column}"))
    runs = Runs.from_csv(path)
    assert len(runs) == 54
    many = fit(runs, "params+tokens", n_starts=4)
    assert (len(many.runs), many.verdicts) == (9, once.verdicts)
    assert many.runs.dropped.counts() == {"equals an earlier row in every column": 45}
    (warning,) = [w for w in many.runs.warnings if w.code == "exact-duplicates"]
    assert (warning.numbers["rows"], "--keep-duplicates" in warning.action) == (45, True)
    kept = Runs.from_csv(path, options=ReadOptions(keep_duplicates=True)).complete(["params", "tokens"])
    assert len(kept) == 54


def test_rows_that_may_be_honest_repeats_stay(write):
    rows = [*ROWS, ROWS[0]]
    assert len(Runs.from_csv(write(text_of(rows))).complete(["params", "tokens"])) == 10
    labelled = [(*row, i) for i, row in enumerate(rows)]
    assert len(Runs.from_csv(write(text_of(labelled, "params,tokens,loss,seed"))).complete(["params"])) == 10


def test_missing_cells_compare_equal():
    columns = {"loss": [3.5, 3.5, 3.5], "lr": [np.nan, np.nan, 1.0], "run": ["a", "a", "a"]}
    assert len(Runs.from_columns(columns).complete([])) == 2
