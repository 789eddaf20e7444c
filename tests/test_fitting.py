"""fit(): the published optima, invariances, status and errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_tables import T27_LAW, t27_columns

from scalefit.datasets import load_dataset
from scalefit.errors import DataError, OptionError
from scalefit.fitting.derivatives import State
from scalefit.fitting.fit import Fit, FitStatus, fit
from scalefit.fitting.search import _best
from scalefit.fitting.solver import Solution
from scalefit.identifiability import Verdict
from scalefit.laws.constraints import Constraints
from scalefit.laws.law import Law
from scalefit.runs import Runs


def _codes(result: Fit) -> set[str]:
    return {warning.code for warning in result.warnings}


def test_chinchilla_optimum(chin203: Runs, chin203_fit: Fit) -> None:
    """Values on which two independent optimisers agreed, each from 200 random starts."""
    assert len(chin203) == 203
    assert chin203_fit.objective_value == pytest.approx(3.0274e-05, abs=5e-10)
    expected = {"alpha_width": 0.9455, "alpha_depth": 1.3251, "alpha_tokens": 0.2991, "L0": 1.7536}
    for name, value in expected.items():
        assert chin203_fit.params[name] == pytest.approx(value, abs=1e-4)
    for name, value in {"c_width": 274.7, "c_depth": 6.72, "c_tokens": 529.2}.items():
        assert chin203_fit.params[name] == pytest.approx(value, rel=1e-3)
    for name, value in {"alpha_width": 0.085, "alpha_depth": 0.287, "alpha_tokens": 0.014}.items():
        assert chin203_fit.by_row.standard_errors[name] == pytest.approx(value, abs=5e-4)
    assert chin203_fit.certificate.starts_at_best == chin203_fit.certificate.starts == 32
    assert chin203_fit.status is FitStatus.CONVERGED
    assert chin203_fit.certificate.gradient < 1e-10


def test_keeping_the_tie_changes_the_depth_exponent() -> None:
    kept = load_dataset("chinchilla").drop_worst(39)
    assert len(kept) == 206
    assert fit(kept).params["alpha_depth"] == pytest.approx(1.450, abs=1e-3)


def test_without_the_shallowest_row(chin203: Runs) -> None:
    shallow = (chin203["width"] == 768) & (chin203["depth"] == 12)
    assert shallow.sum() == 1
    assert fit(chin203.take(~shallow, "left out")).params["alpha_depth"] == pytest.approx(1.546, abs=1e-3)


def test_replication_of_the_params_tokens_law() -> None:
    """Besiroglu et al. (2024): alpha 0.35, beta 0.37, E 1.82 at the optimum of their Huber objective."""
    runs = load_dataset("chinchilla").drop_worst(5)
    result = fit(runs, "params+tokens", "log-huber:1e-3")
    assert len(runs) == 240
    assert result.objective_value * 240 == pytest.approx(1.0183e-3, abs=5e-8)
    for name, value in {"alpha_params": 0.3473, "alpha_tokens": 0.3672, "L0": 1.8172}.items():
        assert result.params[name] == pytest.approx(value, abs=1e-4)
    assert result.params["c_params"] == pytest.approx(478, abs=0.5)
    assert result.params["c_tokens"] == pytest.approx(2143, abs=1)


@pytest.mark.parametrize("objective", ["log-mse", "log-huber:1e-3", "mse", "huber:0.01"])
def test_units_change_coefficients_only(chin203: Runs, objective: str) -> None:
    """Tokens in billions: alphas, L0 and objective stay, c is divided by (1e9)^alpha."""
    scaled = Runs.from_columns(
        {**{n: chin203[n] for n in ("width", "depth", "loss")}, "tokens": chin203["tokens"] / 1e9}
    )
    plain, billions = fit(chin203, objective=objective), fit(scaled, objective=objective)
    for name in ("alpha_width", "alpha_depth", "alpha_tokens", "L0", "c_width", "c_depth"):
        assert billions.params[name] == pytest.approx(plain.params[name], rel=1e-6)
    factor = 1e9 ** -plain.params["alpha_tokens"]
    assert billions.params["c_tokens"] == pytest.approx(plain.params["c_tokens"] * factor, rel=1e-6)
    assert billions.objective_value == pytest.approx(plain.objective_value, rel=1e-9)


def test_scale_of_the_weights_does_not_matter(chin203: Runs) -> None:
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.5, 2, len(chin203))
    columns = {n: chin203[n] for n in ("width", "depth", "tokens", "loss")}
    small, large = (
        fit(Runs.from_columns({**columns, "weight": weights * s}), objective="log-huber:1e-3", weights="weight")
        for s in (1.0, 1e6)
    )
    for name, value in small.params.items():
        assert large.params[name] == pytest.approx(value, rel=1e-6)


def test_weights_count_rows() -> None:
    """A row of weight two is a row that stands twice."""
    columns = t27_columns(noise=0.01)
    weight = np.where(np.arange(27) % 3 == 0, 2.0, 1.0)
    weighted = fit(Runs.from_columns({**columns, "weight": weight}), weights="weight")
    index = np.repeat(np.arange(27), weight.astype(int))
    repeated = fit(Runs.from_columns({name: values[index] for name, values in columns.items()}))
    for name, value in repeated.params.items():
        assert weighted.params[name] == pytest.approx(value, rel=1e-6)


@given(seed=st.integers(0, 10_000))
def test_row_order_and_duplication_leave_the_estimates(seed: int) -> None:
    columns = t27_columns(noise=0.005, seed=seed)
    order = np.random.default_rng(seed).permutation(27)
    plain = fit(Runs.from_columns(columns))
    shuffled = fit(Runs.from_columns({n: v[order] for n, v in columns.items()}))
    doubled = fit(Runs.from_columns({n: np.concatenate([v, v]) for n, v in columns.items()}))
    for name, value in plain.params.items():
        assert shuffled.params[name] == pytest.approx(value, rel=1e-6)
        assert doubled.params[name] == pytest.approx(value, rel=1e-6)


@given(seed=st.integers(0, 2**32 - 1))
def test_t27_is_recovered_from_any_seed(seed: int) -> None:
    """Noiseless, so to the solver's tolerance; also with tokens in billions."""
    columns = t27_columns()
    for unit in (1.0, 1e9):
        result = fit(Runs.from_columns({**columns, "tokens": columns["tokens"] / unit}), seed=seed, n_starts=8)
        truth = {**T27_LAW, "c_tokens": T27_LAW["c_tokens"] / unit**0.3}
        for name, value in truth.items():
            assert result.params[name] == pytest.approx(value, rel=1e-6)


@given(
    alphas=st.tuples(*[st.floats(0.1, 1.5)] * 3),
    sizes=st.tuples(*[st.floats(0.05, 1.0)] * 3),
    floor=st.floats(0.2, 3.0),
)
def test_random_laws_are_recovered_without_noise(
    alphas: tuple[float, ...], sizes: tuple[float, ...], floor: float
) -> None:
    """The term sizes are those at the geometric mean of each column; predictions agree to 1e-9."""
    columns = t27_columns()
    law = Law.parse("width+depth+tokens")
    params = {"L0": floor}
    for term, alpha, size in zip(law.terms, alphas, sizes, strict=True):
        params[term.exponent] = alpha
        params[term.coefficient] = size * float(np.exp(np.log(columns[term.column]).mean())) ** alpha
    columns["loss"] = law.predict(columns, params)
    result = fit(Runs.from_columns(columns))
    np.testing.assert_allclose(result.predict(columns), columns["loss"], rtol=1e-9)
    for name in ("alpha_width", "alpha_depth", "alpha_tokens"):
        assert result.params[name] == pytest.approx(params[name], rel=1e-4)


@pytest.mark.parametrize(
    ("values", "converged", "best"),
    [
        ([3.0, 2.0, 1.0], [True, True, True], 2),
        ([3.0, 2.0, 2.0 - 1e-9], [True, True, False], 1),
        ([3.0, 2.0, 1.0], [True, True, False], 2),
        ([3.0, 1.0, 2.0], [False, False, False], 1),
        ([3.0, np.inf, 2.0], [False, True, False], 2),
    ],
)
def test_a_solved_start_is_best_unless_another_got_lower(values: list[float], converged: list[bool], best: int) -> None:
    nothing = np.zeros((3, 1))
    state = State(nothing, np.array(values), nothing, nothing[:, :, None], nothing)
    assert _best(Solution(state, np.array(converged), np.zeros(3, dtype=np.intp))) == best


def test_same_seed_same_bytes(chin203: Runs) -> None:
    first, second = fit(chin203, seed=5), fit(chin203, seed=5)
    assert dict(first.params) == dict(second.params)
    assert first.covariance.tobytes() == second.covariance.tobytes()


def test_standard_errors_are_the_scatter_of_estimates() -> None:
    """200 noisy tables: the root mean square of (estimate - truth) / error is 1 within 4 of its errors."""
    scores = []
    for seed in range(200):
        result = fit(Runs.from_columns(t27_columns(noise=0.002, seed=seed)), n_starts=4, errors="rows")
        scores.append((result.params["alpha_depth"] - 1) / result.standard_errors["alpha_depth"])
    assert np.sqrt(np.mean(np.square(scores))) == pytest.approx(1.0, abs=4 / np.sqrt(2 * 200) + 0.03)


@pytest.mark.parametrize("delta", [1e-1, 1e-3, 1e-5, 1e-7])
def test_standard_errors_of_robust_fits_do_not_shrink_with_the_quadratic_zone(delta: float) -> None:
    """60 noisy tables, as above, rows alone; without the density's bandwidth the ratio is 43 at 1e-5."""
    scores = []
    for seed in range(60):
        columns = {name: np.repeat(values, 3) for name, values in t27_columns().items()}
        columns["loss"] *= np.exp(0.003 * np.random.default_rng(seed).standard_normal(81))
        result = fit(Runs.from_columns(columns), objective=f"log-huber:{delta}", n_starts=2, errors="row")
        scores.append((result.params["alpha_tokens"] - 0.3) / result.standard_errors["alpha_tokens"])
    assert 0.6 < np.sqrt(np.mean(np.square(scores))) < 1.0 + 4 / np.sqrt(2 * 60)


@pytest.mark.parametrize("bound", ["c_width=0:1e6", "c_tokens=:1e9", "c_depth=0:"])
def test_bounds_that_do_not_bind_change_nothing(chin203: Runs, chin203_fit: Fit, bound: str) -> None:
    bounded = fit(chin203, constraints=Constraints.parse(bound=[bound]))
    assert bounded.verdicts == chin203_fit.verdicts
    assert bounded.status is FitStatus.CONVERGED
    for name, error in chin203_fit.standard_errors.items():
        assert bounded.params[name] == pytest.approx(chin203_fit.params[name], rel=1e-6)
        assert bounded.standard_errors[name] == pytest.approx(error, rel=1e-6)


def test_gemstones_know_their_runs_and_the_floor_at_zero() -> None:
    result = fit(load_dataset("gemstones"), objective="log-huber:1e-3")
    assert (len(result.runs), result.runs.n_runs) == (220, 22)
    assert result.verdicts["L0"] is Verdict.AT_BOUND
    assert result.params["L0"] == 0
    assert np.isnan(result.standard_errors["L0"])
    assert 0 < result.limits["L0"] < result.runs["loss"].min()
    assert "at-bound" in _codes(result)
    assert "rows-share-runs" in _codes(replace(result, errors_by="rows"))


def test_gemstones_log_mse_has_a_floor() -> None:
    assert fit(load_dataset("gemstones")).params["L0"] == pytest.approx(0.72, abs=0.005)


def test_one_depth_is_not_identified() -> None:
    columns = t27_columns()
    one = columns["depth"] == 16
    result = fit(Runs.from_columns({n: v[one] for n, v in columns.items()}), n_starts=8)
    assert result.status is FitStatus.NOT_IDENTIFIED
    assert {n for n, v in result.verdicts.items() if v is Verdict.NOT_DETERMINED} == {"c_depth", "alpha_depth", "L0"}
    assert "constant-column" in _codes(result)


@pytest.mark.parametrize("noise", [0.0, 0.005])
def test_depth_tied_to_width_is_not_identified(noise: float) -> None:
    depth = np.repeat([4.0, 8, 12, 16, 24, 32], 3)
    tokens = np.tile([1e9, 1e10, 1e11], 6)
    loss = 1.7 + 300 / (64 * depth) + 10 / depth + 504.7659 / tokens**0.3
    loss *= np.exp(noise * np.random.default_rng(0).standard_normal(18))
    result = fit(Runs.from_columns({"width": 64 * depth, "depth": depth, "tokens": tokens, "loss": loss}))
    assert result.status is FitStatus.NOT_IDENTIFIED
    assert {"c_width", "alpha_width", "c_depth", "alpha_depth"} <= {
        n for n, v in result.verdicts.items() if v is Verdict.NOT_DETERMINED
    }
    remark = next(w for w in result.warnings if w.code == "tied-columns")
    smaller = fit(result.runs, remark.numbers["identified_law"])
    assert smaller.status is FitStatus.CONVERGED


def test_a_well_designed_table_raises_no_alarm() -> None:
    """T27 with 0.2 % noise: every parameter is determined, in each of 50 tables."""
    for seed in range(50):
        result = fit(Runs.from_columns(t27_columns(noise=0.002, seed=seed)), n_starts=4)
        assert result.status is FitStatus.CONVERGED, seed
        assert _codes(result) == set(), seed


def test_too_few_rows_are_refused_with_the_count() -> None:
    columns = {n: v[:6] for n, v in t27_columns().items()}
    with pytest.raises(DataError, match="7 parameters need at least 8 rows, 6 given"):
        fit(Runs.from_columns(columns))


def test_fixed_parameters_need_fewer_rows() -> None:
    columns = {n: v[[0, 4, 8, 10, 14, 18, 22]] for n, v in t27_columns().items()}
    assert len(fit(Runs.from_columns(columns), constraints=Constraints(fixed={"L0": 1.7})).runs) == 7


def test_unknown_options_are_refused(t27: Runs) -> None:
    with pytest.raises(OptionError, match="the number of starts is 0"):
        fit(t27, n_starts=0)
    with pytest.raises(DataError, match="no column 'params'"):
        fit(t27, "params+tokens")


def test_large_tables_are_searched_on_a_sample() -> None:
    rng = np.random.default_rng(0)
    n = 20_000
    width, depth, tokens = rng.choice([512, 1024, 2048], n), rng.choice([8, 16, 32], n), 10 ** rng.uniform(9, 11, n)
    loss = (1.7 + 300 / width + 10 / depth + 504.7659 / tokens**0.3) * np.exp(0.005 * rng.standard_normal(n))
    result = fit(Runs.from_columns({"width": width, "depth": depth, "tokens": tokens, "loss": loss}))
    assert result.certificate.start_rows == 4096
    assert result.certificate.gradient < 1e-9
    for name, value in T27_LAW.items():
        error = result.standard_errors[name] * (value if name.startswith("c_") else 1)
        assert abs(result.params[name] - value) < 4.5 * error


@pytest.mark.parametrize("law", ["depth", "depth+0"])
def test_a_loss_that_rises_with_depth_is_an_answer_not_a_failure(law: str) -> None:
    """No decaying term fits such a table: the term vanishes or ends at its bound, and every start agrees."""
    loss = [0.0965, 0.1252, 0.1591, 0.17, 0.18]
    result = fit(Runs.from_columns({"depth": [1, 2, 4, 8, 16], "loss": loss}), law)
    assert result.status is FitStatus.NOT_IDENTIFIED
    assert result.certificate.starts_at_best == result.certificate.starts
    assert result.certificate.gradient < 1e-9
