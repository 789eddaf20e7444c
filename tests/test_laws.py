"""Laws: notation, predictions, derivatives."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_tables import T27_LAW, t27_columns

from scalefit.errors import DataError, OptionError
from scalefit.laws.law import Law
from scalefit.laws.terms import PowerTerm, power_term

exponents = st.floats(0.05, 2.0)


@pytest.mark.parametrize(
    ("text", "columns", "shifts", "irreducible"),
    [
        ("width+depth+tokens", ("width", "depth", "tokens"), (0, 0, 0), True),
        (" params + tokens ", ("params", "tokens"), (0, 0), True),
        ("depth", ("depth",), (0,), True),
        ("depth+0", ("depth",), (0,), False),
        ("width+(depth-2)+tokens", ("width", "depth", "tokens"), (0, 2, 0), True),
        ("(depth+0.5)", ("depth",), (-0.5,), True),
        ("(tokens-1e+3)+0", ("tokens",), (1000,), False),
        ("depth-2", ("depth",), (2,), True),
        ("(tokens-123456789)+(depth+0.123456789)", ("tokens", "depth"), (123456789, -0.123456789), True),
    ],
)
def test_notation(text: str, columns: tuple[str, ...], shifts: tuple[float, ...], irreducible: bool) -> None:
    law = Law.parse(text)
    assert law.columns == columns
    assert tuple(term.shift for term in law.terms) == shifts
    assert law.irreducible is irreducible
    assert Law.parse(str(law)) == law


@pytest.mark.parametrize(
    "text", ["", "0", "width+", "width+width", "width*", "(width)^q", "(depth-x)", "(depth-2", "2depth"]
)
def test_malformed_notation_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="law"):
        Law.parse(text)


def test_prediction_is_the_formula() -> None:
    columns = t27_columns()
    np.testing.assert_allclose(Law.parse("width+depth+tokens").predict(columns, T27_LAW), columns["loss"], rtol=1e-14)


def test_terms_add_up_to_the_prediction() -> None:
    columns, law = t27_columns(), Law.parse("width+depth+tokens")
    parts = law.term_values(columns, T27_LAW)
    np.testing.assert_allclose(sum(parts.values()) + 1.7, law.predict(columns, T27_LAW), rtol=1e-14)
    np.testing.assert_allclose(parts["depth"], 10 / columns["depth"], rtol=1e-14)


def test_shift_is_subtracted() -> None:
    law = Law((PowerTerm("depth", 2.0),), irreducible=False)
    assert law.predict({"depth": [4.0]}, {"c_depth": 6.0, "alpha_depth": 1.0}).tolist() == [3.0]


@given(alphas=st.tuples(exponents, exponents, exponents), floor=st.floats(0.1, 3.0))
def test_jacobian_agrees_with_finite_differences(alphas: tuple[float, float, float], floor: float) -> None:
    """Central differences of relative step 1e-6 are exact to about 1e-9 of the derivative's scale."""
    law, columns = Law.parse("width+depth+tokens"), t27_columns()
    params = {**T27_LAW, "L0": floor, **dict(zip(("alpha_width", "alpha_depth", "alpha_tokens"), alphas, strict=True))}
    exact = law.jacobian(columns, params)
    for j, name in enumerate(law.parameter_names):
        step = 1e-6 * abs(params[name])
        above, below = (law.predict(columns, {**params, name: params[name] + s}) for s in (step, -step))
        np.testing.assert_allclose(exact[:, j], (above - below) / (2 * step), rtol=1e-5, atol=1e-8)


@given(alphas=st.tuples(exponents, exponents, exponents))
def test_predictions_fall_in_every_column_and_tend_to_the_floor(alphas: tuple[float, float, float]) -> None:
    law = Law.parse("width+depth+tokens")
    params = {**T27_LAW, **dict(zip(("alpha_width", "alpha_depth", "alpha_tokens"), alphas, strict=True))}
    at = {"width": 1024.0, "depth": 16.0, "tokens": 1e10}
    for column in law.columns:
        path = {**at, column: at[column] * np.geomspace(1, 1e6, 20)}
        assert np.all(np.diff(law.term_values(path, params)[column]) < 0)
        assert np.all(np.diff(law.predict(path, params)) <= 0)
    infinite = dict.fromkeys(at, 1e200)
    assert law.predict(infinite, params) == pytest.approx(params["L0"], rel=1e-5)


def test_points_may_be_a_frame() -> None:
    frame = pd.DataFrame(t27_columns())
    np.testing.assert_allclose(Law.parse("width+depth+tokens").predict(frame, T27_LAW), frame["loss"], rtol=1e-14)


def test_missing_column_is_named() -> None:
    with pytest.raises(DataError, match=r"needs the column 'depth'; there are width, tokens"):
        Law.parse("width+depth").predict({"width": [1.0], "tokens": [1.0]}, T27_LAW)


def test_argument_that_is_not_positive_is_named() -> None:
    with pytest.raises(DataError, match=r"row 2: \(depth-2\) is 0 and must be positive.*--where 'depth > 2'"):
        Law.parse("(depth-2)").predict({"depth": [4.0, 2.0]}, {"c_depth": 1, "alpha_depth": 1, "L0": 1})


def test_power_term_of_a_scalar() -> None:
    assert power_term(4.0, 8.0, 0.5) == pytest.approx(4.0)
