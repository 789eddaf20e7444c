"""Blank cells, marks beside numbers, sparse logging: rows are completed and numbers read, or it is said."""

import itertools
import json
import random

import numpy as np
import pytest

from scalefit.errors import DataError
from scalefit.ingest import ReadOptions
from scalefit.runs import Runs

GRID = [(m, n, d) for m in (512, 1024, 2048) for n in (8, 16) for d in (1e9, 1e10, 1e11)]


def loss_of(m, n, d):
    return 300 / m + 10 / n + 504.7659 / d**0.3 + 1.7


def lines(rows, delimiter=","):
    return "\n".join(delimiter.join("" if cell is None else str(cell) for cell in row) for row in rows) + "\n"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("names", [("width", "depth"), ("d_model", "n_layers"), ("Hidden Size", "Num Layers")])
def test_blank_cells_that_mean_as_above(write, delimiter, names):
    rows = [(m if d == 1e9 else None, n if d == 1e9 else None, d, loss_of(m, n, d)) for m, n, d in GRID]
    path = write(lines([(*names, "tokens", "loss"), *rows], delimiter))
    (warning,) = [w for w in Runs.from_csv(path).warnings if w.code == "blank-cells"]
    assert warning.message.startswith(f"{names[0]} is blank in 12 of 18 rows; {names[1]} is blank in 12 of 18 rows")
    assert "(rows 2, 3, 5, 6, 8, 9, 11, 12, ...)" in warning.message
    assert f"--fill-down {','.join(names)}" in warning.action.replace("'", "")
    for given in (names, ("width", "depth")):
        runs = Runs.from_csv(path, options=ReadOptions(fill_down=given))
        np.testing.assert_allclose(runs["loss"], loss_of(runs["width"], runs["depth"], runs["tokens"]), rtol=1e-12)
        assert not [w for w in runs.warnings if w.code == "blank-cells"]
    with pytest.raises(DataError, match=r"has no column heads for --fill-down; its columns are"):
        Runs.from_csv(path, options=ReadOptions(fill_down=("heads",)))


def test_section_rows_with_the_size_alone(write):
    rows = [("width", "tokens", "loss"), (512, None, None), (None, 1e9, 4.5), (None, 1e10, 4.0), (1024, None, None)]
    path = write(lines([*rows, (None, 1e9, 4.2), (None, 1e10, 3.7)]))
    assert "--fill-down width" in next(w.action for w in Runs.from_csv(path).warnings if w.code == "blank-cells")
    runs = Runs.from_csv(path, options=ReadOptions(fill_down=("width",)))
    assert runs["width"].tolist() == [512, 512, 1024, 1024]
    assert [d.reason for d in runs.dropped] == ["loss is missing"] * 2


MARKED = [
    ("3.62*", 3.62), ("3.47 ± 0.01", 3.47), ("~3.16", 3.16), ("2.67 (best)", 2.67), ("**3.62**", 3.62),
    ("3.47 +- 0.01", 3.47), ("3.47+/-0.01", 3.47), ("≈3.1", 3.1), ("3.62†", 3.62), ("3.470(12)", 3.47),
]  # fmt: skip


@pytest.mark.parametrize(("cell", "value"), MARKED)
@pytest.mark.parametrize("column", ["loss", "width"])
def test_marks_beside_a_number_are_read_and_said(write, cell, value, column):
    order = ("width", "loss") if column == "loss" else ("loss", "width")
    options = ReadOptions(decimal=".")
    runs = Runs.from_csv(write(f"{order[0]}\t{order[1]}\n512\t{cell}\n512\t3\n512\t4\n"), options=options)
    assert runs[column][0] == value
    warning = runs.warnings[0]
    assert (warning.code, warning.numbers["rows"]) == ("marked-numbers", 1)
    assert repr(cell) in warning.message
    assert "row 1 (line 2) of runs.csv" in warning.message


@pytest.mark.parametrize("cell", ["<3.5", "3.5-3.7", "3.5 or 3.6", "3.5/3.6", "diverged", "3.62a"])
def test_what_leaves_a_doubt_is_no_number(write, cell):
    runs = Runs.from_csv(write(f"width,loss\n512,{cell}\n512,3\n512,4\n"))
    assert runs.dropped[0].reason == f"loss is {cell!r}, not a finite number"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_rows_that_complete_each_other(write, seed, delimiter):
    header = ["run", "width", "depth", "tokens", "loss"]
    rows = []
    for i, (m, n, d) in enumerate(GRID):
        rows += [(f"r{i}", m, n, d, None), (f"r{i}", None, None, None, loss_of(m, n, d))]
    rng = random.Random(seed)
    rng.shuffle(rows)
    order = rng.sample(range(5), 5)
    runs = Runs.from_csv(write(lines([[row[j] for j in order] for row in [header, *rows]], delimiter)))
    assert (len(runs), runs.n_runs, runs.n_dropped) == (18, 18, 18)
    np.testing.assert_allclose(runs["loss"], loss_of(runs["width"], runs["depth"], runs["tokens"]), rtol=1e-12)
    assert [w.code for w in runs.warnings] == ["rows-completed"]
    assert set(runs.dropped.counts()) == {"it completed another row of its run"}


def test_settings_complete_a_curve_but_its_tokens_do_not(write):
    rows = [("run", "width", "tokens", "loss"), ("a", 512, 1e10, None), ("a", None, None, 4.0), ("a", None, None, 3.5)]
    runs = Runs.from_csv(write(lines(rows)))
    assert runs["width"].tolist() == [512, 512]
    assert np.isnan(runs["tokens"]).all()


def test_a_step_completes_its_own_rows(write):
    rows = [("run", "_step", "tokens", "val/loss"), *itertools.chain.from_iterable(
        [("a", step, step * 1e6, None), ("a", step, None, 4 - step / 10)] for step in (1, 2, 3)
    )]  # fmt: skip
    rows[0] = ("run", "step", "tokens", "val/loss")
    runs = Runs.from_csv(write(lines(rows)))
    assert runs["tokens"].tolist() == [1e6, 2e6, 3e6]
    assert runs["loss"].tolist() == pytest.approx([3.9, 3.8, 3.7])


def test_rows_that_contradict_each_other_are_left_alone(write):
    rows = [("run", "width", "loss"), ("a", 512, None), ("a", 1024, None), ("a", None, 3.5), ("b", 512, 3.4)]
    runs = Runs.from_csv(write(lines(rows)), {"run": "run"})
    assert np.isnan(runs["width"][0])
    assert not [w for w in runs.warnings if w.code == "rows-completed"]


@pytest.mark.parametrize("write_cell", [str, json.dumps])
@pytest.mark.parametrize("names", [("summary", "config"), ("s", "hyperparameters")])
def test_mappings_in_cells_are_unpacked(write, write_cell, names):
    rows = [
        (0, {"eval/loss": 3.5, "_step": 1000, "best": None}, {"d_model": 512, "n_layers": 8, "tokens": 10**9}, "run-a"),
        (1, {"eval/loss": 3.3, "_step": 1000}, {"d_model": 1024, "opt": {"betas": [1, 2]}, "tokens": 10**9}, "run-b"),
    ]
    text = "".join(
        f'{i},"{write_cell(a)}","{write_cell(b)}",{c}\n'.replace(f'"{write_cell(a)}"', quoted(write_cell(a))).replace(
            f'"{write_cell(b)}"', quoted(write_cell(b))
        )
        for i, a, b, c in rows
    )
    runs = Runs.from_csv(write(f",{names[0]},{names[1]},name\n{text}"))
    assert (runs["loss"].tolist(), runs["width"].tolist(), runs["tokens"].tolist()) == (
        [3.5, 3.3],
        [512, 1024],
        [1e9] * 2,
    )
    assert f"{names[1]}.opt.betas (a list)" in runs.origin.ignored
    assert runs.table.texts["run"].tolist() == ["run-a", "run-b"]


def quoted(text):
    return '"' + text.replace('"', '""') + '"'


def test_a_mapping_with_nan_is_read_and_a_broken_one_is_named(write):
    runs = Runs.from_csv(write("summary,name\n\"{'loss': 3.5, 'x': nan}\",a\n\"{'loss': 3.4, 'x': inf}\",b\n"))
    assert runs["loss"].tolist() == [3.5, 3.4]
    for cell in ("{'loss': open('x')}", "{1: 2, }}"):
        with pytest.raises(DataError, match=r"row 1 \(line 2\) of runs\.csv: the cell .* looks like a mapping"):
            Runs.from_csv(write(f'summary,loss\n"{cell}",3.5\n'))
