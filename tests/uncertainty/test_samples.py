"""Samples: quantiles, corrections, derived quantities, and a file that gives back every bit."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from scipy import stats

from scalefit.errors import DataError, OptionError, ScalefitWarning
from scalefit.laws.law import Law
from scalefit.laws.terms import PowerTerm
from scalefit.uncertainty.samples import Samples, percentile_interval

LAW = Law.parse("width+depth")


def normal_samples(n=4000, **options):
    rng = np.random.default_rng(5)
    centre = np.array([5.0, 0.9, 2.0, 1.3, 1.7])
    draws = centre * np.exp(0.1 * rng.standard_normal((n, 5)))
    estimate = dict(zip(LAW.parameter_names, centre, strict=True))
    return Samples(LAW, LAW.parameter_names, draws, "example", estimate, **options)


def test_interval_is_the_quantiles():
    samples = normal_samples()
    assert samples.interval("alpha_depth", 0.9) == percentile_interval(samples["alpha_depth"], 0.9)
    assert samples.interval("alpha_depth", 0.9) == tuple(np.quantile(samples.draws[:, 3], [0.05, 0.95]))


def test_bca_without_correction_is_percentile_and_bias_shifts_it():
    plain = normal_samples(corrections={"L0": (0.0, 0.0)})
    assert plain.interval("L0", kind="bca") == pytest.approx(plain.interval("L0"), rel=1e-14)
    shifted = normal_samples(corrections={"L0": (0.5, 0.0)})
    # With a = 0 the corrected tail is Phi(2 z0 + z).
    tails = stats.norm.cdf(1.0 + stats.norm.ppf([0.025, 0.975]))
    assert shifted.interval("L0", kind="bca") == pytest.approx(tuple(np.quantile(shifted["L0"], tails)))


def test_bca_stretches_the_tail_that_the_estimator_is_skewed_to():
    """Efron (1987), equation 2.3: with z0 = a = 0.1 the tails are Phi(0.1 + w / (1 - 0.1 w)), w = 0.1 -+ 1.96."""
    samples = normal_samples(corrections={"L0": (0.1, 0.1)})
    w = 0.1 + np.array([-1.959964, 1.959964])
    tails = stats.norm.cdf(0.1 + w / (1 - 0.1 * w))
    assert tails == pytest.approx([0.07102, 0.99647], abs=1e-5)
    assert samples.interval("L0", kind="bca") == pytest.approx(tuple(np.quantile(samples["L0"], tails)), rel=1e-6)


def test_endpoint_errors_match_repetition():
    rng = np.random.default_rng(0)
    law = Law.parse("depth")
    ends = []
    for _ in range(300):
        draws = rng.standard_normal((1000, 3))
        samples = Samples(law, law.parameter_names, draws, "example", {})
        ends.append((*samples.interval("L0"), *samples.endpoint_errors("L0")))
    ends = np.array(ends)
    # The standard deviation of 300 values is known to 4 %; the estimate of one sample is unbiased to 10 %.
    assert ends[:, 2:].mean(axis=0) == pytest.approx(ends[:, :2].std(axis=0), rel=0.2)


def test_dependent_draws_have_larger_endpoint_errors():
    free, dependent = normal_samples(), normal_samples(diagnostics={"ess": {"L0": 400}})
    ratios = np.divide(dependent.endpoint_errors("L0"), free.endpoint_errors("L0"))
    # sqrt(4000 / 400) = 3.2, within the noise of quantiles that are 0.3 % apart.
    assert ratios == pytest.approx([3.2, 3.2], rel=0.3)


def test_predict_agrees_with_the_law_draw_by_draw():
    samples = normal_samples(7)
    points = {"width": np.array([64.0, 512.0]), "depth": np.array([4.0, 32.0])}
    predicted = samples.predict(points)
    for i in range(7):
        np.testing.assert_allclose(predicted[i], LAW.predict(points, samples.params(i)), rtol=1e-14)


def test_correlations_of_a_fixed_parameter_are_nan():
    draws = normal_samples().draws.copy()
    draws[:, 4] = 1.7
    matrix = Samples(LAW, LAW.parameter_names, draws, "example", {}).correlations()
    assert np.isnan(matrix[4]).all()
    assert np.isfinite(matrix[:4, :4]).all()


def test_saved_and_loaded_without_loss(tmp_path):
    warning = ScalefitWarning("code", "seen", "do", {"values": np.array([1, 2]), "share": np.float64(1 / 3)})
    samples = normal_samples(
        20,
        n_chains=4,
        level=0.9,
        corrections={"L0": (0.1, -0.2)},
        reservations={"L0": "a third of the replicates sit at 0"},
        diagnostics={"ess": {"L0": 11.5}, "converged": 1.0},
        warnings=(warning,),
    )
    samples.save(tmp_path / "one.npz")
    samples.save(tmp_path / "two.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    again = Samples.load(tmp_path / "one.npz")
    np.testing.assert_array_equal(again.draws, samples.draws)
    for name in ("law", "names", "method", "estimate", "level", "n_chains", "corrections", "reservations"):
        assert getattr(again, name) == getattr(samples, name)
    assert again.diagnostics == {"ess": {"L0": 11.5}, "converged": 1.0}
    assert again.warnings == (ScalefitWarning("code", "seen", "do", {"values": [1, 2], "share": 1 / 3}),)


def test_a_shift_with_many_digits_survives(tmp_path):
    law = Law((PowerTerm("depth", 1.23456789012345),), irreducible=False)
    Samples(law, law.parameter_names, [[1.0, 2.0]], "example", {}).save(tmp_path / "x.npz")
    assert Samples.load(tmp_path / "x.npz").law == law


def test_a_foreign_file_is_refused(tmp_path):
    (tmp_path / "x.npz").write_text("no")
    with pytest.raises(DataError, match="does not hold samples"):
        Samples.load(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("draws", "names", "message"),
    [
        (np.ones((3, 4)), LAW.parameter_names, "shape"),
        (np.full((3, 5), np.nan), LAW.parameter_names, "NaN"),
        (np.ones((3, 5)), LAW.parameter_names[::-1], "must begin with"),
    ],
)
def test_malformed_draws_are_refused(draws, names, message):
    with pytest.raises(DataError, match=message):
        Samples(LAW, names, draws, "example", {})


def test_unknown_names_kinds_and_levels_are_refused():
    samples = normal_samples(10)
    with pytest.raises(OptionError, match="no draws of 'alpha_tokens'"):
        samples["alpha_tokens"]
    with pytest.raises(OptionError, match="choose percentile or bca"):
        samples.interval("L0", kind="basic")
    with pytest.raises(OptionError, match="no BCa correction"):
        samples.interval("L0", kind="bca")
    with pytest.raises(OptionError, match="between 0 and 1"):
        samples.interval("L0", level=95)


def test_a_damaged_file_of_samples_is_refused_in_a_sentence(tmp_path):
    law = Law.parse("depth")
    draws = Samples(law, law.parameter_names, np.ones((50, 3)), "example", dict.fromkeys(law.parameter_names, 1.0))
    path = tmp_path / "draws.npz"
    draws.save(path)
    whole = path.read_bytes()
    assert np.array_equal(Samples.load(path).draws, draws.draws)
    rng = np.random.default_rng(0)
    for i in range(60):
        damaged = bytearray(whole)
        if i % 3 == 0:
            damaged = damaged[: rng.integers(len(whole))]
        else:
            for place in rng.integers(0, len(whole), 1 + i % 5):
                damaged[place] = rng.integers(256)
        path.write_bytes(bytes(damaged))
        with contextlib.suppress(DataError):  # nothing else may come out
            Samples.load(path).summary()
    np.savez_compressed(path, draws=np.zeros((1000, 3)), header=np.array("{}"))
    with pytest.raises(DataError, match="is compressed"):
        Samples.load(path)
    path.write_text("no archive")
    with pytest.raises(DataError, match="does not hold samples"):
        Samples.load(path)
