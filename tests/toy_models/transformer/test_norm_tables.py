"""What is read off the tables of a depth experiment: made here in seconds, and the shipped ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from scalefit.datasets import read_table
from scalefit.errors import DataError
from scalefit.experiments.norms import NormTables, compare_with_lns, describe, predicted_start, summarise
from scalefit.plots.norms import plot_variance_against_depth
from scalefit.theory import NORM_NAMES
from toy_models.transformer import NORMS
from toy_models.transformer.config import PRESETS
from toy_models.transformer.experiment import FILES, load_tables, run_experiment


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("smoke")
    run_experiment(PRESETS["smoke"], folder, workers=0)
    return folder


@pytest.fixture(scope="module")
def tables(folder: Path) -> NormTables:
    return NormTables.from_folder(folder)


HIDE_TORCH = """
import sys
class Hide:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
"""


def cli(*arguments: object, before: str = "") -> subprocess.CompletedProcess[str]:
    code = f"{before}\nfrom scalefit.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_reads_what_the_experiment_wrote(folder: Path, tables: NormTables) -> None:
    written = load_tables(folder)
    pd.testing.assert_frame_equal(tables.layers, written.layers)
    assert tables.norms == tuple(NORMS)
    assert tables.ratio == 0.2
    path = tables.path("lns", "start")
    assert path.shape == (1, 13)
    # states are shared: after one site is before the next
    rows = tables.sites("lns", "start", 0)
    np.testing.assert_array_equal(path[0, 1:-1], rows["variance"].iloc[1:])


def test_prediction_of_the_start(tables: NormTables) -> None:
    """Maps of 32 x 88 random weights scatter the increments by about sqrt(2 / 32) = 25 % each."""
    for norm in tables.norms:
        measured, predicted = tables.path(norm, "start").mean(axis=0), predicted_start(tables, norm)
        assert predicted[0] == measured[0]
        np.testing.assert_allclose(predicted, measured, rtol=0.3, err_msg=norm)


def test_summary_against_the_tables(tables: NormTables) -> None:
    summary = summarise(tables)
    by_norm = {row.norm: row for row in summary.norms}
    median = tables.sites("rmsnorm", "trained", 0)["variance_median_next"].iloc[-1]
    assert by_norm["rmsnorm"].trained == (median,)
    # only the approximated second site can have a ratio other than 1
    assert by_norm["bhyt"].variance_ratio > 1.01
    assert {row.variance_ratio for row in summary.norms if row.norm != "bhyt"} == {1.0}
    assert len(summary.bounds) == 4 * 2
    text = describe(summary)
    assert "ranks nothing" in text
    assert all(norm in text for norm in NORMS)


def test_a_violation_is_reported_with_its_block(tables: NormTables) -> None:
    """RMSNorm's stream under LNS's name has m = 1; outputs of BHyT-exact are set above that from block 4 on."""
    layers = tables.layers
    faked = pd.concat([layers[layers["norm"] != "lns"], layers[layers["norm"] == "rmsnorm"].assign(norm="lns")])
    louder = faked["norm"] == "bhyt-exact"
    faked.loc[louder, "second_moment"] = np.where(faked.loc[louder, "block"] >= 4, 1.01, 0.01)
    comparison = compare_with_lns(NormTables(faked, tables.runs), "bhyt-exact", "start", 0)
    assert str(comparison.increments.verdict) == "VIOLATED"
    assert comparison.increments.layer == 4


def test_missing_tables_and_streams_get_a_sentence(tmp_path: Path, tables: NormTables) -> None:
    with pytest.raises(DataError, match=r"norm_experiment_layers\.csv is missing; run scalefit norms"):
        NormTables.from_folder(tmp_path)
    tables.layers.drop(columns=["gain", "stage"]).to_csv(tmp_path / "norm_experiment_layers.csv", index=False)
    with pytest.raises(DataError, match=r"norm_experiment_layers\.csv lacks the columns stage, gain; run"):
        NormTables.from_folder(tmp_path)
    with pytest.raises(DataError, match="no stream of bhyt with seed 7 at the stage 'start'"):
        compare_with_lns(tables, "bhyt", "start", 7)


def test_figure_shows_every_norm_measured_and_predicted(tables: NormTables) -> None:
    figure = plot_variance_against_depth(tables)
    start, trained = figure.axes
    assert len(start.lines) == 2 * len(NORMS)
    assert len(trained.lines) == len(NORMS)
    assert [label.get_text() for label in trained.get_legend().get_texts()] == list(NORMS)


def test_figure_of_a_run_that_diverged(tables: NormTables) -> None:
    layers = tables.layers
    gone = layers[~((layers["norm"] == "dyt") & (layers["stage"] == "trained"))]
    assert len(plot_variance_against_depth(NormTables(gone, tables.runs)).axes[1].lines) == len(NORMS) - 1


def test_command_draws_and_prints_json_without_torch(folder: Path) -> None:
    (folder / "norm_experiment.png").unlink(missing_ok=True)
    done = cli("norms", "plot", folder, "--json", before=HIDE_TORCH)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [row["norm"] for row in document["norms"]] == list(NORMS)
    assert document["bounds"][0]["variances"] in ("HOLDS", "VIOLATED")
    assert (folder / "norm_experiment.png").stat().st_size > 10_000


def test_command_without_torch_gets_a_sentence() -> None:
    done = cli("norms", "smoke", "-o", "x", before=HIDE_TORCH)
    assert done.returncode == 2
    assert done.stderr.startswith("error: the transformer with a choice of norms needs the package torch: install it")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("huge", "-o", "x"), "error: preset 'huge' is unknown; the presets are laptop, smoke, gpu"),
        (("huge",), "error: preset 'huge' is unknown; the presets are laptop, smoke, gpu"),
        (("smoke",), "error: a preset needs a folder for its tables: scalefit norms smoke -o FOLDER"),
        (("plot",), "error: plot needs the folder of an experiment: scalefit norms plot FOLDER"),
    ],
)
def test_bad_commands_get_a_sentence(arguments: tuple[str, ...], message: str) -> None:
    done = cli("norms", *arguments)
    assert (done.returncode, done.stderr.strip(), done.stdout) == (2, message, "")


def test_modules_and_theory_name_the_same_norms() -> None:
    assert tuple(NORMS) == NORM_NAMES


def test_file_names_are_those_of_the_experiment() -> None:
    assert {f"norm_experiment_{name}.csv" for name in ("layers", "runs", "timings")} == set(FILES.values())


# The statements that the guide makes about our own run.


@pytest.fixture(scope="module")
def shipped() -> NormTables:
    return NormTables.shipped()


def test_shipped_eight_norms_three_seeds(shipped: NormTables) -> None:
    assert shipped.norms == tuple(NORMS)
    assert (shipped.runs.groupby("norm").size() == 3).all()
    assert (shipped.runs["status"] == "trained").all()
    assert len(shipped.layers) == 8 * 3 * 2 * 48


def test_shipped_growth_is_ordered_for_every_seed(shipped: NormTables) -> None:
    """RMSNorm and Peri-LN most, LayerNorm Scaling less, BHyT least."""
    end = {row.norm: row for row in summarise(shipped).norms}
    for stage in ("start", "trained"):
        for seed in range(3):
            value = {norm: getattr(row, stage)[seed] for norm, row in end.items()}
            assert min(value["rmsnorm"], value["peri"]) > value["lns"] > value["bhyt"]


def test_shipped_bound_holds_at_the_start(shipped: NormTables) -> None:
    for norm in ("bhyt-exact", "control"):
        for seed in range(3):
            comparison = compare_with_lns(shipped, norm, "start", seed)
            assert comparison.condition
            assert str(comparison.increments.verdict) == "HOLDS"
            assert str(comparison.verdict) == "HOLDS"


def test_shipped_prediction_of_the_start(shipped: NormTables) -> None:
    """Within a tenth at the end, as the guide says: random matrices' gains scatter by some per cent."""
    for norm in shipped.norms:
        measured, predicted = shipped.path(norm, "start").mean(axis=0), predicted_start(shipped, norm)
        np.testing.assert_allclose(predicted[[0, -1]], measured[[0, -1]], rtol=0.1, err_msg=norm)


def test_shipped_training_leaves_the_assumptions(shipped: NormTables) -> None:
    """Factors and blocks that the guide names."""
    gains = shipped.layers.groupby(["norm", "site", "stage"])["gain"].mean()
    rise = {norm: gains[norm, "mlp", "trained"] / gains[norm, "mlp", "start"] for norm in ("bhyt-exact", "lns")}
    assert rise == {"bhyt-exact": pytest.approx(64, abs=0.5), "lns": pytest.approx(26, abs=0.5)}
    layers = [compare_with_lns(shipped, "control", "trained", seed).increments.layer for seed in range(3)]
    assert layers == [24, 22, None]
    for seed in range(3):
        comparison = compare_with_lns(shipped, "bhyt-exact", "trained", seed)
        assert str(comparison.increments.verdict) == str(comparison.verdict) == "HOLDS"
        assert not comparison.assumptions_hold


def test_shipped_timings() -> None:
    assert len(read_table("norm_experiment_timings")) == 24
