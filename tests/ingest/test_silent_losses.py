"""Files in which rows, runs or digits could be lost without a word: kept whole, or refused by line."""

import json
import pickle

import numpy as np
import pytest

import scalefit.ingest.delimited as delimited
from scalefit.errors import DataError, ScalefitWarning
from scalefit.ingest import ReadOptions, read_table
from scalefit.runs import Runs

HEADER = "run,width,depth,tokens,loss\n"


def rows(n, quote=""):
    cells = [f"{quote}r{i}{quote},{512 * (i + 1)},8,{10**9 * (i + 1)},{3.5 - i / 10}" for i in range(n)]
    return "\n".join(cells) + "\n"


@pytest.mark.parametrize("after", [rows(8), rows(8, '"'), ""])
def test_an_open_quote_never_swallows_rows(write, after):
    path = write(HEADER + rows(3) + '"x,512,8,1e9,3.3\n' + after + "y,512,8,1e9,3.1\n")
    with pytest.raises(DataError, match=r"line 5 of runs\.csv cannot be split into cells .*; mend its quotes"):
        Runs.from_csv(path)


def test_two_runs_of_one_name_in_a_chart_are_refused(write):
    path = write("Step,big - val/loss,big - val/loss\n1,3.5,3.6\n2,3.4,3.45\n")
    with pytest.raises(DataError, match=r"column big - val/loss appears twice \(columns 2, 3\)"):
        Runs.from_csv(path)


LABELS = [
    ("1", "01", "1.0"),
    ("10m", "10M", "10000000"),
    ("1e3", "1000", "1K"),
    ("1234567890123456701", "1234567890123456702", "1234567890123456703"),
]


@pytest.mark.parametrize("pandas_from", [0, 1 << 40])
@pytest.mark.parametrize("labels", LABELS)
def test_labels_that_look_like_numbers_stay_apart(write, monkeypatch, labels, pandas_from):
    monkeypatch.setattr(delimited, "PANDAS_FROM", pandas_from)
    runs = Runs.from_csv(write("run_id,width,loss\n" + "".join(f"{x},512,3.5\n" * 2 for x in labels)))
    assert runs.run_ids.tolist() == [0, 0, 1, 1, 2, 2]


def test_long_identifiers_in_typed_formats_stay_apart(write):
    ids = [2**60, 2**60 + 1]
    assert Runs.from_columns({"run": np.array(ids), "loss": [3.5, 3.4]}).n_runs == 2
    document = json.dumps([{"run": i, "flops": 10**21, "loss": 3.5} for i in ids])
    runs = Runs.from_csv(write(document, "runs.json"))
    assert (runs.n_runs, runs["flops"].tolist()) == (2, [1e21, 1e21])


def test_plain_counts_are_runs_by_number(write):
    assert Runs.from_csv(write("run,loss\n1,3.5\n2,3.4\n1,3.3\n"))["run"].tolist() == [1, 2, 1]


LARGE_FILES = {
    "chart": ("Step,w1-d1 - val/loss,w2-d2 - val/loss\n1,3.5,3.6\n2,3.4,3.45\n", {}),
    "thousands": ("width\tdepth\ttokens\tloss\n512\t8\t1.000\t3\n1024\t8\t2.000\t3\n", {"thousands": "."}),
    "labels": ("run,width,loss\nr1,512,3.5\nr 2,1024,3.2\n", {}),
    "summary": ("run,width,loss\nr1,512,3.5\nr2,1024,3.2\nMean,768,3.35\n", {}),
    "odd cells": ("run,width,tokens,loss\nr1,512,3B,3.5\nr2,oops,2e9,3.4\n,768,,nan\nr4,1e3,1.5e9,\nr5,7,1,3\n", {}),
    "odd labels": ("run,width,loss\n,512,3.5\n01,?,3.4\n1,768,3.3\n", {}),
    "short line": ("run,width,loss\nr1,512,3.5\nr2,3.4\nr3,768,3.3\nr4,768,3.2\n", {}),
    "short and long": ("run,width,loss\nr1,512,3.5\nr2,3.4\nr3,768,3.3,9\nr4,768,3.2\nr5,512,3.1\n", {}),
    "comment": ("run,width,loss\nr1,512,3.5\n# r2,512,3.4\nr3,768,3.3\n", {}),
    "header again": ("width,depth,loss\n512,8,3.5\nwidth,depth,loss\n768,8,3.3\n", {}),
    "blank line": ("width,depth,loss\n512,8,3.5\n\n768,8,3.3\n", {}),
    "blank cells": ("width,depth,loss\n512,8,3.5\n768,,3.3\n512,16,\n", {}),
    "decimal commas": ("width\tdepth\tloss\n512\t8\t3,55\n768\t8\t3,4\n", {}),
    "grouped": ("width\tdepth\tloss\n1.024\t8\t3,55\n2.048\t8\t3,4\n", {}),
    "words": ("width,good,note,loss\n512,True,a.b.c,3.5\n768,False,1,3.3\n", {}),
    "returns": ("width,loss\r\n512,3.5\r\n1024,3.2\r\n", {}),
    "lone return": ("width,loss\r\n512,3.5\r1024,3.2\r\n", {}),
}


@pytest.mark.parametrize("name", LARGE_FILES)
def test_pandas_changes_nothing(write, monkeypatch, name):
    text, options = LARGE_FILES[name]
    path = write(text)
    exact = Runs.from_csv(path, options=ReadOptions(**options))
    monkeypatch.setattr(delimited, "PANDAS_FROM", 0)
    quick = Runs.from_csv(path, options=ReadOptions(**options))
    assert (quick.columns, quick.origin, quick.dropped) == (exact.columns, exact.origin, exact.dropped)
    assert (quick.warnings, quick.lines.tolist()) == (exact.warnings, exact.lines.tolist())
    assert np.array_equal(quick.run_ids, exact.run_ids)
    assert all(np.array_equal(quick[column], exact[column], equal_nan=True) for column in exact.columns)


def test_an_odd_cell_sends_one_column_to_text(write, monkeypatch):
    n = 60_000
    monkeypatch.setattr(delimited, "_BLOCK", 1 << 18)
    lines = [f"{512 + i},{4 + i % 7},{1e9 + i:.0f},{3 + i / n}" for i in range(n)]
    lines[n // 2] = "512,8,[/foo],3.5"
    path = write("width,depth,tokens,loss\n" + "\n".join(lines) + "\n")
    grid = delimited.read_delimited(path.read_bytes(), "runs.csv", ReadOptions())
    assert [column.dtype == object for column in grid.columns] == [False, False, True, False]
    assert grid.columns[2][0] == "1000000000"
    runs = Runs.from_csv(path)
    assert (len(runs), [row.line for row in runs.dropped]) == (n - 1, [n // 2 + 2])
    assert runs.dropped[0].reason == "tokens is '[/foo]', not a finite number"


def test_an_irregular_line_sends_one_block_to_text(write, monkeypatch):
    n = 20_000
    monkeypatch.setattr(delimited, "_BLOCK", 1 << 17)
    calls = []
    original = delimited._by_csv
    monkeypatch.setattr(delimited, "_by_csv", lambda *args: calls.append(args[0]) or original(*args))
    lines = [f"r{i // 4},{512 + i},{4 + i % 7},{1e9 + i:.0f},{3 + i / n}" for i in range(n)]
    lines[n // 2 : n // 2 + 1] = ["", "# a remark", "r1,512,8", "run,width,depth,tokens,loss", lines[n // 2]]
    lines[5] = lines[5].replace("517,9", "517,nine")
    path = write("run,width,depth,tokens,loss\n" + "\n".join(lines) + "\nmean,1,2,3,3.5\n")
    runs = Runs.from_csv(path)
    assert len(calls) == 1
    assert (len(runs), runs.n_runs, runs.lines[-1]) == (n - 1, n // 4, n + 5)
    at = [i for i in range(n) if i != 5]
    assert runs["width"].tolist() == [512 + i for i in at]
    assert runs["depth"].tolist() == [4 + i % 7 for i in at]
    expected = [(n // 2 + 4, "3 cells where the header has 5"), (n // 2 + 5, "repeated header")]
    assert [(d.line, d.reason) for d in runs.dropped][:2] == expected
    assert [d.reason for d in runs.dropped][2:] == [
        "mean is a summary of the rows above",
        "depth is 'nine', not a finite number",
    ]


def test_warnings_travel_between_processes():
    warning = ScalefitWarning("code", "message.", "action.")
    assert pickle.loads(pickle.dumps(warning)) == warning


CURVE = "Step,loss\n1,3.5\n2,3.4\n"


def test_files_are_runs_of_their_own_whatever_their_names(write):
    for name in ("lr0.1.csv", "lr0.3.CSV", "lr0.1.tsv", "lr0.1.csv.bak"):
        curve = CURVE.replace("3.5", f"3.{len(name)}{name[4]}")
        write(curve.replace(",", "\t") if name.endswith("tsv") else curve, f"logs/{name}")
    folder = write(CURVE, "logs/lr0.1.csv").parent
    assert Runs(read_table(folder)).run_ids.tolist() == [0, 0, 1, 1, 2, 2]
    same = [write(CURVE.replace("3.5", f"3.{i}"), f"version_{i}/metrics.csv") for i in range(2)]
    assert Runs(read_table(same)).n_runs == 2
    with pytest.raises(DataError, match=r"metrics\.csv is given twice; its rows would count double"):
        read_table([*same, same[0]])


def test_numbered_and_named_runs_of_several_files_stay_apart(write):
    files = [write(f"run,loss\n{label},3.5\n{label},3.4\n", f"{label}.csv") for label in ("1", "x")]
    assert Runs(read_table(files)).run_ids.tolist() == [0, 0, 1, 1]


def test_line_separators_inside_json_text_end_no_line(write):
    text = "".join(json.dumps({"run": f"a\u2028{i}", "loss": 3.5}, ensure_ascii=False) + "\r\n" for i in range(3))
    assert Runs.from_csv(write(text, "runs.jsonl")).lines.tolist() == [1, 2, 3]


def test_a_missing_number_meets_no_condition(write):
    runs = Runs.from_csv(write("width,depth,loss\n512,8,3.5\n,16,3.4\n1024,16,3.3\n"))
    assert runs.where("width != 512")["loss"].tolist() == [3.3]


@pytest.mark.parametrize("header", [HEADER, HEADER.replace("run", "", 1)])
@pytest.mark.parametrize("word", ["Mean", "average", "Total:"])
def test_summaries_under_the_table_are_no_runs(write, header, word):
    runs = Runs.from_csv(write(header + rows(3) + f"{word},1024,8,2000000000,3.4\nmax,1536,8,3000000000,3.5\n"))
    assert len(runs) == 3
    assert [d.line for d in runs.dropped] == [5, 6]
    assert runs.dropped[0].reason == f"{word} is a summary of the rows above"


def test_losses_of_several_evaluation_sets_must_be_chosen(write):
    history = [{"loss": 4.0, "step": 1}, {"eval_c4_loss": 3.9, "step": 1}, {"eval_wiki_loss": 3.5, "step": 1}]
    path = write(json.dumps({"log_history": history}), "trainer_state.json")
    with pytest.raises(DataError, match="has 3 columns that may be the loss: loss, eval_c4_loss, eval_wiki_loss"):
        Runs.from_csv(path)
    assert Runs.from_csv(path, options=ReadOptions(loss="eval_wiki_loss"))["loss"].tolist() == [3.5]


def test_a_run_called_total_survives_the_tidy_form(tmp_path):
    runs = Runs.from_columns({"run": ["a", "total"], "loss": [3.5, 3.4]})
    runs.to_csv(tmp_path / "tidy.csv")
    assert len(Runs.from_csv(tmp_path / "tidy.csv")) == 2
