"""Runs: selection counts every row, errors name the row, nothing can be changed."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalefit.errors import DataError, OptionError
from scalefit.ingest import read_table
from scalefit.runs import Runs


@pytest.fixture
def runs():
    return Runs.from_columns(
        {
            "width": [512, 512, 1024, 1024, 2048],
            "depth": [8, 0, 16, np.nan, 32],
            "tokens": [1e9, 1e10, 1e9, 1e10, 1e9],
            "loss": [4.5, 4.0, 3.5, 3.5, 3.0],
            "run": ["a", "a", "b", "b", "c"],
        }
    )


def test_columns_rows_and_runs(runs):
    assert runs.columns == ("width", "depth", "tokens", "loss")
    assert len(runs) == 5
    assert runs.run_ids.tolist() == [0, 0, 1, 1, 2]
    assert (runs.n_runs, runs.has_runs) == (3, True)
    assert Runs.from_columns({"loss": [1.0, 2.0]}).run_ids.tolist() == [0, 1]
    assert Runs.from_columns({"loss": [1.0, 2.0, 3.0], "run": [7, 7, 2]}).run_ids.tolist() == [0, 0, 1]
    assert Runs.from_columns({"loss": [1.0, 2.0, 3.0], "run": ["x", "", ""]}).run_ids.tolist() == [0, 1, 2]


def test_arrays_are_read_only(runs):
    with pytest.raises(ValueError, match="read-only"):
        runs["loss"][0] = 0.0
    with pytest.raises(ValueError, match="read-only"):
        runs.where("loss > 3")["loss"][0] = 0.0
    with pytest.raises(AttributeError):
        runs.table = None


def test_where_keeps_places_and_reasons(runs):
    kept = runs.where("loss < 4.2 and run != 'c'")
    assert kept["loss"].tolist() == [4.0, 3.5, 3.5]
    assert [(d.row, d.reason) for d in kept.dropped] == [
        (1, "where loss < 4.2 and run != 'c' is false"),
        (5, "where loss < 4.2 and run != 'c' is false"),
    ]
    assert [(s.name, s.before, s.after) for s in kept.selections] == [("where loss < 4.2 and run != 'c'", 5, 3)]
    assert kept.row_name(0) == "row 2 (line 2) of columns"
    assert kept.where("loss < 3.9").n_dropped == 3
    assert runs.n_dropped == 0


def test_min_tokens_and_take(runs):
    assert runs.min_tokens(2e9)["tokens"].tolist() == [1e10, 1e10]
    assert runs.take(np.array([4, 0]), "chosen")["loss"].tolist() == [4.5, 3.0]
    assert runs.take(runs["loss"] > 4, "small")["loss"].tolist() == [4.5]
    with pytest.raises(OptionError, match="occurs twice"):
        runs.take(np.array([0, 0]), "x")


@pytest.mark.parametrize(("k", "kept"), [(0, 5), (1, 4), (2, 3), (3, 1), (4, 1)])
def test_drop_worst_takes_ties_together(runs, k, kept):
    result = runs.drop_worst(k)
    assert len(result) == kept
    ties = [w for w in result.warnings if w.code == "tie-at-cut"]
    assert len(ties) == (k == 3)
    if ties:
        assert ties[0].numbers == {
            "asked": 3, "dropped": 4, "kept": 1, "dropped_keeping_tie": 2, "kept_keeping_tie": 3,
        }  # fmt: skip


@pytest.mark.parametrize("k", [-1, 5, 6, 1.5])
def test_drop_worst_needs_a_rest(runs, k):
    with pytest.raises(OptionError, match=rf"\(drop_worst\) is {k} and must be a whole number from 0 to 4: "):
        runs.drop_worst(k)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=30), st.data())
def test_drop_worst_does_not_depend_on_the_order(losses, data):
    k = data.draw(st.integers(0, len(losses) - 1))
    shuffled = data.draw(st.permutations(losses))
    results = [Runs.from_columns({"loss": values}).drop_worst(k) for values in (losses, shuffled)]
    assert sorted(results[0]["loss"]) == sorted(results[1]["loss"])
    assert len(losses) - len(results[0]) >= k


@pytest.mark.parametrize(
    ("which", "losses"),
    [("last", [4.0, 3.5, 3.0]), ("best", [4.0, 3.5, 3.0]), ("best-per-shape", [4.5, 4.0, 3.5, 3.5, 3.0])],
)
def test_select(runs, which, losses):
    chosen = runs.select(which)
    assert chosen["loss"].tolist() == losses
    assert chosen.selections[-1].name == f"select {which}"
    assert chosen.n_dropped == 5 - len(losses)


def test_select_last_by_tokens_and_best_over_a_sweep():
    columns = {"tokens": [3, 1, 2, 9], "lr": [1, 2, 3, 4], "width": [8, 8, 8, 16], "loss": [3.0, 2.0, 2.5, 1.0]}
    by_run = Runs.from_columns({**columns, "run": ["a", "a", "a", "b"]})
    assert by_run.select("last")["loss"].tolist() == [3.0, 1.0]
    assert by_run.select("best")["loss"].tolist() == [2.0, 1.0]
    sweep = Runs.from_columns({name: values for name, values in columns.items() if name != "tokens"})
    assert sweep.select("best-per-shape")["loss"].tolist() == [2.0, 1.0]
    with pytest.raises(DataError, match=r"does not say which run a row belongs to; .* --column run=COLUMN"):
        sweep.select("last")
    with pytest.raises(OptionError, match="select is 'first' and must be one of last, best, best-per-shape"):
        sweep.select("first")
    with pytest.raises(DataError, match="has none of the columns width, depth"):
        Runs.from_columns({"loss": [1.0]}).select("best-per-shape")


def test_select_last_takes_a_missing_count_only_where_a_run_has_no_other():
    columns = {
        "tokens": [np.nan, 2, 1, 5, np.nan, 4, np.nan, np.nan, 0, np.nan],
        "loss": [9.0, 2.0, 3.0, 1.5, 8.0, 1.6, 7.0, 6.0, 5.0, 4.0],
        "run": ["a", "a", "a", "b", "b", "b", "c", "c", "d", "d"],
    }
    for counts in ("tokens", "step"):
        table = {counts if name == "tokens" else name: values for name, values in columns.items()}
        assert Runs.from_columns(table).select("last")["loss"].tolist() == [2.0, 1.5, 6.0, 5.0]


def test_select_last_of_equal_counts_takes_the_later_row():
    columns = {"tokens": [2, 2, 1], "loss": [3.0, 2.0, 4.0], "run": ["a", "a", "a"]}
    assert Runs.from_columns(columns).select("last")["loss"].tolist() == [2.0]
    assert Runs.from_columns({**columns, "loss": [3.0, 3.0, 4.0]}).select("best").lines.tolist() == [2]


def test_complete_lists_missing_and_requires_positive(runs):
    complete = runs.where("not depth == 0").complete(["width", "depth", "tokens"])
    assert complete["depth"].tolist() == [8, 16, 32]
    assert complete.dropped[-1].reason == "depth is missing"
    with pytest.raises(DataError) as caught:
        runs.complete(["width", "depth"])
    assert str(caught.value) == (
        "row 2 (line 2) of columns: depth is 0 and must be positive; correct it or drop it with --where 'depth > 0'"
    )
    assert len(runs.complete(["width"])) == 5


def test_unknown_columns_are_named(runs):
    with pytest.raises(DataError) as caught:
        runs.complete(["widht"])
    assert str(caught.value) == (
        "columns has no column 'widht' (did you mean width?); its columns are width, depth, tokens, loss; "
        "give it with --column widht=COLUMN, or widht=NUMBER if all rows share it"
    )


def test_frames_and_files_round_trip(runs, tmp_path):
    kept = runs.where("loss < 4.2")
    frame = Runs.from_frame(kept.to_frame())
    kept.to_csv(tmp_path / "tidy.csv")
    kept.to_json(tmp_path / "tidy.json")
    for other in (frame, Runs.from_csv(tmp_path / "tidy.csv"), Runs.from_csv(tmp_path / "tidy.json")):
        assert other.columns == kept.columns
        assert other.run_ids.tolist() == kept.run_ids.tolist()
        for name in kept.columns:
            np.testing.assert_array_equal(other[name], kept[name])


def test_tidy_labels_are_no_formulas(tmp_path):
    labels = ["=1+1", "+a", "-b", "@c", "'d", "e"]
    runs = Runs.from_columns({"loss": np.arange(1.0, 7.0), "run": labels, "=cmd": np.arange(6.0)})
    runs.to_csv(tmp_path / "tidy.csv")
    text = (tmp_path / "tidy.csv").read_text()
    assert not any(cell.startswith(("=", "+", "-", "@")) for line in text.splitlines() for cell in line.split(","))
    again = Runs.from_csv(tmp_path / "tidy.csv")
    assert again.table.texts["run"].tolist() == labels
    assert again.columns == runs.columns


def test_pickles(runs):
    again = pickle.loads(pickle.dumps(runs.drop_worst(1)))
    assert again["loss"].tolist() == [4.0, 3.5, 3.5, 3.0]
    assert again.dropped == runs.drop_worst(1).dropped


def test_dropped_is_a_sequence(runs):
    dropped = runs.drop_worst(1).where("depth > 8").dropped
    assert len(dropped) == 3
    assert dropped[-1] == list(dropped)[-1]
    assert dropped[:1] == (dropped[0],)
    assert dropped.counts() == {"among the 1 largest losses": 1, "where depth > 8 is false": 2}
    assert dropped == tuple(dropped)
    assert hash(dropped) == hash(tuple(dropped))
    with pytest.raises(IndexError):
        dropped[3]


def test_memory_tables_are_checked():
    with pytest.raises(DataError, match="give each one entry a row"):
        Runs.from_columns({"loss": [1.0, 2.0], "width": [1.0]})
    with pytest.raises(DataError, match="are empty"):
        Runs.from_columns({"loss": []})
    with pytest.raises(DataError, match="has 2 dimensions and must have one"):
        Runs.from_columns({"loss": [[1.0, 2.0]]})
    assert Runs.from_table(read_table_of_one())["loss"].tolist() == [2.0]


def read_table_of_one():
    from scalefit.ingest import ReadOptions
    from scalefit.ingest.read import table_from_columns

    return table_from_columns({"loss": [2.0]}, ReadOptions(), "one")


def test_dropped_rows_are_compact(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("width,loss\n" + "512,-\n" * 20000 + "512,3\n")
    dropped = Runs.from_table(read_table(path)).dropped
    assert len(dropped) == 20000
    assert dropped.reasons == ("loss is '-', not a finite number",)
    assert dropped.codes.nbytes + dropped.places.rows.nbytes + dropped.places.lines.nbytes <= 3 * 8 * 20000
