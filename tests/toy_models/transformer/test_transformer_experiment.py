"""The depth experiment end to end, at sizes of seconds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from scalefit.errors import DataError, OptionError
from toy_models.transformer import NORMS, ModelConfig, experiment, text
from toy_models.transformer.config import PRESETS, ExperimentConfig
from toy_models.transformer.experiment import FILES, load_tables, run_experiment
from toy_models.transformer.training import Keeper, learning_rate, train_run

TINY = replace(
    PRESETS["smoke"],
    model=ModelConfig(width=16, depth=2, hidden=24, n_heads=2, n_kv_heads=1, sequence_length=16),
    norms=("rmsnorm", "bhyt"),
    steps=4,
)
REPRODUCIBLE = ("layers", "runs")


def run(config: ExperimentConfig, folder: Path) -> list[str]:
    """Run in this process and return the progress lines."""
    lines: list[str] = []
    run_experiment(config, folder, workers=0, progress=lines.append)
    return lines


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / FILES[name]).read_bytes() for name in REPRODUCIBLE}


def test_every_norm_trains_and_is_measured(tmp_path: Path) -> None:
    lines = run(PRESETS["smoke"], tmp_path)
    tables = load_tables(tmp_path)
    assert len(lines) == len(NORMS)
    assert list(tables.runs["norm"]) == list(NORMS)
    assert (tables.runs["status"] == "trained").all()
    # Better than the uniform guess over bytes, ln 256 = 5.55, after ten steps.
    assert (tables.runs["held_out_loss"] < 5.2).all()
    per_run = tables.layers.groupby(["norm", "stage"]).size()
    assert (per_run == 2 * 6).all()
    assert len(per_run) == 2 * len(NORMS)
    numbers = tables.layers.drop(columns="saturation").select_dtypes("number")
    assert np.isfinite(numbers.to_numpy()).all()
    assert (tables.timings[["train_tokens_per_second", "generate_tokens_per_second"]] > 0).all(axis=None)


def test_tables_are_the_same_bytes_twice_and_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(TINY, tmp_path / "whole")
    run(TINY, tmp_path / "again")
    assert contents(tmp_path / "whole") == contents(tmp_path / "again")
    job = experiment.run_job

    def interrupted(config: ExperimentConfig, norm: str, seed: int, keeper: Keeper) -> object:
        if norm == "bhyt":
            raise KeyboardInterrupt
        return job(config, norm, seed, keeper)

    monkeypatch.setattr(experiment, "run_job", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(TINY, tmp_path / "cut")
    assert list(load_tables(tmp_path / "cut").runs["norm"]) == ["rmsnorm"]
    monkeypatch.setattr(experiment, "run_job", job)
    assert len(run(TINY, tmp_path / "cut")) == 1
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    assert run(TINY, tmp_path / "cut") == []


def test_workers_do_not_change_the_tables(tmp_path: Path) -> None:
    run(TINY, tmp_path / "here")
    run_experiment(TINY, tmp_path / "two", workers=2)
    assert contents(tmp_path / "two") == contents(tmp_path / "here")


def test_a_run_is_saved_when_it_is_stopped_and_goes_on_to_the_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(TINY, tmp_path / "whole")
    job, saved = experiment.run_job, []

    def stopped(config: ExperimentConfig, norm: str, seed: int, keeper: Keeper) -> object:
        """Ask every run to stop before its third step, three times."""
        steps, asked = iter(range(10)), keeper.stop
        keeper.stop = lambda: asked() or (len(saved) < 3 and next(steps) == 1)
        result = job(config, norm, seed, keeper)
        if result is None:
            saved.append(torch.load(keeper.path, weights_only=True)["losses"].numel())
        return result

    monkeypatch.setattr(experiment, "run_job", stopped)
    run(TINY, tmp_path / "cut")
    assert saved == [1, 1, 2]  # rmsnorm, bhyt, and rmsnorm again
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    assert not list((tmp_path / "cut").rglob("checkpoint.pt"))


def test_a_run_that_fails_three_times_is_named_and_the_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = experiment.run_job

    def failing(config: ExperimentConfig, norm: str, seed: int, keeper: Keeper) -> object:
        if norm == "bhyt":
            raise MemoryError("not enough")
        return job(config, norm, seed, keeper)

    monkeypatch.setattr(experiment, "run_job", failing)
    lines = run(TINY, tmp_path)
    assert lines[-1].startswith("bhyt seed 0 was given up: MemoryError: not enough")
    assert list(load_tables(tmp_path).runs["norm"]) == ["rmsnorm"]
    monkeypatch.setattr(experiment, "run_job", job)
    assert len(run(TINY, tmp_path)) == 1


def test_rows_of_a_run_cut_off_while_writing_are_dropped(tmp_path: Path) -> None:
    run(TINY, tmp_path)
    whole = contents(tmp_path)
    runs = pd.read_csv(tmp_path / FILES["runs"])
    runs.query("norm != 'rmsnorm'").to_csv(tmp_path / FILES["runs"], index=False)
    assert set(load_tables(tmp_path).layers["norm"]) == {"bhyt"}
    run(TINY, tmp_path)
    assert contents(tmp_path) == whole


def test_a_folder_keeps_to_one_configuration(tmp_path: Path) -> None:
    run(TINY, tmp_path)
    with pytest.raises(DataError, match="holds the results of another configuration"):
        run(replace(TINY, steps=5), tmp_path)


def test_seeds_change_weights_and_batches() -> None:
    results = [train_run(TINY, text.load_text(), "rmsnorm", seed) for seed in (0, 0, 1)]
    assert None not in results
    assert results[0].loss == results[1].loss
    assert results[0].loss != results[2].loss
    assert results[0].start.variance[0] != results[2].start.variance[0]


def test_a_run_that_diverges_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    # Without a norm's division by its own size, weights of 1e30 overflow at the first step.
    run(replace(TINY, learning_rate=1e30, warmup=1, steps=30), tmp_path)
    tables = load_tables(tmp_path)
    assert list(tables.runs["status"]) == ["diverged", "diverged"]
    assert (tables.runs["steps"] < 30).all()
    assert set(tables.layers["stage"]) == {"start"}


@pytest.mark.slow
def test_gpu_preset_takes_the_same_path_on_this_machine(tmp_path: Path) -> None:
    """Bfloat16 products and a compiled model: loss and stream agree with float32 to bfloat16's 2**-8."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    gpu = replace(PRESETS["gpu"], model=TINY.model, norms=("bhyt",), seeds=(0,), steps=4, batch=4, device=device)
    if device == "cpu":
        gpu = replace(gpu, compile="aot_eager")
    plain = replace(gpu, precision="float32", compile="", device="cpu")
    run(gpu, tmp_path / "gpu")
    run(plain, tmp_path / "plain")
    half, whole = (load_tables(tmp_path / name) for name in ("gpu", "plain"))
    np.testing.assert_allclose(half.runs["loss"], whole.runs["loss"], rtol=0.01)
    np.testing.assert_allclose(half.layers["variance"], whole.layers["variance"], rtol=0.05)
    assert (half.layers["second_moment"] < 0.04 * 1.1 * half.layers["variance_ratio"]).all()


def test_learning_rate_rises_and_falls() -> None:
    config = replace(PRESETS["laptop"], learning_rate=1.0, warmup=10, steps=110)
    assert learning_rate(config, 0) == pytest.approx(0.1)
    assert learning_rate(config, 10) == pytest.approx(1.0)
    assert learning_rate(config, 110) == pytest.approx(0.1)


def test_cuda_without_a_device_gets_a_sentence() -> None:
    if torch.cuda.is_available():
        pytest.skip("a CUDA device is here")
    with pytest.raises(OptionError, match="needs a CUDA device and torch sees none"):
        train_run(PRESETS["gpu"], text.load_text(), "rmsnorm", 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norms": ("rms",)}, "norm 'rms' is unknown"),
        ({"steps": 0}, "steps is 0 and must be at least 1"),
        ({"precision": "float8"}, "precision is 'float8' and must be float32 or bfloat16"),
    ],
)
def test_bad_configurations_get_a_sentence(change: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        replace(TINY, **change)


def test_text_without_the_speeches_is_the_standard_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "find_spec", lambda _name: None)
    source = text.load_text()
    assert source.source.startswith("standard library of Python 3.")
    # Every 20th document is held out; documents differ in size.
    assert 0.01 < len(source.held_out) / len(source.train) < 0.2
    assert len(source.train) > 1e6


@pytest.mark.parametrize("name", PRESETS)
def test_a_configuration_survives_its_file(tmp_path: Path, name: str) -> None:
    experiment._prepare(tmp_path, PRESETS[name])
    assert ExperimentConfig.from_file(tmp_path / "config.json") == PRESETS[name]


@pytest.mark.parametrize("content", ["{", "[1]", "{}", '{"model": {"norm": {}, "widht": 3}, "norms": [], "seeds": []}'])
def test_a_damaged_configuration_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(OptionError, match="is no configuration of an experiment"):
        ExperimentConfig.from_file(tmp_path / "config.json")
    with pytest.raises(OptionError, match="holds no experiment"):
        ExperimentConfig.from_file(tmp_path / "no" / "config.json")
