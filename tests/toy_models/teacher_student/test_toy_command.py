"""`scalefit toy` as a user meets it: output, exit statuses, sentences, figures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scalefit.cli import main
from scalefit.experiments.depth_exponents import depth_exponents, read_sweep
from scalefit.plots.toy import sweep_figures
from toy_models.teacher_student.config import SweepConfig, Teacher
from toy_models.teacher_student.presets import PRESETS
from toy_models.teacher_student.sweep import run_sweep

TINY = SweepConfig(
    name="tiny",
    depths=(1, 2, 4),
    steps=60,
    horizons=(1.0, 0.5),
    widths=(8,),
    teacher_depth=16,
    seeds=(0, 1),
    batch=32,
    learning_rate=5e-3,
    depth_factor=2.0,
    schedule="cosine",
    eval_samples=64,
    evaluations=3,
)

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in this process: status, standard output, standard error."""

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["scalefit", "toy", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return call


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("sweep") / "run"
    run_sweep(TINY, target, workers=0)
    return target


def test_list_names_every_preset(run: Run) -> None:
    status, out, _ = run("list")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == list(PRESETS)
    _, out, _ = run("list", "--json")
    assert SweepConfig.from_dict(json.loads(out)["laptop"]["config"]) == PRESETS["laptop"]


def test_a_configuration_file_is_trained_and_fitted(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(json.dumps(TINY.to_dict()))
    status, out, err = run(tmp_path / "mine.json", "-o", tmp_path / "run", "--workers", "0", "--json")
    assert status == 0
    assert json.loads(out).keys() == {"tied", "independent"}
    assert "0 students diverged" in err
    assert run("resume", tmp_path / "run", "--workers", "0", "--json")[1] == out


def test_losses_that_were_not_annealed_need_a_yes_in_training_as_in_fit(run: Run, tmp_path: Path) -> None:
    config = replace(TINY, schedule="constant", horizons=(1.0,))
    (tmp_path / "mine.json").write_text(json.dumps(config.to_dict()))
    arguments = (tmp_path / "mine.json", "-o", tmp_path / "run", "--workers", "0", "--json")
    _, out, err = run(*arguments)
    assert json.loads(out) == {}
    assert "pass --allow-unannealed" in err
    assert json.loads(run(*arguments, "--allow-unannealed")[1]).keys() == {"tied", "independent"}


def test_a_sweep_is_resumed_on_the_device_it_was_begun_on(run: Run, folder: Path) -> None:
    status, _, err = run("resume", folder, "--device", "cuda")
    assert status == 2
    assert "was begun with device cpu" in err
    assert run("resume", folder, "--device", "cpu", "--workers", "0")[0] == 0


def test_fit_prints_the_promised_keys_and_the_status_of_convergence(run: Run, folder: Path) -> None:
    status, out, _ = run("fit", folder, "--json")
    document = json.loads(out)
    for entry in document.values():
        assert entry.keys() >= {"alpha", "interval", "convergence"}
        assert len(entry["interval"]) == 2
    tested = [entry["convergence"] for entry in document.values() if entry["half"] is not None]
    assert status == (0 if set(tested) <= {"converged"} else 3)
    assert run("fit", folder / "results.csv", "--json")[1] == out


def test_fit_and_plot_never_load_torch(folder: Path, tmp_path: Path) -> None:
    script = (
        "import atexit, sys\n"
        "from scalefit.cli import main\n"
        "atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr))\n"
        f"sys.argv = ['scalefit', 'toy', 'plot', {str(folder)!r}, '-o', {str(tmp_path)!r}]\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "tied: loss ~ 1 / depth^alpha" in done.stdout
    assert done.stderr.splitlines()[-1] == "False"


def test_training_without_torch_is_one_sentence(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from scalefit.cli import main\n"
        f"sys.argv = ['scalefit', 'toy', 'smoke', '-o', {str(tmp_path / 'run')!r}]\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install" in done.stderr
    assert not (tmp_path / "run").exists()


def test_plot_writes_the_figures_that_the_table_has_something_for(run: Run, folder: Path, tmp_path: Path) -> None:
    status, _, err = run("plot", folder, "-o", tmp_path / "figures")
    assert status == 0
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {"loss_depth.png", "paths.png", "exponent_steps.png"}
    assert err.count("written") == 3


def test_temperatures_have_their_figure(tmp_path: Path) -> None:
    config = replace(TINY, losses=("kl",), temperatures=(0.5, 1.0), vocabulary=8, horizons=(1.0,))
    run_sweep(config, tmp_path / "run", workers=0)
    table = read_sweep(tmp_path / "run")
    figures = sweep_figures(table, depth_exponents(table))
    assert figures.keys() == {"loss_depth", "paths", "exponent_temperature"}
    # One curve a condition, students apart from teachers.
    _, labels = figures["paths"].axes[0].get_legend_handles_labels()
    assert len(labels) == 2 * 2 * 2


def test_fixed_total_units_show_a_ratio_and_no_exponent(run: Run, tmp_path: Path) -> None:
    gains = (Teacher("tied", 0.5), Teacher("tied", 1.0))
    run_sweep(replace(TINY, teachers=gains, total_units=32, horizons=(1.0,)), tmp_path / "run", workers=0)
    status, out, _ = run("fit", tmp_path / "run")
    assert status == 0
    assert [line.split(",")[0] for line in out.splitlines() if line.startswith("tied")] == [
        "tied gain=0.5: depth x hidden units = 32", "tied gain=1: depth x hidden units = 32",
    ]  # fmt: skip
    assert "alpha" not in out
    assert json.loads(run("fit", tmp_path / "run", "--json")[1])["tied gain=1"]["ratio"] >= 1
    run("plot", tmp_path / "run", "-o", tmp_path / "figures")
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"paths.png", "total_units.png"}


@pytest.mark.parametrize(("table", "name"), [("toy_laptop", "laptop"), ("toy_total_units", "total-units")])
def test_shipped_tables_are_of_the_presets_as_they_stand(table: str, name: str) -> None:
    assert set(read_sweep(table)["config"]) == {PRESETS[name].id}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("huge", "-o", "x"), "preset 'huge' is unknown"),
        (("smoke",), "a sweep needs a folder"),
        (("resume",), "resume needs the folder of a sweep"),
        (("resume", "nowhere"), "nowhere holds no sweep"),
        (("fit", "nowhere"), "nowhere does not exist"),
        (("none.json", "-o", "x"), "configuration file none.json does not exist"),
        (("smoke", "-o", "x", "--device", "tpu"), "device is 'tpu'"),
        (("smoke", "-o", "x", "--workers", "-2"), "workers is -2"),
    ],
)
def test_wrong_input_is_one_sentence(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
    assert not list(tmp_path.rglob("results.csv"))


def test_another_configuration_leaves_the_folder_alone(run: Run, folder: Path) -> None:
    before = (folder / "results.csv").read_bytes()
    status, _, err = run("smoke", "-o", folder)
    assert status == 2
    assert "holds the sweep 'tiny'" in err
    assert (folder / "results.csv").read_bytes() == before
