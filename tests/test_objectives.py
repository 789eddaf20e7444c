"""Objectives: names, the penalty and its derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from scalefit.errors import OptionError
from scalefit.fitting.objective import Objective

NAMES = ["log-mse", "mse", "log-huber:0.001", "huber:0.012345678"]


@pytest.mark.parametrize("name", NAMES)
def test_names_read_back(name: str) -> None:
    assert Objective.parse(name).name == name


@pytest.mark.parametrize(
    "name", ["", "l2", "huber", "log-huber:", "log-huber:x", "huber:0", "huber:-1", "mse:1", "huber:nan"]
)
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(OptionError):
        Objective.parse(name)


@pytest.mark.parametrize("name", NAMES)
def test_score_and_curvature_are_derivatives(name: str) -> None:
    """Away from the kinks of the Huber penalty, central differences are exact to 1e-7."""
    objective, step = Objective.parse(name), 1e-7
    r = np.array([-0.5, -0.02, -0.0004, 0.0003, 0.006, 0.03, 1.0])
    slope = (objective.penalty(r + step) - objective.penalty(r - step)) / (2 * step)
    np.testing.assert_allclose(objective.score(r), slope, rtol=1e-6, atol=1e-9)
    bend = (objective.score(r + step) - objective.score(r - step)) / (2 * step)
    np.testing.assert_allclose(np.broadcast_to(objective.curvature(r), r.shape), bend, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(objective.reweighting(r) * r, objective.score(r), rtol=1e-14)


def test_huber_is_quadratic_inside_and_linear_outside() -> None:
    huber = Objective.parse("huber:0.1")
    np.testing.assert_allclose(huber.penalty(np.array([0.05, -0.3])), [0.05**2 / 2, 0.1 * (0.3 - 0.05)])


def test_value_is_a_weighted_mean() -> None:
    predicted, observed = np.array([2.0, 3.0]), np.array([1.0, 3.5])
    assert Objective.parse("mse").value(predicted, observed) == pytest.approx((1 + 0.25) / 2)
    assert Objective.parse("mse").value(predicted, observed, np.array([3.0, 1.0])) == pytest.approx((3 + 0.25) / 4)
    assert Objective.parse("log-mse").value(predicted, observed) == pytest.approx(
        (np.log(2) ** 2 + np.log(3 / 3.5) ** 2) / 2
    )
