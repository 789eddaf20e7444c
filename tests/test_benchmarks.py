"""The benchmarks compare like with like: what stands beside our fit solves the same problem, and solves it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import approx_fprime

import scalefit as sf
from scalefit.datasets import read_table

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("the benchmarks are not part of an installed package", allow_module_level=True)

sys.path.insert(0, str(BENCHMARKS))
import alternatives  # noqa: E402
import harness  # noqa: E402


@pytest.fixture(scope="module")
def runs():
    return sf.load_dataset("chinchilla").drop_worst(40)


@pytest.fixture(scope="module")
def optimum(runs):
    return sf.fit(runs)


def test_alternatives_know_their_derivatives(runs):
    problem = alternatives.CentredProblem.of(runs)
    for theta in alternatives.random_starts(3, seed=1):
        numerical = approx_fprime(theta, problem.residuals, 1e-7)
        np.testing.assert_allclose(problem.jacobian(theta), numerical, atol=2e-6)


def test_alternatives_minimise_our_objective(runs, optimum):
    problem, starts = alternatives.CentredProblem.of(runs), alternatives.random_starts(2, seed=0)
    reached = [
        alternatives.scipy_trf(problem, starts),
        alternatives.minpack_lm(problem, starts),
        alternatives.lmfit_model(runs, starts),
    ]
    np.testing.assert_allclose(reached, optimum.objective_value, rtol=1e-5)
    assert min(reached) >= optimum.objective_value * (1 - 1e-12)


def test_descent_repeats_its_shipped_trajectory_and_the_published_values(runs, optimum):
    pytest.importorskip("torch")
    import published_procedure as published

    shipped = read_table("published_procedure").set_index("step")
    repeated = np.array(published.descend(runs, steps=1000))
    assert list(repeated[:, 0]) == [0, 500, 1000]
    np.testing.assert_allclose(repeated[:, 1:], shipped.loc[[0, 500, 1000]], rtol=1e-6, atol=1e-5)
    for step, alpha_depth in zip((1_000, 10_000, 50_000), published.PUBLISHED_ALPHA_DEPTH, strict=True):
        assert shipped["alpha_depth"][step] == pytest.approx(alpha_depth, abs=0.0051)  # printed to two digits
    assert shipped["log_mse"].min() > optimum.objective_value


def test_contestants_take_turns(monkeypatch):
    monkeypatch.setattr(harness, "TURN_S", 0.0)
    turns = []
    timings = harness.interleave({"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}, repeats=2)
    assert turns == ["a", "b"] * 3  # the first turn warms up and is not timed
    assert [len(timing.seconds) for timing in timings] == [2, 2]


def test_what_is_quick_is_called_until_its_turn_is_full():
    calls = []
    (timing,) = harness.interleave({"quick": lambda: calls.append(0)}, repeats=1)
    assert len(calls) > 100
    assert timing.median < 1e-3


def test_ratio_table_divides_medians_by_the_reference():
    timings = [harness.Timing("ours", (0.002, 0.001, 0.1), 1.5), harness.Timing("theirs", (2.0, 3.0, 4.0), 2.5)]
    header, ours, theirs = harness.ratio_table(timings, "ours", "value").splitlines()
    assert header.split() == ["median", "ratio", "value"]
    assert ours.split() == ["ours", "2.000", "ms", "1.00", "1.500000e+00"]
    assert theirs.split() == ["theirs", "3.000", "s", "1500.00", "2.500000e+00"]
