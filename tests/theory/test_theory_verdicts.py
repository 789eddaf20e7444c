"""Verdicts: HOLDS only on evidence, VIOLATED with the layer, INCONCLUSIVE where noise or too few seeds decide."""

import numpy as np
import pytest

from scalefit.theory import Judgement, Outcome
from scalefit.theory.checks.registry import Finding
from scalefit.theory.verdict import (
    MIN_SEEDS,
    Assumption,
    judge_above,
    judge_equality,
    judge_every_sample,
    judge_margin,
    judge_sampled_above,
    judge_sampled_equality,
    judge_sampled_margin,
    simultaneous_z,
    worst,
)

LAYERS = np.arange(1, 6)


def noisy(margins, noise, n_seeds=64, seed=0):
    rng = np.random.default_rng(seed)
    return np.asarray(margins) + noise * rng.standard_normal((n_seeds, len(margins)))


def test_clear_margins_hold():
    assert judge_sampled_margin(noisy([1.0] * 5, 0.5), 0.0, LAYERS).verdict is Outcome.HOLDS


def test_violation_reports_the_first_layer():
    found = judge_sampled_margin(noisy([1, 1, -1, 1, -1], 0.1), 0.0, LAYERS)
    assert (found.verdict, found.layer, found.n_samples) == (Outcome.VIOLATED, 3, 64)


def test_noise_is_inconclusive_at_its_layer():
    found = judge_sampled_margin(noisy([1, 0.001, 1, 1, 1], 0.1), 0.0, LAYERS)
    assert (found.verdict, found.layer) == (Outcome.INCONCLUSIVE, 2)


@pytest.mark.parametrize("n_seeds", range(1, MIN_SEEDS))
@pytest.mark.parametrize("margin", [1.0, -1.0])
def test_too_few_seeds_never_decide(n_seeds, margin):
    samples = noisy([margin] * 5, 1e-6, n_seeds)
    assert judge_sampled_margin(samples, 0.0, LAYERS).verdict is Outcome.INCONCLUSIVE
    found = judge_sampled_equality(margin, samples[:, 0], largest_error=1.0)
    assert found.verdict is Outcome.INCONCLUSIVE


def test_zero_margin_without_noise_is_no_strict_inequality():
    found = judge_sampled_margin(np.ones((16, 5)), np.ones((16, 5)), LAYERS)
    assert (found.verdict, found.layer) == (Outcome.VIOLATED, 1)
    assert judge_margin([1.0, 1.0], [0.5, 1.0], [1, 2]).layer == 2
    assert judge_margin([1.0], [np.nan], [1]).verdict is Outcome.VIOLATED


def test_simultaneous_z_grows_with_layers_and_with_fewer_seeds():
    assert simultaneous_z(64, 1) < simultaneous_z(64, 64) < simultaneous_z(10, 64)


def test_true_null_is_rarely_decided():
    """With margin 0 in all layers, a decision is a false alarm: at most 1e-4 of the comparisons."""
    verdicts = [judge_sampled_margin(noisy([0] * 5, 1.0, 10, s), 0.0, LAYERS).verdict for s in range(500)]
    assert verdicts.count(Outcome.INCONCLUSIVE) >= 498


def test_equality_needs_agreement_and_precision():
    samples = 1 + 0.1 * np.random.default_rng(0).standard_normal(100)
    assert judge_sampled_equality(1.0, samples, largest_error=0.02).verdict is Outcome.HOLDS
    assert judge_sampled_equality(1.0, samples, largest_error=0.001).verdict is Outcome.INCONCLUSIVE
    assert judge_sampled_equality(1.2, samples, largest_error=0.02).verdict is Outcome.VIOLATED
    assert judge_equality(1.0, 1.0 + 1e-7, rtol=1e-6).verdict is Outcome.HOLDS
    assert judge_equality(1.0, np.nan, rtol=1e-6).verdict is Outcome.VIOLATED


def test_equality_from_few_seeds_is_violated_only_beyond_their_own_t_quantile():
    values = np.array([-1.0, 1.0] * 4)  # standard error 0.378
    error = values.std(ddof=1) / 8**0.5
    verdicts = {z: judge_sampled_equality(z * error, values, largest_error=1.0).verdict for z in (3, 6, 9)}
    assert simultaneous_z(8, 1) > 7
    assert verdicts == {3: Outcome.HOLDS, 6: Outcome.INCONCLUSIVE, 9: Outcome.VIOLATED}


def test_claims_of_more_than_a_limit_report_limit_and_value_in_their_places():
    found = judge_above([1.0, 2.0], [1.5, 1.9], [1, 2])
    assert (found.verdict, found.predicted, found.estimated, found.layer) == (Outcome.VIOLATED, 2.0, 1.9, 2)
    assert judge_above(0.0, 3.0, [1]).verdict is Outcome.HOLDS
    found = judge_sampled_above(0.0, noisy([1.0, 2.0], 0.1), [1, 2])
    assert found.verdict is Outcome.HOLDS
    assert (found.predicted, found.estimated) == (0.0, pytest.approx(1.0, abs=0.05))
    assert judge_sampled_above(0.0, noisy([-1.0], 0.1), [1]).verdict is Outcome.VIOLATED


def test_one_sample_refutes_what_is_claimed_of_every_one():
    largest = np.full(20, 0.5)
    assert judge_every_sample(1.0, largest).verdict is Outcome.HOLDS
    assert judge_every_sample(1.0, largest[:7]).verdict is Outcome.INCONCLUSIVE
    largest[3] = 1.0  # the mean is far below the limit
    found = judge_every_sample(1.0, largest)
    assert (found.verdict, found.estimated) == (Outcome.VIOLATED, 1.0)
    assert judge_every_sample(1.0, [0.5] * 9 + [np.nan]).verdict is Outcome.VIOLATED


def test_worst_of_several():
    assert worst([]) is Outcome.HOLDS
    assert worst([Outcome.HOLDS, Outcome.INCONCLUSIVE]) is Outcome.INCONCLUSIVE
    assert worst([Outcome.INCONCLUSIVE, Outcome.VIOLATED, Outcome.HOLDS]) is Outcome.VIOLATED


def test_json_has_null_for_numbers_that_do_not_exist():
    judgement = Judgement(Outcome.INCONCLUSIVE, 1.0, 2.0, float("nan"), 3, 1)
    result = Finding("claim", judgement, (Assumption("gain", "text", False, 2),), "name")
    assert result.to_dict() == {
        "check": "name",
        "claim": "claim",
        "verdict": "INCONCLUSIVE",
        "predicted": 1.0,
        "estimated": 2.0,
        "standard_error": None,
        "layer": 3,
        "n_samples": 1,
        "assumptions": [{"name": "gain", "text": "text", "holds": False, "layer": 2}],
    }
    assert str(result.assumptions[0]) == "gain: text: broken (first at layer 2)"
