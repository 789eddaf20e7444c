"""Profiles: the published interval, lmfit's, open ends, and the calibration of robust objectives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import t27_columns
from scipy import stats

from scalefit.constraints import Constraints
from scalefit.datasets import load_dataset
from scalefit.errors import OptionError
from scalefit.fitting import fit
from scalefit.runs import Runs
from scalefit.uncertainty.profile import profile


def test_chinchilla(chin203_fit):
    found = profile(chin203_fit, "alpha_depth")
    assert found.interval == pytest.approx((0.94, 1.73), abs=0.006)  # the published digits
    assert found.calibration == "F"
    assert (np.diff(found.values) > 0).all()
    assert (np.diff(found.z) > 0).all()


def test_the_objective_at_an_end_is_the_f_tests(chin203):
    fitted = fit(chin203)
    low = profile(fitted, "alpha_depth", 0.9).interval[0]
    held = fit(chin203, constraints=Constraints(fixed={"alpha_depth": low}))
    f = 196 * (held.objective_value / fitted.objective_value - 1)
    assert stats.f.cdf(f, 1, 196) == pytest.approx(0.9, abs=1e-4)


@pytest.mark.slow
def test_lmfit_agrees():
    lmfit = pytest.importorskip("lmfit")
    columns = t27_columns(0.001, seed=3)
    fitted = fit(Runs.from_columns(columns))
    logs = {n: np.log(columns[n] / np.exp(np.log(columns[n]).mean())) for n in ("width", "depth", "tokens")}

    def residuals(p):
        law = p["L0"].value + sum(np.exp(p[f"s_{n}"] - p[f"alpha_{n}"] * x) for n, x in logs.items())
        return np.log(law) - np.log(columns["loss"])

    params = lmfit.Parameters()
    for n in logs:
        scale = math.exp(np.log(columns[n]).mean())
        params.add(f"alpha_{n}", fitted.params[f"alpha_{n}"])
        params.add(f"s_{n}", math.log(fitted.params[f"c_{n}"]) - fitted.params[f"alpha_{n}"] * math.log(scale))
    params.add("L0", fitted.params["L0"])
    minimizer = lmfit.Minimizer(residuals, params)
    result = minimizer.leastsq()
    names = ["alpha_width", "alpha_depth", "alpha_tokens", "L0"]
    theirs = lmfit.conf_interval(minimizer, result, p_names=names, sigmas=[0.95])
    for name in names:
        ours = profile(fitted, name, 0.95).interval
        assert ours == pytest.approx((theirs[name][0][1], theirs[name][2][1]), rel=2e-3)


def test_open_ends_are_open():
    """With noise as large as the term of width its exponent can be anything."""
    fitted = fit(Runs.from_columns(t27_columns(0.15, seed=1)))
    found = profile(fitted, "alpha_width")
    assert math.inf in found.interval
    assert found.z.max() < stats.t.ppf(0.975, 20)


def test_a_bound_leaves_one_end_open():
    fitted = fit(load_dataset("gemstones"), objective="log-huber:1e-3")
    found = profile(fitted, "L0")
    assert fitted.params["L0"] == 0
    assert found.interval[0] == -math.inf
    assert 0 < found.interval[1] < 2.5


def test_coefficients_are_profiled_in_their_logarithm_and_units_do_not_matter(chin203):
    fitted = fit(chin203)
    columns = {n: chin203[n] for n in ("width", "depth", "loss")} | {"tokens": chin203["tokens"] / 1e9}
    billions = fit(Runs.from_columns(columns))
    factor = 1e9 ** -fitted.params["alpha_tokens"]
    assert billions.params["c_tokens"] == pytest.approx(fitted.params["c_tokens"] * factor, rel=1e-6)
    assert profile(billions, "alpha_tokens").interval == pytest.approx(
        profile(fitted, "alpha_tokens").interval, abs=1e-5
    )
    low, high = profile(fitted, "c_depth").interval
    assert low < fitted.params["c_depth"] < high
    assert high / fitted.params["c_depth"] > fitted.params["c_depth"] / low / 2


def test_robust_and_squared_agree_on_normal_noise_and_a_wide_quadratic_zone():
    runs = Runs.from_columns(t27_columns(0.001, seed=5))
    squared, robust = profile(fit(runs), "alpha_tokens"), profile(fit(runs, objective="log-huber:0.1"), "alpha_tokens")
    assert robust.calibration == "sandwich"
    widths = [p.interval[1] - p.interval[0] for p in (squared, robust)]
    # With every residual in the quadratic zone the fits agree; the sandwich of 27 rows is noisy to a fifth or two.
    assert robust.estimate == pytest.approx(squared.estimate, rel=1e-6)
    assert widths[1] == pytest.approx(widths[0], rel=0.5)


def test_ties_bounds_and_weights(chin203):
    tied = fit(chin203, constraints=Constraints.parse(tie=["alpha_depth=alpha_width"], bound=["L0=1.75:"]))
    assert profile(tied, "alpha_depth").interval == profile(tied, "alpha_width").interval
    assert profile(tied, "L0").interval[0] in (-math.inf, pytest.approx(1.75, abs=0.05))


def test_what_cannot_be_profiled_is_refused(chin203):
    fitted = fit(chin203, constraints=Constraints.parse(fix=["L0=1.7"]))
    with pytest.raises(OptionError, match="L0 is fixed"):
        profile(fitted, "L0")
    with pytest.raises(OptionError, match="no parameter 'alpha_flops'"):
        profile(fitted, "alpha_flops")
