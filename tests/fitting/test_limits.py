"""One-sided limits of parameters at a bound, against least squares on a straight line."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from scalefit.fitting.fit import Fit, fit
from scalefit.laws.constraints import Constraints
from scalefit.runs import Runs

ONE_SIDED = 1.6449
"""Normal quantile of 95 %; two-sided intervals have 1.96, 19 % more."""

TOLERANCE = 0.005
"""At 400 rows Student's t differs from the normal by 0.2 %, and a degree of freedom more or less by 0.1 %."""


def line(level: float, seed: int) -> Runs:
    """400 runs of level + 10 / depth with normal noise of 0.05 nats."""
    rng = np.random.default_rng(seed)
    depth = np.geomspace(2, 20, 400)
    return Runs.from_columns({"depth": depth, "loss": level + 10 / depth + rng.normal(0, 0.05, 400)})


def expected_limit(fitted: Fit, side: float) -> float:
    """Where the sum of squares with the constant held exceeds that at the bound by 1.6449^2 times the noise."""
    x, y, bound = 1 / fitted.runs["depth"], fitted.runs["loss"], fitted.params["L0"]

    def squares(constant: float) -> float:
        return float(np.sum((y - constant - x * (x @ (y - constant)) / (x @ x)) ** 2))

    variance = squares(bound) / 398
    return float(brentq(lambda v: squares(v) - squares(bound) - ONE_SIDED**2 * variance, bound, bound + side))


def free_error(fitted: Fit) -> float:
    """Standard error that the constant would have, were it free, from the residuals of the fit at its bound."""
    design = np.stack([np.ones(400), 1 / fitted.runs["depth"]], axis=1)
    variance = float(np.sum(fitted.residuals**2)) / 398
    return math.sqrt(variance * np.linalg.inv(design.T @ design)[0, 0])


@pytest.mark.parametrize(
    ("level", "bound", "side"), [(0.0, ":", 1.0), (2.0, "L0=:1.99", -1.0), (1.0, "L0=1.01:3", 1.0)]
)
def test_a_limit_is_one_sided_and_lies_within_the_bounds(level: float, bound: str, side: float) -> None:
    """At a lower bound by the profile over the floor, at an upper one by the error that it would have."""
    constraints = Constraints.parse(fix=["alpha_depth=1"], bound=[] if bound == ":" else [bound])
    # of five tables those whose constant ends at the bound
    options = {"objective": "mse", "constraints": constraints, "n_starts": 2, "errors": "rows"}
    fits = [fit(line(level, seed), "depth", **options) for seed in range(5)]
    held = [fitted for fitted in fits if "L0" in fitted.limits]
    assert held
    for fitted in held:
        reach = side * (fitted.limits["L0"] - fitted.params["L0"])
        wanted = expected_limit(fitted, side) - fitted.params["L0"] if side > 0 else ONE_SIDED * free_error(fitted)
        assert reach == pytest.approx(wanted, rel=TOLERANCE)
        assert math.isnan(fitted.standard_errors["L0"])


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_a_limit_ends_at_the_smallest_loss(seed: int) -> None:
    """Over a range of 2 % in depth the constant and the term look alike: no constant lies above any loss."""
    rng = np.random.default_rng(seed)
    depth = np.geomspace(2, 2.05, 400)
    runs = Runs.from_columns({"depth": depth, "loss": 0.2 / depth * rng.uniform(0.7, 1.3, 400)})
    fitted = fit(runs, "depth", "mse", constraints=Constraints.parse(fix=["alpha_depth=1"]), n_starts=2)
    assert fitted.params["L0"] == 0
    assert fitted.limits["L0"] == runs["loss"].min()
