"""IsoFLOP valleys against laws whose optimum is known, and what is said where there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from scalefit.datasets import load_dataset
from scalefit.errors import DataError, OptionError
from scalefit.fitting.fit import fit
from scalefit.optimal import isoflop, optimal_allocation
from scalefit.report import describe, document
from scalefit.runs import Runs

A, B = 0.3473, 0.3672
TRUTH = {"c_params": 478.0, "alpha_params": A, "c_tokens": 2143.0, "alpha_tokens": B, "L0": 1.8172}
BUDGETS = (1e19, 1e20, 1e21, 1e22)
CHINCHILLA = [6e18, 1e19, 3e19, 6e19, 1e20, 3e20, 6e20, 1e21, 3e21]


def optimum(flops):
    """N* of the law in closed form."""
    constant = math.log(A * TRUTH["c_params"] / (B * TRUTH["c_tokens"]))
    return np.exp((constant + B * np.log(np.asarray(flops) / 6)) / (A + B))


def loss_at(n, d):
    return TRUTH["L0"] + TRUTH["c_params"] / n**A + TRUTH["c_tokens"] / d**B


def valleys(noise=0.0, seed=0, sizes=None, budgets=BUDGETS):
    rng = np.random.default_rng(seed)
    sizes = np.geomspace(0.2, 5, 9) if sizes is None else np.asarray(sizes)
    flops = np.repeat(budgets, len(sizes))
    n = optimum(flops) * np.tile(sizes, len(budgets))
    d = flops / 6 / n
    loss = loss_at(n, d) * np.exp(rng.normal(0, noise, len(n)))
    return Runs.from_columns({"params": n, "tokens": d, "loss": loss})


def test_valleys_of_a_known_law_are_found():
    found = isoflop(valleys())
    assert [valley.n_runs for valley in found.valleys] == [9] * 4
    for valley in found.valleys:
        # a cubic over a factor of 25 is not the law: its minimum is off by less than a percent
        assert valley.params == pytest.approx(optimum(valley.flops), rel=0.01)
        assert valley.tokens == pytest.approx(valley.flops / 6 / valley.params, rel=1e-12)
        assert valley.loss == pytest.approx(loss_at(valley.params, valley.tokens), rel=1e-3)
        assert not valley.remark
    (through,) = found.approaches
    assert through.exponent == pytest.approx(B / (A + B), abs=1e-4)
    assert found.warnings == ()


def test_intervals_of_valleys_and_exponent_hold_the_truth_as_often_as_they_say():
    inside, slopes = [], []
    for seed in range(60):
        found = isoflop(valleys(2e-3, seed, np.geomspace(0.4, 2.5, 9)))
        for valley in found.valleys:
            inside.append(valley.interval[0] < optimum(valley.flops) < valley.interval[1])
        low, high = found.approaches[0].interval
        slopes.append(low < B / (A + B) < high)
    # 240 valleys and 60 lines at 95 %: three binomial standard errors below
    assert np.mean(inside) > 0.95 - 3 * math.sqrt(0.95 * 0.05 / 240)
    assert np.mean(slopes) > 0.95 - 3 * math.sqrt(0.95 * 0.05 / 60)
    # and not by being wide: 2 standard errors of valleys this flat are within a factor of 1.5
    assert np.median([valley.interval[1] / valley.interval[0] for valley in found.valleys]) < 2.3


def test_a_minimum_outside_the_runs_is_no_minimum():
    small = isoflop(valleys(sizes=np.geomspace(0.05, 0.6, 8)))
    assert all("largest" in valley.remark for valley in small.valleys)
    assert all(math.isnan(valley.params) for valley in small.valleys)
    assert [w.code for w in small.warnings] == ["valley-open", "too-few-valleys"]
    large = isoflop(valleys(sizes=np.geomspace(1.7, 20, 8)))
    assert all("smallest" in valley.remark for valley in large.valleys)
    assert not large.approaches


def test_few_sizes_give_a_parabola_and_fewer_nothing():
    four = isoflop(valleys(sizes=[0.4, 0.8, 1.25, 2.5]))
    assert [valley.n_runs for valley in four.valleys] == [4] * 4
    assert four.valleys[0].params == pytest.approx(optimum(1e19), rel=0.05)
    three = isoflop(valleys(sizes=[0.5, 1, 2]), BUDGETS)
    assert all("3 sizes" in valley.remark for valley in three.valleys)


def test_chinchilla_by_two_approaches():
    table = load_dataset("chinchilla")
    fitted = fit(table.drop_worst(5), "params+tokens", "log-huber:1e-3")
    found = isoflop(table, CHINCHILLA, 5.76e23, fit=fitted)
    through, law = found.approaches
    # the second approach of Hoffmann et al. 2022, table 2: 0.49 (0.46, 0.53)
    assert through.exponent == pytest.approx(0.49, abs=0.01)
    assert through.interval[0] < 0.462 < 0.534 < through.interval[1]
    assert law.params == optimal_allocation(fitted, 5.76e23).params
    assert law.name == "params+tokens"
    page = describe(found)
    assert "valleys" in page
    assert "valleys (9 of 9)" in page
    assert document(found)["valleys"][0]["flops"] == pytest.approx(6e18)


def test_curves_give_the_lower_envelope():
    steps = np.geomspace(0.02, 1, 40)
    sizes = np.geomspace(2e7, 2e10, 25)
    n = np.repeat(sizes, len(steps))
    d = np.repeat(100 * sizes, len(steps)) * np.tile(steps, len(sizes))
    runs = Runs.from_columns(
        {"params": n, "tokens": d, "loss": loss_at(n, d), "run": np.repeat(np.arange(25.0), len(steps))}
    )
    found = isoflop(runs, BUDGETS, 1e21)
    envelope = found.approaches[0]
    assert envelope.params == pytest.approx(optimum(1e21), rel=0.3)  # sizes stand a third apart
    assert envelope.tokens == pytest.approx(1e21 / 6 / envelope.params, rel=1e-12)
    assert envelope.params_interval[0] < envelope.params < envelope.params_interval[1]
    assert envelope.name == "envelope"
    assert envelope.basis == "25 runs"
    # steps from size to size, and ends where a neighbour is missing: a few hundredths
    assert envelope.exponent == pytest.approx(B / (A + B), abs=0.03)
    assert envelope.interval[0] < envelope.exponent < envelope.interval[1]
    # by default at the largest budget
    assert isoflop(runs, BUDGETS).approaches[0].params == pytest.approx(optimum(1e22), rel=0.3)


def test_budgets_that_run_into_each_other_have_to_be_named():
    with pytest.raises(DataError, match="--budgets"):
        isoflop(load_dataset("chinchilla"))


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"tokens": [1e9, 2e9], "loss": [3.0, 2.9]}, "column 'params'"),
        ({"params": [1e8, 2e8], "loss": [3.0, 2.9]}, "column 'flops' or 'tokens'"),
        ({"params": [1e8, 2e8], "tokens": [1e9, 5e8], "loss": [3.0, 2.9]}, "no budget has 4 runs"),
    ],
)
def test_tables_that_hold_no_valley_are_refused(columns, complaint):
    with pytest.raises(DataError, match=complaint):
        isoflop(Runs.from_columns(columns))


def test_budgets_are_positive():
    with pytest.raises(OptionError, match="positive"):
        isoflop(valleys(), [-1.0])


@pytest.mark.parametrize(
    "sizes", [np.geomspace(0.3, 12, 9), np.geomspace(0.08, 3, 9), [0.5, 0.9, 2, 6], [0.2, 0.6, 1.1, 2]]
)
def test_the_minimum_need_not_lie_in_the_middle_of_the_sizes(sizes):
    for valley in isoflop(valleys(sizes=sizes)).valleys:
        # the cubic or parabola misses the law by a few percent over so wide and lopsided a range
        assert valley.params == pytest.approx(optimum(valley.flops), rel=0.15)
        best = optimum(valley.flops)
        assert valley.loss == pytest.approx(loss_at(best, valley.flops / 6 / best), rel=2e-3)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_the_line_through_the_valleys_is_least_squares(level):
    found = isoflop(valleys(3e-3, seed=4), flops=1e24, level=level)
    x, y = (np.log([getattr(valley, name) for valley in found.valleys]) for name in ("flops", "params"))
    line = stats.linregress(x, y)
    quantile = stats.t.ppf((1 + level) / 2, 2)
    (through,) = found.approaches
    assert through.exponent == pytest.approx(line.slope, rel=1e-9)
    reach = quantile * line.stderr
    assert through.interval == pytest.approx((line.slope - reach, line.slope + reach), rel=1e-9)
    far = math.log(1e24)
    best = line.intercept + line.slope * far
    noise = math.sqrt(np.sum((y - line.intercept - line.slope * x) ** 2) / 2)
    half = quantile * noise * math.sqrt(1 / 4 + (far - x.mean()) ** 2 / np.sum((x - x.mean()) ** 2))
    assert through.params == pytest.approx(math.exp(best), rel=1e-9)
    assert through.params_interval == pytest.approx((math.exp(best - half), math.exp(best + half)), rel=1e-9)
    assert through.tokens == pytest.approx(1e24 / 6 / through.params, rel=1e-12)


@pytest.mark.parametrize("value", [np.nan, 0.0])
def test_rows_without_a_size_belong_to_no_valley(value):
    whole = valleys(2e-3, seed=1)
    columns = {name: np.append(whole[name], whole[name][:3]) for name in ("params", "tokens", "loss")}
    columns["params"][-3:] = value
    assert isoflop(Runs.from_columns(columns)).valleys == isoflop(whole).valleys
