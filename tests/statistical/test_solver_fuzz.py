"""The solver against SciPy on a sample of random tables; `make fuzz` runs hundreds of them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("benchmarks are not part of an installed package", allow_module_level=True)
sys.path.insert(0, str(BENCHMARKS))
import fuzz_solver  # noqa: E402


@pytest.mark.parametrize("seed", [1, 2])
def test_no_lower_point_is_known(seed: int) -> None:
    outcome = fuzz_solver.examine(seed, n_starts=10)
    assert not outcome.missed, outcome
    assert not outcome.wrongly_failed, outcome


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 23))
def test_no_lower_point_is_known_on_more_tables(seed: int) -> None:
    outcome = fuzz_solver.examine(seed, n_starts=60)
    assert not outcome.missed, outcome
    assert not outcome.wrongly_failed, outcome


@pytest.mark.slow
def test_the_rival_minimises_the_same_objective() -> None:
    """SciPy's least is the objective of the library at the point it found, here that of the fit."""
    table = fuzz_solver.random_table(4)
    rival = fuzz_solver.Rival(table)
    residuals, _ = rival.evaluate(rival.start(np.random.default_rng(0)))
    assert residuals.shape == (len(table.runs),)
    outcome = fuzz_solver.examine(4, n_starts=6)
    assert outcome.scipy == pytest.approx(outcome.ours, rel=1e-9)


@pytest.mark.slow
def test_a_solver_stopped_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: one start of few steps misses."""
    from scalefit.fitting import search, solver

    monkeypatch.setattr(solver, "QUICK_ITERATIONS", 1)
    monkeypatch.setattr(search, "POLISHED", 0)
    monkeypatch.setattr(solver, "solve_damped", _unmoved)
    outcome = fuzz_solver.examine(4, n_starts=6)
    assert outcome.missed
    assert not outcome.converged


def _unmoved(problem, starts, rows, *_):
    from scalefit.fitting.derivatives import local_model

    none = np.zeros(len(starts), dtype=bool)
    return local_model(problem, starts, rows), none, none.astype(int)
