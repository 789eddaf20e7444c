"""What a user may select, and what is remarked before: held-out rows, samples of a history, other settings."""

import itertools
import shlex

import numpy as np
import pytest

from scalefit.errors import OptionError
from scalefit.identifiability.inspection import inspect_runs
from scalefit.runs import Runs


@pytest.fixture
def runs():
    texts = {"split": ["train", "train", "holdout", "train"]}
    columns = {"tokens": [1e9, 100e9, 2e12, 1e6], "flops": [1e18, 1e20, 1e21, 1e15], "loss": [4.0, 3.5, 3.0, 5.0]}
    return Runs.from_columns({**columns, **texts})


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("tokens < 100B", [4.0, 5.0]),
        ("tokens >= 100b and tokens <= 2T", [3.5, 3.0]),
        ("tokens < 1.5M", [5.0]),
        ("flops > 1e20", [3.0]),
        ("split == 'train' and tokens > 2m", [4.0, 3.5]),
        ("split != '2T'", [4.0, 3.5, 3.0, 5.0]),
    ],
)
def test_numbers_with_suffixes_in_conditions(runs, condition, kept):
    assert runs.where(condition)["loss"].tolist() == kept


@pytest.mark.parametrize("condition", ["split == train", "train == split", "tokens > 1e9 and split == train"])
def test_text_without_quotes_is_answered_with_the_condition_that_works(runs, condition):
    with pytest.raises(OptionError, match="train is no column; if it is a text, put it in quotes") as caught:
        runs.where(condition)
    (told,) = shlex.split(str(caught.value).rpartition("quotes: ")[2])
    assert 3.5 in runs.where(told)["loss"]
    with pytest.raises(OptionError, match="unknown column 'tokns'"):
        runs.where("tokns > 3")


@pytest.mark.parametrize(("share", "kept"), [("10%", 18), ("0%", 20), ("50 %", 10), ("7.5%", 19), ("3", 17)])
def test_a_share_of_the_worst(share, kept):
    runs = Runs.from_columns({"loss": np.arange(1.0, 21.0)}).drop_worst(share)
    assert (len(runs), runs["loss"].max()) == (kept, kept)


@pytest.mark.parametrize("share", ["100%", "-5%", "x", "5%%", ""])
def test_shares_that_leave_nothing_or_mean_nothing(share):
    with pytest.raises(OptionError, match="a share is written 10%"):
        Runs.from_columns({"loss": [1.0, 2.0]}).drop_worst(share)


@pytest.mark.parametrize(
    ("header", "train", "held", "condition"),
    [
        ("split", "train", "holdout", "split == 'train'"),
        ("Split", "Train", "TEST", "Split == 'Train'"),
        ("subset", "fit", "val", "subset == 'fit'"),
        ("holdout", "False", "True", "holdout == 'False'"),
        ("is_holdout", "0", "1", "is_holdout == 0"),
    ],
)
def test_held_out_rows_are_noticed(write, header, train, held, condition):
    rows = "".join(f"1e{7 + i},1e9,{5 - i / 2},{held if i == 3 else train}\n" for i in range(4))
    runs = Runs.from_csv(write(f"params,tokens,loss,{header}\n{rows}"))
    (warning,) = [w for w in runs.warnings if w.code == "held-out-rows"]
    assert warning.message == f"{header} of runs.csv says {held} in 1 of 4 rows; a fit takes all rows."
    assert shlex.split(warning.action.rstrip("."))[-1] == condition
    kept = runs.where(condition)
    assert (len(kept), [w for w in kept.warnings if w.code == "held-out-rows"]) == (3, [])


def test_a_sampled_history_is_remarked(write):
    def warnings(n):
        text = "run,tokens,loss\n" + "".join(f"a,{i + 1}e6,3.5\n" for i in range(n)) + "b,1e6,3\n" * 3
        return [w for w in Runs.from_csv(write(text)).warnings if w.code == "sampled-history"]

    assert [len(warnings(n)) for n in (499, 500, 501)] == [0, 1, 0]
    assert warnings(500)[0].message == "1 run has exactly 500 rows: trackers export a sample of so many."


def repetitions(rows, header):
    columns = dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))
    return inspect_runs(Runs.from_columns(columns)).repetitions


def test_rows_that_differ_in_another_setting_are_no_repeats():
    rows = [(w, 8, 1e9, lr, 3 + w / 1e4 + lr) for w, lr in itertools.product((256, 512, 1024), (0.1, 0.2))]
    found = repetitions(rows, ("width", "depth", "tokens", "lr", "loss"))
    assert (found.replicated, found.noise, found.differing) == (0, None, ("lr",))
    seeds = repetitions(rows, ("width", "depth", "tokens", "seed", "loss"))
    assert (seeds.replicated, seeds.degrees, seeds.differing) == (3, 3, ())
    texts = [(w, d, t, "abc"[int(lr * 10)], x) for w, d, t, lr, x in rows]
    assert repetitions(texts, ("width", "depth", "tokens", "optimizer", "loss")).differing == ("optimizer",)


def test_repeats_within_another_setting_stay_repeats():
    rows = [(w, lr, s, 3 + w / 1e4 + lr + s / 1e3) for w in (256, 512, 1024) for lr in (0.1, 0.2) for s in (0, 1)]
    columns = dict(zip(("width", "lr", "seed", "loss"), map(list, zip(*rows, strict=True)), strict=True))
    found = inspect_runs(Runs.from_columns({**columns, "tokens": [1e9] * len(rows)}))
    assert (found.repetitions.replicated, found.repetitions.degrees) == (6, 6)
    assert found.repetitions.differing == ("lr",)
    assert "settings-differ" in [w.code for w in found.warnings]


def test_settings_with_a_missing_cell_repeat_nothing():
    rows = [(512, np.nan, 1e9, 3.5), (512, np.nan, 1e9, 3.4), (1024, 8, 1e9, 3.3), (1024, 8, 1e9, 3.31)]
    found = repetitions(rows, ("width", "depth", "tokens", "loss"))
    assert (found.replicated, found.degrees) == (1, 1)


def next_step(write, capsys, monkeypatch, text):
    from scalefit.cli import main

    path = write(text)
    monkeypatch.setattr("sys.argv", ["scalefit", "check", str(path)])
    with pytest.raises(SystemExit):
        main()
    return " ".join(capsys.readouterr().out.rpartition("next: ")[2].split())


@pytest.mark.parametrize(
    ("header", "rows", "law"),
    [
        ("params,loss", [(10**k, 5 - k / 4) for k in range(6, 12)], "params"),
        ("depth,loss", [(k, 5 - k / 40) for k in (2, 4, 8, 16, 32, 64)], "depth"),
        (
            "params,tokens,loss",
            [(10**k, 10**d, 9 - k / 4 - d / 9) for k in (7, 8, 9) for d in (9, 10, 11)],
            "params+tokens",
        ),
    ],
)
def test_check_proposes_the_law_that_the_columns_allow(write, capsys, monkeypatch, header, rows, law):
    text = header + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    assert f"--law {law}," in next_step(write, capsys, monkeypatch, text)


def test_check_proposes_no_law_over_mixed_sizes(write, capsys, monkeypatch):
    rows = [(w, t, 5 - t / 1e12 - w / 9e3) for w in (256, 512) for t in (1e9, 1e10, 1e11)]
    text = "width,tokens,loss\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    assert "--law tokens" not in next_step(write, capsys, monkeypatch, text)
