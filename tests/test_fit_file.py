"""The JSON form of a fit."""

from __future__ import annotations

import copy
import json
import math
import random
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest
from known_tables import t27_columns

from scalefit.datasets import load_dataset
from scalefit.errors import DataError, OptionError, ScalefitError
from scalefit.fitting.file import fit_document, is_fit_file, load_fit, save_fit
from scalefit.fitting.fit import Fit, fit
from scalefit.laws.constraints import Constraints
from scalefit.report import describe
from scalefit.runs import Runs


@pytest.fixture(params=["worked example", "bounded", "with runs"])
def any_fit(request: pytest.FixtureRequest, chin203_fit: Fit) -> Fit:
    if request.param == "bounded":
        return fit(chin203_fit.runs, constraints=Constraints.parse(["L0=1.75"], [], ["alpha_depth=0.2:"]))
    return (
        chin203_fit if request.param == "worked example" else fit(load_dataset("gemstones"), objective="log-huber:1e-3")
    )


def test_round_trip_to_the_bit(any_fit: Fit, tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    save_fit(any_fit, path)
    loaded = load_fit(path)
    assert is_fit_file(path)
    assert fit_document(loaded, rows=True) == fit_document(any_fit, rows=True)
    again = fit(
        loaded.runs,
        loaded.law,
        loaded.objective,
        constraints=loaded.constraints,
        n_starts=loaded.n_starts,
        seed=loaded.seed,
    )
    assert dict(again.params) == dict(any_fit.params)
    assert loaded.runs.row_name(3) == any_fit.runs.row_name(3)
    assert loaded.runs.n_runs == any_fit.runs.n_runs


def test_documented_keys(chin203_fit: Fit) -> None:
    document = json.loads(json.dumps(fit_document(chin203_fit), allow_nan=False))
    assert document["law"] == "width+depth+tokens"
    assert document["objective"] == {"name": "log-mse", "value": pytest.approx(3.0274e-05, abs=1e-9)}
    assert (document["n_rows"], document["n_dropped"], document["n_runs"]) == (203, 42, 203)
    assert set(document["certificate"]) >= {"starts", "starts_at_best", "gradient"}
    assert {"code", "message", "action"} <= set(document["warnings"][0])


def test_the_largest_residuals_are_those_of_the_largest_size(any_fit: Fit) -> None:
    summary = fit_document(any_fit)["residuals"]
    by_size = sorted(any_fit.residuals.tolist(), key=abs, reverse=True)
    assert [row["residual"] for row in summary["largest"]] == by_size[:5]
    if len(by_size) == 203:
        assert {residual > 0 for residual in by_size[:5]} == {True, False}  # sorting by value would fail
    for row in summary["largest"]:
        i = any_fit.residuals.tolist().index(row["residual"])
        assert (row["row"], row["line"]) == (any_fit.runs.row_name(i), any_fit.runs.lines[i])
        assert row["observed"] == any_fit.runs["loss"][i]
        assert math.log(row["predicted"] / row["observed"]) == pytest.approx(row["residual"], abs=1e-12)
    assert summary["rms"] == pytest.approx(math.sqrt(sum(r * r for r in by_size) / len(by_size)), rel=1e-12)
    assert summary["median_absolute"] == pytest.approx(statistics.median(map(abs, by_size)), rel=1e-12)


def test_existing_files_are_kept(chin203_fit: Fit, tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    path.write_text("precious")
    with pytest.raises(OptionError, match="--force"):
        save_fit(chin203_fit, path)
    assert path.read_text() == "precious"
    save_fit(chin203_fit, path, overwrite=True)
    assert load_fit(path).objective_value == chin203_fit.objective_value


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read"), ("{", "not JSON"), ("[1]", "no fit of this version"), ('{"schema": "x"}', "no fit")],
)
def test_other_files_are_refused(content: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(DataError, match=message):
        load_fit(path)
    assert not is_fit_file(path)


@pytest.mark.parametrize(("key", "value"), [("params", None), ("certificate", 3), ("status", "splendid")])
def test_a_damaged_fit_is_one_sentence(chin203_fit: Fit, tmp_path: Path, key: str, value: object) -> None:
    path = tmp_path / "fit.json"
    path.write_text(json.dumps(fit_document(chin203_fit, rows=True) | {key: value}))
    with pytest.raises(DataError, match=f"is damaged: {key}"):
        load_fit(path)


def test_a_missing_folder_is_an_error_not_a_typing_error_made_true(chin203_fit: Fit, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="new does not exist; make it first"):
        save_fit(chin203_fit, tmp_path / "new" / "fit.json")
    assert not (tmp_path / "new").exists()


def test_a_document_without_rows_says_so(chin203_fit: Fit, tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    path.write_text(json.dumps(fit_document(chin203_fit)))
    with pytest.raises(DataError, match="without its rows"):
        load_fit(path)


JUNK = [None, -1, 1e300, "x", [], {}, math.nan, True, 0, "\ud800", [[1]], {"a": None}, 1e-300, 10**30, -0.5, "width"]


def places(value: object, before: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """Every entry of a document; of a list the first three."""
    if before:
        yield before
    items = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*before, key))


def test_a_fit_edited_anywhere_is_refused_in_a_sentence_or_still_a_fit(tmp_path: Path) -> None:
    """45 of 383 such files once ended in a traceback, and others with numbers from nowhere."""
    small = fit(Runs.from_columns(t27_columns(0.01)), n_starts=2)
    save_fit(small, tmp_path / "fit.json")
    document = json.loads((tmp_path / "fit.json").read_text())
    rng, entries, refused = random.Random(3), list(places(document)), 0
    sentences: set[str] = set()
    for i in range(150):
        edited, place, junk = copy.deepcopy(document), rng.choice(entries), rng.choice(JUNK)
        at = edited
        for key in place[:-1]:
            at = at[key]
        if i % 10:
            at[place[-1]] = junk
        else:
            del at[place[-1]]
        path = tmp_path / "edited.json"
        path.write_text(json.dumps(edited))
        try:
            again = load_fit(path)
            describe(again)
            document_of_it = json.dumps(fit_document(again), allow_nan=False)
            assert len(document_of_it) > 1000
        except ScalefitError as error:
            refused += 1
            sentences.add(str(error))
    assert 30 < refused < 120
    assert not any("\n" in sentence for sentence in sentences)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("params", "alpha_depth"), math.nan, "params.alpha_depth: Input should be a finite number"),
        (("params", "alpha_depth"), 1.3, "its parameters and rows give the objective"),
        (("rows", "columns", "width"), [512.0], "width has 1 entries for 27 rows"),
        (("rows", "columns", "loss", 3), -2.0, "loss is -2.0 and must be positive"),
        (("rows", "columns", "loss", 3), None, "a row has no loss"),
        (("constraints", "fixed"), {"L0": 1.0}, "L0 is .*, which its constraints do not allow"),
        (("law",), "widht+depth+tokens", "c_widht"),
        (("seed",), "zero", "seed: Input should be a valid integer"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, place: tuple[object, ...], value: object, message: str) -> None:
    path = tmp_path / "fit.json"
    save_fit(fit(Runs.from_columns(t27_columns(0.01)), n_starts=2), path)
    document = json.loads(path.read_text())
    at = document
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    path.write_text(json.dumps(document))
    with pytest.raises(DataError, match=rf"fit\.json is damaged: .*{message}"):
        load_fit(path)
