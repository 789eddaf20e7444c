"""A run has one size: a column that says otherwise names no run, unless the user says so."""

import itertools

import numpy as np
import pytest

from scalefit.ingest import read_table
from scalefit.runs import Runs

SIZES = [(512, 8), (1024, 16), (2048, 32)]


def text_of(label, sizes, header, delimiter=",", order=None):
    rows = [
        (label.format(i=i), *size, 10**9 * (j + 1), 3.5 - i / 4 - j / 10)
        for i, size in enumerate(sizes)
        for j in (0, 1)
    ]
    order = order or range(5)
    return "".join(delimiter.join(str(row[k]) for k in order) + "\n" for row in [header, *rows])


@pytest.mark.parametrize("name", ["experiment", "model", "name", "Run", "trial"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0)])
def test_a_label_of_many_sizes_is_no_run(write, name, delimiter, order):
    header = (name, "d_model", "n_layers", "tokens", "loss")
    path = write(text_of("isoflop", SIZES, header, delimiter, order))
    runs = Runs.from_csv(path)
    assert (runs.has_runs, runs.n_runs, len(runs)) == (False, 6, 6)
    (warning,) = runs.warnings
    assert warning.code == "no-run-column"
    assert warning.action == f"If a run did change its size, say --column run={name}."
    told = Runs.from_csv(path, {"run": name})
    assert (told.n_runs, [w.code for w in told.warnings]) == (1, ["run-of-several-sizes"])


def test_the_next_label_is_taken_when_the_first_mixes_sizes(write):
    rows = "".join(f"x,r{w},{w},{3.5 - j}\n" for w in (64, 128) for j in (0, 1))
    path = write("experiment,name,width,loss\n" + rows)
    runs = Runs.from_csv(path)
    assert runs.run_ids.tolist() == [0, 0, 1, 1]
    assert runs.origin.columns["run"] == "name"


@pytest.mark.parametrize("pandas_from", [0, 1 << 40])
def test_a_run_of_one_size_stays_a_run(write, monkeypatch, pandas_from):
    import scalefit.ingest.delimited as delimited

    monkeypatch.setattr(delimited, "PANDAS_FROM", pandas_from)
    header = ("model", "width", "depth", "tokens", "loss")
    runs = Runs.from_csv(write(text_of("m{i}", SIZES, header)))
    assert (runs.run_ids.tolist(), runs.warnings) == ([0, 0, 1, 1, 2, 2], ())


def test_a_size_given_once_a_run_is_no_second_size(write):
    runs = Runs.from_csv(write("run,width,loss\na,512,3.5\na,,3.4\nb,1024,3.3\nb,,3.2\n"))
    assert runs.run_ids.tolist() == [0, 0, 1, 1]


def test_one_label_in_files_of_several_sizes_is_several_runs(write):
    files = [write(f"model,width,loss\ngpt,{w},3.5\ngpt,{w},3.4\n", f"{w}.csv") for w in (64, 128)]
    runs = Runs(read_table(files))
    assert runs.run_ids.tolist() == [0, 0, 1, 1]
    assert runs.table.texts["run"][0] == "64.csv: gpt"


def test_nothing_is_withheld_or_advised_for_runs_that_are_none(write):
    from scalefit.identifiability.inspection import inspect_runs

    grid = itertools.product((1e7, 1e8, 1e9), (1e9, 1e10, 1e11))
    rows = [(n, d, 400 / n**0.34 + 410 / d**0.28 + 1.7) for n, d in grid]
    path = write("experiment,params,tokens,loss\n" + "".join(f"x,{n},{d},{loss}\n" for n, d, loss in rows))
    runs = Runs.from_csv(path)
    assert not any("select last" in warning.action for warning in inspect_runs(runs).warnings)
    assert np.array_equal(runs.run_ids, np.arange(9))
