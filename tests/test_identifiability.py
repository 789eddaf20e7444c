"""Verdicts on tables whose truth is known: what cannot be told is named, what can is not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from known_tables import T27_LAW, t27_columns

from scalefit.fitting.fit import fit
from scalefit.identifiability import Verdict
from scalefit.runs import Runs

NOISE = 0.005


def table(width, depth, tokens, seed=0, c_depth=10.0):
    """Rows of the T27 law with relative normal noise of `NOISE`."""
    width, depth, tokens = (np.asarray(x, dtype=float) for x in (width, depth, tokens))
    loss = 1.7 + 300 / width + c_depth / depth + T27_LAW["c_tokens"] / tokens**0.3
    rng = np.random.default_rng(seed)
    loss = loss * np.exp(NOISE * rng.standard_normal(len(loss)))
    return Runs.from_columns({"width": width, "depth": depth, "tokens": tokens, "loss": loss})


def grid(*levels):
    return np.array(list(itertools.product(*levels)), dtype=float).T


def codes(fitted):
    return {w.code for w in fitted.warnings}


def having(fitted, verdict):
    return {name for name, given in fitted.verdicts.items() if given is verdict}


@pytest.mark.parametrize(("errors", "weak"), [("rows", 0), ("auto", 20)])
def test_a_well_designed_table_leaves_nothing_open(errors, weak):
    """By row every parameter is determined; nine shapes tell their own scatter with three degrees of freedom."""
    alarms = 0
    for seed in range(200):
        fitted = fit(Runs.from_columns(t27_columns(NOISE, seed)), n_starts=4, errors=errors)
        assert not having(fitted, Verdict.NOT_DETERMINED)
        alarms += bool(having(fitted, Verdict.WEAK)) or bool(fitted.warnings)
    # None of 200: the false-alarm rate is below 1.5 % with 95 % confidence.
    assert alarms <= weak


@pytest.mark.parametrize("seed", range(5))
def test_one_shape_line_cannot_tell_width_from_depth(seed):
    width, tokens = grid([256, 512, 768, 1024, 2048, 4096], [1e9, 1e10, 1e11])
    fitted = fit(table(width, width / 64, tokens, seed))
    assert {"c_width", "alpha_width", "c_depth", "alpha_depth"} <= having(fitted, Verdict.NOT_DETERMINED)
    assert fitted.verdicts["alpha_tokens"] is Verdict.DETERMINED
    (remark,) = [w for w in fitted.warnings if w.code == "tied-columns"]
    assert remark.numbers["identified_law"] == "width+tokens"
    assert "term-below-noise" not in codes(fitted)


@pytest.mark.parametrize(("depths", "code"), [([12], "constant-column"), ([12, 24], "few-levels")])
def test_too_few_depths_determine_no_depth_exponent(depths, code):
    width, depth, tokens = grid([256, 512, 1024, 2048], depths, [1e9, 4e9, 1.6e10, 6.4e10])
    fitted = fit(table(width, depth, tokens))
    assert {"c_depth", "alpha_depth", "L0"} <= having(fitted, Verdict.NOT_DETERMINED)
    assert "alpha_tokens" in having(fitted, Verdict.DETERMINED)
    # One depth leaves four shapes, with one degree of freedom beside the three parameters of width.
    assert len(depths) == 1 or fitted.verdicts["alpha_width"] is Verdict.DETERMINED
    assert code in codes(fitted)


def test_a_constant_number_of_tokens_per_parameter_is_one_curve():
    params = np.geomspace(1e7, 1e10, 20)
    loss = 1.7 + 400 / params**0.34 + 400 / (20 * params) ** 0.28
    loss *= np.exp(NOISE * np.random.default_rng(0).standard_normal(20))
    fitted = fit(Runs.from_columns({"params": params, "tokens": 20 * params, "loss": loss}), "params+tokens")
    assert {"alpha_params", "alpha_tokens"} <= having(fitted, Verdict.NOT_DETERMINED)
    assert "tied-columns" in codes(fitted)


@pytest.mark.parametrize("seed", range(5))
def test_with_width_and_depth_it_leaves_the_tokens_exponent_weak_at_best(seed):
    width, depth = grid([256, 512, 1024, 2048], [8, 16, 32])
    width, depth = np.tile(width, 2), np.tile(depth, 2)
    fitted = fit(table(width, depth, 20 * 12 * width**2 * depth, seed))
    assert fitted.verdicts["alpha_tokens"] is not Verdict.DETERMINED
    (remark,) = [w for w in fitted.warnings if w.code == "constant-ratio"]
    assert remark.numbers["column"] == "tokens"
    rounded = fit(table(width, depth, np.round(20 * 12 * width**2 * depth, -6), seed))
    assert "constant-ratio" in codes(rounded)


def test_a_term_below_the_noise_is_named():
    found = 0
    for seed in range(20):
        fitted = fit(table(*grid([512, 1024, 2048], [8, 16, 32], [1e9, 1e10, 1e11]), seed, c_depth=0.02))
        assert fitted.verdicts["alpha_depth"] is Verdict.NOT_DETERMINED
        assert {"alpha_width", "alpha_tokens"} <= having(fitted, Verdict.DETERMINED)
        assert codes(fitted) & {"term-below-noise", "vanished-term"}
        for warning in fitted.warnings:
            if warning.code == "term-below-noise":
                found += 1
                assert warning.numbers["column"] == "depth"
                assert warning.numbers["change"] < 2 * warning.numbers["noise"]
    assert found > 5


def test_the_least_sure_direction_is_said_in_words():
    rng = np.random.default_rng(1)
    width, tokens = grid([256, 512, 1024, 2048], [1e9, 1e10, 1e11])
    depth = width / 64 * np.exp(0.05 * rng.standard_normal(len(width)))
    texts = []
    for seed in range(10):
        fitted = fit(table(width, depth, tokens, seed))
        texts += [w.message for w in fitted.warnings if w.code in ("weakly-determined", "not-determined")]
    sentences = [text for text in texts if "Least sure is the direction" in text]
    assert sentences
    # The two exponents trade off: one up, the other down.
    assert any(
        ("alpha_width -" in t and "alpha_depth +" in t) or ("alpha_width +" in t and "alpha_depth -" in t)
        for t in sentences
    )
