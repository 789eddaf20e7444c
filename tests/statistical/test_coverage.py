"""Do 95 % intervals hold the truth in 95 % of simulated tables, and do those fail that should?

A coverage passes when a binomial test at 1 % rejects neither that it is at least 92 % nor that it is at most 98 %.
"""

from __future__ import annotations

import numpy as np
import pytest
from known_tables import T27_LAW, t27_columns
from scipy import stats

from scalefit.datasets import load_dataset
from scalefit.fitting.fit import fit
from scalefit.laws.law import Law
from scalefit.runs import Runs
from scalefit.simulation import Scenario, simulate
from scalefit.uncertainty.comparison import Settings

pytestmark = pytest.mark.slow

LAW = Law.parse("width+depth+tokens")
NAMES = ("alpha_width", "alpha_depth", "alpha_tokens", "L0")


def failures(result, methods, names=NAMES):
    """Coverages that the binomial tests reject."""
    found = {}
    for method in methods:
        for name in names:
            share = result.coverage[method][name]
            too_low = stats.binom.cdf(share.hits, share.n, 0.92) < 0.01
            too_high = stats.binom.sf(share.hits - 1, share.n, 0.98) < 0.01
            if too_low or too_high:
                found[method, name] = share.value
    return found


@pytest.fixture(scope="module")
def chinchilla():
    runs = load_dataset("chinchilla").drop_worst(40)
    return runs, fit(runs).params


def test_likelihood_methods_on_the_grid_of_27():
    scenario = Scenario(Runs.from_columns(t27_columns()), LAW, T27_LAW, noise=0.005)
    methods = ("wald", "observed", "profile", "importance")
    result = simulate(scenario, 200, methods=methods, settings=Settings(seed=11, names=NAMES))
    assert failures(result, methods) == {}


def test_row_methods_on_the_design_of_chinchilla(chinchilla):
    scenario = Scenario(chinchilla[0], LAW, chinchilla[1], noise=0.005)
    methods = ("wald", "robust", "profile", "pairs", "residual", "wild")
    result = simulate(scenario, 200, methods=methods, settings=Settings(n_resamples=400, seed=12, names=NAMES))
    assert failures(result, methods) == {}


def test_run_effects_break_the_row_wise_bootstrap_and_not_the_one_by_run():
    """40 runs of eight rows along their training, as in public sweeps of checkpoints."""
    rng = np.random.default_rng(0)
    width = np.repeat(rng.choice([256, 512, 1024, 2048], 40), 8)
    depth = np.repeat(rng.choice([4, 8, 16, 32, 64], 40), 8)
    tokens = np.tile(np.geomspace(1e9, 1e11, 8), 40)
    design = Runs.from_columns(
        {"run": np.repeat(np.arange(40), 8), "width": width, "depth": depth, "tokens": tokens, "loss": np.ones(320)}
    )
    scenario = Scenario(design, LAW, T27_LAW, noise=0.002, group_noise=0.006, by="run")
    settings = Settings(n_resamples=400, seed=13, names=("alpha_width", "alpha_depth"))
    result = simulate(scenario, 200, methods=("pairs", "cluster", "cluster-robust"), settings=settings)
    # The negative control has to fail, and by much.
    for name in ("alpha_width", "alpha_depth"):
        assert result.coverage["pairs"][name].interval[1] < 0.85
    assert failures(result, ("cluster", "cluster-robust"), ("alpha_width", "alpha_depth")) == {}
