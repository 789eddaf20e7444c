"""Suggested runs shrink the interval as promised: refits of simulated tables, not the formula that chose them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scalefit.design import suggest_runs
from scalefit.fitting.centred import centre
from scalefit.fitting.solver import solve
from scalefit.laws.constraints import Constraints

N_TABLES = 2000
COLUMNS = ("width", "depth", "tokens")


def simulated_spread(fit, extra: dict[str, np.ndarray], seed: int) -> float:
    """Width of the central 95 % of alpha_depth over refits of simulated tables with extra runs."""
    columns = {name: np.concatenate([fit.runs[name], extra[name]]) for name in COLUMNS}
    predicted = fit.predict(columns)
    residuals = fit.residuals
    noise = np.sqrt(residuals @ residuals / (len(residuals) - 7))
    table = centre(fit.law, {**columns, "loss": predicted}, fit.objective, Constraints())
    draws = np.random.default_rng(seed).normal(0, noise, (N_TABLES, len(predicted)))
    problem = replace(table.problem, target=np.log(predicted) + draws)
    truth = [
        fit.params[name] * np.exp(-fit.params["alpha_" + name[2:]] * reference)
        for name, reference in zip(("c_width", "c_depth", "c_tokens"), table.log_references, strict=True)
    ]
    start = np.array([*truth, fit.params["L0"], *(fit.params[f"alpha_{name}"] for name in COLUMNS)])
    assert table.free_names == ("c_width", "c_depth", "c_tokens", "L0", *(f"alpha_{name}" for name in COLUMNS))
    solution = solve(problem, np.tile(start, (N_TABLES, 1)))
    assert solution.converged.mean() > 0.99
    low, high = np.quantile(solution.state.free[:, table.free_names.index("alpha_depth")], [0.025, 0.975])
    return float(high - low)


@pytest.mark.slow
def test_ten_suggested_runs_halve_the_interval_and_ten_on_the_line_leave_it(chin203_fit, chin203):
    suggestion = suggest_runs(chin203_fit, "alpha_depth", 10)
    suggested = {name: np.array([run.point[name] for run in suggestion.runs]) for name in COLUMNS}
    rows = np.random.default_rng(0).choice(len(chin203), 10, replace=False)
    on_line = {name: chin203[name][rows] for name in COLUMNS}
    none = {name: np.empty(0) for name in COLUMNS}
    alone, after, line = (simulated_spread(chin203_fit, extra, seed=1) for extra in (none, suggested, on_line))
    # each spread of 2,000 refits is known to about 2 %
    assert after < 0.5 * alone
    assert line > 0.95 * alone
    # and the expected interval of the formula is the one found
    expected = suggestion.after[1] - suggestion.after[0]
    assert after == pytest.approx(expected, rel=0.15)
