"""Repetitions are found by shortcuts; a plain count over all rows must agree."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalefit.identifiability.inspection import inspect_runs
from scalefit.runs import Runs


def plain_count(columns: dict[str, list[float]]) -> tuple[int, int, float | None, int]:
    """Duplicates, replicated settings, noise and its degrees of freedom, counted row by row."""
    names = list(columns)
    rows = list(dict.fromkeys(zip(*columns.values(), strict=True)))
    settings = [tuple(v for name, v in zip(names, row, strict=True) if name in ("width", "tokens")) for row in rows]
    groups: dict[tuple[float, ...], list[float]] = {}
    for setting, row in zip(settings, rows, strict=True):
        groups.setdefault(setting, []).append(np.log(row[names.index("loss")]))
    squares = sum(((np.array(g) - np.mean(g)) ** 2).sum() for g in groups.values())
    degrees = sum(len(g) - 1 for g in groups.values())
    replicated = sum(n > 1 for n in Counter(settings).values())
    noise = float(np.sqrt(squares / degrees)) if degrees else None
    return len(columns["loss"]) - len(rows), replicated, noise, degrees


small = st.integers(1, 3).map(float)


@given(st.lists(st.tuples(small, small, small, small), min_size=1, max_size=25))
def test_repetitions_agree_with_a_plain_count(rows):
    columns = {name: [row[i] for row in rows] for i, name in enumerate(("width", "tokens", "seed", "loss"))}
    found = inspect_runs(Runs.from_columns(columns)).repetitions
    duplicates, replicated, noise, degrees = plain_count(columns)
    assert (len(found.duplicates), found.replicated, found.degrees) == (duplicates, replicated, degrees)
    assert found.noise == (None if noise is None else pytest.approx(noise, abs=1e-12))


def test_long_columns_of_few_and_of_many_levels():
    rng = np.random.default_rng(3)
    n = 30_000
    columns = {
        "width": rng.choice([256.0, 512.0, 1024.0], n),
        "tokens": rng.uniform(1e9, 1e10, n),
        "loss": rng.uniform(2.0, 3.0, n),
    }
    for name, values in columns.items():
        values[-2:] = values[:2]
        if name == "loss":
            values[-1] *= np.exp(0.1)
    seen = inspect_runs(Runs.from_columns(columns))
    assert {c.name: c.levels for c in seen.columns} == {"width": 3, "tokens": n - 2, "loss": n - 1}
    assert (seen.repetitions.duplicates.tolist(), seen.repetitions.degrees) == ([n - 2], 1)
    # two values 0.1 apart have a standard deviation of 0.1 / sqrt(2)
    assert seen.repetitions.noise == pytest.approx(0.1 / np.sqrt(2), rel=1e-9)


def test_missing_cells_are_left_out():
    columns = {"width": [1.0, 2.0, 4.0, np.nan], "depth": [3.0, 6.0, 12.0, 5.0], "loss": [3.0, 2.5, 2.2, 2.0]}
    seen = inspect_runs(Runs.from_columns(columns))
    assert seen.correlations[0].value == 1.0
    assert {c.name: c.levels for c in seen.columns} == {"width": 3, "depth": 4, "loss": 4}


@pytest.mark.parametrize(("rows", "enough"), [(5, False), (6, True), (7, True)])
def test_a_law_needs_one_row_more_than_it_has_parameters(rows, enough):
    """width+depth has five parameters; a row without depth does not count for it, and does for width alone."""
    rng = np.random.default_rng(2)
    width, depth = rng.permutation(2.0 ** np.arange(1, 9)), rng.permutation(np.arange(1.0, 9))
    depth[rows:] = np.nan
    columns = {"width": width, "depth": depth, "loss": 1 / width + 1}
    (outlook,) = [o for o in inspect_runs(Runs.from_columns(columns)).laws if o.law == "width+depth"]
    assert (outlook.n_parameters, outlook.n_rows) == (5, rows)
    if enough:
        assert (outlook.not_determined, outlook.reason) == ((), "")
    else:
        assert set(outlook.not_determined) == {"c_width", "alpha_width", "c_depth", "alpha_depth", "L0"}
        assert outlook.reason == "5 parameters need at least 6 rows, 5 given"


@pytest.mark.parametrize(("levels", "enough"), [(1, False), (2, False), (3, True)])
def test_a_term_needs_three_levels_of_its_column(levels, enough):
    columns = {"tokens": np.arange(12.0) % levels + 1, "loss": np.linspace(2, 3, 12)}
    seen = inspect_runs(Runs.from_columns(columns))
    assert seen.laws[0].not_determined == (() if enough else ("c_tokens", "alpha_tokens"))
    assert [w.code for w in seen.warnings if w.numbers.get("column") == "tokens"] == (
        [] if enough else ["constant-column" if levels == 1 else "few-levels"]
    )


def test_correlations_of_logarithms():
    rng = np.random.default_rng(1)
    x, y = np.exp(rng.normal(size=(2, 50)))
    seen = inspect_runs(Runs.from_columns({"width": x, "depth": y, "tokens": 7 / x**2, "loss": x + 1}))
    values = {(c.first, c.second): c.value for c in seen.correlations}
    assert values["width", "depth"] == pytest.approx(np.corrcoef(np.log(x), np.log(y))[0, 1], abs=1e-12)
    assert values["width", "tokens"] == -1.0
    assert [w.code for w in seen.warnings] == ["tied-columns"]
