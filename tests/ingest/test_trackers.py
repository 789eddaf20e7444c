"""Exports of trackers, JSON, Parquet and Excel; several files; each against the known law."""

import contextlib
import json
import time

import numpy as np
import pytest

from scalefit.errors import DataError, OptionError
from scalefit.ingest import ReadOptions, names
from scalefit.runs import Runs

SHAPE = r"w(?P<width>\d+)-d(?P<depth>\d+)"


def csv_text(rows, quote='"'):
    return "\n".join(",".join(f"{quote}{cell}{quote}" for cell in row) for row in rows) + "\n"


def chart(table, names=("w{m}-d{n}",), metrics=("val/loss",), axis="Step"):
    shapes = dict.fromkeys((m, n) for m, n, _, _ in table)
    loss = {(m, n, D): L for m, n, D, L in table}
    columns = [(m, n, metric, tail) for m, n in shapes for metric in metrics for tail in ("", "__MIN", "__MAX")]
    rows = [[axis, *(f"{names[0].format(m=m, n=n)} - {metric}{tail}" for m, n, metric, tail in columns)]]
    for D in (10**9, 10**10, 10**11):
        rows.append([D // 10**6, *(loss[m, n, D] + (metric != metrics[-1]) / 4 for m, n, metric, _ in columns)])
        rows.append([D // 10**6 + 1, *("" for _ in columns)])
    return csv_text(rows)


def test_wandb_chart(table, write, assert_law):
    options = ReadOptions(columns={"tokens": "Step*1e6"}, pattern=SHAPE)
    runs = Runs.from_csv(write(chart(table)), options=options)
    assert_law(runs)
    assert (runs.origin.format, runs.n_runs) == ("wandb-chart", 9)
    assert [(d.line, d.reason) for d in runs.dropped] == [(n, "no value of any run") for n in (3, 5, 7)]
    assert "18 columns __MIN and __MAX (envelopes)" in runs.origin.ignored


def test_wandb_chart_with_dashes_in_names_and_another_axis(table, write, assert_law):
    text = chart(table, names=("sweep - big - {m}x{n}",), axis="train/tokens_millions")
    options = ReadOptions(columns={"tokens": "`train/tokens_millions`*1e6"}, pattern=r"(?P<width>\d+)x(?P<depth>\d+)")
    assert_law(Runs.from_csv(write(text), options=options))


def test_wandb_chart_of_two_losses_must_be_chosen(table, write, assert_law):
    path = write(chart(table, metrics=("train/loss", "val/loss")))
    with pytest.raises(DataError, match=r"has 2 columns that may be the loss: train/loss, val/loss; .*--loss val/loss"):
        Runs.from_csv(path)
    options = ReadOptions(columns={"tokens": "Step*1e6"}, pattern=SHAPE, loss="val/loss")
    assert_law(Runs.from_csv(path, options=options))


def test_wandb_chart_hints_at_the_pattern(table, write):
    runs = Runs.from_csv(write(chart(table)))
    with pytest.raises(DataError) as caught:
        runs.complete(["width", "depth", "tokens"])
    assert str(caught.value) == (
        r"runs.csv has no column 'width'; its columns are loss, Step; say --pattern 'w(?P<width>\d+)-d(?P<depth>\d+)'"
    )


def test_wandb_runs_keep_the_finished(table, write, assert_law):
    rows = [["Name", "State", "model.hidden_dim", "model.num_layers", "throughput/total_tokens", "eval/loss"]]
    rows += [[f"run-{i}", "finished", *row] for i, row in enumerate(table)]
    rows += [["x", "crashed", 1024, 16, 5, 9.87], ["y", "failed", 0, 0, 0, "NaN"], ["z", "running", 0, 1, 1, -1]]
    path = write(csv_text(rows))
    runs = Runs.from_csv(path)
    assert_law(runs)
    assert runs.origin.format == "wandb-runs"
    assert [d.reason for d in runs.dropped] == [f"State is {s}, not finished" for s in ("crashed", "failed", "running")]
    assert len(Runs.from_csv(path, options=ReadOptions(keep_unfinished=True))) == 29
    with pytest.raises(DataError, match=r"no run is finished \(crashed, failed, running\); .*--keep-unfinished"):
        Runs.from_csv(write(csv_text([rows[0], *rows[28:]])))


def test_only_states_known_as_finished_are_kept(table, write, assert_law):
    """A state that nobody has heard of, or none, may be anything."""
    rows = [["Name", "State", "model.hidden_dim", "model.num_layers", "throughput/total_tokens", "eval/loss"]]
    states = ["finished", "Completed", "SUCCESS", "done"]
    rows += [[f"run-{i}", states[i % 4], *row] for i, row in enumerate(table)]
    rows += [[f"odd-{i}", state, 1024, 16, 10**9, 9.9] for i, state in enumerate(("hibernating", "", "unfinished"))]
    runs = Runs.from_csv(write(csv_text(rows)))
    assert_law(runs)
    assert [d.reason for d in runs.dropped] == [
        "State is hibernating, not finished",
        "State is empty, not finished",
        "State is unfinished, not finished",
    ]


@pytest.mark.parametrize("names", ["Wall time,Step,Value", "wall_time,step,value", "Step,Value,Wall time"])
def test_tensorboard(write, names):
    cells = {"wall": 1.7e9, "step": 1000, "value": 3.5}
    lines = [",".join(str(cells[n.lower().split("_")[0].split()[0]] + i) for n in names.split(",")) for i in range(8)]
    path = write("\n".join([names, *lines]) + "\n", "w1024-d16.csv")
    step = next(n for n in names.split(",") if n.lower() == "step")
    runs = Runs.from_csv(path, options=ReadOptions(columns={"tokens": f"{step}*1e6"}, pattern=SHAPE))
    assert (runs.origin.format, len(runs), runs.n_runs) == ("tensorboard", 8, 1)
    assert set(runs["width"]) == {1024.0}
    assert runs["loss"].tolist() == [3.5 + i for i in range(8)]


@pytest.mark.parametrize(("validation", "train"), [("val_loss", "train_loss_step"), ("valid_loss", "train_loss")])
def test_lightning_takes_validation_points(write, validation, train):
    rows = [f"epoch,step,{train},{validation}"]
    for i in range(6):
        rows += [f"0,{50 + 100 * i},{4 - i / 5},", f"0,{50 + 100 * i},,{3.8 - i / 10}"]
    path = write("\n".join(rows) + "\n", "metrics.csv")
    options = ReadOptions(columns={"tokens": "step*1e7", "width": "1024", "depth": "16"})
    runs = Runs.from_csv(path, options=options)
    assert (runs.origin.format, len(runs), runs.n_dropped, runs.n_runs) == ("lightning", 6, 6, 1)
    assert runs["loss"][0] == 3.8
    trained = Runs.from_csv(path, options=ReadOptions(loss=train))
    assert trained["loss"][0] == 4.0


def test_trainer_state_never_takes_the_mean_over_training(write):
    history = [{"loss": 4.0 - i / 10, "step": 100 * (i + 1), "epoch": 0.1 * i} for i in range(5)]
    mean = {"train_loss": 3.8, "train_runtime": 60.0, "step": 500, "total_flos": 1e18, "epoch": 1.0}
    runs = Runs.from_csv(write(json.dumps({"log_history": [*history, mean]}), "trainer_state.json"))
    assert runs.origin.format == "trainer-state"
    assert runs["loss"].tolist() == [4.0, 3.9, 3.8, 3.7, 3.6]
    assert runs.dropped[0].reason == "the mean over the whole training, no point of the curve"
    evaluated = [{"eval_loss": 3.5, "step": 500}]
    both = Runs.from_csv(write(json.dumps({"log_history": [*history, *evaluated, mean]}), "trainer_state.json"))
    assert both["loss"].tolist() == [3.5]
    with pytest.raises(DataError, match="log_history has neither eval_loss nor loss"):
        Runs.from_csv(write(json.dumps({"log_history": [mean]}), "trainer_state.json"))


def records(table):
    return [{"width": m, "depth": n, "tokens": D, "final_loss": L} for m, n, D, L in table]


def test_json_forms(table, write, assert_law):
    rows = records(table)
    nested = [{"config": {"model": {"d_model": m, "n_layer": n}}, "tokens": D, "loss": L} for m, n, D, L in table]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    by_run = {f"r{i}": row for i, row in enumerate(rows)}
    for document in (rows, nested, columns, {"runs": rows, "note": "x"}, by_run):
        assert_law(Runs.from_csv(write(json.dumps(document), "runs.json")))
    lines = "\n".join(map(json.dumps, rows)) + "\n"
    for name in ("runs.jsonl", "runs.json", "runs.txt"):
        runs = Runs.from_csv(write(lines, name))
        assert_law(runs)
        assert runs.origin.format == "jsonl"
        assert runs.lines[4] == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1', "is not JSON"),
        ('[{"loss": 1, "loss": 2}]', "the key 'loss' occurs twice"),
        ("[1, 2]", "must be a list of objects"),
        ('{"a": 1}', "holds no table"),
        ("[" * 100000, "nested too deeply"),
        ('{"loss": [1, 2], "width": [1]}', "give each one entry a row"),
    ],
)
def test_json_that_is_no_table(write, text, message):
    with pytest.raises(DataError, match=message):
        Runs.from_csv(write(text, "runs.json"))


def test_json_names_the_line(write):
    with pytest.raises(DataError, match=r"line 2 of runs\.jsonl is not JSON"):
        Runs.from_csv(write('{"loss": 1}\n{"loss": }\n', "runs.jsonl"))


def test_parquet_and_excel(table, tmp_path, assert_law):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(table, columns=["d_model", "n_layers", "tokens", "loss"])
    pytest.importorskip("pyarrow")
    frame.to_parquet(tmp_path / "runs.parquet")
    runs = Runs.from_csv(tmp_path / "runs.parquet")
    assert_law(runs)
    assert runs.origin.format == "parquet"
    pytest.importorskip("openpyxl")
    frame.to_excel(tmp_path / "runs.xlsx", index=False, startrow=2)
    runs = Runs.from_csv(tmp_path / "runs.xlsx")
    assert_law(runs)
    assert (runs.origin.format, runs.lines[0]) == ("excel", 4)
    assert_law(Runs.from_frame(frame))
    assert_law(Runs.from_columns({name: frame[name] for name in frame}))


def test_a_folder_is_one_run_a_file(table, write, assert_law, tmp_path):
    for m in (512, 1024, 2048):
        for n in (8, 16, 32):
            rows = [(D // 10**6, L) for w, d, D, L in table if (w, d) == (m, n)]
            text = "Step,loss\n" + "".join(f"{s},{L}\n" for s, L in rows)
            write(text, f"logs/w{m}-d{n}.csv")
    (tmp_path / "logs" / "notes.txt").write_text("nothing")
    options = ReadOptions(columns={"tokens": "Step*1e6"}, pattern=SHAPE)
    runs = Runs(read(tmp_path / "logs", options))
    assert_law(runs)
    assert runs.n_runs == 9
    assert runs.row_name(0) == "row 1 (line 2) of w1024-d16.csv"
    some = sorted((tmp_path / "logs").glob("w512*.csv"))
    assert_law(Runs(read(some, options)), n=9)
    with pytest.raises(DataError, match="holds no table"):
        read(write("x", "empty/readme.md").parent, options)


def test_equal_file_names_are_told_apart_by_their_folders(write, tmp_path):
    for run in ("a", "b"):
        write(f"step,loss\n1,3.5\n2,3.{ord(run)}\n", f"logs/{run}/metrics.csv")
    runs = Runs(read(tmp_path / "logs", ReadOptions()))
    assert runs.run_ids.tolist() == [0, 0, 1, 1]


def read(path, options):
    from scalefit.ingest import read_table

    return read_table(path, options)


def test_a_forced_format(table, write):
    path = write(chart(table))
    with pytest.raises(DataError, match=r"has 9 columns .* --loss 'w512-d8 - val/loss'"):
        Runs.from_csv(path, options=ReadOptions(format="csv"))
    with pytest.raises(DataError, match="is no W&B chart export"):
        Runs.from_csv(write("a,loss\n1,2\n"), options=ReadOptions(format="wandb-chart"))
    with pytest.raises(DataError, match="is not JSON"):
        Runs.from_csv(path, options=ReadOptions(format="json"))


UNITS = {
    "nats": (1.0, "nats per token"),
    "bits": (1 / np.log(2), "nats per token"),
    "perplexity": (None, "nats per token"),
    "ppl": (None, "nats per token"),
    "bits-per-byte": (1 / np.log(2), "nats per byte"),
    "bpb:4.5": (1 / np.log(2) / 4.5, "nats per token"),
    "nats-per-byte:4": (0.25, "nats per token"),
}


@pytest.mark.parametrize(("unit", "scale"), UNITS.items())
def test_loss_units_become_nats(table, write, assert_law, unit, scale):
    factor, recorded = scale
    rows = "".join(f"{m},{n},{D},{float(np.exp(L) if factor is None else L * factor)!r}\n" for m, n, D, L in table)
    path = write("width,depth,tokens,measure\n" + rows)
    runs = Runs.from_csv(path, options=ReadOptions(loss="measure", loss_unit=unit))
    assert_law(runs, tolerance=1e-12)
    assert runs.origin.units["loss"] == recorded


@pytest.mark.parametrize("unit", ["joules", "nats:3", "bpb:x", "bpb:0"])
def test_unknown_units(write, unit):
    with pytest.raises(OptionError, match="loss unit"):
        Runs.from_csv(write("loss\n3\n"), options=ReadOptions(loss_unit=unit))


HOSTILE_PATTERNS = [
    r"(?P<width>(\d+)+)$", r"(?P<width>(a|a)*)x", r"(?P<width>.*.*.*.*.*.*)x", r"(?P<width>\d)(?P=width)",
    r"(\d)\1(?P<width>x)", "(?P<width>", "(", "[", r"\d+", "", "(?P<width>x{1,2}{3})+", "x" * 5000,
    "(?P<__class__>.)(", r"(?P<w>(x{2,}){2,})", r"(?P<w>(?:a?){60}a{60}b)", r"(?P<w>(?:a|aa|aaa)*(?:a|aa)*(?:aa|a)*b)",
]  # fmt: skip


@pytest.mark.parametrize("pattern", HOSTILE_PATTERNS)
def test_no_pattern_runs_for_long(write, monkeypatch, pattern):
    monkeypatch.setattr(names, "PATTERN_SECONDS", 0.3)
    path = write("run,loss\n" + "".join(f"{'a' * 400}{i},3\n" for i in range(30)))
    start = time.monotonic()
    with contextlib.suppress(OptionError, DataError):
        Runs.from_csv(path, options=ReadOptions(pattern=pattern))
    assert time.monotonic() - start < 1.5


def test_a_pattern_that_would_never_end_is_stopped(write, monkeypatch):
    monkeypatch.setattr(names, "PATTERN_SECONDS", 0.2)
    pattern = r"(?P<w>(?:a|aa)+)$"
    with pytest.raises(OptionError, match=r"takes longer than 0\.2 s on the run names of runs\.csv; write each number"):
        Runs.from_csv(write(f"run,loss\n{'a' * 300}d,3\n"), options=ReadOptions(pattern=pattern))


def test_repeats_and_long_names_are_welcome(write):
    path = write(f"run,loss\n{'x' * 300}-a_1-b_2-w512-d8,3\n")
    runs = Runs.from_csv(path, options=ReadOptions(pattern=r"(?:-[a-z]_\d+)+-w(?P<width>\d+)-d(?P<depth>\d+)$"))
    assert (runs["width"].tolist(), runs["depth"].tolist()) == ([512], [8])


def test_a_pattern_that_finds_nothing_names_the_column_it_fits(write):
    text = "Config,tokens,val/loss\nL8-H512,1B,4.54\nL8-H1024,1B,4.25\nL16-H1024,1B,3.62\n"
    options = ReadOptions(pattern=r"L(?P<depth>\d+)-H(?P<width>\d+)")
    path = write(text)
    with pytest.raises(
        DataError, match=r"matches no run name; .*it matches the column Config: say --column run=Config"
    ):
        Runs.from_csv(path, options=options)
    runs = Runs.from_csv(path, {"run": "Config"}, options)
    assert (runs["width"].tolist(), runs["depth"].tolist(), runs.n_runs) == ([512, 1024, 1024], [8, 8, 16], 3)
