"""The shipped tables are the registered ones, and the reconstructed one can be rebuilt to the byte."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
import types

import numpy as np
import pandas as pd
import pytest

import scalefit.datasets as datasets
from scalefit.datasets import dataset_path, describe_dataset, list_datasets, load_dataset, read_table
from scalefit.errors import DataError

SCRIPT = dataset_path("chinchilla").with_suffix(".py")
chinchilla = types.SimpleNamespace(**runpy.run_path(str(SCRIPT)))

ALL_TABLES = tuple(datasets._registry())


@pytest.fixture
def changed_copy(tmp_path, monkeypatch):
    """Let the loader read a copy of the data folder, to be damaged by the test."""
    folder = tmp_path / "data"
    shutil.copytree(dataset_path("chinchilla").parent, folder)
    monkeypatch.setattr(datasets, "_data_folder", lambda: folder)
    return folder


def test_lists_the_tables_of_runs_only():
    names = list_datasets()
    assert {"chinchilla", "chinchilla_figure4", "gemstones"} <= set(names)
    assert "chinchilla_table_a9" not in names


@pytest.mark.parametrize("name", ALL_TABLES)
def test_registry_describes_the_file(name):
    dataset, table = describe_dataset(name), read_table(name)
    assert len(table) == dataset.n_rows
    assert list(table.columns) == list(dataset.columns)
    assert dataset.source
    assert dataset.licence
    assert not dataset.made_by or set(dataset.made_by) == {"command", "seed", "versions", "processor"}


def test_every_data_file_is_registered():
    folder = dataset_path("chinchilla").parent
    registered = {describe_dataset(name).file for name in ALL_TABLES}
    tables = {path.name for path in folder.iterdir() if path.suffix not in (".py", ".toml") and path.is_file()}
    assert tables == registered


@pytest.mark.parametrize("name", list_datasets())
def test_loads_every_row_as_runs(name):
    runs, table = load_dataset(name), read_table(name)
    assert len(runs) == describe_dataset(name).n_rows
    np.testing.assert_array_equal(runs["loss"], table["loss"])


def test_gemstones_is_22_runs_of_10_checkpoints():
    runs = load_dataset("gemstones")
    assert runs.n_runs == 22
    assert set(np.bincount(runs.run_ids)) == {10}


def test_rebuilt_chinchilla_is_the_shipped_file():
    script = [sys.executable, str(SCRIPT)]
    rebuilt = subprocess.run(script, capture_output=True, check=True, timeout=60).stdout
    assert rebuilt == dataset_path("chinchilla").read_bytes()


def test_reconstruction_matches_closely_and_conserves_compute():
    table, models = read_table("chinchilla"), read_table("chinchilla_table_a9")
    matched = table.merge(models, on=["width", "depth"], suffixes=("", "_model"))
    gap = np.abs(np.log(matched["params"] / matched["params_model"]))
    assert len(matched) == 245  # every shape occurs once in Table A9
    assert gap.max() == pytest.approx(0.0058, abs=1e-4)
    assert len(matched[["width", "depth"]].drop_duplicates()) == 43
    np.testing.assert_allclose(6.0 * table["params"] * table["tokens"], table["flops"], rtol=5e-9)


def test_reconstruct_takes_the_nearest_by_ratio():
    runs = pd.DataFrame({"params": [1.004e9, 9.97e7], "flops": [6.024e18, 1e18], "loss": [2.0, 3.0]})
    models = pd.DataFrame({"params": [1e8, 1e9], "width": [512, 2048], "depth": [8, 24]})
    table = chinchilla.reconstruct(runs, models)
    assert table["width"].tolist() == [2048, 512]
    assert table["depth"].tolist() == [24, 8]
    assert table["tokens"].tolist() == [1_000_000_000, 1_671_681_712]


@pytest.mark.parametrize("models", [[1e8, 1.1e9], [0.999e9, 1.001e9]], ids=["none near", "two near"])
def test_doubtful_match_is_refused(models):
    with pytest.raises(DataError, match="run 1 with 1e\\+09 parameters matches no architecture clearly"):
        chinchilla.match_architectures(np.array([1e9]), np.array(models))


def test_unknown_name_suggests_a_known_one():
    with pytest.raises(DataError, match=r"no dataset is named 'chinchila' \(did you mean chinchilla\?\)"):
        load_dataset("chinchila")


def test_table_without_losses_is_no_runs():
    with pytest.raises(DataError, match=r"chinchilla_table_a9 has no losses.*read_table"):
        load_dataset("chinchilla_table_a9")


def test_changed_file_is_refused(changed_copy):
    path = changed_copy / "gemstones.csv"
    path.write_bytes(path.read_bytes().replace(b"3.101056", b"3.101057", 1))
    with pytest.raises(DataError, match="the dataset gemstones was changed"):
        load_dataset("gemstones")


def test_missing_file_is_named(changed_copy):
    (changed_copy / "gemstones.csv").unlink()
    with pytest.raises(DataError, match=r"gemstones is missing: .*gemstones\.csv does not exist"):
        dataset_path("gemstones")


def test_only_what_loads_is_offered_for_loading() -> None:
    with pytest.raises(DataError, match=r"no dataset is named 'x'; the package ships") as caught:
        load_dataset("x")
    assert str(caught.value).endswith(f"ships {', '.join(list_datasets())}")
