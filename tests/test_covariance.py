"""The errors that a fit reports: reference numbers, formulas by hand, rows given twice, the floor at its bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from scalefit.datasets import load_dataset
from scalefit.errors import OptionError
from scalefit.fitting.covariance import error_model
from scalefit.fitting.fit import Fit, fit
from scalefit.fitting.groups import estimate_components, group_labels
from scalefit.fitting.optimum import Optimum
from scalefit.identifiability import Verdict
from scalefit.runs import Runs


@pytest.fixture(scope="module")
def gemstones() -> Fit:
    return fit(load_dataset("gemstones"))


REFERENCE = {
    "alpha_width": (0.0778, 12.4, 0.777, 1.11),
    "alpha_depth": (0.2440, 8.3, 0.766, 1.88),
    "alpha_tokens": (0.0227, 16.7, 0.251, 0.347),
    "L0": (0.0449, 18.0, 1.66, 1.85),
}
GEMSTONES = {
    "alpha_width": (0.0377, 8.0, 0.228, 0.402),
    "alpha_depth": (0.0898, 3.7, 0.001, 0.424),
    "alpha_tokens": (0.0140, 20.4, 0.548, 0.606),
    "L0": (0.541, 5.7, 0.0, 2.06),
}


def _agree(fitted: Fit, reference: dict[str, tuple[float, ...]]) -> None:
    """To half a unit of the last digit printed; ends beyond a bound are cut there."""
    for name, (error, degrees, low, high) in reference.items():
        assert fitted.standard_errors[name] == pytest.approx(error, rel=4e-3), name
        assert fitted.degrees[name] == pytest.approx(degrees, abs=0.06), name
        assert fitted.interval(name) == pytest.approx((low, high), rel=5e-3, abs=6e-4), name


def test_reference_numbers_by_shape(chin203_fit: Fit) -> None:
    """Two programs agreed on them: CR2 by shape with the observed Hessian, Bell-McCaffrey degrees."""
    errors = chin203_fit.errors
    assert (errors.method, errors.by, errors.groups) == ("cluster", "shape", 39)
    _agree(chin203_fit, REFERENCE)
    assert set(chin203_fit.verdicts.values()) == {Verdict.DETERMINED}


def test_reference_numbers_by_run(gemstones: Fit) -> None:
    assert (gemstones.errors.method, gemstones.errors.by, gemstones.errors.groups) == ("cluster", "run", 22)
    _agree(gemstones, GEMSTONES)
    for name in ("alpha_depth", "L0"):
        assert gemstones.verdicts[name] is Verdict.NOT_DETERMINED
    for name in ("alpha_width", "alpha_tokens"):
        assert gemstones.verdicts[name] is Verdict.DETERMINED


def _by_hand(optimum: Optimum, labels: np.ndarray, contrast: np.ndarray) -> tuple[float, float]:
    """Equations (1) and (2) with n x n matrices."""
    weighted = (optimum.matrix * np.sqrt(optimum.weights)[:, None])[:, optimum.inside]
    scores = optimum.scores.first * np.sqrt(optimum.weights)
    chosen = np.ix_(optimum.inside, optimum.inside)
    bread, normal = np.linalg.inv(optimum.hessian[chosen]), np.linalg.inv(weighted.T @ weighted)
    residual = np.eye(len(weighted)) - weighted @ normal @ weighted.T
    pulls, sums = [], 0.0
    for g in range(labels.max() + 1):
        rows = labels == g
        values, vectors = np.linalg.eigh(np.eye(rows.sum()) - weighted[rows] @ normal @ weighted[rows].T)
        root = vectors / np.sqrt(values) @ vectors.T
        pull = contrast[optimum.inside] @ bread @ weighted[rows].T @ root
        sums += float(pull @ scores[rows]) ** 2
        pulls.append(pull @ residual[rows])
    products = np.array(pulls) @ np.array(pulls).T
    return sums, np.trace(products) ** 2 / np.sum(products**2)


@pytest.mark.parametrize("by", ["shape", "row"])
@pytest.mark.parametrize("objective", ["log-mse", "log-huber:5e-3"])
@pytest.mark.parametrize("weighted", [False, True])
def test_variances_and_degrees_follow_the_formulas(chin203: Runs, by: str, objective: str, weighted: bool) -> None:
    rng = np.random.default_rng(2)
    names = ("width", "depth", "tokens", "loss")
    runs = Runs.from_columns({**{n: chin203[n] for n in names}, "w": rng.uniform(0.2, 5.0, len(chin203))})
    fitted = fit(runs, objective=objective, weights="w" if weighted else None, errors=by, n_starts=4)
    labels = group_labels(runs, fitted.law, by)
    for name, row in zip(fitted.params, fitted.optimum.reporting, strict=True):
        variance, degrees = _by_hand(fitted.optimum, labels, row)
        # The Jacobian's condition number is 1e2, that of its inverse products 1e4: eleven digits are left.
        assert fitted.standard_errors[name] == pytest.approx(np.sqrt(variance), rel=1e-7)
        assert fitted.degrees[name] == pytest.approx(degrees, rel=1e-6)


def test_rows_asked_for_are_the_old_errors(chin203_fit: Fit) -> None:
    by_row = fit(chin203_fit.runs, errors="rows")
    assert by_row.standard_errors == chin203_fit.by_row.standard_errors
    assert set(by_row.degrees.values()) == {196.0}
    error = by_row.standard_errors["c_width"]
    low, high = by_row.interval("c_width", 0.9)
    assert high / low == pytest.approx(np.exp(2 * stats.t.ppf(0.95, 196) * error), rel=1e-9)
    with pytest.raises(OptionError, match="unknown grouping 'rwo'"):
        fit(chin203_fit.runs, errors="rwo")


@pytest.mark.parametrize("times", [2, 6])
@pytest.mark.parametrize("law", ["width+depth+tokens", "tokens"])
@pytest.mark.parametrize("n", [12, 60])
def test_a_table_given_twice_says_what_it_says_once(law: str, times: int, n: int) -> None:
    rng = np.random.default_rng(n)
    ends = {"width": (256, 4096), "depth": (4, 48), "tokens": (1e9, 3e11)}
    columns = {name: np.exp(rng.uniform(*np.log(pair), n)) for name, pair in ends.items()}
    columns["loss"] = (1.7 + 300 / columns["width"] + 10 / columns["depth"]) if law != "tokens" else np.full(n, 2.0)
    columns["loss"] = (columns["loss"] + 505 / columns["tokens"] ** 0.3) * np.exp(0.005 * rng.standard_normal(n))
    once = fit(Runs.from_columns(columns), law)
    often = fit(Runs.from_columns({name: np.tile(x, times) for name, x in columns.items()}), law)
    assert often.verdicts == once.verdicts
    assert "exact-duplicates" in {w.code for w in often.warnings}
    for name in once.params:
        assert often.interval(name) == pytest.approx(once.interval(name), rel=1e-5)


def test_a_floor_at_its_bound_widens_the_exponent() -> None:
    """The error for a floor of zero says nothing of the floors above it that fit almost as well."""
    tokens = np.geomspace(1e8, 1e11, 8)
    rng = np.random.default_rng(0)
    held, widths = [], []
    for _ in range(60):
        loss = 5 / tokens**0.04 * np.exp(0.003 * rng.standard_normal(8))
        fitted = fit(Runs.from_columns({"tokens": tokens, "loss": loss}), "tokens", n_starts=4)
        if fitted.params["L0"] == 0:
            estimate, error = fitted.params["alpha_tokens"], fitted.standard_errors["alpha_tokens"]
            low, high = fitted.interval("alpha_tokens")
            assert low < estimate < high
            assert fitted.interval("L0")[0] == 0 < fitted.interval("L0")[1] < loss.min()
            assert fitted.verdicts["L0"] is Verdict.AT_BOUND
            held.append(low <= 0.04 <= high)
            widths.append((high - low) / (2 * stats.t.ppf(0.975, 6) * error))
    assert len(held) > 15
    assert np.median(widths) > 5
    assert np.mean(held) > 0.85


def test_few_runs_have_no_interval() -> None:
    rng = np.random.default_rng(1)
    width, depth = np.repeat([256.0, 512, 1024, 2048, 4096, 300], 10), np.repeat([4.0, 30, 8, 40, 20, 12], 10)
    tokens = np.tile(np.geomspace(1e9, 1e11, 10), 6)
    loss = (1.7 + 300 / width + 10 / depth + 505 / tokens**0.3) * np.exp(0.002 * rng.standard_normal(60))
    columns = {"run": np.repeat(np.arange(6.0), 10), "width": width, "depth": depth, "tokens": tokens, "loss": loss}
    few = fit(Runs.from_columns(columns))
    assert np.isnan(few.interval("alpha_tokens")).all()
    (warning,) = [w for w in few.warnings if w.code == "too-few-groups"]
    assert warning.numbers["groups"] == 6
    assert np.isfinite(replace(few, errors_by="rows").interval("alpha_tokens")).all()


def test_components_are_those_of_a_balanced_analysis_of_variance() -> None:
    """With a constant alone and balanced groups, restricted likelihood is the analysis of variance."""
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(400), 5)
    errors = 0.3 * rng.standard_normal(400)[labels] + 0.2 * rng.standard_normal(2000)
    errors -= errors.mean()
    means = errors.reshape(400, 5).mean(axis=1)
    within = float(np.sum((errors - means[labels]) ** 2)) / 1600
    between = 5 * float(np.sum(means**2)) / 399
    found = estimate_components(np.full((2000, 1), 2000**-0.5), errors, labels)
    # The penalty moves them by a share of 2 / 400.
    assert found.row == pytest.approx(within, rel=0.01)
    assert found.group == pytest.approx((between - within) / 5, rel=0.02)
    # Of the row variance alone, 1,600 degrees; of what the means have, at most 399.
    assert found.degrees(np.array([[1.0, 0.0], [1.0, 5.0]])) == pytest.approx([1600, 399], rel=0.02)


def test_groups_of_one_row_are_rows(chin203_fit: Fit) -> None:
    optimum, runs, law = chin203_fit.optimum, chin203_fit.runs, chin203_fit.law
    by_row = error_model(optimum, runs, law, "row")
    as_groups = replace(by_row, method="cluster")
    one, other = (model.contrast(optimum.reporting) for model in (by_row, as_groups))
    np.testing.assert_allclose(one.variance, other.variance, rtol=1e-9)
    np.testing.assert_allclose(one.degrees, other.degrees, rtol=1e-9)
