"""Several files, states and selections: what one file alone does not show."""

import hashlib
import threading
import warnings

import numpy as np
import pytest

import scalefit.ingest.delimited as delimited
from scalefit.ingest import ReadOptions, read_table
from scalefit.runs import Runs


@pytest.fixture
def files(write):
    """Three files whose names sort against the order in which they are given; each loses a row of its own."""
    texts = {
        "c.csv": "width,tokens,loss\n512,1e9,4.5\n512,2e9,-\n512,3e9,4.3\n",
        "a.csv": "tokens,loss,lr\n1e9,3.5,0.1\nx,3.4,0.2\n3e9,3.3,0.3\n",
        "b.csv": "width,tokens,loss\n2048,1e9,2.5\nwidth,tokens,loss\n2048,3e9,2.3\n",
    }
    return [write(text, name) for name, text in texts.items()]


def test_every_file_keeps_its_dropped_rows(files):
    runs = Runs(read_table(files))
    assert [(d.file, d.row, d.line, d.reason) for d in runs.dropped] == [
        ("c.csv", 2, 3, "loss is '-', not a finite number"),
        ("a.csv", 2, 3, "tokens is 'x', not a finite number"),
        ("b.csv", 2, 3, "repeated header"),
    ]
    assert runs.drop_worst(1).n_dropped == 4


def test_rows_stand_in_the_order_of_the_files_given(files):
    runs = Runs(read_table(files))
    assert runs["loss"].tolist() == [4.5, 4.3, 3.5, 3.3, 2.5, 2.3]
    assert runs.table.texts["run"].tolist() == ["c", "c", "a", "a", "b", "b"]
    assert runs.run_ids.tolist() == [0, 0, 1, 1, 2, 2]
    assert [runs.row_name(i) for i in (1, 2, 5)] == [
        "row 3 (line 4) of c.csv",
        "row 1 (line 2) of a.csv",
        "row 3 (line 4) of b.csv",
    ]
    np.testing.assert_array_equal(runs["lr"], [np.nan, np.nan, 0.1, 0.3, np.nan, np.nan])
    hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    assert runs.origin.sha256 == hashlib.sha256("".join(hashes).encode()).hexdigest()


def test_a_folder_is_read_in_the_order_of_its_names(files):
    runs = Runs(read_table(files[0].parent))
    assert runs["loss"].tolist() == [3.5, 3.3, 2.5, 2.3, 4.5, 4.3]
    assert [d.file for d in runs.dropped] == ["a.csv", "b.csv", "c.csv"]


@pytest.mark.parametrize("counts", [["", "1e9", "2e9", ""], ["2e9", "", "", "1e9"], ["", "2e9", "1e9", ""]])
def test_the_last_row_is_never_one_without_a_count(write, counts):
    rows = "".join(f"r,{count},{3.5 - i / 10}\n" for i, count in enumerate(counts))
    chosen = Runs.from_csv(write("run,tokens,loss\n" + rows + "s,,9\n")).select("last")
    assert chosen["tokens"].tolist()[0] == 2e9
    assert chosen["loss"].tolist() == [3.5 - counts.index("2e9") / 10, 9]


@pytest.mark.parametrize("state", ["stalled", "", "Unknown", "finished?"])
def test_a_state_that_is_not_known_to_be_finished_leaves(write, state):
    path = write(f"Name,State,loss\na,finished,3.5\nb,{state},3.4\nc,running,3.3\n")
    runs = Runs.from_csv(path)
    assert runs["loss"].tolist() == [3.5]
    assert runs.dropped[0].reason == f"State is {state or 'empty'}, not finished"
    assert len(Runs.from_csv(path, options=ReadOptions(keep_unfinished=True))) == 3


def test_reading_in_threads_leaves_the_warning_filters_alone(write, monkeypatch):
    monkeypatch.setattr(delimited, "PANDAS_FROM", 0)
    rows = "".join(f"r{i},{512 + i},8,1e9,3.5,{i if i % 2 else 'odd'}\n" for i in range(300))
    path = write("run,width,depth,tokens,loss,note\n" + rows)
    before, seen, stop = list(warnings.filters), [], threading.Event()

    def watch():
        while not stop.is_set():
            if warnings.filters != before:
                seen.append(list(warnings.filters))

    def read():
        for _ in range(5):
            Runs.from_csv(path)

    watcher = threading.Thread(target=watch)
    readers = [threading.Thread(target=read) for _ in range(4)]
    watcher.start()
    for thread in readers:
        thread.start()
    for thread in readers:
        thread.join()
    stop.set()
    watcher.join()
    assert (seen, warnings.filters) == ([], before)
