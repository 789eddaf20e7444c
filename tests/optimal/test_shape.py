"""Best shapes: kinds of budgets, edges, feasible shapes, flatness, intervals, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_tables import normal_draws
from scipy import stats

from scalefit.errors import OptionError
from scalefit.fitting.fit import fit
from scalefit.laws.law import Law
from scalefit.optimal import (
    Budget,
    Rounding,
    Serving,
    Space,
    Transformer,
    optimal_shape,
    parse_budgets,
    parse_count,
    sweep_shapes,
)
from scalefit.optimal.neighbours import flatness
from scalefit.optimal.search import best_at_ratio
from scalefit.optimal.sweep import analytic_intervals, central_interval
from scalefit.optimal.tradeoff import TermsInLogs, Tradeoff
from scalefit.runs import Runs
from scalefit.uncertainty.bootstrap import bootstrap
from scalefit.uncertainty.samples import Samples

LAW = Law.parse("width+depth+tokens")
LLAMA = parse_count("llama:vocabulary=128256,heads_per_kv=4")


@pytest.fixture(scope="module")
def t27_fit(t27):
    return fit(t27)


def tradeoff_of(params, budget, space=None) -> Tradeoff:
    return Tradeoff(TermsInLogs.of(LAW, params), budget, space or Space())


# budgets of other kinds


def test_fixed_tokens_turn_compute_into_a_parameter_budget(chin203_fit):
    by_flops = optimal_shape(chin203_fit, flops=6e19, tokens=1e10)
    by_params = optimal_shape(chin203_fit, params=1e9, tokens=1e10)
    assert by_flops.width == pytest.approx(by_params.width, rel=1e-12)
    assert by_flops.loss == pytest.approx(by_params.loss, rel=1e-12)
    assert by_flops.tokens == pytest.approx(1e10, rel=1e-12)


def test_memory_without_cache_is_a_parameter_budget(chin203_fit):
    by_memory = optimal_shape(chin203_fit, memory=2e9)
    assert by_memory.width == pytest.approx(optimal_shape(chin203_fit, params=1e9).width, rel=1e-10)


def test_latency_makes_models_shallower(chin203_fit):
    fast = Space(serving=Serving(layer_seconds=1e-4))
    slow = Space(serving=Serving(layer_seconds=0))
    limited, free = (optimal_shape(chin203_fit, latency=5e-3, space=space) for space in (fast, slow))
    assert limited.depth < free.depth
    assert limited.ratio > free.ratio


def test_a_cap_beside_compute_binds_and_moves_the_rest_into_tokens(chin203_fit):
    free = optimal_shape(chin203_fit, flops=1e22)
    capped = optimal_shape(chin203_fit, flops=1e22, params=free.params / 10)
    assert capped.params == pytest.approx(free.params / 10, rel=1e-9)
    assert capped.tokens == pytest.approx(10 * free.tokens, rel=1e-9)
    assert capped.loss > free.loss
    assert set(capped.binding) == {"params", "flops"}
    loose = optimal_shape(chin203_fit, flops=1e22, params=free.params * 10)
    assert loose.width == pytest.approx(free.width, rel=1e-12)
    assert loose.binding == ("flops",)


def test_budgets_are_spent_by_the_count_written_out(chin203_fit):
    for budget in (1e19, 3e22):
        best = optimal_shape(chin203_fit, flops=budget)
        # 6 operations a parameter and token, 12 m^2 l parameters
        assert 72 * best.width**2 * best.depth * best.tokens == pytest.approx(budget, rel=1e-12)
        assert best.flops == pytest.approx(budget, rel=1e-12)
        for option in best.feasible:
            spent = 72 * option.width**2 * option.depth * option.tokens
            assert option.flops == pytest.approx(spent, rel=1e-12)
            assert spent <= budget * (1 + 1e-9)
    best = optimal_shape(chin203_fit, params=5e9)
    assert 12 * best.width**2 * best.depth == pytest.approx(5e9, rel=1e-12)
    assert best.params == pytest.approx(5e9, rel=1e-12)
    twice = Budget(flops=1e20, params=1e9).times(2)
    assert twice == Budget(flops=2e20, params=1e9)


# edges


def law_of_two_columns(first, second):
    """27 noisy runs of 1.7 + 300 / first + 5 / second^0.3."""
    x, y = (z.ravel() for z in np.meshgrid([512.0, 1024, 2048], np.geomspace(8, 1e11, 9).round()))
    noise = np.exp(np.random.default_rng(0).normal(0, 1e-3, len(x)))
    columns = {first: x, second: y, "loss": (1.7 + 300 / x + 5 / y**0.3) * noise}
    return fit(Runs.from_columns(columns), f"{first}+{second}")


def test_a_law_without_depth_ends_at_the_smallest_depth_and_says_so():
    best = optimal_shape(law_of_two_columns("width", "tokens"), params=1e9)
    assert best.depth == 1
    assert best.at_edge == ("depth",)
    assert best.width == pytest.approx(math.sqrt(1e9 / 12), rel=1e-9)
    assert "optimum-at-edge" in [w.code for w in best.warnings]


def test_a_range_that_stops_the_optimum_is_named(chin203_fit):
    best = optimal_shape(chin203_fit, params=1e10, space=Space(depth=(1, 32)))
    assert best.depth == pytest.approx(32)
    assert best.at_edge == ("depth",)
    assert best.params == pytest.approx(1e10)


def test_small_budgets_end_at_one_layer(t27_fit):
    # T27 at P = 12 has m / l = 15 only with less than one layer
    best = optimal_shape(t27_fit, params=12.0)
    assert best.depth == 1
    assert "depth" in best.at_edge


def test_compute_without_a_token_term_goes_to_the_fewest_tokens():
    best = optimal_shape(law_of_two_columns("width", "depth"), flops=1e20, space=Space(tokens=(1e9, 1e13)))
    assert best.tokens == pytest.approx(1e9)
    assert best.at_edge == ("tokens",)


def test_most_tokens_give_the_best_shape_at_those_tokens(chin203_fit):
    free = optimal_shape(chin203_fit, flops=1e21)
    for share in (0.5, 0.1):
        capped = optimal_shape(chin203_fit, flops=1e21, space=Space(tokens=(1, share * free.tokens)))
        fixed = optimal_shape(chin203_fit, flops=1e21, tokens=share * free.tokens)
        assert capped.tokens == pytest.approx(share * free.tokens)
        assert capped.loss == pytest.approx(fixed.loss, rel=1e-12)
        assert (capped.width, capped.depth) == pytest.approx((fixed.width, fixed.depth), rel=1e-6)
        assert capped.flatness.doubled > 0
        assert capped.feasible[0].excess > 0
        assert capped.at_edge == ("tokens",)


def test_most_tokens_beside_a_cap_leave_compute_unspent(chin203_fit):
    capped = optimal_shape(chin203_fit, flops=1e23, params=1e9, space=Space(tokens=(1, 1e10)))
    assert capped.flops == pytest.approx(6e19)
    assert capped.binding == ("params",)


def test_shifted_depth_stays_above_its_shift():
    rng = np.random.default_rng(0)
    width, depth = (x.ravel() for x in np.meshgrid([256.0, 512, 1024, 2048], [3.0, 4, 8, 16, 32]))
    loss = (1.5 + 200 / width + 3 / (depth - 2)) * np.exp(rng.normal(0, 1e-3, len(width)))
    fitted = fit(Runs.from_columns({"width": width, "depth": depth, "loss": loss}), "width+(depth-2)")
    best = optimal_shape(fitted, params=1e7)
    assert best.depth > 2
    p = fitted.params
    by_width = p["alpha_width"] * p["c_width"] * best.width ** -p["alpha_width"] / 2
    k = best.depth / (best.depth - 2)
    by_depth = p["alpha_depth"] * k * p["c_depth"] * (best.depth - 2) ** -p["alpha_depth"]
    assert by_width == pytest.approx(by_depth, rel=1e-6)


# feasible shapes and flatness


@pytest.mark.parametrize(
    "limits", [{"params": 7e9}, {"flops": 1e21}, {"flops": 1e21, "params": 1e9}, {"memory": 1.6e10}]
)
def test_feasible_shapes_are_the_best_of_all_in_reach(chin203_fit, limits):
    rounding = Rounding(head_size=128, multiple=128, layers=2, n_best=3)
    best = optimal_shape(chin203_fit, rounding=rounding, **limits)
    assert len(best.feasible) == 3
    tradeoff = tradeoff_of(chin203_fit.params, Budget(**limits))
    widths = np.arange(128, 4 * best.width, 128)
    depths = np.arange(2, 4 * best.depth, 2)
    v, u = (np.log(x.ravel()) for x in np.meshgrid(widths, depths))
    allowed = np.all([limit.excess(v, u) <= 1e-12 for limit in tradeoff.limits], axis=0)
    many = tradeoff_of({name: np.full(allowed.sum(), x) for name, x in chin203_fit.params.items()}, Budget(**limits))
    losses = np.sort(many.loss(v[allowed], u[allowed]))
    assert [option.loss for option in best.feasible] == pytest.approx(losses[:3], rel=1e-12)
    for option in best.feasible:
        assert option.width % 128 == 0
        assert option.depth % 2 == 0
        assert option.heads * 128 == option.width
        assert option.excess >= -1e-12
        assert option.memory == pytest.approx(2 * option.params)
        assert option.inference_flops == pytest.approx(2 * option.params)
        assert option.cached == 2 * option.width * option.depth
        for limit in tradeoff.limits:
            assert limit.size(option.width, option.depth) <= limit.bound * (1 + 1e-9)


def test_heads_come_in_the_groups_that_share_keys_and_values(chin203_fit):
    space = Space(count=parse_count("llama:heads_per_kv=6,attention_ratio=0.5"))
    best = optimal_shape(chin203_fit, params=8e9, space=space)
    assert len(best.feasible) == 5
    for option in best.feasible:
        assert option.heads == 0.5 * option.width / 64
        assert option.heads % 6 == 0


def test_flat_ranges_cost_what_they_say(chin203_fit):
    best = optimal_shape(chin203_fit, flops=1e21)
    tradeoff = tradeoff_of(chin203_fit.params, Budget(flops=1e21))
    assert tuple(best.flatness.within) == (0.001, 0.01)
    for share, ends in best.flatness.within.items():
        assert ends[0] < best.ratio < ends[1]
        for end in ends:
            loss = best_at_ratio(tradeoff, np.log([end])).loss[0]
            assert loss / best.loss - 1 == pytest.approx(share, rel=1e-5)
    doubled = best_at_ratio(tradeoff, np.log([2 * best.ratio])).loss[0]
    assert best.flatness.doubled == pytest.approx(doubled / best.loss - 1, rel=1e-9)


def test_ratios_that_never_cost_so_much_end_where_shapes_do(t27_fit):
    # with the irreducible loss far above all terms nothing costs a percent, down to a single layer
    heavy = tradeoff_of({**t27_fit.params, "L0": 1e4}, Budget(params=1e9))
    low, high = flatness(heavy, math.log(15)).within[0.01]
    assert low == 0
    assert high == pytest.approx(math.sqrt(1e9 / 12), rel=1e-6)


def test_nothing_feasible_is_said(chin203_fit):
    best = optimal_shape(chin203_fit, params=1e5, rounding=Rounding(multiple=4096))
    assert best.feasible == ()
    assert "no-feasible-shape" in [w.code for w in best.warnings]


# uncertainty


def test_intervals_are_the_quantiles_over_the_draws(chin203_fit):
    draws = normal_draws(chin203_fit)
    best = optimal_shape(chin203_fit, params=1e10, draws=draws)
    a_m, a_l = draws["alpha_width"], draws["alpha_depth"]
    # m from the closed form, equation by equation: alpha_m c_m m^-a_m = 2 alpha_l c_l l^-a_l with l = P / 12 m^2
    rest = np.log(a_m * draws["c_width"] / (2 * a_l * draws["c_depth"])) + a_l * np.log(1e10 / 12)
    log_m = rest / (a_m + 2 * a_l)
    log_ratio = 3 * log_m - np.log(1e10 / 12)
    assert np.log(best.intervals["ratio"]) == pytest.approx(np.quantile(log_ratio, [0.025, 0.975]), abs=2e-3)
    assert best.intervals["ratio"][0] < best.ratio < best.intervals["ratio"][1]
    expected = np.quantile(a_l / (a_m + 2 * a_l), [0.025, 0.975])
    assert best.by_method[0].exponents["width"] == pytest.approx(expected, abs=1e-6)
    assert best.by_method[0].method == "normal"
    assert best.by_method[0].intervals["doubled"][0] >= 0


def test_draws_halve_and_double_the_ratio_of_their_own_best_shape(chin203_fit):
    """Draws that do not vary give the estimate's costs, which differ by side; the others what each draw costs."""
    still = np.tile(list(chin203_fit.params.values()), (3, 1))
    names = chin203_fit.law.parameter_names
    best = optimal_shape(
        chin203_fit, params=1e10, draws=Samples(chin203_fit.law, names, still, "example", chin203_fit.params)
    )
    for name, cost in (("halved", best.flatness.halved), ("doubled", best.flatness.doubled)):
        assert best.intervals[name] == pytest.approx((cost, cost), rel=1e-6)
    assert best.flatness.halved != pytest.approx(best.flatness.doubled, rel=0.05)
    tradeoff = tradeoff_of(chin203_fit.params, Budget(params=1e10))
    for factor, cost in ((0.5, best.flatness.halved), (2.0, best.flatness.doubled)):
        loss = best_at_ratio(tradeoff, np.log([factor * best.ratio])).loss[0]
        assert cost == pytest.approx(loss / best.loss - 1, rel=1e-9)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_central_intervals_are_numpys_quantiles(values, level):
    ends = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    assert central_interval(np.array(values), level) == pytest.approx(tuple(ends), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", ["alpha_width", "alpha_depth", "alpha_tokens", "L0"])
def test_own_errors_of_a_parameter_are_those_that_the_fit_prints(chin203_fit, name):
    found = analytic_intervals(chin203_fit, lambda params: ({"loss": np.exp(params[name])}, {name: params[name]}), 0.95)
    half = stats.t.ppf(0.975, chin203_fit.degrees[name]) * chin203_fit.standard_errors[name]
    expected = (chin203_fit.params[name] - half, chin203_fit.params[name] + half)
    # the derivative is taken by differences
    assert found.exponents[name] == pytest.approx(expected, rel=1e-6)
    assert np.log(found.intervals["loss"]) == pytest.approx(expected, rel=1e-6)


def test_without_draws_intervals_are_by_the_fits_own_errors(chin203_fit):
    best = optimal_shape(chin203_fit, flops=1e22)
    assert [found.method for found in best.by_method] == ["analytic"]
    drawn = optimal_shape(chin203_fit, flops=1e22, draws=bootstrap(chin203_fit, 300, method="cluster"))
    for name in ("ratio", "params", "loss"):
        assert best.intervals[name][0] < getattr(best, name) < best.intervals[name][1]
        # two estimates of one width, by linearisation and by refitting to shapes drawn again
        widths = [np.log(b / a) for a, b in (best.intervals[name], drawn.intervals[name])]
        assert 0.6 < widths[0] / widths[1] < 1.6
    assert best.by_method[0].exponents["width"][0] < best.exponents["width"] < best.by_method[0].exponents["width"][1]


def test_a_shape_comes_with_its_size(chin203_fit):
    best = optimal_shape(chin203_fit, flops=1e22, draws=normal_draws(chin203_fit))
    assert best.params == pytest.approx(12 * best.width**2 * best.depth)
    assert best.tokens_per_param == pytest.approx(best.tokens / best.params)
    assert best.exponents["params"] == pytest.approx(1 - best.exponents["tokens"], abs=1e-6)
    low, high = best.intervals["params"]
    assert low < best.params < high
    # 6 N D = C for every draw; quantiles interpolate between draws, which reciprocals do not keep
    assert best.intervals["tokens"] == pytest.approx((1e22 / 6 / high, 1e22 / 6 / low), rel=1e-3)


def test_a_sweep_holds_what_single_budgets_give(chin203_fit):
    draws = normal_draws(chin203_fit)
    budgets = [Budget(flops=c) for c in parse_budgets("1e20:1e24:3", "flops")]
    sweep = sweep_shapes(chin203_fit, budgets, draws, space=Space(count=LLAMA))
    for i, budget in enumerate(budgets):
        one = optimal_shape(chin203_fit, budget, draws, space=Space(count=LLAMA))
        for name in ("width", "depth", "tokens", "ratio", "loss"):
            # Newton's method starts elsewhere and ends within its tolerance
            assert sweep.estimate[name][i] == pytest.approx(getattr(one, name), rel=1e-11)
            assert (sweep.low[name][i], sweep.high[name][i]) == pytest.approx(one.intervals[name], rel=1e-11)


def test_extrapolation_is_named_in_decades(chin203_fit, chin203):
    far = optimal_shape(chin203_fit, params=1e11)
    largest = (12 * chin203["width"] ** 2 * chin203["depth"]).max()
    assert far.decades["params"] == pytest.approx(math.log10(1e11 / largest))
    assert round(far.decades["params"], 1) == 0.8
    remark = next(w for w in far.warnings if w.code == "extrapolates")
    assert "0.8 decades" in remark.message
    inside = optimal_shape(chin203_fit, params=1e9)
    assert set(inside.decades.values()) == {0.0}
    assert "extrapolates" not in [w.code for w in inside.warnings]


def test_an_undetermined_exponent_leaves_the_shape_undetermined():
    depth = np.array([8.0, 16, 24, 32, 48] * 3)
    tokens = np.repeat([1e9, 1e10, 1e11], 5)
    width = 64 * depth
    rng = np.random.default_rng(0)
    loss = (1.7 + 300 / width + 10 / depth + 500 / tokens**0.3) * np.exp(rng.normal(0, 1e-3, 15))
    tied = fit(Runs.from_columns({"width": width, "depth": depth, "tokens": tokens, "loss": loss}))
    best = optimal_shape(tied, params=1e9)
    assert not best.determined
    assert math.isnan(best.ratio)
    assert math.isnan(best.loss)
    assert best.feasible == ()
    assert "alpha_depth" in best.warnings[0].message
    assert best.warnings[0].code == "shape-not-determined"


# refusals


@pytest.mark.parametrize(
    ("limits", "complaint"),
    [
        ({"params": 0.0}, "must be a positive number"),
        ({"flops": -1e20}, "must be a positive number"),
        ({"params": math.inf}, "must be a positive number"),
        ({"tokens": 1e10}, "no budget is given"),
        ({"params": 5.0}, "below the 12 of the smallest model"),
        ({"flops": 10.0}, "below the 72 of the smallest model"),
        ({"memory": 1.0}, "below the 24 of the smallest model"),
        ({"latency": 1e-9}, "below the 1e-05 of the smallest model"),
        ({"params": 1e9, "latency": 1e-9}, "latency"),
    ],
)
def test_budgets_out_of_range_are_refused(chin203_fit, limits, complaint):
    with pytest.raises(OptionError, match=complaint):
        optimal_shape(chin203_fit, **limits)


def test_a_budget_and_limits_are_not_both_taken(chin203_fit):
    with pytest.raises(OptionError, match=r"not both"):
        optimal_shape(chin203_fit, Budget(params=1e9), tokens=1e10)


def test_budgets_may_carry_suffixes():
    assert parse_budgets("7B,1.5T", "params") == (7e9, 1.5e12)


def test_ranges_that_leave_nothing_are_refused(chin203_fit):
    with pytest.raises(OptionError, match=r"below the .* of the smallest model allowed"):
        optimal_shape(chin203_fit, params=1e6, space=Space(width=(4096, 8192)))
    with pytest.raises(OptionError, match="0 < lower <= upper"):
        Space(width=(100, 50))


def test_other_laws_are_refused(chin203):
    with pytest.raises(OptionError, match="'params'"):
        optimal_shape(fit(chin203, "params+tokens"), params=1e9)
    with pytest.raises(OptionError, match="neither width nor depth"):
        optimal_shape(fit(chin203, "tokens"), flops=1e20)


def test_rounding_needs_positive_multiples():
    with pytest.raises(OptionError, match="head_size"):
        Rounding(head_size=0)


@pytest.mark.parametrize("text", ["", "1e9:1e8:3", "1e9:1e10", "a,b", "1e9:1e10:1", "0:1:5"])
def test_budgets_that_cannot_be_read(text):
    with pytest.raises(OptionError, match="FROM:TO:HOW_MANY"):
        parse_budgets(text, "params")


def test_settings_of_an_architecture_in_python(chin203_fit):
    own = Space(count=Transformer(vocabulary=50257, gated=True, mlp_ratio=8 / 3).count("mine"))
    best = optimal_shape(chin203_fit, params=1e9, space=own)
    assert best.count == "mine"
    assert best.params == pytest.approx(1e9)
