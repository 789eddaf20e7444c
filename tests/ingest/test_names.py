"""Names that mean a role, and names that only look like it."""

import json
import shlex

import pytest

from scalefit.ingest.names import loss_candidates, role_candidates
from scalefit.runs import Runs


@pytest.mark.parametrize("name", ["optimizer.name", "dataset/name", "config.model", "user.id"])
def test_a_part_called_name_is_no_run(name):
    assert role_candidates([name, "loss"], "run") == []


@pytest.mark.parametrize("name", ["Name", "run.name", "config/run_id", "UUID"])
def test_run_labels(name):
    assert role_candidates([name, "loss"], "run") == [0]


@pytest.mark.parametrize("name", ["eval/num_tokens", "params/tokens", "batch.tokens", "val.n_tokens"])
def test_other_tokens_are_not_those_of_training(name):
    assert role_candidates([name, "loss"], "tokens") == []
    assert role_candidates(["train/tokens", name], "tokens") == [0]


@pytest.mark.parametrize("name", ["z_loss", "router/kl_loss", "regularization_loss"])
def test_parts_of_a_loss_are_not_the_loss(name):
    assert loss_candidates([name, "val_loss"]) == [1]


def test_json_of_a_data_frame(table, write, assert_law):
    names = ("width", "depth", "tokens", "loss")
    document = {name: {str(i): row[j] for i, row in enumerate(table)} for j, name in enumerate(names)}
    assert_law(Runs.from_csv(write(json.dumps(document), "runs.json")))


@pytest.mark.parametrize(("name", "definition"), [("Tokens (B)", "`Tokens (B)`*1e9"), ("tokens_M", "tokens_M*1e6")])
def test_a_unit_in_a_name_is_part_of_the_hint(write, name, definition):
    runs = Runs.from_csv(write(f"width,{name},loss\n512,1.5,3.5\n1024,3,3.2\n"))
    assert [w.action for w in runs.warnings] == [f"If so, say --column {shlex.quote(f'tokens={definition}')}."]
