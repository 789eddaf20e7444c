"""The variance recursion, its limits in depth, and the comparison of two streams."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scalefit.errors import DataError, OptionError
from scalefit.theory import (
    BlockStatistics,
    Criterion,
    Norm,
    Outcome,
    check_measured,
    closed_form,
    compare,
    condition_holds,
    critical_ratio,
    curse_of_depth_path,
    depth_limit,
    first_variance_violation,
    harmonic,
    log_slope,
    norm_path,
    second_site_tolerance,
    tanh_second_moment,
    variance_path,
)

LNS, BHYT = Norm("lns"), Norm("bhyt-exact")


@pytest.mark.parametrize(
    ("name", "variance"),
    [("rmsnorm", 65), ("peri", 65), ("lns", 5.7439), ("bhyt-exact", 1.62755), ("control", 1.640)],
)
def test_variance_after_64_blocks(name, variance):
    assert norm_path(Norm(name), 64).variance[-1] == pytest.approx(variance, abs=5e-6 if variance < 2 else 5e-5)
    assert float(closed_form(Norm(name), 64)) == pytest.approx(norm_path(Norm(name), 64).variance[-1], rel=1e-12)


def test_peri_adds_one_whatever_the_gain():
    assert norm_path(Norm("peri"), 10, gain=7).variance[-1] == pytest.approx(11)


@pytest.mark.parametrize(
    ("ratio", "increments", "variance", "aligned"),
    [(0.1, 102, 732, 379), (0.2, 27, 151, 93), (0.3, 13, 62, 42), (0.5, 6, 22, 16)],
)
def test_first_violations_by_two_routes(ratio, increments, variance, aligned):
    m = float(tanh_second_moment(ratio))
    assert depth_limit(ratio, Criterion.INCREMENTS) + 1 == increments
    assert depth_limit(ratio, Criterion.VARIANCE) + 1 == first_variance_violation(m) == variance
    assert depth_limit(ratio, Criterion.ALIGNED) + 1 == first_variance_violation(m, alignment=(1, 1)) == aligned


@pytest.mark.parametrize(("start", "after"), [(10.0, 7), (1.0, 19), (0.1, 27)])
def test_unequal_alignment_breaks_the_bound(start, after):
    m = float(tanh_second_moment(0.1))
    assert first_variance_violation(m, start=(start, start), alignment=(0.6, 0.0)) == after


def test_common_negative_alignment_breaks_the_bound():
    m = float(tanh_second_moment(0.1))
    assert first_variance_violation(m, start=(10, 10), alignment=(-0.1, -0.1)) == 16
    assert first_variance_violation(1e-4, deepest=100) is None


def test_slopes_of_the_published_recursions():
    assert round(log_slope(curse_of_depth_path(0.0, 200_000), 20_000, 200_000), 4) == 2.0001
    assert round(log_slope(curse_of_depth_path(0.5, 200_000), 20_000, 200_000), 5) == 0.99998


@pytest.mark.parametrize("depth", [1, 4, 64, 100, 1000])
def test_equality_case_is_strict(depth):
    norm = Norm("bhyt-exact", lam=1, kappa=depth**0.5)
    comparison = compare(norm_path(norm, depth), norm_path(LNS, depth), ratio=norm.ratio)
    assert comparison.condition
    assert comparison.increments.verdict is comparison.variances.verdict is Outcome.HOLDS


def test_condition_forgives_rounding():
    assert 0.1**2 > 0.01  # what a naive comparison would trip over
    assert condition_holds(0.1, 100)
    assert not condition_holds(0.1, 101)
    assert depth_limit(0.1, Criterion.CONDITION) == 100


@pytest.mark.parametrize("criterion", Criterion)
@pytest.mark.parametrize("depth", [3, 30, 300])
def test_critical_ratio_and_depth_limit_are_inverse(criterion, depth):
    ratio = critical_ratio(depth, criterion)
    assert depth_limit(0.9999 * ratio, criterion) >= depth > depth_limit(1.0001 * ratio, criterion)


def test_order_of_the_criteria():
    values = [critical_ratio(64, each) for each in (Criterion.CONDITION, Criterion.INCREMENTS, Criterion.ALIGNED)]
    assert values == sorted(values)
    assert values[-1] < critical_ratio(64, Criterion.VARIANCE)
    assert critical_ratio(1, Criterion.INCREMENTS) == np.inf


def test_public_settings():
    three, two = (norm_path(Norm("bhyt-exact", lam=lam), 28) for lam in (3, 2))
    lns = norm_path(LNS, 28)
    broken = lns.block[two.second_moment > lns.second_moment]
    assert list(broken) == [27, 28]
    assert compare(two, lns, ratio=0.2).variances.verdict is Outcome.HOLDS
    assert compare(three, lns, ratio=0.3).increments.layer == 13
    assert condition_holds(0.2, 16)


def test_second_site_tolerance():
    assert second_site_tolerance(2, 10, 16) == pytest.approx(100 / 64)
    q = second_site_tolerance(2, 10, 16)
    assert Norm("bhyt", lam=2).second_moment(16, 1, variance_ratio=q) < 1 / 16
    assert Norm("bhyt", lam=2).second_moment(16, 1, variance_ratio=1.2 * q) > 1 / 16


def test_variance_path_is_the_recursion_written_out():
    v1, V1, rho = 2.0, 0.5, -0.3
    v2 = v1 + V1 + 2 * rho * np.sqrt(v1 * V1)
    path = variance_path([V1, 1.0], v1, [rho, 0.0])
    np.testing.assert_allclose(path, [v1, v2, v2 + 1.0], rtol=1e-14)


def test_harmonic_numbers():
    np.testing.assert_allclose(harmonic([1, 2, 4]), [1, 1.5, 25 / 12], rtol=1e-13)


@settings(deadline=None)
@given(
    arrays(float, 20, elements=st.floats(0, 1)),
    arrays(float, 20, elements=st.floats(0, 1)),
    arrays(float, 20, elements=st.floats(0.1, 10)),
    st.floats(0.1, 1),
)
def test_part_b_holds_for_any_admissible_stream(rho_lns, drop, gain, share):
    """The induction itself: whatever the gains and alignments, assumptions kept give a smaller variance."""
    lns_moment = 1 / np.arange(1, 21)
    bhyt_moment = np.full(20, float(tanh_second_moment(share / 20**0.5)))
    lns = variance_path(gain * lns_moment, 1.0, rho_lns)
    bhyt = variance_path(gain * bhyt_moment, 1.0, np.maximum(rho_lns - drop, -1))
    assert (bhyt[1:] < lns[1:]).all()


def measured(moments, *, start=1.0, gain=1.0, rho=0.0, q=1.0):
    m = np.asarray(moments, float)
    return {
        "block": np.repeat(np.arange(1, m.size // 2 + 1), 2),
        "variance": variance_path(gain * m, start, rho),
        "second_moment": m,
        "increment_variance": gain * m,
        "alignment": np.full(m.size, rho),
        "variance_ratio": np.full(m.size, q),
        "site": np.array(["attention", "mlp"] * (m.size // 2)),
    }


SITES = np.repeat(np.arange(1, 9), 2)


def test_measured_arrays_of_a_model_that_obeys():
    comparison = check_measured(measured(np.full(16, 0.0098)), measured(1 / SITES), ratio=0.1)
    assert comparison.depth == 8
    assert comparison.verdict is Outcome.HOLDS
    assert comparison.condition
    assert comparison.assumptions_hold
    assert comparison.variance_margins.shape == (16,)


@pytest.mark.parametrize(
    ("changes", "ratio", "broken"),
    [
        ({"rho": 0.5}, 0.1, {"alignment-order"}),
        ({"gain": 3.0}, 0.1, {"gain"}),
        ({"start": 2.0}, 0.1, {"start"}),
        ({"q": 40.0}, 0.1, {"second-site"}),
        ({}, 0.5, {"condition"}),
        ({}, 0.09, {"output"}),  # a trained gain: m = .0098 > .09^2
    ],
)
def test_broken_assumptions_are_named(changes, ratio, broken):
    comparison = check_measured(measured(np.full(16, 0.0098), **changes), measured(1 / SITES), ratio=ratio)
    assert {a.name for a in comparison.assumptions if a.holds is False} == broken
    assert not comparison.assumptions_hold


def test_output_is_judged_relative_to_its_bound():
    small = 1e-4
    comparison = check_measured(measured(np.full(16, 1.05 * small**2)), measured(1 / SITES), ratio=small)
    assert [a.name for a in comparison.assumptions if a.holds is False] == ["output"]


def test_violation_names_block_and_condition_its_first():
    bhyt = measured(np.full(16, 0.3))
    comparison = check_measured(bhyt, measured(1 / SITES), ratio=0.56)
    assert comparison.increments.verdict is Outcome.VIOLATED
    assert comparison.increments.layer == 4
    assert comparison.assumptions[0].layer == 4  # .56^2 = .3136: 1/3 obeys, 1/4 does not


def test_negative_common_alignment_is_named():
    pair = (measured(m, rho=-0.1, start=10.0) for m in (np.full(16, 0.0098), 1 / SITES))
    comparison = check_measured(*pair, ratio=0.1)
    assert {a.name for a in comparison.assumptions if a.holds is False} == {"alignment-sign"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alignment": None}, "lack alignment"),
        ({"variance": np.ones(16)}, "variance has shape"),
        ({"second_moment": np.full(16, np.nan)}, "not finite"),
        ({"block": np.arange(16)}, "from 1 upwards"),
        ({"variance": np.ones(17)}, "break v' = v"),
        ({"increment_variance": -np.ones(16)}, "not negative"),
    ],
)
def test_wrong_measurements_are_refused(changes, words):
    arrays_ = {key: value for key, value in (measured(1 / SITES) | changes).items() if value is not None}
    with pytest.raises(DataError, match=words):
        check_measured(arrays_, measured(1 / SITES), ratio=0.1)


def test_sampled_assumptions_are_judged_beyond_their_noise():
    noise = 1e-4 * np.random.default_rng(0).standard_normal((16, 16))
    pair = []
    for m, rho in ((np.full(16, 0.0098), 0.0), (1 / SITES, 0.0)):
        facts = measured(m)
        pair.append(
            BlockStatistics.from_mapping(
                {
                    name: np.tile(facts[name], (16, 1)) if name != "block" else facts[name]
                    for name in facts
                    if name != "site"
                }
                | {"alignment": rho + noise}
            )
        )
    comparison = compare(*pair, ratio=0.1)
    assert comparison.variances.n_samples == 16
    assert comparison.assumptions_hold  # rho of LNS is negative in half the seeds, by noise
    # noise shows no sign: not broken, and not held either; both streams share it, so their order is exact
    held = {a.name: a.holds for a in comparison.assumptions}
    assert held == dict.fromkeys(held, True) | {"alignment-sign": None}
    few = compare(
        *(
            BlockStatistics(s.block, s.variance[:3], s.second_moment[:3], s.increment_variance[:3], s.alignment[:3])
            for s in pair
        ),
        ratio=0.1,
    )
    assert few.verdict is Outcome.INCONCLUSIVE
    assert {a.holds for a in few.assumptions[1:]} == {None}


def test_different_sites_are_refused():
    with pytest.raises(DataError, match="16 and 8 sites"):
        compare(
            BlockStatistics.from_mapping(measured(1 / SITES)),
            BlockStatistics.from_mapping(measured(1 / SITES[:8])),
            ratio=0.1,
        )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: norm_path(BHYT, 0), "depth is 0"),
        (lambda: norm_path(BHYT, 4, gain=-1), "gain -1"),
        (lambda: critical_ratio(0, Criterion.VARIANCE), "depth is 0"),
        (lambda: depth_limit(float("nan"), Criterion.VARIANCE), "nan"),
        (lambda: second_site_tolerance(1, 0, 4), "kappa 0"),
        (lambda: first_variance_violation(float("nan")), "moment is nan"),
        (lambda: first_variance_violation(0.1, alignment=(2.0, 0.0)), "alignment"),
        (lambda: closed_form(Norm("dyt"), 4), "Dynamic Tanh"),
        (lambda: condition_holds(0.0, 4), "ratio"),
        (lambda: curse_of_depth_path(0.0, 0), "depth is 0"),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(OptionError, match=words):
        call()
