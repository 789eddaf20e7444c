"""The bootstrap: every replicate at its optimum, the published intervals, the same bytes from any number of workers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from known_tables import t27_columns
from scipy.optimize import least_squares
from scipy.stats import norm

from scalefit.datasets import load_dataset
from scalefit.errors import FitError, OptionError
from scalefit.fitting.fit import fit
from scalefit.laws.constraints import Constraints
from scalefit.runs import Runs
from scalefit.uncertainty.bootstrap import bca_corrections, bootstrap
from scalefit.uncertainty.groups import choose_grouping, group_labels, test_dependence
from scalefit.uncertainty.resampling import Refits, jackknife_problem, plan_resampling, refit


@pytest.fixture(scope="module")
def gemstones():
    return load_dataset("gemstones")


def width(samples, name):
    low, high = samples.interval(name)
    return high - low


def scipy_optimum(problem, weights, rng, n_starts=10):
    """The best of several trust-region fits of one reweighted problem, written without our derivatives."""
    roots = np.sqrt(weights)

    def residuals(x):
        with np.errstate(over="ignore"):
            loss = x[:3] @ np.exp(-x[4:, None] * problem.logs) + x[3]
        return roots * (np.log(loss) - problem.target)

    best = np.inf
    for _ in range(n_starts):
        start = np.concatenate([rng.uniform(0.05, 0.5, 3), [rng.uniform(1, 2)], rng.uniform(0.2, 1.5, 3)])
        found = least_squares(
            residuals, start, bounds=([0] * 4 + [1e-3] * 3, [np.inf] * 4 + [10] * 3), xtol=1e-14, ftol=1e-14, gtol=1e-14
        )
        best = min(best, 2 * found.cost / len(weights))
    return best


@pytest.mark.slow
def test_every_replicate_is_at_the_optimum_that_scipy_finds(chin203_fit):
    refits = Refits.of(chin203_fit)
    resampling = plan_resampling(chin203_fit, refits, "pairs", group_labels(chin203_fit, "row"))
    rng = np.random.default_rng(11)
    counts = rng.multinomial(203, np.full(203, 1 / 203), size=50).astype(float)
    problem = resampling.reweighted(counts)
    replicates = refit(refits, problem)
    assert replicates.converged.all()
    best = [scipy_optimum(problem, w, rng) for w in problem.weights]
    assert (replicates.value <= np.array(best) * (1 + 1e-8)).all()


def test_chinchilla_by_rows_and_by_shape(chin203_fit):
    # 20,000 replicates of an independent implementation gave [0.99, 1.79] and [0.90, 2.02]; 1,000 have ends
    # uncertain by 0.01 and 0.03 (rows), 0.02 and 0.04 (shapes), of which the tolerances are three.
    rows = bootstrap(chin203_fit, method="pairs")
    assert rows.interval("alpha_depth") == pytest.approx((0.99, 1.79), abs=0.06)
    assert rows.diagnostics["converged"] == 1.0
    shapes = bootstrap(chin203_fit)
    assert (shapes.method, shapes.diagnostics["by"]) == ("cluster", "shape")
    assert shapes.interval("alpha_depth") == pytest.approx((0.90, 2.02), abs=0.09)
    assert shapes.diagnostics["dependence"]["shape"]["intraclass"] == pytest.approx(0.35, abs=0.01)
    assert shapes.diagnostics["dependence"]["shape"]["f"] == pytest.approx(3.7, abs=0.05)


def test_gemstones_go_by_run_which_is_wider_for_shape_and_narrower_for_tokens(gemstones):
    fitted = fit(gemstones)
    runs, rows = bootstrap(fitted), bootstrap(fitted, method="pairs")
    assert (runs.method, runs.diagnostics["by"]) == ("cluster", "run")
    # Widths found by an independent implementation, to a tenth.
    expected = {"alpha_width": (0.175, 0.080), "alpha_depth": (0.239, 0.129), "alpha_tokens": (0.049, 0.344)}
    for name, (by_run, by_row) in expected.items():
        assert width(runs, name) == pytest.approx(by_run, rel=0.1)
        assert width(rows, name) == pytest.approx(by_row, rel=0.1)
    assert set(runs.reservations) == set(runs.names)
    assert 0.2 < runs.diagnostics["at_bound"]["L0"] < 0.45


def test_a_pile_up_at_a_bound_withholds_the_bca_interval(gemstones):
    samples = bootstrap(fit(gemstones, objective="log-huber:1e-3"), 200)
    assert samples.diagnostics["at_bound"]["L0"] == np.mean(samples["L0"] == 0)
    assert samples.diagnostics["at_bound"]["L0"] > 0.3
    assert [w.code for w in samples.warnings] == ["replicates-at-bound"]
    with pytest.raises(OptionError, match="no BCa correction"):
        samples.interval("alpha_depth", kind="bca")


def test_redrawn_residuals_are_as_large_as_the_noise():
    """The fit took 7 of 27 degrees of freedom from its residuals, and 9 clusters lose one of theirs."""
    fitted = fit(Runs.from_columns(t27_columns(0.002, seed=4)))
    refits, rest = Refits.of(fitted), fitted.residuals - fitted.residuals.mean()
    by_row, by_shape = group_labels(fitted, "row"), group_labels(fitted, "shape")
    residual = plan_resampling(fitted, refits, "residual", by_row).errors
    np.testing.assert_allclose(np.sum(residual**2), np.sum(rest**2) * 27 / 20, rtol=1e-10)
    slopes = fitted.law.jacobian(fitted.runs, fitted.params) / fitted.predict(fitted.runs)[:, None]
    leverage = np.diag(slopes @ np.linalg.pinv(slopes))
    wild = plan_resampling(fitted, refits, "wild", by_row).errors
    np.testing.assert_allclose(wild, -fitted.residuals / np.sqrt(1 - leverage), rtol=1e-6)
    clustered = plan_resampling(fitted, refits, "wild-cluster", by_shape).errors
    np.testing.assert_allclose(clustered, -fitted.residuals * np.sqrt(9 / 8 * 26 / 20), rtol=1e-12)


@pytest.mark.parametrize("method", ["pairs", "residual", "wild"])
@pytest.mark.parametrize("weighted", [False, True])
def test_row_methods_agree_with_the_standard_error_on_well_behaved_noise(method, weighted):
    """216 rows and 7 parameters; with weights the noise of a row is 1 / sqrt(weight), as they promise.

    The scatter of 400 replicates is known to 3.5 %, and the sandwich that resampled rows imply to about 7 %:
    a forgotten root of the weights or of n / (n - p) in the variance shows, a factor of two by far.
    """
    columns = {name: np.repeat(values, 8) for name, values in t27_columns().items()}
    rng = np.random.default_rng(4)
    w = rng.uniform(0.2, 5, 216) if weighted else np.ones(216)
    columns["loss"] *= np.exp(0.002 * rng.standard_normal(216) / np.sqrt(w))
    fitted = fit(Runs.from_columns({**columns, "w": w}), weights="w" if weighted else None)
    samples = bootstrap(fitted, 400, method=method)
    for name in ("alpha_width", "alpha_depth", "alpha_tokens", "L0"):
        assert np.std(samples[name]) == pytest.approx(fitted.by_row.standard_errors[name], rel=0.2)


def test_workers_do_not_change_a_bit(chin203_fit):
    alone, together = bootstrap(chin203_fit, 600), bootstrap(chin203_fit, 600, workers=2)
    np.testing.assert_array_equal(alone.draws, together.draws)
    assert alone.diagnostics == together.diagnostics


def test_seeds_matter_and_repeat(chin203_fit):
    one, again, other = (bootstrap(chin203_fit, 50, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.draws, again.draws)
    assert not np.isin(other.draws, one.draws).any()


def test_bca_corrections_follow_their_definition(chin203_fit):
    samples = bootstrap(chin203_fit, 400, method="pairs")
    refits = Refits.of(chin203_fit)
    resampling = plan_resampling(chin203_fit, refits, "pairs", group_labels(chin203_fit, "row"))
    left_out = refits.centred.plain(refit(refits, jackknife_problem(resampling)).free)
    # Leaving out a row by weight zero is leaving it out of the table.
    by_hand = fit(chin203_fit.runs.take(np.arange(1, 203), "first row"))
    np.testing.assert_allclose(left_out[0], list(by_hand.params.values()), rtol=1e-6)
    d = left_out[:, 3].mean() - left_out[:, 3]
    z0, a = samples.corrections["alpha_depth"]
    assert a == pytest.approx(np.sum(d**3) / (6 * np.sum(d**2) ** 1.5), rel=1e-6)
    assert samples.interval("alpha_depth", kind="bca")[0] != samples.interval("alpha_depth")[0]
    assert z0 == pytest.approx(norm.ppf(np.mean(samples["alpha_depth"] < chin203_fit.params["alpha_depth"])), rel=1e-12)


def test_a_replicate_that_equals_the_estimate_counts_half_below_it(chin203_fit):
    refits = Refits.of(chin203_fit)
    resampling = plan_resampling(chin203_fit, refits, "pairs", group_labels(chin203_fit, "row"))
    estimate = np.array(list(chin203_fit.params.values()))
    # of ten draws two lie below, four on the estimate, four above it
    factors = np.array([0.9] * 2 + [1.0] * 4 + [1.1] * 4)
    found = bca_corrections(chin203_fit, resampling, factors[:, None] * estimate)
    for name in chin203_fit.params:
        assert found[name][0] == pytest.approx(norm.ppf(0.4), rel=1e-12)


def test_fixed_and_tied_parameters_stay_so(chin203):
    fitted = fit(chin203, constraints=Constraints.parse(fix=["L0=1.75"], tie=["alpha_depth=alpha_width"]))
    samples = bootstrap(fitted, 60)
    assert set(samples["L0"]) == {1.75}
    np.testing.assert_array_equal(samples["alpha_depth"], samples["alpha_width"])
    assert np.ptp(samples["alpha_depth"]) > 0


def test_weights_stay_with_their_rows():
    """The jackknife behind the BCa acceleration leaves out rows of a weighted table; the weights' scale is nothing."""
    columns, weights = t27_columns(0.005, seed=6), np.linspace(0.2, 3.0, 27) ** 2
    small, large, plain = (
        fit(Runs.from_columns({**columns, "w": w}), weights="w") for w in (weights, 1e6 * weights, np.ones(27))
    )
    samples, scaled, unweighted = (bootstrap(fitted, 60, method="pairs") for fitted in (small, large, plain))
    np.testing.assert_allclose(samples.draws, scaled.draws, rtol=1e-5)
    left_out = [fit(small.runs.take(np.arange(27) != i, "one row"), weights="w", n_starts=4).params for i in range(27)]
    for name in ("alpha_width", "alpha_tokens", "L0"):
        values = np.array([params[name] for params in left_out])
        d = values.mean() - values
        acceleration = np.sum(d**3) / (6 * np.sum(d**2) ** 1.5)
        assert samples.corrections[name][1] == pytest.approx(acceleration, rel=1e-4, abs=1e-6)
        assert abs(acceleration - unweighted.corrections[name][1]) > 0.01


def test_too_few_clusters_and_unknown_options_are_refused(chin203_fit):
    table = fit(Runs.from_columns({**t27_columns(0.002), "run": np.repeat(np.arange(9), 3)}))
    with pytest.raises(OptionError, match="9 clusters by run and at least 15"):
        bootstrap(table, method="cluster", by="run")
    assert choose_grouping(table).bootstrap == "pairs"
    with pytest.raises(OptionError, match="unknown bootstrap 'bayes'"):
        bootstrap(chin203_fit, method="bayes")
    with pytest.raises(OptionError, match="number of resamples is 10"):
        bootstrap(chin203_fit, 10)
    with pytest.raises(OptionError, match="unknown grouping 'cluster'"):
        bootstrap(chin203_fit, method="cluster", by="cluster")
    with pytest.raises(OptionError, match="resamples rows"):
        bootstrap(chin203_fit, method="pairs", by="shape")


def test_a_table_that_determines_nothing_is_refused():
    columns = t27_columns(0.002)
    columns["depth"] = np.full(27, 12.0)
    with pytest.raises(FitError, match="do not determine"):
        bootstrap(fit(Runs.from_columns(columns)))


def test_resamples_that_lack_levels_are_counted():
    columns = t27_columns(0.002)
    rare = columns["depth"] == 32
    rare[np.flatnonzero(rare)[2:]] = False
    keep = (columns["depth"] < 32) | rare
    samples = bootstrap(fit(Runs.from_columns({n: x[keep] for n, x in columns.items()})), 400, method="pairs")
    # Two of 20 rows hold the third depth: a resample lacks both with probability (18 / 20)^20 = 0.12.
    assert samples.diagnostics["degenerate"] / 400 == pytest.approx(0.12, abs=0.05)
    assert len(samples) == 400 - samples.diagnostics["degenerate"] - round(
        (1 - samples.diagnostics["converged"]) * (400 - samples.diagnostics["degenerate"])
    )


def test_dependence_is_found_where_it_is_and_not_where_it_is_not():
    rng = np.random.default_rng(2)
    rejected = {True: 0, False: 0}
    for _ in range(100):
        for shared in (True, False):
            columns = t27_columns()
            effect = np.repeat(rng.standard_normal(9), 3) * (0.01 if shared else 0)
            columns["loss"] = columns["loss"] * np.exp(effect + 0.005 * rng.standard_normal(27))
            test = test_dependence(fit(Runs.from_columns(columns), n_starts=4), "shape")
            rejected[shared] += test.p_value < 0.01
    assert rejected[True] > 60
    assert rejected[False] <= 5  # P(Binomial(100, 0.01) > 5) = 5e-4


def test_ctrl_c_keeps_what_was_finished(chin203_fit):
    def interrupt(done, _total):
        if done == 2:
            raise KeyboardInterrupt

    samples = bootstrap(chin203_fit, 2000, progress=interrupt)
    assert len(samples) == 1024
    assert [w.code for w in samples.warnings] == ["interrupted"]
    np.testing.assert_array_equal(samples.draws, bootstrap(chin203_fit, 1024).draws)


def test_a_replicate_that_fails_is_tried_again(chin203_fit):
    refits = Refits.of(chin203_fit)
    lost = replace(refits, point=np.where(np.arange(7) < 4, 1e-9, 9.9))
    resampling = plan_resampling(chin203_fit, lost, "pairs", group_labels(chin203_fit, "row"))
    problem = resampling.reweighted(np.ones((2, 203)))
    found = refit(lost, problem)
    assert found.converged.all()
    np.testing.assert_allclose(found.value, chin203_fit.objective_value, rtol=1e-8)
