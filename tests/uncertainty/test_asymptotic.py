"""Covariances: the fit's own, formulas by hand, and a misspecification that is noticed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from known_tables import t27_columns
from scipy import stats

from scalefit.errors import OptionError
from scalefit.fitting.centred import centre
from scalefit.fitting.fit import fit
from scalefit.fitting.objective import Objective
from scalefit.laws.constraints import Constraints
from scalefit.laws.law import Law
from scalefit.runs import Runs
from scalefit.uncertainty.asymptotic import asymptotic


@pytest.fixture(scope="module")
def theory(chin203_fit):
    return asymptotic(chin203_fit)


def reported_jacobian(fitted):
    """Derivatives of ln L by (ln c, alpha, L0), from the law."""
    matrix = fitted.law.jacobian(fitted.runs, fitted.params) / fitted.predict(fitted.runs)[:, None]
    coefficients = [i for i, name in enumerate(fitted.params) if name.startswith("c_")]
    matrix[:, coefficients] *= np.array(list(fitted.params.values()))[coefficients]
    return matrix


def exact_hessian(fitted, step=1e-5):
    """Hessian of the summed squared ln-residuals over two by (ln c, alpha, L0), by central differences."""
    names = list(fitted.params)
    point = np.array([np.log(v) if n.startswith("c_") else v for n, v in fitted.params.items()])

    def gradient(x):
        params = {n: np.exp(v) if n.startswith("c_") else v for n, v in zip(names, x, strict=True)}
        loss = fitted.law.predict(fitted.runs, params)
        matrix = fitted.law.jacobian(fitted.runs, params)
        for i, name in enumerate(names):
            if name.startswith("c_"):
                matrix[:, i] *= params[name]
        return (matrix / loss[:, None]).T @ np.log(loss / fitted.runs["loss"])

    return np.stack([(gradient(point + e) - gradient(point - e)) / (2 * step) for e in step * np.eye(len(point))])


def test_gauss_newton_is_the_fits_covariance(chin203_fit, theory):
    np.testing.assert_allclose(
        theory.covariances["gauss-newton"], replace(chin203_fit, errors_by="rows").covariance, rtol=1e-8
    )
    assert theory.standard_error("alpha_depth") == pytest.approx(0.287, abs=5e-4)
    assert theory.standard_error("alpha_depth", "observed") == pytest.approx(0.202, abs=5e-4)


def test_observed_and_robust_follow_their_formulas(chin203_fit, theory):
    residuals = chin203_fit.residuals
    bread = np.linalg.inv(exact_hessian(chin203_fit))
    observed = bread * np.sum(residuals**2) / (203 - 7)
    # The inverse of an ill-conditioned matrix (1e12) keeps three digits of the differences' eleven.
    np.testing.assert_allclose(theory.covariances["observed"], observed, rtol=1e-3, atol=1e-5)
    rows = reported_jacobian(chin203_fit) * residuals[:, None]
    robust = 203 / 196 * bread @ rows.T @ rows @ bread
    np.testing.assert_allclose(theory.covariances["robust"], robust, rtol=1e-3, atol=1e-5)


def test_clusters_of_one_row_are_the_robust_form(chin203_fit):
    each = asymptotic(
        fit(
            Runs.from_columns(
                {**{n: chin203_fit.runs[n] for n in ("width", "depth", "tokens", "loss")}, "g": np.arange(1, 204)}
            )
        ),
        by="g",
    )
    ratio = each.covariances["cluster"] / each.covariances["robust"]
    # G / (G - 1) (n - 1) / (n - p) is n / (n - p) when G is n.
    np.testing.assert_allclose(ratio, 1.0, rtol=1e-8)
    assert each.degrees == {"gauss-newton": 196, "observed": 196, "robust": 196, "cluster": 202}


def test_intervals_are_students_and_symmetric_in_ln_c(theory):
    low, high = theory.interval("c_depth", "cluster", 0.9)
    half = stats.t.ppf(0.95, theory.degrees["cluster"]) * theory.standard_error("c_depth", "cluster")
    assert (low, high) == pytest.approx(
        (theory.fit.params["c_depth"] * np.exp(-half), theory.fit.params["c_depth"] * np.exp(half))
    )


def test_curvature_that_the_law_cannot_explain_is_reported(theory):
    # The note's independent figure along the weakest direction is 2.06 in other coordinates.
    assert theory.hessian_ratio == pytest.approx(2.0, abs=0.1)
    (warning,) = theory.warnings
    assert warning.code == "curvature-disagrees"
    # of 200 simulated tables none, or so many of them
    shown = f"{theory.hessian_p:.3f}" if theory.hessian_p > 0 else "below 0.005"
    assert f"has the probability {shown}" in warning.message


def test_curvature_of_the_law_itself_is_not_reported():
    probabilities = [asymptotic(fit(Runs.from_columns(t27_columns(0.005, seed)))).hessian_p for seed in range(20)]
    assert np.mean(np.array(probabilities) < 0.01) <= 0.1  # P(Binomial(20, 0.01) > 2) = 0.001
    assert stats.kstest(probabilities, "uniform").pvalue > 1e-3


def test_robust_errors_see_unequal_noise():
    """Noise that grows with a column: HC1 meets the spread over repetitions, Gauss-Newton does not."""
    rng = np.random.default_rng(8)
    depth = np.tile([2.0, 4, 8, 16, 32, 64], 20)
    found, errors = [], []
    for _ in range(200):
        loss = (1.7 + 3 / depth) * np.exp(
            0.02 * (depth == 16) * rng.standard_normal(120) + 1e-3 * rng.standard_normal(120)
        )
        fitted = fit(Runs.from_columns({"depth": depth, "loss": loss}), "depth", n_starts=2)
        theory = asymptotic(fitted, by="row", simulations=0)
        found.append(fitted.params["alpha_depth"])
        errors.append([theory.standard_error("alpha_depth", kind) for kind in ("gauss-newton", "robust")])
    normal, robust = np.mean(errors, axis=0) / np.std(found)
    # The spread of 200 is known to 5 %.
    assert robust == pytest.approx(1.0, abs=0.2)
    assert abs(normal - 1) > 0.25


def test_a_parameter_at_its_bound_has_no_error():
    from scalefit.datasets import load_dataset

    theory = asymptotic(fit(load_dataset("gemstones"), objective="log-huber:1e-3"))
    assert np.isnan(theory.standard_error("L0"))
    assert np.isfinite(theory.standard_error("alpha_depth"))
    assert theory.clusters == "run"
    with pytest.raises(OptionError, match="no covariance 'bayes'"):
        theory.standard_error("L0", "bayes")


@pytest.mark.parametrize("delta", ["1e-4", "3e-3"])
def test_errors_cover_where_few_residuals_lie_in_the_quadratic_zone(delta):
    """Noise of 1 %, of which the zone holds one row in a hundred, or one in four: every theory meets the spread."""
    rng = np.random.default_rng(5)
    depth = np.tile([2.0, 4, 8, 16, 32, 64], 8)
    kinds = ("gauss-newton", "observed", "robust")
    scaled = []
    for _ in range(100):
        loss = (1.7 + 3 / depth) * np.exp(0.01 * rng.standard_normal(48))
        fitted = fit(Runs.from_columns({"depth": depth, "loss": loss}), "depth", f"log-huber:{delta}", n_starts=2)
        theory = asymptotic(fitted, by="row", simulations=0)
        assert theory.standard_error("alpha_depth") == pytest.approx(
            fitted.by_row.standard_errors["alpha_depth"], rel=1e-8
        )
        error = fitted.params["alpha_depth"] - 1
        scaled.append([error / theory.standard_error("alpha_depth", kind) for kind in kinds])
    # The root mean square of 100 standard normal numbers is known to 7 %; four of its errors.
    assert np.sqrt(np.mean(np.square(scaled), axis=0)) == pytest.approx(np.ones(3), abs=0.28)


def test_whether_a_term_vanished_does_not_depend_on_its_units():
    """A coefficient with bounds of the user's is kept in plain units, others at their column's geometric mean."""
    columns = {"tokens": np.geomspace(1e9, 1e11, 8), "loss": np.full(8, 2.0)}
    law = Law.parse("tokens")
    for size, gone in ((1e-7, False), (1e-9, True)):
        for bound in ((), ("c_tokens=0:1e12",)):
            centred = centre(law, columns, Objective(), Constraints.parse(bound=bound))
            c = size * np.exp(0.3 * (np.log(1e10) - centred.log_references[0]))
            assert centred.free_names == ("c_tokens", "L0", "alpha_tokens")
            assert centred.vanished(np.array([[c, 1.7, 0.3]])).tolist() == [[gone, False, False]]
