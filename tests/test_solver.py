"""The batched solver: derivatives, independence of the batch, bounds, robust objectives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_tables import t27_columns

from scalefit.fitting.centred import CentredLaw, centre
from scalefit.fitting.derivatives import evaluate, gauss_newton
from scalefit.fitting.objective import Objective
from scalefit.fitting.problem import jacobian, predict
from scalefit.fitting.solver import solve
from scalefit.fitting.starts import draw_starts
from scalefit.laws.constraints import Constraints
from scalefit.laws.law import Law
from scalefit.runs import Runs

OBJECTIVES = ["log-mse", "mse", "log-huber:0.003", "huber:0.01"]


def _centred(objective: str, noise: float = 0.01, weights: np.ndarray | None = None) -> CentredLaw:
    law, columns = Law.parse("width+depth+tokens"), t27_columns(noise)
    return centre(law, columns, Objective.parse(objective), Constraints().checked(law), weights)


def _points(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate(
        [rng.uniform(0.2, 1.0, (n, 3)), rng.uniform(0.5, 2, (n, 1)), rng.uniform(0.2, 1.2, (n, 3))], 1
    )


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("weighted", [False, True])
def test_derivatives_agree_with_finite_differences(objective: str, weighted: bool) -> None:
    """Central differences of step 1e-6: gradients to 1e-7, Hessians (of gradients) to 1e-6, away from kinks."""
    weights = np.linspace(0.5, 2, 27) if weighted else None
    problem = _centred(objective, weights=weights).problem
    point, step = _points(1)[0], 1e-6
    state = evaluate(problem, point[None])
    for j in range(7):
        moved = np.stack([point, point])
        moved[:, j] += [step, -step]
        ends = evaluate(problem, moved)
        assert (ends.value[0] - ends.value[1]) / (2 * step) == pytest.approx(state.gradient[0, j], rel=1e-6, abs=1e-9)
        np.testing.assert_allclose(
            (ends.gradient[0] - ends.gradient[1]) / (2 * step), state.hessian[0, :, j], rtol=1e-5, atol=1e-7
        )


def test_gauss_newton_is_twice_the_mean_square_of_the_jacobian() -> None:
    problem, point = _centred("log-mse").problem, _points(1)[0]
    derivative = jacobian(problem, point)
    np.testing.assert_allclose(gauss_newton(problem, point[None])[0], 2 * derivative.T @ derivative / 27, rtol=1e-12)


def test_value_is_the_objectives(chin203_fit) -> None:
    problem = centre(
        chin203_fit.law, chin203_fit.runs, chin203_fit.objective, chin203_fit.constraints
    ).problem  # fmt: skip
    point = _points(1)
    value = chin203_fit.objective.value(predict(problem, point)[0], chin203_fit.runs["loss"])
    assert evaluate(problem, point).value[0] == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_many_problems_at_once_are_each_solved_alone(objective: str) -> None:
    """Each problem of a batch with its own weights has the optimum that it has by itself."""
    problem = _centred(objective).problem
    rng = np.random.default_rng(3)
    weights = rng.multinomial(27, np.full(27, 1 / 27), size=5).astype(float)
    start = solve(_centred("log-mse").problem, draw_starts(_centred("log-mse").problem, 1, rng)).state.free
    together = solve(replace(problem, weights=weights), np.repeat(start, 5, axis=0))
    for i in range(5):
        alone = solve(replace(problem, weights=weights[i]), start)
        assert together.state.value[i] == pytest.approx(alone.state.value[0], rel=1e-9)


def test_targets_may_differ_between_problems() -> None:
    problem = _centred("log-mse").problem
    rng = np.random.default_rng(4)
    targets = problem.target + 0.01 * rng.standard_normal((3, 27))
    start = np.repeat(draw_starts(problem, 1, rng), 3, axis=0)
    together = solve(replace(problem, target=targets), start)
    for i in range(3):
        alone = solve(replace(problem, target=targets[i]), start[:1])
        assert together.state.value[i] == pytest.approx(alone.state.value[0], rel=1e-9)


@given(seed=st.integers(0, 10_000))
def test_every_start_reaches_the_optimum_of_a_noiseless_table(seed: int) -> None:
    problem = _centred("log-mse", noise=0.0).problem
    solution = solve(problem, draw_starts(problem, 8, np.random.default_rng(seed)))
    assert solution.converged.all()
    assert np.abs(np.log(predict(problem, solution.state.free)) - problem.target).max() < 1e-9


@pytest.mark.parametrize("column", ["width", "depth", "tokens"])
def test_large_residuals_do_not_hold_up_a_law_of_one_term(chin203: Runs, column: str) -> None:
    """Residuals of 5 %: the refit, exact for small ones, rests 6e-4 above the optimum and must give way."""
    law = Law.parse(f"{column}+0")
    problem = centre(law, chin203, Objective(), Constraints().checked(law)).problem
    solution = solve(problem, draw_starts(problem, 16, np.random.default_rng(0)))
    assert solution.converged.all()
    assert solution.iterations.max() <= 10
    assert np.ptp(solution.state.value) < 1e-12 * solution.state.value[0]


def test_gradient_vanishes_at_the_solution() -> None:
    problem = _centred("log-huber:0.003").problem
    solution = solve(problem, draw_starts(problem, 4, np.random.default_rng(0)))
    scale = np.sqrt(np.diag(gauss_newton(problem, solution.state.free[:1])[0]))
    best = int(solution.state.value.argmin())
    assert np.abs(solution.state.gradient[best] / scale).max() < 1e-10


def test_bounds_are_kept_and_reached() -> None:
    law, columns = Law.parse("width+depth+tokens"), t27_columns(0.01)
    constraints = Constraints(bounds={"alpha_depth": (1.5, 3.0), "L0": (1.9, 2.5)}).checked(law)
    problem = centre(law, columns, Objective(), constraints).problem
    solution = solve(problem, draw_starts(problem, 16, np.random.default_rng(0)))
    assert np.all(solution.state.free >= problem.lower - 1e-15)
    assert np.all(solution.state.free <= problem.upper + 1e-15)
    best = solution.state.free[solution.state.value.argmin()]
    assert best[3] == 1.9 or best[5] == 1.5


@pytest.mark.parametrize("bounds", [(2.0, 5.0), (2.0, np.inf), (0.01, 0.1), (-np.inf, 0.1), (-1.0, -0.5), (0.5, 0.7)])
def test_starts_spread_within_any_bounds(bounds: tuple[float, float]) -> None:
    law, columns = Law.parse("width+depth+tokens"), t27_columns(0.01)
    problem = centre(law, columns, Objective(), Constraints(bounds={"alpha_depth": bounds}).checked(law)).problem
    alphas = draw_starts(problem, 32, np.random.default_rng(0))[:, 5]
    assert np.all((alphas >= bounds[0]) & (alphas <= bounds[1]))
    assert len(np.unique(alphas)) == 32


def test_a_point_where_the_law_is_not_positive_has_no_finite_value() -> None:
    problem = _centred("log-mse").problem
    point = _points(1)
    point[0, :4] = -1
    assert evaluate(problem, point).value[0] == np.inf


def test_too_few_iterations_are_reported() -> None:
    problem = _centred("log-mse").problem
    solution = solve(problem, draw_starts(problem, 3, np.random.default_rng(0)), max_iterations=1)
    assert not solution.converged.any()
    assert np.isfinite(solution.state.value).all()
