"""Fixed values, ties and bounds, and their translation to lmfit."""

from __future__ import annotations

import math

import pytest
from known_tables import t27_columns

from scalefit.errors import OptionError
from scalefit.fitting.fit import fit
from scalefit.laws.constraints import Constraints
from scalefit.laws.law import Law
from scalefit.laws.lmfit import from_lmfit, lmfit_model, to_lmfit
from scalefit.runs import Runs

LAW = Law.parse("width+depth+tokens")


def test_written_forms() -> None:
    constraints = Constraints.parse(["L0=1.7"], ["alpha_depth = alpha_width"], ["alpha_tokens=0.1:", "c_width=:400"])
    assert constraints.fixed == {"L0": 1.7}
    assert constraints.ties == {"alpha_depth": "alpha_width"}
    assert constraints.checked(LAW).bounds == {"alpha_tokens": (0.1, 10.0), "c_width": (0.0, 400)}


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (Constraints(fixed={"alpha_dpeth": 1}), "no parameter 'alpha_dpeth'; it has c_width, alpha_width"),
        (Constraints(fixed={"L0": math.nan}), "must be a finite number"),
        (Constraints(fixed={"L0": 3}, bounds={"L0": (0, 2)}), "outside its bounds 0 to 2"),
        (Constraints(bounds={"L0": (2, 1)}), "the lower must not exceed the upper"),
        (Constraints(ties={"c_width": "c_depth"}), "only exponents can be tied"),
        (Constraints(ties={"alpha_width": "alpha_width"}), "not tied itself"),
        (Constraints(ties={"alpha_width": "alpha_depth"}, fixed={"alpha_width": 1}), "must not be fixed or bounded"),
    ],
)
def test_what_cannot_be_is_refused(constraints: Constraints, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        constraints.checked(LAW)


@pytest.mark.parametrize("text", ["L0", "L0=", "=1", "L0=one"])
def test_malformed_fix_is_refused(text: str) -> None:
    with pytest.raises(OptionError):
        Constraints.parse(fix=[text])


def test_equal_bounds_fix() -> None:
    assert Constraints(bounds={"L0": (0, 0)}).checked(LAW).fixed == {"L0": 0}


def test_constraints_hold_in_the_fit() -> None:
    runs = Runs.from_columns(t27_columns(noise=0.005))
    constraints = Constraints.parse(["L0=1.65"], ["alpha_depth=alpha_width"], ["alpha_tokens=0.31:0.4"])
    result = fit(runs, constraints=constraints)
    assert result.params["L0"] == 1.65
    assert result.params["alpha_depth"] == result.params["alpha_width"]
    assert 0.31 <= result.params["alpha_tokens"] <= 0.4
    free = fit(runs)
    assert result.objective_value > free.objective_value


def test_fixed_coefficient_stays_in_plain_units() -> None:
    result = fit(Runs.from_columns(t27_columns()), constraints=Constraints(fixed={"c_tokens": 504.7659}))
    assert result.params["c_tokens"] == pytest.approx(504.7659, rel=1e-12)
    assert result.params["alpha_tokens"] == pytest.approx(0.3, abs=1e-9)


def test_all_exponents_fixed_leaves_a_linear_problem() -> None:
    fixed = {"alpha_width": 1.0, "alpha_depth": 1.0, "alpha_tokens": 0.3}
    result = fit(Runs.from_columns(t27_columns()), constraints=Constraints(fixed=fixed))
    assert result.params["c_width"] == pytest.approx(300, rel=1e-9)
    assert set(result.verdicts) == {"c_width", "c_depth", "c_tokens", "L0"}


def test_nothing_left_to_fit_is_refused(t27: Runs) -> None:
    with pytest.raises(OptionError, match="every parameter is fixed"):
        fit(t27, "depth", constraints=Constraints(fixed={"c_depth": 10, "alpha_depth": 1, "L0": 1.7}))


def test_lmfit_round_trip() -> None:
    constraints = Constraints.parse(["L0=1.7"], ["alpha_depth=alpha_width"], ["alpha_tokens=0.1:0.5"]).checked(LAW)
    assert from_lmfit(to_lmfit(LAW, constraints), LAW) == constraints


def test_lmfit_expression_beyond_a_tie_is_refused() -> None:
    parameters = to_lmfit(LAW)
    parameters["alpha_depth"].expr = "2*alpha_width"
    with pytest.raises(OptionError, match="equality ties only"):
        from_lmfit(parameters, LAW)


def test_lmfit_cannot_improve_on_the_optimum(chin203: Runs) -> None:
    """lmfit's own minimiser, started at our optimum in its own Model, finds nothing lower (to rounding)."""
    ours = fit(chin203, objective="mse")
    model = lmfit_model(LAW)
    assert model.independent_vars == ["width", "depth", "tokens"]
    theirs = model.fit(
        chin203["loss"],
        to_lmfit(LAW, values=ours.params),
        **{name: chin203[name] for name in model.independent_vars},
    )
    assert theirs.chisqr / len(chin203) >= ours.objective_value * (1 - 1e-10)


def test_lmfit_models_compose() -> None:
    model = lmfit_model("depth+0") + lmfit_model("width")
    assert set(model.param_names) == {"c_depth", "alpha_depth", "c_width", "alpha_width", "L0"}
