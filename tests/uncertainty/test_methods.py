"""The table of methods: the guide names them all, every one runs or says why not, and failures keep to their design."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from known_tables import t27_columns

from scalefit.fitting.fit import fit
from scalefit.laws.parameter import Kind
from scalefit.runs import Runs
from scalefit.uncertainty.comparison import FAST_METHODS, Settings, compare_intervals
from scalefit.uncertainty.methods import METHODS

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "uncertainty.md"
QUICK = [name for name in METHODS if name != "posterior"]


@pytest.mark.skipif(not GUIDE.is_file(), reason="the documentation is not part of an installed package")
def test_the_guide_lists_the_table():
    rows = [line for line in GUIDE.read_text().splitlines() if line.startswith("| `")]
    first_table = rows[: next(i for i, row in enumerate(rows) if row.startswith("| `posterior`")) + 1]
    assert {name for row in first_table for name in re.findall(r"`([\w-]+)`", row.split("|")[1])} == set(METHODS)


def test_every_method_answers_or_says_why_not():
    """On 26 runs of three rows, each of a shape of its own."""
    rng = np.random.default_rng(0)
    width, depth = np.repeat(rng.choice([256, 512, 1024, 2048], 26), 3), np.repeat(np.arange(4, 30), 3)
    tokens, run = np.tile([1e9, 1e10, 1e11], 26), np.repeat(np.arange(26), 3)
    noise = 0.003 * rng.standard_normal(78) + 0.004 * rng.standard_normal(26)[run]
    loss = (1.7 + 300 / width + 10 / depth + 505 / tokens**0.3) * np.exp(noise)
    table = {"width": width, "depth": depth, "tokens": tokens, "loss": loss, "run": run}
    found = compare_intervals(
        fit(Runs.from_columns(table), n_starts=8), QUICK, Settings(n_resamples=100, simulations=0)
    )
    withheld = {name for name, method in METHODS.items() if method.withheld_in_runs} | {"importance-cluster"}
    assert set(found.withheld) == withheld
    assert {label.removesuffix("-bca") for label in found.intervals} == set(QUICK) - withheld
    row_wise = {name for name, method in METHODS.items() if method.independent == "row"} - withheld
    assert row_wise == {"pairs", "residual", "wild"}
    for name in row_wise:
        assert "rows of one run for independent" in found.reservations[name]["alpha_width"]
    assert found.trusted == "cluster"
    assert not found.reservations.get("analytic")


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.failures])
def test_a_failure_is_said_of_its_parameter_and_design_alone(name):
    for failure in METHODS[name].failures:
        assert failure.kind is Kind.FLOOR
        assert failure.by == "shape"
        assert not re.search(r"\d", failure.says.replace("L0", ""))  # figures belong to the level they were measured at
        assert re.search(r"\d", failure.measured)


def test_fast_leaves_out_chains_and_the_rarer_bootstraps():
    assert "posterior" not in FAST_METHODS
    assert {"analytic", "pairs", "cluster", "profile", "mixed", "importance"} <= set(FAST_METHODS)


def test_rows_of_their_own_are_resampled_where_they_are_many():
    """Ten rows a parameter; below, replicates scatter too little, and what `fit` prints is trusted."""
    rng = np.random.default_rng(1)
    for n, expected in ((70, "pairs"), (69, "analytic")):
        columns = {name: np.exp(rng.uniform(np.log(low), np.log(high), n)) for name, (low, high) in RANGES.items()}
        loss = 1.7 + 300 / columns["width"] + 10 / columns["depth"] + 505 / columns["tokens"] ** 0.3
        runs = Runs.from_columns({**columns, "loss": loss * np.exp(0.003 * rng.standard_normal(n))})
        found = compare_intervals(fit(runs, n_starts=8), ("pairs", "analytic"), Settings(n_resamples=60))
        assert found.preferred[0] == found.trusted == expected
    few = compare_intervals(fit(Runs.from_columns(t27_columns(0.002))), ("pairs", "analytic"), Settings(n_resamples=60))
    assert few.trusted != "pairs"


RANGES = {"width": (256, 4096), "depth": (4, 64), "tokens": (1e9, 1e11)}
