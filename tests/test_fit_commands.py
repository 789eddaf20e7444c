"""The commands fit, plot and predict, run as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import run, write
from known_tables import t27_columns


def test_json_is_all_that_stands_on_standard_output(tmp_path: Path) -> None:
    done = run("fit", "chinchilla", "--drop-worst", "40", "--json", folder=tmp_path)
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert document["n_rows"] == 203
    assert document["objective"]["value"] == pytest.approx(3.0274e-5, abs=5e-10)
    assert document["params"]["alpha_depth"] == pytest.approx(1.3251, abs=1e-4)
    tie = next(w for w in document["warnings"] if w["code"] == "tie-at-cut")
    assert (tie["numbers"]["kept"], tie["numbers"]["kept_keeping_tie"]) == (203, 206)


def test_fit_plot_and_predict_share_a_file(tmp_path: Path) -> None:
    write(tmp_path)
    fitted = run("fit", "runs.csv", "-o", "fit.json", "--plot", "fit.png", folder=tmp_path)
    assert (fitted.returncode, fitted.stderr) == (0, "wrote fit.json\nwrote fit.png\n")
    assert run("plot", "fit.json", "-o", "again.svg", folder=tmp_path).returncode == 0
    done = run("predict", "fit.json", "--at", "width=1024,depth=16,tokens=10B", "--json", folder=tmp_path)
    point = json.loads(done.stdout)[0]
    truth = 1.7 + 300 / 1024 + 10 / 16 + 504.7659 / 1e10**0.3
    assert point["loss"] == pytest.approx(truth, rel=1e-9)
    assert point["interval"][0] <= point["loss"] <= point["interval"][1]


def test_predict_reads_a_table_of_points(tmp_path: Path) -> None:
    write(tmp_path)
    run("fit", "runs.csv", "-o", "fit.json", folder=tmp_path)
    (tmp_path / "points.csv").write_text("d_model,n_layers,tokens\n512,8,1e9\n4096,64,1T\n")
    points = json.loads(run("predict", "fit.json", "points.csv", "--json", folder=tmp_path).stdout)
    assert points[0]["loss"] == pytest.approx(t27_columns()["loss"][0], rel=1e-9)
    assert points[1]["decades_beyond_table"]["tokens"] == pytest.approx(1.0)
    assert "tokens +1.0 decades" in run("predict", "fit.json", "points.csv", folder=tmp_path).stdout


def test_what_the_data_cannot_say_ends_with_status_3_and_the_result(tmp_path: Path) -> None:
    columns = t27_columns()
    one = columns["depth"] == 16
    path = write(tmp_path, **{n: v[one] for n, v in columns.items()})
    done = run("fit", path.name, "--json", folder=tmp_path)
    assert done.returncode == 3
    assert json.loads(done.stdout)["verdicts"]["alpha_depth"] == "not-determined"


def test_strict_turns_warnings_into_status_1(tmp_path: Path) -> None:
    assert run("fit", "chinchilla", "--drop-worst", "40", "--strict", folder=tmp_path).returncode == 1
    write(tmp_path)
    assert run("fit", "runs.csv", "--strict", folder=tmp_path).returncode == 0


def test_constraints_on_the_command_line(tmp_path: Path) -> None:
    write(tmp_path)
    done = run(
        "fit", "runs.csv", "--fix", "L0=1.7", "--tie", "alpha_depth=alpha_width", "--bound", "alpha_tokens=0.1:1",
        "--json", folder=tmp_path,
    )  # fmt: skip
    document = json.loads(done.stdout)
    assert document["params"]["L0"] == 1.7
    assert document["se"]["L0"] is None
    assert document["params"]["alpha_depth"] == pytest.approx(1.0, rel=1e-6)


LAST_DEPTH = t27_columns()["depth"]


@pytest.mark.parametrize(
    ("changes", "words", "message"),
    [
        ({"depth": np.where(np.arange(27) == 4, 0, LAST_DEPTH)}, [], "row 5 (line 6) of runs.csv: depth is 0 and must"),
        ({"loss": np.full(27, -3.0)}, [], "loss is -3.0 and must be positive"),
        ({n: v[:6] for n, v in t27_columns().items()}, [], "7 parameters need at least 8 rows, 6 given"),
        ({}, ["--law", "width+witdh"], "has no column 'witdh'"),
        ({}, ["--law", "width/depth"], "is not a column or a shifted column"),
        ({}, ["--objective", "huber"], "needs the width of its quadratic zone"),
        ({}, ["--fix", "L1=2"], "has no parameter 'L1'"),
        ({}, ["--drop-worst", "27"], "must be a whole number from 0 to 26"),
        ({}, ["--plot", "fit.txt"], ".png, .pdf or .svg"),
        ({}, ["--starts", "0"], "must be at least 1"),
    ],
)
def test_wrong_input_is_one_sentence_and_status_2(
    changes: dict[str, np.ndarray], words: list[str], message: str, tmp_path: Path
) -> None:
    write(tmp_path, **changes)
    done = run("fit", "runs.csv", *words, folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_floor_above_every_loss_is_reported_in_json_and_to_a_file(tmp_path: Path) -> None:
    write(tmp_path)
    done = run("fit", "runs.csv", "--fix", "L0=9", "--json", "-o", "fit.json", folder=tmp_path)
    assert done.returncode == 3
    assert json.loads(done.stdout)["status"] == "not-identified"
    assert run("plot", "fit.json", folder=tmp_path).returncode == 3
    assert (tmp_path / "fit.png").exists()


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    write(tmp_path)
    done = run("fit", "runs.csv", "-o", "runs.csv/fit.json", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")


def test_existing_files_are_not_overwritten_unasked(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "fit.json").write_text("precious")
    done = run("fit", "runs.csv", "-o", "fit.json", folder=tmp_path)
    assert done.returncode == 2
    assert (tmp_path / "fit.json").read_text() == "precious"
    assert run("fit", "runs.csv", "-o", "fit.json", "--force", folder=tmp_path).returncode == 0


def test_options_beside_a_finished_fit_are_refused(tmp_path: Path) -> None:
    write(tmp_path)
    run("fit", "runs.csv", "-o", "fit.json", folder=tmp_path)
    done = run("plot", "fit.json", "--law", "depth", folder=tmp_path)
    assert done.returncode == 2
    assert "--law cannot change" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["predict", "none.json", "--at", "width=1"],
        ["predict", "fit.json"],
        ["predict", "fit.json", "--at", "width=1,depth"],
        ["predict", "fit.json", "--at", "width=1,depth=2,tokens=many"],
        ["predict", "fit.json", "--at", "width=1,depth=2,tokens=0"],
        ["predict", "fit.json", "--at", "width=1"],
        ["predict", "fit.json", "--at", "width=1,depth=2,tokens=3,lr=3"],
        ["predict", "fit.json", "--at", "width=1,depth=2,tokens=3,depth=3"],
    ],
)
def test_wrong_points_are_one_sentence(words: list[str], tmp_path: Path) -> None:
    write(tmp_path)
    run("fit", "runs.csv", "-o", "fit.json", folder=tmp_path)
    done = run(*words, folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stdout == ""


def test_nothing_heavy_is_imported_before_it_is_needed(tmp_path: Path) -> None:
    """`import scalefit` alone brings none of these, a fit none but NumPy and pandas."""
    heavy = "[m for m in ('torch', 'matplotlib', 'lmfit', 'emcee', 'scipy.optimize') if m in sys.modules]"
    program = (
        f"import sys, scalefit; print({heavy}, 'pandas' in sys.modules); "
        f"scalefit.fit(scalefit.load_dataset('gemstones')); print({heavy})"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[] False", "[]"]
