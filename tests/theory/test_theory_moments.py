"""Second moments against published digits, exact limits and independent routes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalefit.errors import OptionError
from scalefit.theory import (
    INPUT_LAWS,
    Norm,
    coverage_of_kappa,
    ideal_break_even,
    ideal_moment_bound,
    ideal_second_moment,
    input_law,
    kappa_of_coverage,
    scale_of_second_moment,
    silu_second_moment,
    sphere_second_moment,
    swiglu_increment,
    tanh_second_moment,
    three_point_law,
)

REFERENCE = {
    0.05: 0.002487588,
    0.1: 0.009805469,
    0.2: 0.037117587,
    0.3: 0.076949693,
    0.5: 0.173516143,
    1.0: 0.394294490,
}


@pytest.mark.parametrize(("scale", "moment"), REFERENCE.items())
def test_gaussian_moments_to_the_printed_digits(scale, moment):
    assert float(tanh_second_moment(scale)) == pytest.approx(moment, rel=1e-6)
    assert INPUT_LAWS["normal"].tanh_second_moment(scale) == pytest.approx(moment, rel=1e-6)


def test_steep_tanh_is_a_sign():
    # E tanh^2(aZ) = 1 - E sech^2(aZ) -> 1 - 2 phi(0) / a for large a
    assert float(tanh_second_moment(20.0)) == pytest.approx(1 - 2 * 0.3989423 / 20, abs=2e-4)


@given(st.floats(1e-3, 3), st.floats(0, 4))
def test_moment_is_below_the_square_it_linearises(scale, mean):
    assert float(tanh_second_moment(scale, mean)) < scale**2 * (1 + mean**2)


@given(st.floats(1e-4, 0.85))
def test_inverse_of_the_moment(moment):
    assert float(tanh_second_moment(scale_of_second_moment(moment))) == pytest.approx(moment, rel=1e-9)


def test_sphere_moment_by_simulation_and_its_wide_limit():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((20_000, 8))
    u = np.tanh(0.8 * x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True)))
    token = np.mean(u**2, axis=-1)
    assert sphere_second_moment(0.8, 8) == pytest.approx(token.mean(), abs=4 * token.std() / 20_000**0.5)
    # the next order is smaller by a factor of order scale^2
    excess = sphere_second_moment(0.05, 1000) - float(tanh_second_moment(0.05))
    assert excess == pytest.approx(4 * 0.05**4 / 1002, rel=0.03)


def test_break_even_of_the_ideal_form():
    assert ideal_break_even(10) == pytest.approx(0.20202, abs=1e-5)
    assert ideal_break_even(1) == np.inf
    t = ideal_break_even(10)
    assert float(ideal_moment_bound(3, 10, t)) == pytest.approx(0.09)
    assert float(ideal_second_moment(1, 10, 10.0)) > 0.1**2 > float(ideal_second_moment(1, 10, 0.1))


def test_silu_and_swiglu_at_small_amplitude():
    assert float(silu_second_moment(1e-8)) == pytest.approx(0.25e-8, rel=1e-6)
    assert float(swiglu_increment(1e-4, gain=2.0)) == pytest.approx(2 * 1e-8 / 4, rel=1e-3)


@pytest.mark.parametrize("name", ["normal", "laplace", "student-t3"])
def test_laws_have_unit_variance(name):
    assert INPUT_LAWS[name].distribution.var() == pytest.approx(1)
    assert INPUT_LAWS[name].distribution.mean() == 0


def test_one_outlier_holds_half_of_the_square():
    x = input_law("one-outlier").sample(np.random.default_rng(0), (50, 256))
    assert np.sum(x[:, 0] ** 2) / np.sum(x**2) == pytest.approx(0.5, abs=0.01)


def test_chebyshev_pair_and_its_extremal_law():
    assert kappa_of_coverage(0.99) == pytest.approx(10)
    assert coverage_of_kappa(kappa_of_coverage(0.3)) == pytest.approx(0.3)
    values, probabilities = three_point_law(4.0)
    assert probabilities.sum() == pytest.approx(1)
    assert values @ probabilities == 0
    assert values**2 @ probabilities == pytest.approx(1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Norm("layernorm"), "layernorm"),
        (lambda: Norm("bhyt", kappa=0), "kappa is 0"),
        (lambda: Norm("bhyt", kappa=-3.0), "kappa is -3"),
        (lambda: Norm("bhyt", lam=float("nan")), "lambda is nan"),
        (lambda: kappa_of_coverage(1.0), "probability"),
        (lambda: coverage_of_kappa(-1), "kappa is -1"),
        (lambda: input_law("uniform"), "uniform"),
        (lambda: scale_of_second_moment(1.5), r"1\.5"),
        (lambda: sphere_second_moment(0.1, 2), "width is 2"),
    ],
)
def test_wrong_arguments_name_themselves(call, words):
    with pytest.raises(OptionError, match=words):
        call()


@pytest.mark.parametrize("name", ["rmsnorm", "lns", "control", "dyt", "bhyt", "bhyt-exact", "bhyt-ideal"])
@pytest.mark.parametrize("mean", [0.0, 0.7])
def test_norm_output_has_the_moment_it_states(name, mean):
    norm, rng = Norm(name, lam=4), np.random.default_rng(7)
    x = 1.5 * rng.standard_normal((2000, 512)) + mean
    measured = np.mean(norm.apply(x, 3) ** 2)
    stated = norm.second_moment(3, 1.5**2 + mean**2, mean)
    # at width 512 a token's |mu| is about s/sqrt(512) even at mean 0: 2 x .8 / (kappa sqrt(512)) = .7 % for the ideal
    # form; every other statistic shifts the moment by O(1/512)
    assert measured == pytest.approx(stated, rel=8e-3 if name == "bhyt-ideal" else 3e-3)


def test_bhyt_with_a_given_statistic_sees_q():
    norm, x = Norm("bhyt", lam=3), np.random.default_rng(0).standard_normal((4000, 256))
    square = np.mean(x**2, axis=-1, keepdims=True)
    measured = np.mean(norm.apply(x, 1, square / 2) ** 2)
    assert measured == pytest.approx(norm.second_moment(1, 1.0, variance_ratio=2), rel=3e-3)
    assert measured < 2 * norm.ratio**2
    np.testing.assert_allclose(norm.apply(x, 1, square), norm.apply(x, 1), rtol=1e-13)
