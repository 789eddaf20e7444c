"""Best N and D for a budget: the closed form, other costs, reference numbers, ranges, intervals, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from scalefit.datasets import load_dataset
from scalefit.errors import OptionError
from scalefit.fitting.fit import fit
from scalefit.laws.law import Law
from scalefit.optimal import optimal_allocation, parse_count
from scalefit.optimal.compute import best_sizes, cost_of_runs, least_compute, losses_at_ratio, parse_cost
from scalefit.optimal.tradeoff import Term, TermsInLogs
from scalefit.report import describe, document
from scalefit.runs import Runs
from scalefit.uncertainty.bootstrap import bootstrap

LAW = Law.parse("params+tokens")
BUDGET = 5.76e23
"""Chinchilla's own, 70e9 parameters on 1.4e12 tokens at 6 N D but for 2 %."""


@pytest.fixture(scope="module")
def epoch_fit():
    return fit(load_dataset("chinchilla").drop_worst(5), LAW, "log-huber:1e-3")


@pytest.fixture(scope="module")
def epoch_draws(epoch_fit):
    return bootstrap(epoch_fit, 1000, method="pairs")


def test_reference_optimum_at_chinchillas_budget(epoch_fit):
    best = optimal_allocation(epoch_fit, BUDGET)
    # laws fitted independently by SciPy to the same 240 rows, to their printed digits
    assert best.params == pytest.approx(7.32e10, rel=1e-3)
    assert best.tokens == pytest.approx(1.312e12, rel=1e-3)
    assert best.tokens_per_param == pytest.approx(17.9, abs=0.05)
    assert best.exponents == pytest.approx({"params": 0.514, "tokens": 0.486}, abs=5e-4)
    assert 6 * best.params * best.tokens == pytest.approx(BUDGET, rel=1e-12)
    assert best.loss == pytest.approx(
        float(epoch_fit.predict({"params": best.params, "tokens": best.tokens})), rel=1e-12
    )
    assert best.decades["params"] == pytest.approx(math.log10(best.params / epoch_fit.runs["params"].max()))
    assert [w.code for w in best.warnings] == ["extrapolates"]


def test_reference_intervals_by_pairs(epoch_fit, epoch_draws):
    best = optimal_allocation(epoch_fit, BUDGET, epoch_draws)
    # ends of 1,000 replicates are known to about 5 % of the value, those of a ratio to 8 %
    assert best.intervals["params"] == pytest.approx([5.1e10, 1.13e11], rel=0.06)
    assert best.intervals["tokens"] == pytest.approx([0.85e12, 1.87e12], rel=0.06)
    assert best.intervals["tokens_per_param"] == pytest.approx([7.5, 36], rel=0.08)
    assert best.by_method[0].exponents["params"] == pytest.approx([0.48, 0.56], abs=0.01)


def test_reference_with_serving(epoch_fit):
    best = optimal_allocation(epoch_fit, BUDGET, cost=cost_of_runs(2e12))
    assert best.params == pytest.approx(3.96e10, rel=2e-3)
    assert best.tokens == pytest.approx(1.76e12, rel=2e-3)
    assert best.tokens_per_param == pytest.approx(44, abs=0.5)
    spent = 6 * best.params * best.tokens + 2 * best.params * 2e12
    assert spent == pytest.approx(BUDGET, rel=1e-12)


def test_reference_of_the_coupled_law():
    coupled = fit(load_dataset("chinchilla").drop_worst(5), "(params+tokens)^q", "log-huber:1e-3")
    best = optimal_allocation(coupled, BUDGET)
    assert best.params == pytest.approx(6.66e10, rel=1e-3)
    assert best.tokens == pytest.approx(1.442e12, rel=1e-3)
    assert best.tokens_per_param == pytest.approx(21.7, abs=0.05)
    assert best.exponents["params"] == pytest.approx(0.504, abs=5e-4)
    assert best.loss == pytest.approx(float(coupled.predict({"params": best.params, "tokens": best.tokens})), rel=1e-12)
    for factor in (0.9, 1.1):
        at = {"params": factor * best.params, "tokens": best.tokens / factor}
        assert float(coupled.predict(at)) > best.loss


@pytest.mark.parametrize(("dropped", "ratio"), [(5, 14), (10, 22), (20, 37), (40, 68)])
def test_the_rows_left_out_move_the_optimum(dropped, ratio):
    fitted = fit(load_dataset("chinchilla").drop_worst(dropped), LAW)
    assert optimal_allocation(fitted, BUDGET).tokens_per_param == pytest.approx(ratio, abs=0.5)


positive = st.floats(0.1, 2.0)


@settings(max_examples=60)
@given(positive, positive, st.floats(-3, 3), st.floats(-3, 3), st.floats(18, 26))
def test_the_search_agrees_with_the_closed_form(a, b, size_n, size_d, log_flops):
    # sizes e^size at 1e9 parameters and 1e11 tokens; a cost whose second term changes no digit is searched
    params = {
        "c_params": math.exp(size_n) * 1e9**a,
        "alpha_params": a,
        "c_tokens": math.exp(size_d) * 1e11**b,
        "alpha_tokens": b,
        "L0": 1.5,
    }
    wide = ((1e-30, 1e60), (1e-30, 1e60))
    searched = parse_cost("6*params*tokens + 1e-250*params")
    closed, found = (best_sizes(LAW, params, 10**log_flops, cost, wide) for cost in (cost_of_runs(), searched))
    assert found.log_params == pytest.approx(closed.log_params, abs=1e-10)
    assert found.log_tokens == pytest.approx(closed.log_tokens, abs=1e-10)
    # (2) written out
    product = 10**log_flops / 6
    n = (math.log(a / b) + math.log(params["c_params"] / params["c_tokens"]) + b * math.log(product)) / (a + b)
    assert closed.log_params[0] == pytest.approx(n, abs=1e-10)
    assert closed.exponent[0] == pytest.approx(b / (a + b), abs=1e-9)
    assert closed.token_exponent[0] == pytest.approx(a / (a + b), abs=1e-9)


@pytest.mark.parametrize("q", [0.5, 1.0, 1.4, 8.0])
def test_coupled_terms_have_their_optimum_where_the_loss_is_least(q):
    a, b, log_a, log_b, l0 = 0.33, 0.28, math.log(300.0), math.log(800.0), 1.7
    terms = TermsInLogs(
        Term(np.array([q * log_a]), np.array([q * a])),
        Term(np.array([q * log_b]), np.array([q * b])),
        None,
        np.array([l0]),
        np.array([q]),
    )
    product = math.log(BUDGET / 6)

    def loss(n):
        return l0 + (math.exp(q * (log_a - a * n)) + math.exp(q * (log_b - b * (product - n)))) ** (1 / q)

    least = minimize_scalar(loss, bounds=(10, 40), method="bounded", options={"xatol": 1e-12})
    from scalefit.optimal.compute import closed_form

    n, w = closed_form(terms.v, terms.u, np.array(product))
    assert n[0] == pytest.approx((math.log(a / b) / q + log_a - log_b + b * product) / (a + b), abs=1e-12)
    assert terms.loss(n, w, None)[0] == pytest.approx(least.fun, rel=1e-12)
    assert loss(n[0]) == pytest.approx(terms.loss(n, w, None)[0], rel=1e-13)


def test_attention_and_embeddings_are_counted_at_a_shape(epoch_fit):
    count = parse_count("llama:context=4096")
    cost = cost_of_runs(1e12, count, ratio=100.0)
    depth = 40.0
    n = float(count.params(100 * depth, depth))
    spent = float(count.train(100 * depth, depth, 3e11)) + 1e12 * float(count.inference_flops(100 * depth, depth))
    assert float(cost.size(n, 3e11)) == pytest.approx(spent, rel=1e-12)
    best = optimal_allocation(epoch_fit, BUDGET, cost=cost)
    assert float(cost.size(best.params, best.tokens)) == pytest.approx(BUDGET, rel=1e-9)
    # no neighbour on the curve is better
    for ratio in (0.9, 1.1):
        _, _, loss = losses_at_ratio(LAW, epoch_fit.params, BUDGET, cost, ratio * best.tokens_per_param)
        assert loss[0] > best.loss


def test_a_declared_cost_is_spent_whole(epoch_fit):
    best = optimal_allocation(epoch_fit, 1e23, cost=parse_cost("6*params*tokens + 2e13*sqrt(params)*log(tokens)"))
    spent = 6 * best.params * best.tokens + 2e13 * math.sqrt(best.params) * math.log(best.tokens)
    assert spent == pytest.approx(1e23, rel=1e-9)


def test_other_ratios_cost_what_the_law_says(epoch_fit, epoch_draws):
    best = optimal_allocation(epoch_fit, BUDGET, epoch_draws, tokens_per_param=[20.0, 200.0])
    for option in best.at_ratios:
        assert option.tokens / option.params == pytest.approx(option.tokens_per_param)
        assert 6 * option.params * option.tokens == pytest.approx(BUDGET)
        loss = float(epoch_fit.predict({"params": option.params, "tokens": option.tokens}))
        assert option.loss == pytest.approx(loss, rel=1e-12)
        assert option.excess == pytest.approx(loss / best.loss - 1, rel=1e-9)
    near, far = best.at_ratios
    assert 0 < near.excess < 1e-4 < far.excess
    assert 0 <= near.interval[0] < near.interval[1] < far.interval[1]


def test_ranges_hold_the_best_size_and_say_so(epoch_fit):
    best = optimal_allocation(epoch_fit, BUDGET, ranges=((1.0, 1e10), (1.0, 1e30)))
    assert best.params == pytest.approx(1e10)
    assert best.tokens == pytest.approx(BUDGET / 6e10)
    capped = optimal_allocation(epoch_fit, BUDGET, ranges=((1.0, 1e30), (1.0, 1e12)))
    assert capped.tokens == pytest.approx(1e12)
    for found in (best, capped):
        assert "optimum-at-edge" in [w.code for w in found.warnings]


def test_least_compute_is_the_inverse_of_the_optimum(epoch_fit, epoch_draws):
    for cost in (cost_of_runs(), cost_of_runs(2e12)):
        loss = best_sizes(LAW, epoch_draws, 1e23, cost).loss
        assert least_compute(LAW, epoch_draws, loss, cost) == pytest.approx(math.log(1e23), abs=1e-9)
    assert least_compute(LAW, epoch_fit.params, epoch_fit.params["L0"], cost_of_runs())[0] == math.inf


def test_what_the_data_leave_open_has_no_optimum():
    rng = np.random.default_rng(0)
    params = np.geomspace(1e8, 1e10, 12)
    loss = (1.7 + 400 / params**0.34 + 2000 / (20 * params) ** 0.37) * np.exp(rng.normal(0, 2e-3, 12))
    on_a_line = fit(Runs.from_columns({"params": params, "tokens": 20 * params, "loss": loss}), LAW)
    best = optimal_allocation(on_a_line, 1e22)
    assert not best.determined
    assert math.isnan(best.params)
    assert [w.code for w in best.warnings] == ["allocation-not-determined"]


def test_pages_and_documents_hold_the_numbers(epoch_fit, epoch_draws):
    best = optimal_allocation(epoch_fit, BUDGET, epoch_draws, tokens_per_param=[20.0])
    page = describe(best)
    assert "C^0.514" in page
    assert "17.93" in page
    found = document(best)
    assert found["budget"] == {"flops": BUDGET}
    assert found["params"] == best.params
    assert found["intervals_by_method"]["pairs"]["tokens"] == pytest.approx(list(best.intervals["tokens"]))
    assert found["at_ratios"][0]["tokens_per_param"] == 20.0


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (lambda f: optimal_allocation(f, 0.0), "must be a positive number"),
        (lambda f: optimal_allocation(f, 1.0), "below the 6 of the smallest run"),
        (lambda f: optimal_allocation(f, 1e20, tokens_per_param=[-1.0]), "tokens per parameter is -1"),
        (lambda _: cost_of_runs(-1.0), "tokens served is -1"),
        (lambda _: cost_of_runs(0.0, parse_count("llama")), "give --ratio"),
        (lambda _: cost_of_runs(0.0, parse_count("llama"), -2.0), "ratio of width to depth is -2"),
        (lambda _: parse_cost("6*params*heads"), "names 'heads'"),
        (lambda _: parse_cost("6*params"), "does not grow with tokens"),
        (lambda _: parse_cost("__import__('os')"), "not allowed"),
    ],
)
def test_refusals(epoch_fit, asked, complaint):
    with pytest.raises(OptionError, match=complaint):
        asked(epoch_fit)


def test_laws_without_both_columns_are_refused(chin203_fit, chin203):
    with pytest.raises(OptionError, match="'width'"):
        optimal_allocation(chin203_fit, 1e20)
    with pytest.raises(OptionError, match="lacks params or tokens"):
        optimal_allocation(fit(chin203, "tokens"), 1e20)
