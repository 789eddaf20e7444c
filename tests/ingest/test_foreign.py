"""Layouts that other tools write: two header lines, training logs, YAML, one column a run, results beside runs."""

import pytest

from scalefit.errors import DataError
from scalefit.fitting.file import save_fit
from scalefit.fitting.fit import fit
from scalefit.ingest import ReadOptions, read_table
from scalefit.runs import Runs

BODY = [("512", "8", "1e9", "4.54"), ("1024", "8", "1e9", "4.25"), ("1024", "16", "1e9", "3.62")]


def text_of(*rows, delimiter=","):
    return "\n".join(delimiter.join(row) for row in rows) + "\n"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("groups", ["model,,train,eval", "model,model,train,eval", ",,,x"])
@pytest.mark.parametrize("names", ["width,depth,tokens,loss", "d_model,n_layers,train_tokens,val_loss"])
def test_two_header_lines(write, delimiter, groups, names):
    runs = Runs.from_csv(write(text_of(groups.split(","), names.split(","), *BODY, delimiter=delimiter)))
    assert (len(runs), runs.n_dropped, runs.lines.tolist()) == (3, 0, [3, 4, 5])
    assert runs["loss"].tolist() == [4.54, 4.25, 3.62]
    assert set(runs.columns) == {"width", "depth", "tokens", "loss"}


def test_names_repeated_under_groups_stay_apart(write):
    text = text_of(("", "train", "", "eval", ""), ("width", "loss", "tokens", "loss", "tokens"))
    path = write(text + "512,4.5,1e9,4.6,1e6\n512,4.4,2e9,4.5,1e6\n")
    with pytest.raises(DataError, match=r"2 columns that may be the loss: train\.loss, eval\.loss"):
        Runs.from_csv(path)
    runs = Runs.from_csv(path, options=ReadOptions(loss="eval.loss"))
    assert (runs["loss"].tolist(), runs["tokens"].tolist()) == ([4.6, 4.5], [1e9, 2e9])


def test_a_table_whose_first_row_is_text_has_one_header(write):
    runs = Runs.from_csv(write("run,width,loss\na,-,oops\nb,512,3.5\nc,512,3.4\n"))
    assert runs.columns == ("width", "loss")
    assert runs["loss"].tolist() == [3.5, 3.4]


LOGS = {
    "megatron": " iteration  {i}/ 500 | consumed tokens: {t} | learning rate: 1.5E-04 | lm loss: {x:.2E} | skips: 0 |",
    "short": "step {i} | loss {x} | tokens {t}",
    "assigned": "2024-01-01 12:00:00 INFO step={i} loss={x} tokens={t}",
    "commas": "iter {i}: loss {x}, tokens {t}, time 23.1ms",
    "stamped": "[2024-01-01 12:00:00] step: {i} | tokens: {t} | loss: {x}",
}


@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize("name", ["train.log", "train.txt", "run.csv"])
def test_training_logs(write, kind, name):
    lines = [LOGS[kind].format(i=100 * i, t=209715200 * i, x=7 - i / 2) for i in (1, 2, 3)]
    text = "\n".join(["starting the run", *lines[:2], "saving a checkpoint", *lines[2:], ""])
    runs = Runs.from_csv(write(text, name))
    assert (runs.origin.format, runs["loss"].tolist()) == ("log", [6.5, 6.0, 5.5])
    assert runs["tokens"].tolist() == [209715200, 419430400, 629145600]
    assert [(d.line, d.reason) for d in runs.dropped] == [(n, "no measurement with a loss") for n in (1, 4)]
    assert runs.n_runs == 1


def test_tables_are_no_logs(write):
    assert Runs.from_csv(write("note,loss,width\nlr: 3 | loss: 2,3.5,512\n", "a.csv")).origin.format == "csv"


YAML = {
    "flow": "- {width: 512, depth: 8, tokens: 1e9, loss: 4.5}\n- {width: 1024, depth: 8, tokens: 1e9, loss: 4.2}\n",
    "block": "- width: 512\n  tokens: 1e9\n  loss: 4.5\n- width: 1024\n  tokens: 1e9\n  loss: 4.2\n",
    "nested": "runs:\n- m: {width: 512}\n  tokens: 1e9\n  loss: 4.5\n- m: {width: 1024}\n  tokens: 1e9\n  loss: 4.2\n",
    "documents": "---\nwidth: 512\ntokens: 1e9\nloss: 4.5\n---\nwidth: 1024\ntokens: 1e9\nloss: 4.2\n",
}


@pytest.mark.parametrize("kind", YAML)
def test_yaml(write, kind):
    pytest.importorskip("yaml")
    runs = Runs.from_csv(write(YAML[kind], "rows.yaml"))
    assert (runs.origin.format, runs["loss"].tolist()) == ("yaml", [4.5, 4.2])
    assert (runs["width"].tolist(), runs["tokens"].tolist()) == ([512, 1024], [1e9, 1e9])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {width: 512, width: 3, loss: 4}\n", "the key 'width' occurs twice"),
        ("a: &x [1, 2]\nb: *x\n", r"line 2 of rows\.yaml refers to another part"),
        ("- {width: [}\n", r"line 1 of rows\.yaml is not YAML"),
        ("- !!python/object/apply:os.system ['true']\n", "is not YAML"),
        ("# nothing\n", "is empty"),
    ],
)
def test_yaml_that_is_refused(write, text, message):
    pytest.importorskip("yaml")
    with pytest.raises(DataError, match=message):
        Runs.from_csv(write(text, "rows.yaml"))


def test_one_column_a_run_is_asked_about_and_read_when_told(write):
    path = write("Step,runA,runB\n1,3.5,3.6\n2,3.4,\n3,3.3,3.35\n")
    with pytest.raises(DataError, match="if each of them but the steps is a run and holds its loss, say --format wide"):
        Runs.from_csv(path)
    runs = Runs.from_csv(path, options=ReadOptions(format="wide"))
    assert runs["loss"].tolist() == [3.5, 3.4, 3.3, 3.6, 3.35]
    assert (runs.table.texts["run"].tolist(), runs["Step"].tolist()) == (["runA"] * 3 + ["runB"] * 2, [1, 2, 3, 1, 3])
    with pytest.raises(DataError, match="is no table with one column a run"):
        Runs.from_csv(write("a,b,c\n1,2,3\n"), options=ReadOptions(format="wide"))


def test_a_mean_over_runs_is_no_run(write):
    path = write("Step,size: 512 - val/loss,size: 1024 - val/loss\n1,3.5,3.6\n2,3.4,3.5\n")
    assert next(w.code for w in Runs.from_csv(path).warnings) == "grouped-chart"
    plain = Runs.from_csv(write("Step,w512 - val/loss,w1024 - val/loss\n1,3.5,3.6\n2,3.4,3.5\n"))
    assert "grouped-chart" not in [w.code for w in plain.warnings]


def test_a_fit_in_the_folder_is_skipped_and_said(write):
    rows = [(n, d, 400 / n**0.34 + 410 / d**0.28 + 1.7) for n in (1e7, 1e8, 1e9) for d in (1e9, 1e10, 1e11)]
    path = write("params,tokens,loss\n" + "".join(f"{n},{d},{x}\n" for n, d, x in rows), "logs/runs.csv")
    save_fit(fit(Runs.from_csv(path), "params+tokens", n_starts=2), path.parent / "fit.json")
    runs = Runs(read_table(path.parent))
    assert len(runs) == 9
    assert [w.message for w in runs.warnings if w.code == "fits-skipped"] == [
        "fit.json of logs hold fits, no runs, and were skipped."
    ]
    with pytest.raises(DataError, match=r"fit\.json is a finished fit and no table of runs"):
        Runs.from_csv(path.parent / "fit.json")
