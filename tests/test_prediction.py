"""Prediction intervals: against the normal theory of a straight line, draws against the formula, coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from known_tables import normal_draws
from scipy import stats

from scalefit.errors import DataError
from scalefit.fitting.fit import fit
from scalefit.laws.constraints import Constraints
from scalefit.prediction import prediction_interval
from scalefit.report import describe, document
from scalefit.runs import Runs
from scalefit.uncertainty.samples import Samples


def line_fit(seed, n=30):
    """A law that is a straight line: c / x with a fixed exponent, plus L0, with additive noise."""
    rng = np.random.default_rng(seed)
    x = np.geomspace(8, 64, n).round()
    loss = 2 + 10 / x + rng.normal(0, 0.05, n)
    runs = Runs.from_columns({"depth": x, "loss": loss})
    return fit(runs, "depth", "mse", constraints=Constraints(fixed={"alpha_depth": 1.0}), n_starts=2, errors="rows")


@pytest.mark.parametrize("n", [3, 30])
def test_linear_laws_have_the_textbook_intervals(n):
    fitted = line_fit(0, n)
    x, y = 1 / fitted.runs["depth"], fitted.runs["loss"]
    at = 1 / 128
    found = stats.linregress(x, y)
    residuals = y - found.intercept - found.slope * x
    variance = residuals @ residuals / (n - 2)
    leverage = 1 / n + (at - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum()
    quantile = stats.t.ppf(0.975, n - 2)
    predicted = prediction_interval(fitted, {"depth": 128})
    center = found.intercept + found.slope * at
    assert predicted.loss[0] == pytest.approx(center, rel=1e-8)
    half = quantile * math.sqrt(variance * leverage)
    assert predicted.mean[0] == pytest.approx([center - half, center + half], rel=1e-8)
    half = quantile * math.sqrt(variance * (1 + leverage))
    assert predicted.new_run[0] == pytest.approx([center - half, center + half], rel=1e-8)
    assert predicted.determined


def test_decades_are_counted_from_the_nearer_end_of_the_table():
    predicted = prediction_interval(line_fit(0), {"depth": [128, 640, 64, 20, 8, 0.5]})
    # the table reaches from 8 to 64
    expected = [math.log10(2), 1.0, 0.0, 0.0, 0.0, -math.log10(16)]
    assert predicted.decades["depth"] == pytest.approx(expected, abs=1e-12)


def test_intervals_hold_their_level():
    hits = np.zeros(2)
    n_tables = 400
    for seed in range(n_tables):
        predicted = prediction_interval(line_fit(seed), {"depth": 40}, level=0.9)
        truth = 2 + 10 / 40
        new = truth + np.random.default_rng(10_000 + seed).normal(0, 0.05)
        for i, (ends, value) in enumerate(((predicted.mean[0], truth), (predicted.new_run[0], new))):
            hits[i] += ends[0] < value < ends[1]
    for count in hits:
        # exact intervals: chance alone is outside of this once in a thousand
        assert stats.binomtest(int(count), n_tables, 0.9).pvalue > 1e-3


def test_draws_give_what_the_formula_gives(chin203_fit):
    points = {"width": [1024, 8192], "depth": [16, 60], "tokens": [1e10, 1e12]}
    # a tenth of the errors, for which the law is linear
    runs = chin203_fit.runs
    loss = chin203_fit.predict(runs) * np.exp(-0.1 * chin203_fit.residuals)
    columns = {**{name: runs[name] for name in chin203_fit.law.columns}, "loss": loss}
    sharp = fit(Runs.from_columns(columns), errors="rows")
    formula = prediction_interval(sharp, points)
    drawn = prediction_interval(sharp, points, normal_draws(sharp, 20_000))
    assert drawn.method == "normal"
    # 20,000 draws: ends of the mean within 3 % of its width; residuals are not quite normal
    for kind, share in (("mean", 0.1), ("new_run", 0.25)):
        ends, reference = getattr(drawn, kind), getattr(formula, kind)
        width = reference[:, 1] - reference[:, 0]
        assert (np.abs(ends - reference) < share * width[:, None]).all()
    assert (formula.new_run[:, 0] < formula.mean[:, 0]).all()
    assert (formula.new_run[:, 1] > formula.mean[:, 1]).all()


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_the_mean_of_draws_has_their_central_interval(chin203_fit, level):
    draws = normal_draws(chin203_fit, 1000)
    points = {"width": [1024, 8192], "depth": 16, "tokens": 1e10}
    predicted = prediction_interval(chin203_fit, points, draws, level=level)
    drawn = draws.predict({name: np.broadcast_to(x, 2) for name, x in points.items()})
    ends = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    assert predicted.mean == pytest.approx(ends.T, rel=1e-4)  # quantiles of the logarithm, between the same draws


@pytest.mark.parametrize("objective", ["mse", "log-mse"])
def test_a_new_run_scatters_like_the_residuals_stretched_for_the_fit(objective):
    """Draws that do not vary leave the residuals alone: ends are the largest and smallest, with their signs."""
    n, x = 12, np.geomspace(4, 64, 12)
    loss = 2 + 10 / x + np.where(np.arange(n) == 5, 0.3, 0.01 * (-1) ** np.arange(n))  # skewed, so that signs matter
    constraints = Constraints(fixed={"alpha_depth": 1.0})
    fitted = fit(Runs.from_columns({"depth": x, "loss": loss}), "depth", objective, constraints=constraints, n_starts=2)
    still = np.tile(list(fitted.params.values()), (20_000, 1))
    draws = Samples(fitted.law, fitted.law.parameter_names, still, "example", fitted.params)
    # each of 12 residuals comes 1,667 times: beyond the quantiles lie 10 draws
    predicted = prediction_interval(fitted, {"depth": [8.0, 128.0]}, draws, level=0.999)
    transform, inverse = (np.log, np.exp) if objective == "log-mse" else (np.positive, np.positive)
    observed_less_predicted = (transform(loss) - transform(fitted.predict(fitted.runs))) * math.sqrt(n / (n - 2))
    assert -observed_less_predicted.min() < 0.5 * observed_less_predicted.max()
    for i, value in enumerate(predicted.loss):
        ends = inverse(transform(value) + np.quantile(observed_less_predicted, [0, 1]))
        assert predicted.new_run[i] == pytest.approx(ends, rel=1e-9)
        assert predicted.mean[i] == pytest.approx([value, value], rel=1e-9)


def test_seeds_repeat(chin203_fit):
    points, draws = {"width": 1024, "depth": 16, "tokens": 1e10}, normal_draws(chin203_fit)
    first, again = (prediction_interval(chin203_fit, points, draws, seed=7).new_run for _ in range(2))
    assert np.array_equal(first, again)
    default, zero, one = (
        prediction_interval(chin203_fit, points, draws, **s).new_run for s in ({}, {"seed": 0}, {"seed": 1})
    )
    assert np.array_equal(default, zero)
    assert not np.array_equal(default, one)


def test_a_floor_at_its_bound_widens_a_prediction_by_the_floors_that_fit_almost_as_well():
    rng = np.random.default_rng(1)
    x = np.array([8.0, 12, 16, 24, 32, 48, 64])
    runs = Runs.from_columns({"depth": x, "loss": (10 / x**0.5 - 0.2) * np.exp(rng.normal(0, 0.01, 7))})
    bound = fit(runs, "depth")
    assert bound.params["L0"] == 0
    (low, high), (least, most) = (
        prediction_interval(fitted, {"depth": 32}).mean[0] for fitted in (bound, fit(runs, "depth+0"))
    )
    # where the table lies a floor hardly matters, and one degree of freedom of five goes to it
    assert low < least < most < high
    assert high - low < 1.5 * (most - least)


def test_a_loss_may_be_known_where_the_parameters_are_not():
    """One depth leaves the depth term open: at that depth the loss is known, at another it is anything."""
    rng = np.random.default_rng(0)
    width, tokens = np.tile([256.0, 512, 1024, 2048, 4096], 3), np.repeat([1e9, 1e10, 1e11], 5)
    loss = (2.5 + 300 / width + 500 / tokens**0.3) * np.exp(rng.normal(0, 1e-3, 15))
    columns = {"width": width, "depth": np.full(15, 12.0), "tokens": tokens, "loss": loss}
    fitted = fit(Runs.from_columns(columns))
    predicted = prediction_interval(fitted, {"width": 512, "depth": [12, 24], "tokens": 1e10})
    assert not predicted.determined
    truth = 2.5 + 300 / 512 + 500 / 1e10**0.3
    low, high = predicted.mean[0]
    assert low < truth < high < 1.01 * low
    assert np.isnan(predicted.mean[1]).all()
    assert np.isnan(predicted.new_run[1]).all()
    assert predicted.warnings[0].numbers["points"] == [2]
    (_, point) = document(predicted)
    assert point["interval"] == [None, None]
    assert "inf" not in describe(predicted)
    inside = prediction_interval(fitted, {"width": 1024, "depth": 12, "tokens": 3e10})
    assert inside.determined
    assert [w.code for w in inside.warnings] == ["parameters-not-determined"]


def test_points_have_to_be_complete(chin203_fit):
    with pytest.raises(DataError, match="lack the column 'tokens'"):
        prediction_interval(chin203_fit, {"width": 1024, "depth": 16})
    with pytest.raises(DataError, match=r"^point 2: depth is 0 and must be a positive number"):
        prediction_interval(chin203_fit, {"width": 1024, "depth": [8, 0], "tokens": 1e10})
    table = Runs.from_columns({"width": [8, 8], "depth": [8, np.nan], "tokens": [1e9, 1e9], "loss": [1, 1]}, "points")
    with pytest.raises(DataError, match=r"^row 2 \(line \d\) of points: depth is missing and must be a positive"):
        prediction_interval(chin203_fit, table)
