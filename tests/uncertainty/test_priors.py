"""Priors are proper, mean the same in any unit, and give way to the user's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

import scalefit as sf
from scalefit.uncertainty.posterior.importance import importance_sample
from scalefit.uncertainty.posterior.priors import Gamma, HalfNormal, LogNormal, Normal, Priors, Uniform

PRIORS = [Normal(1.0, 0.3), HalfNormal(3.0), LogNormal(0.25, 2.0), Gamma(2.0, 0.1), Uniform(0.5, 2.0)]


@pytest.fixture(scope="module")
def chinchilla():
    return sf.fit(sf.load_dataset("chinchilla").drop_worst(40))


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_the_density_integrates_to_the_distribution_function(prior):
    def density_of_log(y):
        return np.exp(prior.log_density(np.exp(np.array([y])))[0] + y)

    below_zero = prior.cdf(np.array([0.0]))[0]
    for x in (0.6, 1.4, 30.0):
        area, _ = quad(density_of_log, -40, np.log(x), limit=500, points=[np.log(0.5)] if x > 0.5 else None)
        assert below_zero + area == pytest.approx(prior.cdf(np.array([x]))[0], abs=1e-6)
    assert prior.cdf(np.array([1e6]))[0] == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("prior", [HalfNormal(3.0), LogNormal(0.25, 2.0), Gamma(2.0, 0.1), Uniform(0.5, 2.0)], ids=str)
def test_negative_values_are_impossible(prior):
    x = np.array([-1.0, -1e-12])
    assert np.array_equal(prior.log_density(x), [-np.inf, -np.inf])
    assert np.array_equal(prior.cdf(x), [0, 0])


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Normal(0, 0), "sd is 0"),
        (lambda: HalfNormal(-1), "scale is -1"),
        (lambda: LogNormal(1, np.inf), "sd_log is inf"),
        (lambda: Gamma(2, 0), "rate is 0"),
        (lambda: Uniform(0, np.inf), "improper"),
        (lambda: Priors({"L0": 1.7}, 2.0, 1.0), "prior of L0 is 1.7"),
    ],
)
def test_what_is_no_proper_prior_is_refused(make, named):
    with pytest.raises(sf.OptionError, match=named):
        make()


def test_a_prior_of_something_else_is_refused(chinchilla):
    with pytest.raises(sf.OptionError, match=r"'c_depth', which is not estimated.*size_depth"):
        importance_sample(chinchilla, priors={"c_depth": Normal(5, 1)})


def test_the_posterior_does_not_depend_on_units(chinchilla):
    runs = chinchilla.runs
    in_billions = sf.Runs.from_columns(
        {"width": runs["width"], "depth": runs["depth"], "tokens": runs["tokens"] / 1e9, "loss": runs["loss"]}
    )
    ours = importance_sample(chinchilla, 1000, seed=3)
    theirs = importance_sample(sf.fit(in_billions), 1000, seed=3)
    for name in ("alpha_depth", "alpha_tokens", "L0", "sigma", "c_width"):
        assert theirs[name] == pytest.approx(ours[name], rel=1e-5)
    assert theirs["c_tokens"] == pytest.approx(ours["c_tokens"] / 1e9 ** ours["alpha_tokens"], rel=1e-5)


def test_bounds_that_bind_nothing_change_nothing(chinchilla):
    """A bounded coefficient is sampled in plain units, where the prior of the size needs its Jacobian."""
    bounded = sf.fit(chinchilla.runs, constraints=sf.Constraints.parse(bound=["c_depth=1e-3:1e6"]))
    free = importance_sample(chinchilla, 20_000, seed=1)
    plain = importance_sample(bounded, 20_000, seed=1)
    for name in ("alpha_depth", "c_depth", "L0"):
        ours, theirs = np.log(free[name]), np.log(plain[name])
        assert np.mean(theirs) == pytest.approx(np.mean(ours), abs=0.05 * np.std(ours))
        assert np.std(theirs) == pytest.approx(np.std(ours), rel=0.05)


def test_a_sharp_prior_decides(chinchilla):
    posterior = importance_sample(chinchilla, 4000, priors={"alpha_depth": Normal(1.0, 0.01)})
    assert np.mean(posterior["alpha_depth"]) == pytest.approx(1.0, abs=0.005)
    assert posterior.diagnostics["prior_sensitivity"]["alpha_depth"] > 0.05
    assert [w.code for w in posterior.warnings] == ["prior-sensitive", "posterior-is-prior"]
    assert "alpha_depth" in posterior.warnings[1].message


def test_the_default_priors_hardly_move_chinchilla(chinchilla):
    posterior = importance_sample(chinchilla, 8000)
    assert posterior.warnings == ()
    half, double = posterior.diagnostics["prior_powers"]["alpha_depth"]
    assert np.array(half) == pytest.approx(np.array(double), abs=0.04)
    assert posterior.diagnostics["prior_share"]["alpha_depth"] < 0.25
