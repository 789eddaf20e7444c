"""The importance sampler: exact where the answer is known, calibrated, reproducible, and honest when it fails."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest, t

import scalefit as sf
from scalefit.uncertainty.posterior.importance import importance_sample, resampled
from scalefit.uncertainty.posterior.priors import LogNormal, Normal, Uniform
from scalefit.uncertainty.samples import to_arviz

RNG = np.random.default_rng(11)


@pytest.fixture(scope="module")
def chinchilla():
    return sf.fit(sf.load_dataset("chinchilla").drop_worst(40))


def test_a_linear_law_has_the_posterior_of_the_textbook():
    """With the exponent fixed and plain residuals the law is a regression, whose coefficients are Student-t."""
    depth = np.round(np.geomspace(2, 64, 30))
    loss = 2 + 4 / depth**0.5 + 0.02 * RNG.standard_normal(30)
    fitted = sf.fit(
        sf.Runs.from_columns({"depth": depth, "loss": loss}),
        "depth",
        "mse",
        constraints=sf.Constraints.parse(fix=["alpha_depth=0.5"]),
    )
    # Flat in c and L0, and so wide in ln sigma as to be flat there: the reference prior.
    flat = {"size_depth": Uniform(0, 10), "L0": Uniform(0, 10), "sigma": LogNormal(0.02, 20)}
    posterior = importance_sample(fitted, 40_000, priors=flat)
    design = np.stack([depth**-0.5, np.ones(30)], axis=1)
    beta, rss, *_ = np.linalg.lstsq(design, loss, rcond=None)
    error = np.sqrt(rss[0] / 28 * np.diag(np.linalg.inv(design.T @ design)))
    for name, centre, scale in zip(("c_depth", "L0"), beta, error, strict=True):
        exact = t(28, centre, scale)
        # Ends of 30,000 effective draws: standard error 1.6 % of the scale; four of them.
        assert posterior.interval(name) == pytest.approx(exact.interval(0.95), abs=0.065 * scale)
        assert np.median(posterior[name]) == pytest.approx(centre, abs=0.03 * scale)
    assert posterior.diagnostics["khat"] < 0.5


def test_chinchilla(chinchilla):
    """Reference: a posterior of other priors and another sampler, [0.92, 1.74]."""
    posterior = importance_sample(chinchilla)
    assert posterior.interval("alpha_depth") == pytest.approx((0.92, 1.74), abs=0.04)
    assert posterior.diagnostics["khat"] < 0.3
    assert posterior.diagnostics["ess"]["alpha_depth"] > 12_000
    assert not posterior.reservations
    assert posterior.names == (*chinchilla.law.parameter_names, "sigma")


def test_the_same_seed_gives_the_same_draws(chinchilla):
    once, again = (importance_sample(chinchilla, 1000, seed=7) for _ in range(2))
    other = importance_sample(chinchilla, 1000, seed=8)
    assert np.array_equal(once.draws, again.draws)
    assert not np.array_equal(once.draws, other.draws)


def test_fixed_tied_and_bounded_parameters(chinchilla):
    constraints = sf.Constraints.parse(
        fix=["L0=1.75"], tie=["alpha_depth=alpha_width"], bound=["alpha_tokens=0.2:0.3", "c_depth=0.5:50"]
    )
    posterior = importance_sample(sf.fit(chinchilla.runs, constraints=constraints), 4000)
    assert np.array_equal(posterior["L0"], np.full(4000, 1.75))
    assert np.array_equal(posterior["alpha_depth"], posterior["alpha_width"])
    assert posterior["alpha_tokens"].max() <= 0.3
    assert posterior["c_depth"].max() <= 50
    assert "L0" not in posterior.diagnostics["ess"]


def test_rows_of_a_run_share_an_effect():
    fitted = sf.fit(sf.load_dataset("gemstones"))
    with_effect = importance_sample(fitted, 8000)
    without = importance_sample(fitted, 8000, by="row")
    assert with_effect.diagnostics["effect"] == "sigma_run"
    assert np.quantile(with_effect["sigma_run"], 0.025) > 0.002
    for name in ("alpha_width", "alpha_depth"):  # what varies between runs only
        assert np.ptp(with_effect.interval(name)) > 1.4 * np.ptp(without.interval(name))


def test_shapes_may_share_an_effect(chinchilla):
    posterior = importance_sample(chinchilla, 4000, by="shape")
    assert posterior.names[-1] == "sigma_shape"
    assert np.ptp(posterior.interval("alpha_depth")) > 1.2


def test_heavy_tails_are_seen(chinchilla):
    posterior = importance_sample(chinchilla, 4000, noise="student-t")
    low, high = posterior.interval("nu")
    assert 2 < low < high < 15


def test_resampling_keeps_expected_counts():
    weights = np.array([0.5, 0.25, 0.2, 0.05])
    chosen = resampled(weights, 1000, np.random.default_rng(0))
    assert np.abs(np.bincount(chosen, minlength=4) - 1000 * weights).max() <= 1
    assert not np.all(np.diff(chosen) >= 0)


def test_a_posterior_of_another_shape_is_not_claimed():
    """All shapes on one line: exponents of width and depth can change places, which no t distribution does."""
    width, tokens = np.repeat([512.0, 1024, 2048, 4096], 3), np.tile([1e9, 1e10, 1e11], 4)
    depth = width / 64
    rng = np.random.default_rng(0)
    loss = (1.7 + 300 / width + 10 / depth + 505 / tokens**0.3) * np.exp(0.005 * rng.standard_normal(12))
    fitted = sf.fit(sf.Runs.from_columns({"width": width, "depth": depth, "tokens": tokens, "loss": loss}))
    posterior = importance_sample(fitted, 4000)
    assert posterior.warnings[0].code == "importance-unreliable"
    assert set(posterior.reservations) == set(posterior.names)


def test_too_few_draws_are_refused(chinchilla):
    with pytest.raises(sf.OptionError, match="n_draws is 10"):
        importance_sample(chinchilla, 10)


def test_export_to_arviz(chinchilla):
    posterior = importance_sample(chinchilla, 1000)
    tree = to_arviz(posterior)
    assert tree["posterior"]["alpha_depth"].dims == ("chain", "draw")
    assert np.array_equal(tree["posterior"]["alpha_depth"].values[0], posterior["alpha_depth"])


def test_arviz_is_optional(chinchilla, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "arviz_base", None)
    with pytest.raises(sf.ScalefitError, match=r"pip install '\.\[arviz\]'"):
        to_arviz(importance_sample(chinchilla, 1000))


def test_save_and_load(chinchilla, tmp_path):
    posterior = importance_sample(chinchilla, 1000)
    posterior.save(tmp_path / "posterior.npz")
    again = type(posterior).load(tmp_path / "posterior.npz")
    assert np.array_equal(again.draws, posterior.draws)
    assert again.diagnostics["khat"] == posterior.diagnostics["khat"]


CALIBRATION_PRIORS = {
    "size_depth": LogNormal(0.8, 0.2),
    "alpha_depth": Normal(0.7, 0.1),
    "L0": Normal(2.0, 0.2),
    "sigma": LogNormal(0.02, 0.3),
}


def calibration_rank(seed, stated_priors):
    """Rank of the true exponent among the draws, for a truth drawn from the priors (Talts et al. 2018)."""
    rng = np.random.default_rng(seed)
    depth = np.round(np.geomspace(2, 64, 12))
    size, alpha = 0.8 * np.exp(0.2 * rng.standard_normal()), 0.7 + 0.1 * rng.standard_normal()
    floor, sigma = 2.0 + 0.2 * rng.standard_normal(), 0.02 * np.exp(0.3 * rng.standard_normal())
    loss = (floor + size * (depth / np.exp(np.log(depth).mean())) ** -alpha) * np.exp(sigma * rng.standard_normal(12))
    fitted = sf.fit(sf.Runs.from_columns({"depth": depth, "loss": loss}), "depth", n_starts=4)
    draws = importance_sample(fitted, 1000, seed=seed, priors=stated_priors)
    return [np.mean(draws["alpha_depth"] < alpha), np.mean(draws["sigma"] < sigma), np.mean(draws["L0"] < floor)]


@pytest.mark.slow
def test_ranks_of_the_truth_are_uniform():
    """Simulation-based calibration; a wrong likelihood, prior, Jacobian or weight bends the ranks."""
    ranks = np.array([calibration_rank(seed, CALIBRATION_PRIORS) for seed in range(300)])
    for column in ranks.T:
        assert kstest(column, "uniform").pvalue > 1e-3


@pytest.mark.slow
def test_calibration_would_find_a_wrong_prior():
    wrong = CALIBRATION_PRIORS | {"alpha_depth": Normal(0.8, 0.05)}
    ranks = np.array([calibration_rank(seed, wrong) for seed in range(300)])
    assert kstest(ranks[:, 0], "uniform").pvalue < 1e-6
