"""What a loss takes, and the compute that one recipe saves over another, against laws written down."""

from __future__ import annotations

import math

import numpy as np
import pytest

from scalefit.datasets import load_dataset
from scalefit.errors import OptionError
from scalefit.fitting.fit import fit
from scalefit.optimal import are_paired, needed_for_loss, optimal_allocation, shared_budgets, speed_up
from scalefit.optimal.compute import cost_of_runs
from scalefit.report import describe, document
from scalefit.runs import Runs
from scalefit.uncertainty.bootstrap import bootstrap


@pytest.fixture(scope="module")
def epoch_fit():
    return fit(load_dataset("chinchilla").drop_worst(5), "params+tokens", "log-huber:1e-3")


@pytest.fixture(scope="module")
def epoch_draws(epoch_fit):
    return bootstrap(epoch_fit, 200, method="pairs")


def test_the_tokens_found_give_the_loss_asked_for(chin203_fit):
    at = {"width": 4096.0, "depth": 40.0}
    found = needed_for_loss(chin203_fit, 2.1, at)
    assert float(chin203_fit.predict({**at, **found.needed})) == pytest.approx(2.1, rel=1e-12)
    depth = needed_for_loss(chin203_fit, 2.1, {"width": 4096.0, "tokens": found.needed["tokens"]})
    assert depth.needed["depth"] == pytest.approx(40.0, rel=1e-9)


def test_intervals_are_those_of_each_draw_solved(epoch_fit, epoch_draws):
    found = needed_for_loss(epoch_fit, 2.05, {"params": 7e10}, epoch_draws)
    tokens = []
    for i in range(len(epoch_draws.draws)):
        p = epoch_draws.params(i)
        left = 2.05 - p["L0"] - p["c_params"] * 7e10 ** -p["alpha_params"]
        tokens.append((p["c_tokens"] / left) ** (1 / p["alpha_tokens"]) if left > 0 else math.inf)
    low, high = np.quantile(tokens, [0.025, 0.975])
    assert found.intervals["pairs"]["tokens"] == pytest.approx((low, high), rel=1e-9)
    assert found.unreached["pairs"] == np.mean(np.isinf(tokens))


def test_the_cheapest_run_is_the_optimum_that_has_the_loss(epoch_fit):
    for cost in (cost_of_runs(), cost_of_runs(1e12)):
        best = optimal_allocation(epoch_fit, 1e23, cost=cost)
        found = needed_for_loss(epoch_fit, best.loss, cost=cost)
        wanted = {"flops": 1e23, "params": best.params, "tokens": best.tokens}
        assert found.needed == pytest.approx(wanted, rel=1e-6)


def test_a_loss_below_the_floor_is_out_of_reach(epoch_fit, epoch_draws):
    floor = epoch_fit.params["L0"]
    for at in ({}, {"params": 1e10}):
        found = needed_for_loss(epoch_fit, floor - 0.01, at, epoch_draws)
        assert not found.reachable
        assert set(found.needed.values()) == {math.inf}
        assert found.warnings[0].code == "unreachable-loss"
        assert 0 < found.unreached["pairs"] <= 1
        assert "out of reach" in describe(found)
        assert not document(found)["reachable"]
    # above the floor, but not with so few parameters
    assert not needed_for_loss(epoch_fit, 2.0, {"params": 1e8}).reachable


@pytest.mark.parametrize(
    ("loss", "at", "complaint"),
    [
        (-1.0, {}, "target loss is -1"),
        (2.0, {"width": 3.0}, "no column 'width'"),
        (2.0, {"params": 0.0}, "must be a positive number"),
        (2.0, {"params": 1e9, "tokens": 1e10}, "give all but the one to find"),
    ],
)
def test_refusals(epoch_fit, loss, at, complaint):
    with pytest.raises(OptionError, match=complaint):
        needed_for_loss(epoch_fit, loss, at)


def recipe(factor: float, seed: int, noise: float = 1e-3) -> Runs:
    """Runs of L(N, factor x D): one that learns from each token what the plain recipe learns from `factor` of them."""
    rng = np.random.default_rng(seed)
    n, d = (x.ravel() for x in np.meshgrid(np.geomspace(1e8, 1e10, 6), np.geomspace(2e9, 2e11, 6)))
    loss = 1.7 + 400 / n**0.34 + 2000 / (factor * d) ** 0.37
    return Runs.from_columns({"params": n, "tokens": d, "loss": loss * np.exp(rng.normal(0, noise, len(n)))})


def test_tokens_worth_double_speed_up_by_what_the_law_says():
    a, b = (fit(recipe(factor, 0, noise=0.0), "params+tokens") for factor in (1.0, 2.0))
    # L(N, 2 D) at 6 N D = C is L(N, D') at 6 N D' = 2 C: twice the compute at every budget
    found = speed_up(a, b, [1e20, 1e22])
    assert [one.speed_up for one in found.at] == pytest.approx([2.0, 2.0], rel=1e-4)
    assert found.paired
    back = speed_up(b, a, [1e21])
    assert back.at[0].speed_up == pytest.approx(0.5, rel=1e-4)


def test_paired_draws_cover_the_truth_and_are_narrower_than_independent_ones():
    # one scatter for both recipes: the same configurations with the same seeds
    a, b = (fit(recipe(factor, 1), "params+tokens") for factor in (1.0, 1.3))
    assert are_paired(a, b)
    budgets = shared_budgets(a, b)
    assert budgets[0] == pytest.approx(6 * 1e8 * 2e9)
    assert budgets[-1] == pytest.approx(6 * 1e10 * 2e11)
    together = tuple(bootstrap(f, 300, method="pairs", seed=0) for f in (a, b))
    apart = tuple(bootstrap(f, 300, method="pairs", seed=seed) for f, seed in ((a, 0), (b, 1)))
    paired, independent = (speed_up(a, b, budgets[1:3], draws) for draws in (together, apart))
    for one, other in zip(paired.at, independent.at, strict=True):
        assert one.interval[0] < 1.3 < one.interval[1]
        assert one.interval[1] - one.interval[0] < 0.5 * (other.interval[1] - other.interval[0])
        assert one.probability == 1.0
    assert "speed-up" in describe(paired)
    assert document(paired)["budgets"][0]["flops"] == budgets[1]


def test_tables_of_other_configurations_are_not_paired(epoch_fit):
    own = fit(recipe(1.0, 2), "params+tokens")
    assert not are_paired(own, epoch_fit)
    with pytest.raises(OptionError, match="not one in params and tokens"):
        shared_budgets(own, fit(recipe(1.0, 2), "tokens"))
