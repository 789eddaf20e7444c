"""Nested documents: every value is used, listed as left aside, or refused."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalefit.errors import DataError
from scalefit.ingest import ReadOptions, read_table
from scalefit.ingest.documents import read_document, read_lines
from scalefit.runs import Runs

KEYS = ["loss", "tokens", "a", "b", "config", "results", "name", "eval", "step", "val", "a.b", "x", "runs", "data"]


@st.composite
def documents(draw):
    """A document whose leaves are distinct numbers or distinct words, and the paths of all leaves."""
    count = iter(range(1, 10_000))

    def value(depth):
        kind = draw(st.sampled_from(["number", "word", "dict", "rows", "list", "null"] if depth < 4 else ["number"]))
        if kind == "number":
            return next(count) + 0.5
        if kind == "word":
            return f"word{next(count)}"
        if kind == "null":
            return None
        if kind == "dict":
            return mapping(depth + 1)
        if kind == "rows":
            return [mapping(depth + 1) for _ in range(draw(st.integers(0, 3)))]
        return [next(count) + 0.5 for _ in range(draw(st.integers(0, 3)))]

    def mapping(depth):
        keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True))
        return {key: value(depth) for key in keys}

    return draw(st.sampled_from([mapping, lambda depth: [mapping(depth) for _ in range(2)]]))(0)


def leaves(value, path=""):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, path)
    elif value is not None:
        yield path, value


def unaccounted(document, grid):
    """Leaves that are neither in a column nor in a path that is listed."""
    cells = {str(cell) for column in grid.columns for cell in column.tolist()} | set(grid.names)
    aside = [re.sub(r" \([^)]*\)$", "", entry) for entry in grid.ignored]
    words = {word for name in grid.names for word in name.split(".")}
    return [
        (path, leaf)
        for path, leaf in leaves(document)
        if str(leaf) not in cells
        and str(leaf) not in words
        and path.rpartition(".")[2] not in {name.rpartition(".")[2] for name in aside}
    ]


@settings(max_examples=400, deadline=None, derandomize=True)
@given(document=documents())
def test_no_value_is_lost_without_a_word(document):
    for reader, text in ((read_document, json.dumps(document)), (read_lines, json.dumps(document) + "\n")):
        try:
            grid = reader(text, "runs.json")
        except DataError:
            continue
        assert unaccounted(document, grid) == []


def test_the_search_for_lost_values_finds_one():
    grid = read_document('{"x": 1.5, "runs": [{"loss": 3.5}]}', "x.json")
    assert unaccounted({"x": 2.5}, grid) == [("x", 2.5)]


RUN = {
    "name": "r1",
    "hyperparameters": {"tokens": 10**9, "params": 10**7, "lr": 0.003, "betas": [0.9, 0.95]},
    "results": [
        {"val": "a", "loss": 3.8, "tokens": 90112, "sequences": 44},
        {"val": "b", "loss": 4.8, "tokens": 180224, "sequences": 88},
    ],
}


def test_settings_belong_to_each_run_and_evaluations_stand_side_by_side(write):
    for i in (1, 2, 3):
        run = json.loads(json.dumps(RUN).replace("r1", f"r{i}"))
        run["hyperparameters"].update(tokens=i * 10**9, params=i * 10**7)
        write(json.dumps(run), f"logs/d={64 * i}-1.0.json")
    folder = write(json.dumps({"fit": 1}), "x.json").parent / "logs"
    with pytest.raises(DataError, match=r"has 2 columns that may be the loss: eval\.a\.loss, eval\.b\.loss; choose"):
        read_table(folder)
    runs = Runs(read_table(folder, ReadOptions(loss="eval.b.loss")))
    by_run = dict(zip(runs.table.texts["run"], runs["tokens"], strict=True))
    assert by_run == {"r1": 1e9, "r2": 2e9, "r3": 3e9}
    assert sorted(runs["params"]) == [1e7, 2e7, 3e7]
    assert runs["loss"].tolist() == [4.8] * 3
    assert "hyperparameters.betas (a list)" in runs.origin.ignored


@pytest.mark.parametrize("key", ["dataset", "Eval Set", "task"])
@pytest.mark.parametrize("settings_key", ["config", "args"])
def test_one_evaluation_set_needs_no_question(write, key, settings_key):
    record = {settings_key: {"d_model": 512, "n_layers": 8, "tokens": 1e9}}
    record["metrics"] = [{key: "c4", "loss": 3.5}, {key: "wiki", "accuracy": 0.3}]
    runs = Runs.from_csv(write(json.dumps([record, record]), "runs.json"))
    assert (runs["loss"].tolist(), runs["width"].tolist(), runs["tokens"].tolist()) == ([3.5] * 2, [512] * 2, [1e9] * 2)


def test_a_history_repeats_the_settings_of_its_run(write):
    history = [{"step": i, "train": {"loss": 4.0 - i / 10}} for i in range(3)]
    records = [{"cfg": {"width": w, "depth": 8}, "history": history, "tags": ["x"]} for w in (512, 1024)]
    runs = Runs.from_csv(write(json.dumps(records), "runs.json"))
    assert runs["width"].tolist() == [512] * 3 + [1024] * 3
    assert runs.run_ids.tolist() == [0, 0, 0, 1, 1, 1]
    assert runs.origin.ignored == ("tags (a list)",)


def test_two_candidates_for_a_role_are_refused_by_name(write):
    document = {"width": 512, "tokens": 1e9, "curve": [{"tokens": 5, "loss": 3.5}, {"tokens": 6, "loss": 3.4}]}
    path = write(json.dumps(document), "run.json")
    with pytest.raises(
        DataError, match=r"curve\.tokens, settings\.tokens may each be the tokens; choose one with --column tokens="
    ):
        Runs.from_csv(path)
    runs = Runs.from_csv(path, {"tokens": "curve.tokens"})
    assert (runs["tokens"].tolist(), runs["width"].tolist()) == ([5, 6], [512, 512])


FORMS = {
    "columns beside settings": {"config": {"width": 512}, "tokens": [1e9, 2e9], "loss": [3.5, 3.4], "tags": ["a"]},
    "columns below a key": {"width": 512, "history": {"tokens": [1e9, 2e9], "loss": [3.5, 3.4]}},
    "split": {"columns": ["width", "tokens", "loss"], "index": [0, 1], "data": [[512, 1e9, 3.5], [512, 2e9, 3.4]]},
    "table": {
        "schema": {"fields": [{"name": "width"}]},
        "data": [{"width": 512, "tokens": 1e9, "loss": 3.5}, {"width": 512, "tokens": 2e9, "loss": 3.4}],
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_other_forms(write, form):
    runs = Runs.from_csv(write(json.dumps(FORMS[form]), "runs.json"))
    assert runs["loss"].tolist() == [3.5, 3.4]
    assert (runs["width"].tolist(), runs["tokens"].tolist()) == ([512, 512], [1e9, 2e9])


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([{"a.b": 1, "a": {"b": 2}, "loss": 3}], r"names a\.b twice; rename one"),
        ([{"x": [{"loss": 3}, 4]}], "the list x mixes objects with other values"),
        ({"results": {"hellaswag": {"acc": 0.5}}, "versions": {}, "config": {}}, "result of an evaluation harness"),
        ({"step": [1, 2], "loss": [1, 2, 3]}, "give each one entry a row"),
    ],
)
def test_what_would_lose_values_is_refused(write, document, message):
    with pytest.raises(DataError, match=message):
        Runs.from_csv(write(json.dumps(document), "runs.json"))
