"""Profiles: the published interval, lmfit's, open ends, and the calibration of robust objectives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from known_tables import t27_columns
from scipy import stats
from scipy.optimize import least_squares

from scalefit.datasets import load_dataset
from scalefit.errors import OptionError
from scalefit.fitting.fit import fit
from scalefit.laws.constraints import Constraints
from scalefit.runs import Runs
from scalefit.uncertainty.held import profile_quantity
from scalefit.uncertainty.profile import Curve, profile


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


def test_an_interval_that_reaches_the_floors_bound_ends_there():
    fitted = fit(load_dataset("gemstones"), objective="log-huber:1e-3")
    found = profile(fitted, "L0")
    assert fitted.params["L0"] == 0
    assert found.interval[0] == 0
    assert 0 < found.interval[1] < 2.5


TOKENS = 1e9 * 2.0 ** np.arange(8)


def test_with_the_floor_at_zero_the_exponents_interval_comes_from_every_floor():
    """Truth: exponent 0.1, floor 1.2; at the estimate, floor 0, the conditional interval is 0.0387 to 0.0406."""
    loss = [2.1989, 2.1416, 2.0875, 2.0305, 1.9726, 1.9125, 1.8669, 1.8182]
    fitted = fit(Runs.from_columns({"tokens": TOKENS, "loss": loss}), "tokens")
    assert fitted.params["L0"] == 0
    # Published: 0.0385 to 0.078, by F with 5 degrees of freedom.
    assert profile(fitted, "alpha_tokens").interval == pytest.approx((0.0385, 0.078), abs=3e-4)
    low, high = profile(fitted, "L0").interval
    assert low == 0
    assert 0.9 < high < 1.3


def test_an_interval_of_the_floor_is_cut_at_zero():
    loss = [2.572, 2.356, 2.186, 2.032, 1.872, 1.741, 1.616, 1.493]
    fitted = fit(Runs.from_columns({"tokens": TOKENS, "loss": loss}), "tokens")
    assert fitted.params["L0"] == pytest.approx(0.2186, abs=1e-4)
    assert profile(fitted, "L0").interval == pytest.approx((0, 0.5313), abs=1e-3)
    bounded = fit(fitted.runs, "tokens", constraints=Constraints.parse(bound=["L0=0.1:0.4"]))
    assert profile(bounded, "L0").interval == (0.1, 0.4)


def test_the_search_does_not_stop_short_of_the_end():
    """At the estimate the law is so sharp that the end lies hundreds of conditional errors away."""
    rng = np.random.default_rng(0)
    tokens = np.geomspace(1e9, 4e9, 40)
    loss = (1.7 + 505 / tokens**0.3) * np.exp(1e-4 * rng.standard_normal(40))
    fitted = fit(Runs.from_columns({"tokens": tokens, "loss": loss}), "tokens")
    curve = Curve(lambda value, _: ((value - 1) ** 2 * 1e-4, None), 1.0, 0.1, (-math.inf, math.inf), 30)
    found = curve.profile("far", 1.0, 0.95, "F").interval
    assert found == pytest.approx((1 - 204.2, 1 + 204.2), abs=0.1)  # t of 30 degrees over 0.01
    assert all(math.isfinite(end) for name in fitted.params for end in profile(fitted, name).interval)


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


def test_a_parameter_as_a_quantity_is_the_parameter(chin203_fit):
    """Two unrelated minimisations, one with our solver and one with SciPy's, meet."""
    for name in ("alpha_depth", "L0"):
        as_quantity = profile_quantity(chin203_fit, lambda params, name=name: params[name])
        assert as_quantity.estimate == pytest.approx(chin203_fit.params[name], rel=1e-12)
        assert as_quantity.interval == pytest.approx(profile(chin203_fit, name).interval, rel=1e-4)


def test_a_predicted_loss_and_a_best_ratio(chin203_fit):
    point = {"width": 8192, "depth": 80, "tokens": 1e12}
    loss = profile_quantity(chin203_fit, lambda params: float(chin203_fit.law.predict(point, params)))
    assert loss.interval[0] < float(chin203_fit.predict(point)) < loss.interval[1]

    def ratio(params, budget=1e10, k=12):
        """Width over depth at the optimum of c_m m^-a + c_l l^-b with k m^2 l = budget, in closed form."""
        a, b = params["alpha_width"], params["alpha_depth"]
        exponent = a + 2 * b
        width = (a * params["c_width"] / (2 * b * params["c_depth"]) * (budget / k) ** b) ** (1 / exponent)
        return math.log(width / (budget / k / width**2))

    found = profile_quantity(chin203_fit, ratio)
    assert math.exp(found.estimate) == pytest.approx(81.8, abs=0.1)  # published
    runs, centre = chin203_fit.runs, {n: np.log(chin203_fit.runs[n]).mean() for n in ("depth", "tokens")}
    low = math.exp(found.interval[0])
    width, depth = (1e10 / 12 * low) ** (1 / 3), (1e10 / 12 / low**2) ** (1 / 3)

    def residuals(x):
        """ln-residuals of the law whose width coefficient makes (width, depth) the optimum."""
        size_depth, size_tokens, irreducible, a, b, g = x
        c_depth, c_tokens = np.exp(size_depth + b * centre["depth"]), np.exp(size_tokens + g * centre["tokens"])
        c_width = 2 * b * c_depth * depth**-b / (a * width**-a)
        loss = c_width * runs["width"] ** -a + c_depth * runs["depth"] ** -b + c_tokens * runs["tokens"] ** -g
        return np.log(loss + irreducible) - np.log(runs["loss"])

    p = chin203_fit.params
    start = [
        *(np.log(p[f"c_{n}"]) - p[f"alpha_{n}"] * centre[n] for n in centre),
        *(p[n] for n in ("L0", "alpha_width", "alpha_depth", "alpha_tokens")),
    ]
    held = 2 * least_squares(residuals, start, xtol=1e-12, ftol=1e-12, gtol=1e-12).cost / 203
    z = math.sqrt(196 * (held / chin203_fit.objective_value - 1))
    assert z == pytest.approx(stats.t.ppf(0.975, 196), abs=1e-3)


def test_quantities_that_cannot_be_profiled_are_refused(chin203, chin203_fit):
    with pytest.raises(OptionError, match="does not change"):
        profile_quantity(chin203_fit, lambda _: 1.0)
    with pytest.raises(OptionError, match="squared objectives"):
        profile_quantity(fit(chin203, objective="log-huber:1e-2"), lambda params: params["L0"])
