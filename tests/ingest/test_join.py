"""Several files under one another: every dropped row of every file is kept, with its file and line."""

from __future__ import annotations

import pytest

from scalefit.runs import Runs


def test_rows_dropped_from_every_file_are_listed(write):
    names = ("a", "b", "c")
    for i, name in enumerate(names):
        write(f"width,loss\n512,{3 + i}\n1024,-\n2048,inf\n", f"{name}.csv")
    folder = write("", "a.csv").parent
    write("width,loss\n512,3\n1024,-\n2048,inf\n", "a.csv")
    for path in ([folder / f"{name}.csv" for name in names], folder):
        runs = Runs.from_csv(path)
        assert len(runs) == 3
        assert runs.n_dropped == 6
        assert [(d.file, d.line, d.reason) for d in runs.dropped] == [
            (f"{name}.csv", line, f"loss is '{cell}', not a finite number")
            for name in names
            for line, cell in ((3, "-"), (4, "inf"))
        ]


@pytest.mark.parametrize("clean", ["a", "b"])
def test_a_file_without_losses_to_drop_changes_nothing(write, clean):
    for name in ("a", "b"):
        path = write(f"width,loss\n512,{3 if name == clean else '-'}\n1024,2.5\n", f"{name}.csv")
    runs = Runs.from_csv([path.with_name("a.csv"), path.with_name("b.csv")])
    assert [(d.file, d.line) for d in runs.dropped] == [("b.csv" if clean == "a" else "a.csv", 2)]
    assert runs["loss"].tolist() == ([3, 2.5, 2.5] if clean == "a" else [2.5, 3, 2.5])


def test_a_column_that_one_file_lacks_is_missing_there(write):
    first = write("width,tokens,loss\n512,1e9,3\n", "a.csv")
    second = write("width,depth,loss\n1024,8,2.5\n", "b.csv")
    runs = Runs.from_csv([first, second])
    assert [runs[name].tolist()[i] for name, i in (("tokens", 0), ("depth", 1))] == [1e9, 8]
    assert all(runs[name][i] != runs[name][i] for name, i in (("tokens", 1), ("depth", 0)))
