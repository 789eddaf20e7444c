"""Next runs: the information formula, exchange against exhaustive search, costs, and what cannot be determined."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from scalefit.design import Candidates, candidate_grid, parse_levels, parse_quantity, suggest_runs
from scalefit.design.information import Choice, choose_runs, linearise, variance_after
from scalefit.errors import DataError, OptionError
from scalefit.fitting.fit import fit
from scalefit.laws.constraints import Constraints
from scalefit.optimal import BLOCKS, optimal_shape
from scalefit.report import describe, document
from scalefit.runs import Runs


def random_choice(seed, n=11, p=4, budget=math.inf) -> Choice:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(p, p))
    return Choice(
        covariance=root @ root.T + 0.1 * np.eye(p),
        gradients=rng.normal(size=(n, p)) * rng.lognormal(size=(n, 1)),
        direction=rng.normal(size=p),
        costs=rng.lognormal(size=n),
        budget=budget,
    )


def exhaustive(choice: Choice, n_runs: int) -> float:
    """The least variance over all sets of at most n_runs within the budget."""
    indices = range(len(choice.costs))
    sets = [list(s) for k in range(n_runs + 1) for s in combinations(indices, k)]
    return min(variance_after(choice, s) for s in sets if choice.costs[s].sum() <= choice.budget)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 4))
def test_exchange_finds_the_best_of_all_sets(seed, n_runs):
    choice = random_choice(seed)
    chosen = choose_runs(choice, n_runs)
    assert len(chosen) == len(set(chosen)) == n_runs
    assert variance_after(choice, chosen) == pytest.approx(exhaustive(choice, n_runs), rel=1e-9)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.floats(1.0, 6.0))
def test_under_a_cost_the_choice_is_within_it_and_near_the_best(seed, budget):
    choice = random_choice(seed, budget=budget)
    chosen = choose_runs(choice, 4)
    assert choice.costs[chosen].sum() <= budget * (1 + 1e-9)
    # a knapsack: single exchanges do not always reach the best set
    assert variance_after(choice, chosen) <= 1.25 * exhaustive(choice, 4)


@given(st.integers(0, 10_000))
def test_variance_after_is_that_of_the_summed_information(seed):
    choice = random_choice(seed)
    chosen = [0, 3, 4]
    g = choice.gradients[chosen]
    direct = np.linalg.inv(np.linalg.inv(choice.covariance) + g.T @ g)
    assert variance_after(choice, chosen) == pytest.approx(choice.direction @ direct @ choice.direction, rel=1e-6)


def test_runs_come_in_the_order_in_which_they_help():
    choice = random_choice(5)
    chosen = choose_runs(choice, 4)
    first = [variance_after(choice, [i]) for i in chosen]
    assert first[0] == min(first)


def test_the_table_alone_has_the_standard_errors_of_the_fit(chin203_fit):
    for name in ("alpha_depth", "alpha_width", "L0", "c_width"):
        suggestion = suggest_runs(chin203_fit, name, 1)
        # the vague prior accounts for less than a thousandth
        assert suggestion.error_before == pytest.approx(chin203_fit.by_row.standard_errors[name], rel=1e-3)


def test_a_new_row_is_worth_what_the_covariance_formula_says(chin203_fit, chin203):
    columns = {name: chin203[name][:3] for name in ("width", "depth", "tokens")}
    quantity = parse_quantity("alpha_depth", chin203_fit)
    linear = linearise(chin203_fit, quantity, Candidates(columns, np.ones(3)), math.inf)
    assert linear.estimate == pytest.approx(chin203_fit.params["alpha_depth"], rel=1e-12)
    gradient = chin203_fit.law.jacobian(columns, chin203_fit.params)
    scale = [chin203_fit.params[n] if n.startswith("c_") else 1.0 for n in chin203_fit.law.parameter_names]
    gradient = gradient * scale / chin203_fit.predict(columns)[:, None]
    residuals = chin203_fit.residuals
    noise = residuals @ residuals / (len(residuals) - 7)
    information = np.linalg.inv(replace(chin203_fit, errors_by="rows").covariance) + gradient.T @ gradient / noise
    expected = np.linalg.inv(information)[3, 3]
    assert variance_after(linear.choice, [0, 1, 2]) == pytest.approx(expected, rel=2e-3)


def test_suggestions_for_chinchilla_leave_the_line_and_halve_the_error(chin203_fit, chin203):
    suggestion = suggest_runs(chin203_fit, "alpha_depth", 10)
    assert suggestion.error_after < 0.5 * suggestion.error_before
    slope, offset = np.polyfit(np.log(chin203["depth"]), np.log(chin203["width"]), 1)
    on_line = np.log(chin203["width"]) - slope * np.log(chin203["depth"]) - offset
    for run in suggestion.runs:
        off = np.log(run.point["width"]) - slope * np.log(run.point["depth"]) - offset
        assert abs(off) > 2 * on_line.std()
        for name, value in run.point.items():
            assert chin203[name].min() <= value <= chin203[name].max()
        assert run.flops <= BLOCKS.train(chin203["width"], chin203["depth"], chin203["tokens"]).max() * (1 + 1e-9)
    assert suggestion.runs[-1].expected == suggestion.after
    assert suggestion.flops == pytest.approx(sum(run.flops for run in suggestion.runs))


def test_the_points_named_are_the_ones_that_bring_the_gain(chin203_fit):
    suggestion = suggest_runs(chin203_fit, "alpha_width", 4)
    quantity = parse_quantity("alpha_width", chin203_fit)
    points = {name: np.array([run.point[name] for run in suggestion.runs]) for name in chin203_fit.law.columns}
    choice = linearise(chin203_fit, quantity, Candidates(points, np.ones(4)), math.inf).choice
    for n, run in enumerate(suggestion.runs, 1):
        assert run.error == pytest.approx(math.sqrt(variance_after(choice, list(range(n)))), rel=1e-9)
        assert run.flops == pytest.approx(72 * run.point["width"] ** 2 * run.point["depth"] * run.point["tokens"])
    errors = [suggestion.error_before, *(run.error for run in suggestion.runs)]
    assert errors == sorted(errors, reverse=True)
    # Student's t at 203 rows less 7 parameters, around the estimate
    half = stats.t.ppf(0.975, 196) * suggestion.error_after
    assert suggestion.after == pytest.approx((suggestion.estimate - half, suggestion.estimate + half), rel=1e-9)


def test_ten_more_runs_on_the_line_change_next_to_nothing(chin203_fit, chin203):
    quantity = parse_quantity("alpha_depth", chin203_fit)
    rows = np.linspace(0, len(chin203) - 1, 10).astype(int)
    line = Candidates({n: chin203[n][rows] for n in ("width", "depth", "tokens")}, np.ones(10))
    choice = linearise(chin203_fit, quantity, line, math.inf).choice
    assert math.sqrt(variance_after(choice, list(range(10))) / variance_after(choice, [])) > 0.95


def test_a_budget_of_operations_is_kept(chin203_fit):
    cheap = suggest_runs(chin203_fit, "ratio@params=1e10", 10, budget=2e21)
    dear = suggest_runs(chin203_fit, "ratio@params=1e10", 10)
    assert cheap.flops <= 2e21
    assert cheap.error_before == dear.error_before > cheap.error_after > dear.error_after


def test_quantities_have_the_values_of_the_fit(chin203_fit):
    best = optimal_shape(chin203_fit, flops=1e22)
    for name in ("ratio", "width", "depth", "tokens"):
        quantity = parse_quantity(f"{name}@flops=1e22", chin203_fit)
        assert quantity.plain(quantity.value(chin203_fit.params)) == pytest.approx(getattr(best, name), rel=1e-12)
    loss = parse_quantity("loss@width=4096,depth=40,tokens=1e12", chin203_fit)
    predicted = chin203_fit.predict({"width": 4096, "depth": 40, "tokens": 1e12})
    assert loss.plain(loss.value(chin203_fit.params)) == pytest.approx(float(predicted), rel=1e-12)


def tied_fit():
    depth = np.tile([8.0, 16, 24, 32, 48], 3)
    tokens = np.repeat([1e9, 1e10, 1e11], 5)
    rng = np.random.default_rng(0)
    loss = (1.7 + 300 / (64 * depth) + 10 / depth + 500 / tokens**0.3) * np.exp(rng.normal(0, 1e-3, 15))
    return fit(Runs.from_columns({"width": 64 * depth, "depth": depth, "tokens": tokens, "loss": loss}))


def test_a_table_that_determines_nothing_still_gets_runs():
    suggestion = suggest_runs(tied_fit(), "alpha_depth", 6)
    assert math.isnan(suggestion.estimate)
    assert math.isinf(suggestion.error_before)
    assert suggestion.error_after < 1
    assert "quantity-not-determined" in [w.code for w in suggestion.warnings]
    assert any(abs(run.point["width"] / run.point["depth"] / 64 - 1) > 0.5 for run in suggestion.runs)


def one_depth_fit():
    width, tokens = np.tile([256.0, 512, 1024, 2048, 4096], 3), np.repeat([1e9, 1e10, 1e11], 5)
    noise = np.exp(np.random.default_rng(0).normal(0, 1e-3, 15))
    loss = (2.5 + 300 / width + 500 / tokens**0.3) * noise
    return fit(Runs.from_columns({"width": width, "depth": np.full(15, 12.0), "tokens": tokens, "loss": loss}))


def test_a_table_of_one_depth_is_told_to_vary_it():
    fitted = one_depth_fit()
    suggestion = suggest_runs(fitted, "alpha_depth", 4)
    assert {run.point["depth"] for run in suggestion.runs} - {12.0}
    assert math.isfinite(suggestion.error_after)
    stuck = suggest_runs(fitted, "alpha_depth", 4, candidate_grid(fitted, {"depth": np.array([12.0])}))
    assert math.isinf(stuck.error_after)
    assert [w.code for w in stuck.warnings] == ["runs-do-not-determine"]
    assert document(stuck)["standard_error"]["after"] is None


def test_laws_without_tokens_tell_no_cost(chin203):
    suggestion = suggest_runs(fit(chin203, "width+depth"), "alpha_depth", 3)
    assert not suggestion.costed
    assert "operations" not in describe(suggestion)


def test_a_parameter_at_its_bound_has_no_error_to_plan_by(chin203):
    fitted = fit(chin203, constraints=Constraints(bounds={"alpha_depth": (0.5, 1.0)}))
    assert fitted.params["alpha_depth"] == 1.0
    with pytest.raises(OptionError, match="at their bounds alone"):
        suggest_runs(fitted, "alpha_depth", 2)


@pytest.mark.parametrize("name", ["alpha_depth", "alpha_width"])
def test_open_exponents_at_a_bound_are_no_estimates(name):
    # which of the two runs to its bound is the solver's matter; neither is known
    suggestion = suggest_runs(tied_fit(), name, 3)
    assert math.isnan(suggestion.estimate)


def test_seeds_make_suggestions_repeat(chin203_fit):
    assert suggest_runs(chin203_fit, n_runs=4, seed=3) == suggest_runs(chin203_fit, n_runs=4, seed=3)


def test_laws_of_other_columns_are_planned_for_too(chin203):
    suggestion = suggest_runs(fit(chin203, "params+tokens"), "alpha_params", 3)
    assert suggestion.error_after < suggestion.error_before
    assert suggestion.runs[0].flops == pytest.approx(
        6 * suggestion.runs[0].point["params"] * suggestion.runs[0].point["tokens"]
    )


@pytest.mark.parametrize(
    ("quantity", "complaint"),
    [
        ("alpha_dept", "did you mean alpha_depth"),
        ("ratio", "ratio@params"),
        ("ratio@parms=1e9", "budgets are params"),
        ("ratio@params=many", "NAME=NUMBER"),
        ("ratio@params=-1", "must be positive"),
        ("ratio@params=3", "below the 12"),
        ("tokens@params=1e9", "give flops"),
        ("loss@width=4096", "exactly the columns"),
    ],
)
def test_unknown_quantities_are_refused(chin203_fit, quantity, complaint):
    with pytest.raises(OptionError, match=complaint):
        suggest_runs(chin203_fit, quantity, 1)


def test_other_refusals(chin203_fit, t27):
    with pytest.raises(OptionError, match="at least 1"):
        suggest_runs(chin203_fit, n_runs=0)
    with pytest.raises(OptionError, match="budget of operations is nan"):
        suggest_runs(chin203_fit, budget=math.nan)
    with pytest.raises(OptionError, match="of one run are nan"):
        candidate_grid(chin203_fit, max_flops=math.nan)
    with pytest.raises(OptionError, match="pays for no candidate"):
        suggest_runs(chin203_fit, budget=1.0)
    with pytest.raises(OptionError, match="costs more than"):
        candidate_grid(chin203_fit, max_flops=1.0)
    with pytest.raises(OptionError, match="no column 'heads'"):
        candidate_grid(chin203_fit, {"heads": np.array([8.0])})
    with pytest.raises(OptionError, match="not a positive number"):
        candidate_grid(chin203_fit, {"depth": np.array([0.0])})
    with pytest.raises(OptionError, match="more than 200000"):
        candidate_grid(chin203_fit, {"depth": np.arange(1.0, 5000)})
    with pytest.raises(DataError, match="exactly"):
        suggest_runs(fit(t27), "alpha_depth")


@pytest.mark.parametrize("text", ["", "a", "1:2", "2:1:3", "0,1", "1:2:0", "inf"])
def test_levels_that_cannot_be_read(text):
    with pytest.raises(OptionError, match=r"levels of depth .* (FROM:TO:HOW_MANY|positive number)"):
        parse_levels(text, "depth")
