"""Sweeps in a folder: resumption to the bit, signals, workers, refusals."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from scalefit.errors import OptionError
from scalefit.execute import SerialExecutor
from toy_models.teacher_student.config import SweepConfig
from toy_models.teacher_student.rows import TIMES
from toy_models.teacher_student.sweep import SweepProgress, load_config, run_packs, run_sweep

TINY = SweepConfig(
    name="tiny",
    depths=(1, 2, 3),
    steps=150,
    horizons=(1.0, 0.4),
    widths=(8,),
    teacher_depth=8,
    seeds=(0, 1),
    batch=32,
    samples=640,
    learning_rate=5e-3,
    depth_factor=2.0,
    schedule="cosine",
    eval_samples=64,
    evaluations=6,
)

RUN = (
    "import json, sys\n"
    "from toy_models.teacher_student.config import SweepConfig\n"
    "from toy_models.teacher_student.sweep import run_sweep\n"
    "if __name__ == '__main__':\n"
    "    config = SweepConfig.from_dict(json.loads(sys.argv[1]))\n"
    "    result = run_sweep(config, sys.argv[2], workers=int(sys.argv[3]), checkpoint_steps=int(sys.argv[4]))\n"
    "    print('finished' if result.finished else 'stopped')\n"
)


def table(path: Path) -> list[dict[str, str]]:
    """Rows of a table, times aside."""
    with path.open(newline="") as lines:
        return [{key: cell for key, cell in row.items() if key not in TIMES} for row in csv.DictReader(lines)]


def start(config: SweepConfig, folder: Path, script: Path, *, workers: int, every: int) -> subprocess.Popen[str]:
    script.write_text(RUN)
    arguments = [json.dumps(config.to_dict()), str(folder), str(workers), str(every)]
    return subprocess.Popen([sys.executable, script, *arguments], stdout=subprocess.PIPE, text=True)


def saved_steps(folder: Path) -> int:
    """Steps in the checkpoints of all packs."""
    return sum(torch.load(path, weights_only=True)["step"] for path in folder.glob("packs/*/checkpoint.pt"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the sweep run without interruption, in this process."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert run_sweep(TINY, folder, workers=0).finished
    return folder


def test_a_sweep_yields_one_row_a_student_and_horizon(whole: Path) -> None:
    rows = table(whole / "results.csv")
    assert len(rows) == 2 * 2 * 3 * 2
    assert {row["horizon"] for row in rows} == {"60", "150"}
    assert {row["annealed"] for row in rows} == {"True"}
    assert len({row["run"] for row in rows}) == len(rows)
    assert {row["step"] for row in table(whole / "history.csv")} > {"0", "1"}


def test_training_lowers_the_loss(whole: Path) -> None:
    first = {row["run"]: float(row["loss"]) for row in table(whole / "history.csv") if row["step"] == "0"}
    last = {row["run"]: float(row["loss"]) for row in table(whole / "results.csv")}
    assert last.keys() == first.keys()
    assert all(last[run] < first[run] for run in last)


def test_params_count_the_weights_of_a_student(whole: Path) -> None:
    for row in table(whole / "results.csv"):
        assert int(row["params"]) == int(row["depth"]) * (32 * 8 + 32 + 8 * 32)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_tables_do_not_depend_on_the_workers(whole: Path, tmp_path: Path, workers: int) -> None:
    run_sweep(TINY, tmp_path / "run", workers=workers)
    for name in ("results.csv", "history.csv"):
        assert table(tmp_path / "run" / name) == table(whole / name)


@pytest.mark.slow
def test_killed_ten_times_and_resumed_gives_the_same_tables(tmp_path: Path) -> None:
    config = replace(TINY, steps=6_000, eval_samples=640)
    expected = tmp_path / "whole"
    assert run_sweep(config, expected, workers=0).finished
    folder, script = tmp_path / "run", tmp_path / "run.py"
    rng = np.random.default_rng(5)
    for kill in range(10):
        before = saved_steps(folder)
        process = start(config, folder, script, workers=2, every=20)
        # A few hundred of the 16,800 steps each time: something is left after the last kill.
        enough = before + rng.integers(20, 200)
        while saved_steps(folder) < enough:
            assert process.poll() is None, f"the run ended before kill {kill + 1}"
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.05))
        process.kill()
        process.communicate()
    process = start(config, folder, script, workers=2, every=20)
    assert process.communicate()[0].strip() == "finished"
    for name in ("results.csv", "history.csv"):
        assert table(folder / name) == table(expected / name)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_the_run(tmp_path: Path, number: signal.Signals) -> None:
    config = replace(TINY, steps=200_000, horizons=(1.0,), seeds=(0, 1))
    folder = tmp_path / "run"
    process = start(config, folder, tmp_path / "run.py", workers=2, every=10**9)
    until = time.monotonic() + 60
    while len(list(folder.glob("packs/*/progress"))) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(process.pid, number)
    assert process.communicate(timeout=30)[0].strip() == "stopped"
    # No checkpoint was due: what stands there was saved in answer to the signal.
    saved = [torch.load(path, weights_only=True)["step"] for path in folder.glob("packs/*/checkpoint.pt")]
    assert len(saved) == 2
    assert min(saved) > 0


def test_progress_reaches_one(tmp_path: Path) -> None:
    seen: list[SweepProgress] = []
    run_sweep(replace(TINY, steps=20, seeds=(0,)), tmp_path / "run", workers=0, report=seen.append)
    assert seen[-1].done == 1.0


def test_a_finished_folder_is_left_as_it_is(whole: Path) -> None:
    before = (whole / "results.csv").read_bytes()
    assert run_sweep(TINY, whole, workers=0).finished
    assert (whole / "results.csv").read_bytes() == before


def test_a_folder_of_another_configuration_is_refused_and_untouched(whole: Path) -> None:
    before = {path: path.read_bytes() for path in whole.rglob("*") if path.is_file()}
    with pytest.raises(OptionError, match=r"holds the sweep 'tiny' \(\w+\), not 'other'"):
        run_sweep(replace(TINY, name="other", batch=64), whole, workers=0)
    assert {path: path.read_bytes() for path in whole.rglob("*") if path.is_file()} == before


def test_a_folder_of_other_files_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("all of it")
    with pytest.raises(OptionError, match="is not empty and holds no sweep"):
        run_sweep(TINY, tmp_path, workers=0)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="is a file and must be a folder"):
        run_sweep(TINY, tmp_path / "file", workers=0)


def test_a_folder_without_a_sweep_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"config\.json is missing"):
        load_config(tmp_path)


def test_a_damaged_configuration_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(OptionError, match="is not JSON"):
        load_config(tmp_path)


def test_checkpoint_steps_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="checkpoint_steps is 0"):
        run_sweep(TINY, tmp_path / "run", workers=0, checkpoint_steps=0)


def test_cuda_without_a_device_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(OptionError, match="torch finds no CUDA device"):
        run_sweep(replace(TINY, device="cuda"), tmp_path / "run", workers=0)
    assert not (tmp_path / "run").exists()


def test_a_crew_that_is_stopped_begins_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(TINY.to_dict()))
    with SerialExecutor() as executor:
        executor.request_stop()
        job = executor.submit(run_packs, str(folder), None, 300.0, str(tmp_path / "sign"))
    assert job.result() is False
    assert [path.name for path in folder.iterdir()] == ["config.json"]
    with SerialExecutor():  # Entering forgets the stop, which belongs to this process.
        pass


WORK = "import sys; from scalefit.cli import main; sys.argv = ['scalefit', 'toy', 'work', sys.argv[1]]; main()"


@pytest.mark.slow
def test_processes_that_share_a_folder_lose_double_and_change_nothing_when_they_are_killed(tmp_path: Path) -> None:
    config = replace(TINY, seeds=tuple(range(6)), steps=40, samples=None)
    assert run_sweep(config, tmp_path / "alone", workers=0).finished
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config.to_dict()))

    def begin() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", WORK, folder], stdout=subprocess.DEVNULL)

    crew, rng = [begin() for _ in range(3)], np.random.default_rng(2)
    until = time.monotonic() + 60
    while not list(folder.glob("packs/*/claim-1")) and time.monotonic() < until:
        time.sleep(0.01)
    for _ in range(3):
        time.sleep(rng.uniform(0, 0.2))
        crew[0].kill()
        crew[0].wait()
        crew[0] = begin()
    # no exponent of two horizons of 40 steps is settled, and nobody asks: the sweep is done
    assert [process.wait(timeout=120) for process in crew] == [0, 0, 0]
    for name in ("results.csv", "history.csv"):
        assert table(folder / name) == table(tmp_path / "alone" / name)
