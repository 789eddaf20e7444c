"""Names that mean a role, and names that only look like it."""

import json
import shlex

import pytest

from scalefit.errors import DataError, OptionError
from scalefit.ingest import ReadOptions
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
    runs = Runs.from_csv(write(f"width,depth,{name},loss\n512,8,1.5,3.5\n1024,8,3,3.2\n"))
    assert [w.action for w in runs.warnings] == [f"If so, say --column {shlex.quote(f'tokens={definition}')}."]


LOSSES = [
    "ValLoss", "trainloss", "LMLoss", "EvalNLL", "CrossEntropyLoss", "val_ce", "negative_log_likelihood",
    "train_loss_ema", "valLoss2", "eval/LM Loss", "log_perplexity", "log_ppl", "logs.loss", "finalloss",
]  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_a_loss_in_any_writing_comes_before_bits_per_byte(write, name, delimiter):
    text = f"x_bpb,{name},width,depth,tokens\n1.1,3.5,512,8,1e9\n1.0,3.3,1024,8,1e9\n"
    runs = Runs.from_csv(write(text.replace(",", delimiter)))
    assert (runs["loss"].tolist(), runs.origin.columns["loss"]) == ([3.5, 3.3], name)


def test_several_losses_ask_whatever_their_writing(write):
    with pytest.raises(DataError, match=r"2 columns that may be the loss: eval/a/CrossEntropyLoss, eval/b/CrossEnt"):
        Runs.from_csv(write("eval/a/CrossEntropyLoss,eval/b/CrossEntropyLoss,eval/x_bpb\n3.5,3.6,1\n3.4,3.5,1\n"))
    smoothed = Runs.from_csv(write("train_loss,train_loss_ema\n3.5,3.6\n"))
    assert smoothed["loss"].tolist() == [3.5]


def test_equal_losses_are_one(write):
    runs = Runs.from_csv(write("loss,C4 Eval Loss,width\n3.5,3.5,512\n3.3,3.3,1024\n"))
    assert (runs["loss"].tolist(), runs.origin.columns["loss"]) == ([3.5, 3.3], "loss")


@pytest.mark.parametrize(
    ("header", "command"),
    [
        ("N,D,C,loss", "--law params+tokens --column params=N --column tokens=D"),
        ("model_size,D,loss", "--law params+tokens --column params=model_size --column tokens=D"),
        ("Model Size,tokens,loss", "--law params+tokens --column 'params=Model Size'"),
        ("Params (M),tokens_billion,loss",
         "--law params+tokens --column 'params=`Params (M)`*1e6' --column 'tokens=tokens_billion*1e9'"),
        ("params,all tokens (billions),loss", "--law params+tokens --column 'tokens=`all tokens (billions)`*1e9'"),
        ("params,training tokens (B),loss", "--law params+tokens --column 'tokens=`training tokens (B)`*1e9'"),
        ("log10_params,tokens,loss", "--law params+tokens --column 'params=10**log10_params'"),
        ("C,loss", "--law flops --column flops=C"),
    ],
)  # fmt: skip
def test_the_hint_is_the_whole_command_and_it_works(write, header, command):
    path = write(
        header
        + "\n"
        + "".join(",".join(["9" if "log" in header else "1e9"] * header.count(",")) + f",3.{i}\n" for i in range(3))
    )
    runs = Runs.from_csv(path)
    with pytest.raises(DataError) as caught:
        runs["width"]
    assert str(caught.value).endswith(f"say {command}")
    assert "width=" not in command
    words = shlex.split(command)
    given = dict(word.split("=", 1) for word in words if "=" in word)
    again = Runs.from_csv(path, given)
    assert set(words[1].split("+")) <= set(again.columns)


ROLE_NAMES = ["non_embedding_params", "num_params", "NumParams", "token_num", "flops_budget", "hiddenSize"]


@pytest.mark.parametrize("name", ROLE_NAMES)
def test_more_names_of_roles(write, name):
    role = {"t": "tokens", "f": "flops", "h": "width"}.get(name[0], "params")
    assert Runs.from_csv(write(f"{name},loss\n1000000000,3.5\n")).origin.columns[role] == name


@pytest.mark.parametrize(
    ("column", "cells", "remedy"),
    [
        ("flops", (18, 20, 23), "flops=10**flops"),
        ("FLOPs", (18.5, 20.1, 23.9), "flops=10**FLOPs"),
        ("params", (7.8, 8.5, 9.2), "params=10**params"),
        ("num_params", (70, 160, 410), "params=num_params*1e9"),
        ("tokens", (9, 10, 11), "tokens=10**tokens"),
        ("compute", (0.1, 3, 90), "flops=compute*1e18"),
    ],
)
def test_counts_in_other_units_are_noticed(write, column, cells, remedy):
    runs = Runs.from_csv(write(f"{column},loss\n" + "".join(f"{c},3.{i}\n" for i, c in enumerate(cells))))
    (warning,) = [w for w in runs.warnings if w.code.endswith("-small")]
    assert f"--column '{remedy}'" in warning.action


def test_a_logarithm_is_not_taken_twice(write):
    path = write("width,log_perplexity\n512,3.5\n1024,3.3\n")
    assert Runs.from_csv(path)["loss"].tolist() == [3.5, 3.3]
    for options in (
        ReadOptions(loss="log_perplexity", loss_unit="perplexity"),
        ReadOptions(columns={"loss": "log(log_perplexity)"}),
    ):
        with pytest.raises(OptionError, match="would be the logarithm of log_perplexity, which is one already"):
            Runs.from_csv(path, options=options)
    with pytest.raises(DataError, match=r"log_loss may be the log loss.*or --column 'loss=exp\(log_loss\)'"):
        Runs.from_csv(write("width,log_loss\n512,3.5\n"))


def test_a_missing_loss_is_said_in_its_own_words(write):
    with pytest.raises(DataError, match=r"if L is the loss, say --loss L"):
        Runs.from_csv(write("N,D,L\n1e9,1e9,3.5\n"))
    with pytest.raises(DataError, match=r"the column val_loss is empty"):
        Runs.from_csv(write("width,depth,val_loss\n512,8,\n1024,8,\n"))
    with pytest.raises(DataError) as caught:
        Runs.from_csv(write("flops,floss_x,width\n1e18,1,512\n"))
    assert "did you mean" not in str(caught.value)
