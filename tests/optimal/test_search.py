"""The search for best shapes: known answers, first-order conditions over random laws, other optimisers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from scalefit.fitting.fit import fit
from scalefit.laws.constraints import Constraints
from scalefit.laws.law import Law
from scalefit.optimal import (
    Budget,
    Serving,
    Space,
    optimal_shape,
    parse_count,
)
from scalefit.optimal.search import find_shapes
from scalefit.optimal.tradeoff import TermsInLogs, Tradeoff

LAW = Law.parse("width+depth+tokens")
LLAMA = parse_count("llama:vocabulary=128256,heads_per_kv=4")


@pytest.fixture(scope="module")
def t27_fit(t27):
    return fit(t27)


def tradeoff_of(params, budget, space=None) -> Tradeoff:
    return Tradeoff(TermsInLogs.of(LAW, params), budget, space or Space())


@pytest.mark.parametrize("params", [1e6, 1e8, 1e9, 1e12, 1e15])
def test_t27_ratio_is_15_at_every_budget(t27_fit, params):
    best = optimal_shape(t27_fit, params=params)
    # the solver's tolerance on a noiseless table is 1e-6
    assert best.ratio == pytest.approx(15, rel=1e-6)
    assert best.exponents["width"] == pytest.approx(1 / 3, abs=1e-6)
    assert best.exponents["ratio"] == pytest.approx(0, abs=1e-6)


def test_t27_shape_at_a_billion(t27_fit):
    best = optimal_shape(t27_fit, params=1e9)
    assert best.width == pytest.approx(1077.22, abs=0.005)
    assert best.depth == pytest.approx(71.81, abs=0.005)


@pytest.mark.parametrize(("params", "ratio"), [(1e9, 64.2), (1e10, 81.8), (1e11, 104.3)])
def test_chinchilla_ratios(chin203_fit, params, ratio):
    assert optimal_shape(chin203_fit, params=params).ratio == pytest.approx(ratio, abs=0.05)


def test_exponents_follow_from_those_of_the_law(chin203_fit):
    a_m, a_l, a_t = (chin203_fit.params[f"alpha_{c}"] for c in ("width", "depth", "tokens"))
    by_params = optimal_shape(chin203_fit, params=1e9).exponents
    assert by_params["width"] == pytest.approx(a_l / (a_m + 2 * a_l), abs=1e-8)
    assert by_params["depth"] == pytest.approx(a_m / (a_m + 2 * a_l), abs=1e-8)
    assert by_params["ratio"] == pytest.approx((a_l - a_m) / (a_m + 2 * a_l), abs=1e-8)
    by_flops = optimal_shape(chin203_fit, flops=1e21).exponents
    total = 2 / a_m + 1 / a_l + 1 / a_t
    for name, alpha in (("width", a_m), ("depth", a_l), ("tokens", a_t)):
        assert by_flops[name] == pytest.approx(1 / alpha / total, abs=1e-8)


def test_both_exponents_one_keep_proportions_and_give_the_cube_root(chin203):
    fitted = fit(chin203, constraints=Constraints(fixed={"alpha_width": 1.0, "alpha_depth": 1.0}))
    shapes = [optimal_shape(fitted, params=10.0**k) for k in (8, 9, 10, 11)]
    ratios = [shape.ratio for shape in shapes]
    assert ratios == pytest.approx([ratios[0]] * 4, rel=1e-12)
    size_part = [shape.loss - fitted.params["L0"] for shape in shapes]
    slopes = np.diff(np.log10(size_part))
    assert slopes == pytest.approx([-1 / 3] * 3, abs=1e-10)


exponents = st.floats(0.1, 3.0)
sizes = st.floats(-3.0, 3.0)
counts = st.sampled_from(["12m2l", "7m2l", "gpt2", "llama", "chinchilla", "llama:heads_per_kv=8,context=32768"])


@st.composite
def random_laws(draw):
    """Terms between e^-3 and e^3 at m = 1000, l = 20, D = 1e10."""
    params = {"L0": 1.0}
    for name, reference in (("width", 1e3), ("depth", 20.0), ("tokens", 1e10)):
        alpha = draw(exponents)
        params[f"alpha_{name}"] = alpha
        params[f"c_{name}"] = math.exp(draw(sizes)) * reference**alpha
    return params


@given(random_laws(), counts, st.floats(19, 26))
def test_compute_optimal_shapes_meet_the_first_order_conditions(params, count, log_flops):
    space = Space(count=parse_count(count), width=(1e-9, 1e12), depth=(1e-9, 1e9), tokens=(1e-9, 1e30))
    tradeoff = tradeoff_of(params, Budget(flops=10**log_flops), space)
    best = find_shapes(tradeoff)
    m, depth, d = np.exp([best.log_width[0], best.log_depth[0], best.log_tokens[0]])
    per_token = space.count.training_flops
    assert per_token(m, depth) * d == pytest.approx(10**log_flops, rel=1e-10)
    if not 1e-8 < m < 1e11 or not 1e-8 < depth < 1e8:
        return
    # alpha_k T_k over the local power of the cost is the same for width, depth and tokens
    powers = per_token.log_derivatives(best.log_width, best.log_depth)
    marginal = {
        name: params[f"alpha_{name}"] * params[f"c_{name}"] * x ** -params[f"alpha_{name}"]
        for name, x in (("width", m), ("depth", depth), ("tokens", d))
    }
    assert marginal["width"] / powers.v[0] == pytest.approx(marginal["tokens"], rel=1e-6)
    assert marginal["depth"] / powers.u[0] == pytest.approx(marginal["tokens"], rel=1e-6)


@given(random_laws(), counts, st.floats(7, 13))
def test_parameter_optimal_shapes_meet_the_first_order_conditions(params, count, log_params):
    space = Space(count=parse_count(count), width=(1e-9, 1e12), depth=(1e-9, 1e9))
    best = find_shapes(tradeoff_of(params, Budget(params=10**log_params), space))
    m, depth = np.exp([best.log_width[0], best.log_depth[0]])
    assert space.count.params(m, depth) == pytest.approx(10**log_params, rel=1e-10)
    if not 1e-8 < m < 1e11 or not 1e-8 < depth < 1e8:
        return
    powers = space.count.params.log_derivatives(best.log_width, best.log_depth)
    by_width = params["alpha_width"] * params["c_width"] * m ** -params["alpha_width"] / powers.v[0]
    by_depth = params["alpha_depth"] * params["c_depth"] * depth ** -params["alpha_depth"] / powers.u[0]
    assert by_width == pytest.approx(by_depth, rel=1e-6)


@settings(max_examples=25)
@given(random_laws(), st.floats(8, 12), st.booleans())
def test_the_search_agrees_with_the_closed_form(params, log_budget, compute):
    # 1e-300 width^2 beside 12 width^2 depth changes no digit, yet hides the monomial from the closed form
    budget = Budget(flops=10 ** (log_budget + 12)) if compute else Budget(params=10**log_budget)
    hidden = Space(count=parse_count("12*width**2*depth + 1e-300*width"))
    closed, searched = (find_shapes(tradeoff_of(params, budget, space)) for space in (Space(), hidden))
    assert searched.loss == pytest.approx(closed.loss, rel=1e-13)
    assert searched.log_width == pytest.approx(closed.log_width, abs=1e-10)
    assert searched.log_depth == pytest.approx(closed.log_depth, abs=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_no_shape_nearby_is_better_than_the_best_under_several_limits(seed, chin203_fit):
    rng = np.random.default_rng(seed)
    budget = Budget(flops=1e21 * 10 ** rng.normal(), memory=4e9, latency=4e-3)
    space = Space(count=LLAMA, serving=Serving(context=4096))
    tradeoff = tradeoff_of(chin203_fit.params, budget, space)
    best = find_shapes(tradeoff)
    for limit in tradeoff.limits:
        assert limit.excess(best.log_width, best.log_depth)[0] <= 1e-8
    v = best.log_width + rng.normal(0, 0.2, 20_000)
    u = best.log_depth + rng.normal(0, 0.2, 20_000)
    allowed = np.all([limit.excess(v, u) <= 0 for limit in tradeoff.limits], axis=0)
    assert allowed.sum() > 100
    many = tradeoff_of({name: np.full(20_000, x) for name, x in chin203_fit.params.items()}, budget, space)
    assert many.loss(v, u)[allowed].min() >= best.loss[0] * (1 - 1e-12)


def test_least_width_holds_a_model_that_costs_too_much(chin203_fit):
    # at the deepest model that the latency allows the least width meets the limit, yet fewer layers are better
    space = Space(width=(8192, 16384))
    tradeoff = tradeoff_of(chin203_fit.params, Budget(flops=1e18, latency=1e-2), space)
    best = find_shapes(tradeoff)
    # 2 x 12 x 8192^2 bytes read at 2e12 a second, and 1e-5 seconds, for each layer
    deepest = math.log(1e-2 / (2 * 12 * 8192**2 / 2e12 + 1e-5))
    depth = np.linspace(tradeoff.u_range[0], deepest, 2001)
    line = tradeoff_of({name: np.full(2001, x) for name, x in chin203_fit.params.items()}, tradeoff.budget, space)
    assert best.loss[0] <= line.loss(np.full(2001, np.log(8192)), depth).min()
    assert best.log_width[0] == pytest.approx(np.log(8192))
    assert best.log_depth[0] < deepest - 0.1


def test_exact_counts_agree_with_a_general_optimiser(chin203_fit):
    budget = Budget(flops=3e22)
    tradeoff = tradeoff_of(chin203_fit.params, budget, Space(count=LLAMA))
    best = find_shapes(tradeoff)
    found = minimize(
        lambda x: tradeoff.loss(x[:1], x[1:])[0],
        [7.0, 3.0],
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-15},
    )
    assert found.fun == pytest.approx(best.loss[0], rel=1e-12)
    assert found.x == pytest.approx([best.log_width[0], best.log_depth[0]], abs=1e-5)


def test_a_count_without_derivatives_gives_the_shape_of_its_exact_form(chin203_fit):
    # sqrt(width)^2 hides the polynomial from expansion
    hidden = optimal_shape(chin203_fit, params=1e9, space=Space(count=parse_count("12*sqrt(width)**4*depth")))
    exact = optimal_shape(chin203_fit, params=1e9)
    assert hidden.ratio == pytest.approx(exact.ratio, rel=1e-9)
