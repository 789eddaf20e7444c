"""Profiles of a straight line, whose ends have closed forms under every objective."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from scalefit.fitting.fit import fit
from scalefit.laws.constraints import Constraints
from scalefit.runs import Runs
from scalefit.uncertainty.profile import profile

N = 14
FREEDOM = N - 2


def line() -> tuple[Runs, np.ndarray]:
    """14 runs of 2 + 10 / depth, noisier at small depth, and their design matrix."""
    rng = np.random.default_rng(4)
    depth = np.geomspace(4, 64, N)
    loss = 2 + 10 / depth + rng.normal(0, 0.05, N) * (1 + 10 / depth)
    return Runs.from_columns({"depth": depth, "loss": loss}), np.stack([1 / depth, np.ones(N)], axis=1)


@pytest.mark.parametrize(("objective", "calibration"), [("mse", "F"), ("huber:100", "sandwich")])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_ends_are_those_of_least_squares(objective: str, calibration: str, level: float) -> None:
    """With every residual in the quadratic zone a robust profile has the HC1 error, a squared one the usual."""
    runs, design = line()
    fitted = fit(runs, "depth", objective, constraints=Constraints(fixed={"alpha_depth": 1.0}), n_starts=2)
    inverse = np.linalg.inv(design.T @ design)
    estimate = inverse @ design.T @ runs["loss"]
    residuals = runs["loss"] - design @ estimate
    if calibration == "F":
        covariance = inverse * (residuals @ residuals) / FREEDOM
    else:
        rows = design * residuals[:, None]
        covariance = N / FREEDOM * inverse @ rows.T @ rows @ inverse
    quantile = stats.t.ppf((1 + level) / 2, FREEDOM)
    for i, name in enumerate(("c_depth", "L0")):
        found = profile(fitted, name, level)
        half = quantile * math.sqrt(covariance[i, i])
        assert found.calibration == calibration
        # |z| meets the quantile to 1e-4
        assert found.interval == pytest.approx((estimate[i] - half, estimate[i] + half), rel=1e-4)


def test_a_robust_profile_of_many_rows_is_as_wide_as_a_squared_one() -> None:
    """The sandwich of 400 rows knows a standard error to 4 %; a factor of two in z^2 is 41 % of the width."""
    rng = np.random.default_rng(9)
    depth = np.tile(np.geomspace(2, 64, 20), 20)
    runs = Runs.from_columns({"depth": depth, "loss": (1.7 + 3 / depth) * np.exp(0.003 * rng.standard_normal(400))})
    for name in ("alpha_depth", "L0"):
        squared, robust = (
            profile(fit(runs, "depth", objective, n_starts=4), name).interval
            for objective in ("log-mse", "log-huber:1")
        )
        assert robust[1] - robust[0] == pytest.approx(squared[1] - squared[0], rel=0.12)
