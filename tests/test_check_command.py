"""The command line from an awkward file to its report or refusal, and on to the fit."""

from __future__ import annotations

import itertools
import json
import shlex
import sys

import numpy as np
import pytest

from scalefit.cli import main
from scalefit.identifiability.inspection import inspect_runs
from scalefit.runs import Runs


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run the command line in a temporary folder; returns exit status, standard output and error."""
    monkeypatch.chdir(tmp_path)

    def runner(*words):
        monkeypatch.setattr(sys, "argv", ["scalefit", *map(str, words)])
        status = 0
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return runner


def loss_of(m, n, D):
    return 300 / m + 10 / n + 504.7659 / D**0.3 + 1.7


GRID = list(itertools.product((512, 1024, 2048), (8, 16, 32), (10**9, 10**10, 10**11)))


def table(rows, header="width,depth,tokens,loss"):
    return "\n".join([header, *(",".join(map(repr, row)) for row in rows)]) + "\n"


PLAIN = [(*row, loss_of(*row)) for row in GRID]


def write(tmp_path, text, name="runs.csv"):
    (tmp_path / name).write_text(text)
    return name


def test_json_document(run, tmp_path):
    name = write(
        tmp_path, table(PLAIN).replace("loss", "val_loss").replace("width", "d_model") + "512,8,1000000000,-\n"
    )
    status, out, err = run("check", name, "--json")
    document = json.loads(out)
    assert (status, err) == (0, "")
    assert document["format"] == "csv"
    assert document["columns"]["width"] == "d_model"
    assert (document["n_rows"], document["n_dropped"]) == (27, 1)
    assert document["dropped"] == [
        {"row": 28, "line": 29, "file": "runs.csv", "reason": "loss (val_loss) is '-', not a finite number"}
    ]
    assert len(document["sha256"]) == 64
    assert document["units"] == {"loss": "nats per token"}
    assert document["design"]["columns"]["depth"] == {
        "levels": 3,
        "missing": 0,
        "min": 8.0,
        "max": 32.0,
        "decades": np.log10(4),
    }
    assert document["design"]["n_shapes"] == 9
    assert document["warnings"] == []
    assert next(law["law"] for law in document["laws"] if not law["not_determined"]) == "width+depth+tokens"


REPORT = """\
runs.csv: csv, decimal point, sha256 {sha}
27 rows of 27 runs; loss in nats per token
1 row was left out:
line   row   reason
29     28    loss is 'x', not a finite number

column   levels      from        to   decades
width         3       512      2048      0.60
depth         3         8        32      0.60
tokens        3     1e+09     1e+11       2.0
loss         27   2.41197   4.54308      0.27
9 shapes (width x depth)
correlations of logarithms: width, depth +0.00; width, tokens +0.00; depth, tokens +0.00

what the design can determine
width+depth+tokens: every parameter
width+tokens: every parameter
depth+tokens: every parameter
width+depth: every parameter
tokens: every parameter

next: scalefit fit runs.csv, with the same options of reading
"""


def test_text_report(run, tmp_path):
    name = write(tmp_path, table(PLAIN) + "512,8,1000000000,x\n")
    status, out, _ = run("check", name)
    sha = out.split("sha256 ")[1].split()[0]
    assert status == 0
    assert out == REPORT.format(sha=sha)


def test_cells_and_names_are_text_and_no_markup(run, tmp_path):
    rows = table(PLAIN, "width,depth,tokens,loss") + "512,8,[/foo],3.5\n512,8,[red]1[/],3.5\n"
    status, out, err = run("check", write(tmp_path, rows, "[bold]x.csv"))
    assert (status, err) == (0, "")
    assert "tokens is '[/foo]', not a finite number" in out
    assert "tokens is '[red]1[/]', not a finite number" in out
    assert out.startswith("[bold]x.csv: csv")


def test_remedies_can_be_given_to_a_shell_as_they_stand(run, tmp_path):
    rows = [(m, n, D / 1e9, loss) for m, n, D, loss in PLAIN]
    for header, unit in (("Training Tokens (B)", "1e9"), ("Tokens' (M)", "1e6"), ("toks", "")):
        name = write(tmp_path, table(rows, f"width,depth,{header},loss"), "my runs.csv")
        _, out, _ = run("check", name, "--json")
        (hint,) = [w for w in json.loads(out)["warnings"] if w["code"] == "role-not-found"]
        words = shlex.split(hint["action"].rstrip("."))
        assert words[-2] == "--column"
        status, out, _ = run("check", name, *words[-2:])
        assert status == 0
        assert "next: scalefit fit 'my runs.csv', with" in out
        assert hint["message"].endswith(f"{header} may be meant{', its unit ' * bool(unit)}{unit}.")


def test_positions_of_values_that_must_be_positive(run, tmp_path):
    zero = [row if i != 4 else (512, 0, *row[2:]) for i, row in enumerate(PLAIN)]
    for command in ("check", "fit"):
        status, out, err = run(command, write(tmp_path, table(zero)))
        assert (status, out) == (2, "")
        assert err == (
            "error: row 5 (line 6) of runs.csv: depth is 0 and must be positive; "
            "correct it or drop it with --where 'depth > 0'\n"
        )
        status, _, err = run(command, write(tmp_path, table([*PLAIN, (512, 8, 10**9, -3.0)])))
        assert status == 2
        assert err.startswith("error: row 28 (line 29) of runs.csv: loss is -3.0 and must be positive")
    assert run("fit", write(tmp_path, table(zero)), "--where", "depth > 0")[0] == 0


ANSWERS = {
    "one_depth": ([(m, 16, D) for m in (256, 512, 1024, 2048) for D in (10**9, 10**10, 10**11)], 3, "constant-column"),
    "tied": ([(64 * n, n, D) for n in (4, 8, 12, 16, 24, 32) for D in (10**9, 10**10, 10**11)], 3, "tied-columns"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_what_cannot_be_determined_is_said_before_the_fit(run, tmp_path, case):
    rows, status, code = ANSWERS[case]
    name = write(tmp_path, table([(*row, loss_of(*row)) for row in rows]))
    checked, out, _ = run("check", name, "--json")
    document = json.loads(out)
    assert checked == 0
    assert code in [w["code"] for w in document["warnings"]]
    full = next(law for law in document["laws"] if law["law"] == "width+depth+tokens")
    assert {"c_depth", "alpha_depth"} <= set(full["not_determined"])
    assert run("fit", name)[0] == status
    assert run("check", name, "--strict")[0] == 1


def test_six_rows_are_too_few(run, tmp_path):
    name = write(tmp_path, table(PLAIN[::5]))
    status, out, _ = run("check", name)
    assert status == 0
    assert "width+depth+tokens: nothing (7 parameters need at least 8 rows, 6 given)" in out
    assert run("fit", name)[0] == 2


def test_constant_tokens_per_parameter(run, tmp_path):
    rows = [(p, 20 * p, 2 + (1e8 / p) ** 0.3) for p in np.geomspace(1e7, 1e9, 9)]
    rows = [tuple(float(x) for x in row) for row in rows]
    _, out, _ = run("check", write(tmp_path, table(rows, "params,tokens,loss")), "--json")
    warning = next(w for w in json.loads(out)["warnings"] if w["code"] == "tied-columns")
    assert warning["message"].startswith("tokens per parameter is tied to the size in every row")


def test_replicates_and_duplicates(run, tmp_path):
    rng = np.random.default_rng(5)
    rows = [
        (*row, seed, float(loss_of(*row) * np.exp(0.002 * rng.standard_normal()))) for row in GRID for seed in (1, 2)
    ]
    name = write(tmp_path, table([*rows, *rows[:3]], "width,depth,tokens,seed,loss"))
    _, out, _ = run("check", name, "--json")
    document = json.loads(out)
    assert (document["n_rows"], document["duplicates"]) == (57, 3)
    assert document["replicates"]["settings"] == document["replicates"]["degrees"] == 27
    # 27 degrees of freedom: the estimate lies within 4 of its standard errors, 0.002/sqrt(54) each
    assert abs(document["replicates"]["noise_ln_loss"] - 0.002) < 4 * 0.002 / np.sqrt(54)
    assert [w["code"] for w in document["warnings"]] == ["exact-duplicates", "replicates"]
    assert document["warnings"][0]["message"] == (
        "3 rows repeat an earlier row in every column: row 55 (line 56) of runs.csv, row 56 (line 57) of runs.csv, "
        "row 57 (line 58) of runs.csv."
    )
    _, out, _ = run("fit", name, "--json")
    assert [w["numbers"]["lines"] for w in json.loads(out)["warnings"] if w["code"] == "exact-duplicates"] == [
        [56, 57, 58]
    ]
    noted = [(*row[:3], f"s{i}", row[4]) for i, row in enumerate([*rows, *rows[:3]])]
    labelled = table(noted, "width,depth,tokens,note,loss")
    assert json.loads(run("check", write(tmp_path, labelled), "--json")[1])["duplicates"] == 0


def test_missing_cells_are_counted(run, tmp_path):
    text = table(PLAIN).replace("1024,8,1000000000,", "1024,,1000000000,", 1)
    name = write(tmp_path, text + "2048,8,1000000000,\n")
    status, out, _ = run("check", name)
    assert status == 0
    assert "27 rows of 27 runs" in out
    assert "9 shapes (width x depth)" in out
    assert [line.split()[-1] for line in out.splitlines() if line.startswith(("width  ", "depth  "))] == ["0", "1"]
    assert "width+depth+tokens: every parameter, from the 26 of 27 rows that have all its columns\n" in out
    assert "\nwidth+tokens: every parameter\n" in out
    document = json.loads(run("check", name, "--json")[1])
    assert [(law["law"], law["n_rows"]) for law in document["laws"]][:2] == [
        ("width+depth+tokens", 26),
        ("width+tokens", 27),
    ]
    assert json.loads(run("fit", name, "--json")[1])["n_rows"] == 26


def test_expressions_and_units_from_the_command_line(run, tmp_path):
    rows = [(m, n, float(np.log10(D)), float(np.exp(loss))) for m, n, D, loss in PLAIN]
    name = write(tmp_path, table(rows, "d_model,n_layers,log10_tokens,ppl"))
    status, _, err = run("check", name)
    assert status == 2
    assert err == (
        "error: runs.csv has no loss column, but ppl looks like a loss in perplexity; if it is, say --loss ppl "
        "--loss-unit perplexity or --column 'loss=log(ppl)'\n"
    )
    status, out, err = run("fit", name, "--loss", "ppl", "--loss-unit", "perplexity")
    assert status == 2
    assert "say --column 'tokens=10**log10_tokens'" in err
    status, out, _ = run("fit", name, "--column", "loss=log(ppl)", "--column", "tokens=10**log10_tokens", "--json")
    assert status == 0
    assert json.loads(out)["params"]["alpha_depth"] == pytest.approx(1, abs=1e-6)


def test_selection_is_counted(run):
    status, out, _ = run(
        "check", "gemstones", "--json", "--where", "depth >= 4", "--min-tokens", "20B", "--select", "last",
        "--drop-worst", 2,
    )  # fmt: skip
    steps = json.loads(out)["selections"]
    assert status == 0
    assert [s["name"] for s in steps] == ["where depth >= 4", "min-tokens 20000000000", "select last", "drop-worst 2"]
    assert steps[2]["after"] == 21
    assert steps[3]["after"] == json.loads(out)["n_rows"] == 19


def test_write_never_overwrites(run, tmp_path):
    name = write(tmp_path, table(PLAIN))
    for target in ("tidy.csv", "tidy.json"):
        assert run("check", name, "--write", target)[0] == 0
        assert run("check", name, "--write", target) == (
            2, "", f"error: {target} exists; choose another name or overwrite it with --force\n",
        )  # fmt: skip
        assert run("check", name, "--write", target, "--force")[0] == 0
        again = Runs.from_csv(tmp_path / target)
        assert again["loss"].tolist() == [row[3] for row in PLAIN]
    assert run("check", name, "--write", "tidy.txt")[0] == 2


REFUSALS = {
    ("absent.csv",): "there is no file or folder 'absent.csv'; name a file, or one of the shipped datasets ",
    ("chinchila",): "there is no file or folder 'chinchila' (did you mean chinchilla?); ",
    ("runs.csv", "--column", "tokens"): "--column 'tokens' is not NAME=EXPR; write for example",
    ("runs.csv", "--column", "tokens=tokns*2"): "expression 'tokns*2' names the unknown column 'tokns' (did you mean",
    ("runs.csv", "--min-tokens", "many"): "--min-tokens 'many' is no number of tokens; write for example 1e9 or 1B",
    ("runs.csv", "--loss", "los"): "runs.csv has no column 'los' (did you mean loss?); its columns are width, depth, ",
    ("runs.csv", "--loss", "loss", "--column", "loss=loss"): "--loss and --column loss=... both define the loss",
    ("runs.csv", "--where", "width > 9999"): "where width > 9999 leaves no row of the 27 in runs.csv; relax it",
    ("runs.csv", "--drop-worst", "27"): "--drop-worst (drop_worst) is 27 and must be a whole number from 0 to 26: ",
    ("runs.csv", "--pattern", "x(?P<a>.)"): "runs.csv: pattern 'x(?P<a>.)' matches no run name; the first is",
    ("runs.csv", "--drop-worst", "-1"): "--drop-worst (drop_worst) is -1 and must be a whole number from 0 to 26: ",
    ("runs.csv", "--column", "tokens=1/0"): "runs.csv: tokens = 1/0 is a finite number in no row; correct the ",
    ("runs.csv", "--where", "depth = 8"): "expression 'depth = 8' cannot be read: a single = has no meaning; write == ",
    ("runs.csv", "--loss", "depth"): "--loss depth names the depth of runs.csv; name the column that holds the loss",
    ("binary.csv",): "binary.csv holds NUL bytes and is no text; save it as CSV in UTF-8",
    ("passwd",): "passwd is no table that can be recognised: no row follows line 3, the only one that looks like ",
    ("twice.csv",): "twice.csv: column loss appears twice (columns 1, 2); rename or remove one",
    ("two.csv",): "two.csv: d_model, hidden_size may each be the width; choose one with --column width=d_model",
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSALS, ids=" ".join)
def test_refusals_name_the_thing_and_the_remedy(run, tmp_path, words):
    write(tmp_path, table(PLAIN))
    write(tmp_path, "loss,loss\n1,2\n", "twice.csv")
    write(tmp_path, "width,loss\n1,\0\n", "binary.csv")
    write(tmp_path, "root:x:0:0:root:/\nbin:x:1:1:bin:/bin\nsql:x:2:2:SQL administrator,,,:/\n", "passwd")
    write(tmp_path, "d_model,hidden_size,loss\n1,2,3\n", "two.csv")
    status, out, err = run("check", *words)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {REFUSALS[words]}")


def test_one_row_is_one_row(run, tmp_path):
    assert "\n1 row of 1 run; loss in" in run("check", write(tmp_path, table(PLAIN[:1])))[1]


def test_a_folder_gives_one_warning_of_each_kind(run, tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    for i in range(60):
        (folder / f"w{64 * (i + 1)}-d{i + 1}.csv").write_text("Step,loss\n1,3.5\n2,3.4\n")
    document = json.loads(run("check", "logs", "--json")[1])
    hints = [w for w in document["warnings"] if w["code"] == "role-not-found"]
    assert [w["numbers"] for w in hints] == [{"role": role, "files": 60} for role in ("width", "depth", "tokens")]
    assert hints[0]["message"] == (
        "in 60 of 60 files, for example: w1024-d16.csv has no column width, but the run names seem to hold it."
    )


def test_several_files_and_datasets_do_not_mix(run, tmp_path):
    write(tmp_path, table(PLAIN[:14]), "a.csv")
    write(tmp_path, table(PLAIN[14:]), "b.csv")
    status, out, _ = run("check", "a.csv", "b.csv", "--json")
    assert status == 0
    assert json.loads(out)["n_rows"] == 27
    assert json.loads(out)["n_runs"] == 2
    assert run("check", "a.csv", "chinchilla")[0] == 2


WARNINGS = {
    "tokens-small": ([(9.0, 3.0), (10.0, 2.5), (11.0, 2.2)], (
        "tokens is below 10000 in 3 rows, first in row 1 (line 2) of runs.csv: 9; the column runs from 9 to 11.",
        "If it counts billions or is a logarithm, say --column 'tokens=tokens*1e9' or --column 'tokens=10**tokens'.",
    )),
    "loss-like-perplexity": ([(1e9, 30.0), (1e10, 20.0), (1e11, 13.0)], (
        "loss is above 13.8 (ln of a vocabulary of 1e6) in 2 of 3 rows, first in row 1 (line 2) of runs.csv: 30.",
        "If it is a perplexity, say --loss-unit perplexity.",
    )),
    "loss-above-chance": ([(1e9, 30.0), (1e10, 3.0), (1e11, 2.5)], (
        "loss is above 13.8 (ln of a vocabulary of 1e6) in 1 of 3 rows, first in row 1 (line 2) of runs.csv: 30.",
        "If these runs diverged, leave them out with --where 'loss < 13.8'.",
    )),
    "few-levels": ([(1e9, 3.0), (1e10, 2.5), (1e10, 2.4)], (
        "tokens has 2 distinct values; a law with a term of it needs 3.",
        "Train at 3 or more values of tokens, or leave it out of the law.",
    )),
}  # fmt: skip


@pytest.mark.parametrize("code", WARNINGS)
def test_warnings_say_what_was_seen_and_what_to_do(run, tmp_path, code):
    rows, expected = WARNINGS[code]
    _, out, _ = run("check", write(tmp_path, table(rows, "tokens,loss")), "--json")
    found = {w["code"]: (w["message"], w["action"]) for w in json.loads(out)["warnings"]}
    assert found[code] == expected


def test_checkpoints_are_counted():
    runs = Runs.from_columns({"run": list("aabb"), "tokens": [1e9, 2e9, 1e9, 2e9], "loss": [3.0, 2.5, 2.9, 2.4]})
    seen = inspect_runs(runs)
    assert seen.rows_per_run == (2, 2, 2)
    assert [w.code for w in seen.warnings] == ["few-levels", "replicates", "several-rows-per-run"]
