"""The likelihood against SciPy's densities with the covariance written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal, t

import scalefit as sf
from scalefit.uncertainty.posterior.likelihood import Likelihood, Noise
from scalefit.uncertainty.posterior.target import build_target

RNG = np.random.default_rng(5)
WEIGHTS = RNG.uniform(0.5, 2.0, 11)
FIRST_ROWS = np.array([0, 1, 4, 9])
RESIDUALS = 0.01 * RNG.standard_normal((3, 11))
NO_RUNS = np.empty(0, dtype=np.intp)


def dense_covariance(sigma, sigma_run):
    run = np.repeat(np.arange(4), np.diff(FIRST_ROWS, append=11))
    return np.diag(sigma**2 / WEIGHTS) + sigma_run**2 * (run[:, None] == run)


def test_a_run_effect_integrated_out_is_a_block_covariance():
    likelihood = Likelihood(Noise.GAUSSIAN, np.sqrt(WEIGHTS), "sigma_run", FIRST_ROWS)
    scales = np.array([[0.01, 0.02], [0.03, 1e-4], [0.004, 0.1]])
    found = likelihood.log_density(RESIDUALS, np.log(scales))
    expected = [multivariate_normal(cov=dense_covariance(*s)).logpdf(r) for s, r in zip(scales, RESIDUALS, strict=True)]
    assert found == pytest.approx(expected, rel=1e-10)


def test_whitening_is_a_root_of_the_inverse_covariance():
    likelihood = Likelihood(Noise.GAUSSIAN, np.sqrt(WEIGHTS), "sigma_run", FIRST_ROWS)
    white = likelihood.whiten(np.eye(11)[None], np.log([[0.01, 0.02]]))[0]
    assert white @ white.T == pytest.approx(np.linalg.inv(dense_covariance(0.01, 0.02)), rel=1e-9, abs=1e-6)


def test_independent_gaussian_rows():
    likelihood = Likelihood(Noise.GAUSSIAN, np.sqrt(WEIGHTS), "", NO_RUNS)
    found = likelihood.log_density(RESIDUALS, np.log(np.full((3, 1), 0.013)))
    assert found == pytest.approx(multivariate_normal(cov=np.diag(0.013**2 / WEIGHTS)).logpdf(RESIDUALS), rel=1e-10)


def test_student_t_rows():
    likelihood = Likelihood(Noise.STUDENT_T, np.sqrt(WEIGHTS), "", NO_RUNS)
    found = likelihood.log_density(RESIDUALS, np.log(np.tile([0.013, 4.0], (3, 1))))
    expected = t(df=4, scale=0.013 / np.sqrt(WEIGHTS)).logpdf(RESIDUALS).sum(axis=1)
    assert found == pytest.approx(expected, rel=1e-10)


def test_points_are_evaluated_together_as_they_are_one_by_one():
    target = build_target(sf.fit(sf.load_dataset("gemstones")))
    assert target.likelihood.names == ("sigma", "sigma_run")
    start = target.point_of(sf.fit(sf.load_dataset("gemstones")))
    points = start * (1 + 0.01 * RNG.standard_normal((5, len(start))))
    points[4, 0] = -1.0
    together = target.log_posterior(points)
    assert together[4] == -np.inf
    assert together == pytest.approx(np.concatenate([target.log_posterior(p[None]) for p in points]), rel=1e-12)


def test_the_posterior_peaks_where_the_residuals_are_small():
    fitted = sf.fit(sf.load_dataset("chinchilla").drop_worst(40))
    target = build_target(fitted)
    start = target.point_of(fitted)
    plain = dict(zip(target.names, target.plain(start[None])[0], strict=True))
    assert {name: plain[name] for name in fitted.params} == pytest.approx(dict(fitted.params), rel=1e-9)
    assert plain["sigma"] == pytest.approx(np.sqrt(fitted.objective_value), rel=1e-9)
    gaussian = multivariate_normal(cov=plain["sigma"] ** 2 * np.eye(203)).logpdf(fitted.residuals)
    assert target.log_likelihood(start[None])[0] == pytest.approx(gaussian, rel=1e-10)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"noise": "cauchy"}, "unknown noise 'cauchy'"),
        ({"by": "model"}, "unknown grouping 'model'"),
        ({"noise": "student-t"}, "gemstones.csv has several rows per run"),
    ],
)
def test_what_cannot_be_assumed_is_refused_with_the_way_out(options, named):
    with pytest.raises(sf.OptionError, match=named):
        build_target(sf.fit(sf.load_dataset("gemstones")), **options)


def test_a_robust_objective_means_student_t_noise():
    fitted = sf.fit(sf.load_dataset("chinchilla").drop_worst(40), objective="log-huber:1e-3")
    assert build_target(fitted).likelihood.names == ("sigma", "nu")


def test_a_table_without_noise_has_no_posterior():
    x = np.geomspace(10, 1e4, 20)
    fitted = sf.fit(sf.Runs.from_columns({"tokens": x, "loss": 1.7 + 5 / x**0.5}), "tokens")
    with pytest.raises(sf.FitError, match="no noise") as caught:
        build_target(fitted)
    assert caught.value.partial is fitted
