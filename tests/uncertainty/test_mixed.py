"""The random intercept: exact degrees of balanced tables, Kenward and Roger's formulas by hand, public tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from scalefit.datasets import load_dataset
from scalefit.errors import OptionError
from scalefit.fitting.fit import fit
from scalefit.laws.constraints import Constraints
from scalefit.runs import Runs
from scalefit.uncertainty.groups import group_labels
from scalefit.uncertainty.mixed import Grouped, components_at, fit_mixed, restricted, variance_components


def grouped_line(sizes: list[int], within: bool, seed: int = 3, shared: float = 0.05) -> tuple[Runs, np.ndarray]:
    """Loss 2 + 10 / depth with an effect of the run; depth varies within runs or between them."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    depth = (
        np.concatenate([np.geomspace(4, 64, n) for n in sizes]) if within else np.geomspace(4, 64, len(sizes))[labels]
    )
    loss = 2 + 10 / depth + shared * rng.standard_normal(len(sizes))[labels] + 0.02 * rng.standard_normal(len(labels))
    return Runs.from_columns({"depth": depth, "loss": loss, "run": labels}), labels


def linear(runs: Runs, weights: str | None = None):
    """c / depth + L0 by least squares: a linear model."""
    fixed = Constraints(fixed={"alpha_depth": 1.0})
    return fit(runs, "depth", "mse", constraints=fixed, n_starts=2, weights=weights)


def test_between_runs_a_balanced_table_has_the_interval_of_its_means():
    """With depth constant within a run the means of runs are a regression with G - 2 degrees, exactly."""
    runs, labels = grouped_line([5] * 12, within=False)
    found = fit_mixed(linear(runs), labels)
    means = np.bincount(labels, runs["loss"]) / 5
    design = np.stack([1 / np.geomspace(4, 64, 12), np.ones(12)], axis=1)
    estimate, (rest,), *_ = np.linalg.lstsq(design, means, rcond=None)
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * rest / 10)
    assert found.params["c_depth"] == pytest.approx(estimate[0], rel=1e-6)
    assert found.degrees["L0"] == pytest.approx(10, rel=1e-4)
    assert found.standard_errors["L0"] == pytest.approx(errors[1], rel=1e-4)
    half = stats.t.ppf(0.95, 10) * errors[1]
    assert found.interval("L0", 0.9) == pytest.approx((estimate[1] - half, estimate[1] + half), rel=1e-5)


def test_within_runs_a_balanced_table_has_the_interval_without_its_means():
    """What varies alike within every run is estimated from differences within runs: n - G - 1 degrees, exactly."""
    runs, labels = grouped_line([5] * 12, within=True)
    found = fit_mixed(linear(runs), labels)
    x, y = 1 / runs["depth"], runs["loss"]
    x, y = (v - (np.bincount(labels, v) / 5)[labels] for v in (x, y))
    slope = x @ y / (x @ x)
    error = math.sqrt(np.sum((y - slope * x) ** 2) / (60 - 12 - 1) / (x @ x))
    assert found.params["c_depth"] == pytest.approx(slope, rel=1e-6)
    assert found.degrees["c_depth"] == pytest.approx(47, rel=1e-4)
    assert found.standard_errors["c_depth"] == pytest.approx(error / slope, rel=1e-4)  # of ln c


@pytest.mark.parametrize("weighted", [False, True])
def test_kenward_and_roger_by_hand(weighted):
    """Equation (2) with n x n matrices, on runs of unequal length."""
    sizes = [1, 2, 3, 5, 8, 4, 6, 2]
    runs, labels = grouped_line(sizes, within=False, seed=8, shared=0.012)
    weights = np.random.default_rng(1).uniform(0.5, 2, len(labels))
    runs = Runs.from_columns({**{name: runs[name] for name in ("depth", "loss", "run")}, "w": weights})
    fitted = linear(runs, "w" if weighted else None)
    found = fit_mixed(fitted, labels)
    w = weights / weights.mean() if weighted else np.ones(len(labels))
    x = np.stack([1 / runs["depth"], np.ones(len(labels))], axis=1)
    z = (labels[:, None] == np.arange(8)).astype(float)
    parts = [np.diag(1 / w), z @ z.T]

    def pieces(variances):
        inverse = np.linalg.inv(variances[0] * parts[0] + variances[1] * parts[1])
        phi = np.linalg.inv(x.T @ inverse @ x)
        return inverse, phi, inverse - inverse @ x @ phi @ x.T @ inverse

    def restricted(logs):
        variances = np.exp(logs)
        inverse, phi, projection = pieces(variances)
        y = runs["loss"]
        return -np.linalg.slogdet(inverse)[1] - np.linalg.slogdet(phi)[1] + y @ projection @ y

    best = np.exp(
        optimize.minimize(
            restricted,
            np.log([4e-4, 2e-3]),
            method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 5000},
        ).x
    )
    assert found.components.row**2 == pytest.approx(best[0], rel=1e-4)
    assert found.components.shared**2 == pytest.approx(best[1], rel=1e-4)
    inverse, phi, projection = pieces(best)
    information = [[np.trace(projection @ a @ projection @ b) / 2 for b in parts] for a in parts]
    spread = np.linalg.inv(information)
    p = [-x.T @ inverse @ a @ inverse @ x for a in parts]
    q = [[x.T @ inverse @ a @ inverse @ b @ inverse @ x for b in parts] for a in parts]
    middle = sum(spread[i, j] * (q[i][j] - p[i] @ phi @ p[j]) for i in (0, 1) for j in (0, 1))
    adjusted = phi + 2 * phi @ middle @ phi
    pulls = np.array([phi[1] @ part @ phi[1] for part in p])
    assert math.sqrt(adjusted[1, 1]) > 1.03 * math.sqrt(phi[1, 1])  # the correction is there to be seen
    assert found.standard_errors["L0"] == pytest.approx(math.sqrt(adjusted[1, 1]), rel=1e-3)
    assert found.degrees["L0"] == pytest.approx(2 * phi[1, 1] ** 2 / (pulls @ spread @ pulls), rel=1e-3)


@pytest.mark.parametrize(
    ("table", "by", "rho", "shared", "row"),
    [("gemstones", "run", 0.488, 0.552, 0.790), ("chinchilla", "shape", 0.81197, 0.405, 0.450)],
)
def test_public_tables_have_their_components(chin203_fit, table, by, rho, shared, row):
    """Found by an independent implementation, which adds - ln rho to half of the restricted likelihood's."""
    fitted = chin203_fit if table == "chinchilla" else fit(load_dataset(table))
    x, y = np.linalg.qr(fitted.optimum.matrix)[0], fitted.optimum.residuals
    grouped = Grouped(np.ones(len(y)), group_labels(fitted, by))
    found = optimize.minimize_scalar(
        lambda log_rho: restricted(math.exp(log_rho), x, y, grouped) - log_rho, bounds=(-3, 1), options={"xatol": 1e-8}
    )
    assert math.exp(found.x) == pytest.approx(rho, abs=1e-5 if by == "shape" else 2e-3)
    components = components_at(math.exp(found.x), x, y, grouped)
    assert (100 * components.shared, 100 * components.row) == pytest.approx((shared, row), abs=6e-4)
    without = variance_components(fitted, group_labels(fitted, by))
    assert 0.9 * shared < 100 * without.shared < shared


def test_a_table_without_dependence_is_the_fit_itself(chin203_fit):
    rng = np.random.default_rng(5)
    depth = np.tile([2.0, 4, 8, 16, 32, 64], 6)
    loss = (1.7 + 3 / depth) * np.exp(0.003 * rng.standard_normal(36))
    runs = Runs.from_columns({"depth": depth, "loss": loss, "run": np.repeat(np.arange(6), 6)})
    fitted = fit(runs, "depth")
    labels = np.repeat(np.arange(6), 6)
    if variance_components(fitted, labels).shared == 0:
        found = fit_mixed(fitted, labels)
        assert found.params["alpha_depth"] == pytest.approx(fitted.params["alpha_depth"], rel=1e-6)
        assert found.degrees["alpha_depth"] == 33
    with pytest.raises(OptionError, match="no two rows"):
        fit_mixed(fitted, np.arange(36))
    with pytest.raises(OptionError, match="squared objectives"):
        fit_mixed(fit(runs, "depth", "log-huber:1e-3"), labels)
    assert chin203_fit.params["L0"] > 0
