"""Laws of products and coupled terms: certified optima, exact derivatives, recovery of a truth, every use of a fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from known_tables import t27_columns

import scalefit as sf
from scalefit.fitting.centred import CentredLaw, centre
from scalefit.fitting.derivatives import evaluate, local_model
from scalefit.fitting.objective import Objective
from scalefit.fitting.problem import jacobian, predict
from scalefit.laws.constraints import Constraints
from scalefit.laws.law import Law
from scalefit.laws.terms import NAMED_LAWS
from scalefit.uncertainty.asymptotic import asymptotic

LAWS = {
    "width*depth+tokens": {
        "c_width_depth": 80.0,
        "alpha_width": 0.5,
        "alpha_depth": 0.4,
        "c_tokens": 700.0,
        "alpha_tokens": 0.33,
        "L0": 1.7,
    },
    "(width+depth+tokens)^q": {
        "c_width": 100.0,
        "alpha_width": 0.8,
        "c_depth": 3.0,
        "alpha_depth": 0.9,
        "c_tokens": 700.0,
        "alpha_tokens": 0.33,
        "q": 2.0,
        "L0": 1.7,
    },
    "(width*depth+tokens)^q+0": {
        "c_width_depth": 80.0,
        "alpha_width": 0.2,
        "alpha_depth": 0.2,
        "c_tokens": 60.0,
        "alpha_tokens": 0.16,
        "q": 2.0,
    },
    "(width+tokens)^(1/alpha_tokens)+0": {
        "c_width": 8.0,
        "alpha_width": 0.1,
        "c_tokens": 60.0,
        "alpha_tokens": 0.15,
    },
}


def columns(n: int = 60, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "width": rng.choice([256.0, 512, 1024, 2048], n),
        "depth": rng.choice([4.0, 8, 16, 32], n),
        "tokens": np.exp(rng.uniform(np.log(1e9), np.log(1e11), n)),
    }


def table(law: str, noise: float = 0.0) -> sf.Runs:
    given = columns()
    loss = Law.parse(law).predict(given, LAWS[law])
    errors = noise * np.random.default_rng(1).standard_normal(len(loss))
    return sf.Runs.from_frame(pd.DataFrame({**given, "loss": loss * np.exp(errors)}))


# Optima certified by 32 starts of another implementation, to the digits that it printed.
REFERENCE = [
    ("chinchilla", 40, "(params+tokens)^q", 2.46530e-5, {"L0": 1.6890, "alpha_params": 0.3266, "q": 1.4085}),
    ("chinchilla", 40, "(width+depth+tokens)^q", 2.56181e-5, {"L0": 1.6668, "alpha_depth": 1.1717, "q": 1.4192}),
    ("chinchilla", 40, "params+tokens", 2.93434e-5, {}),
    ("chinchilla", 40, "width+depth+tokens", 3.02740e-5, {}),
    ("chinchilla", 5, "(params+tokens)^q", 3.94023e-5, {}),
    ("chinchilla", 5, "(width+depth+tokens)^q", 4.29298e-5, {}),
    ("gemstones", 0, "(params+tokens)^q", 1.60678e-4, {}),
    ("gemstones", 0, "(width+depth+tokens)^q", 7.74548e-5, {"L0": 0.0, "alpha_width": 0.2296, "alpha_tokens": 0.4135}),
]


@pytest.mark.parametrize(("name", "dropped", "law", "value", "params"), REFERENCE)
def test_optima_that_another_implementation_certified(
    name: str, dropped: int, law: str, value: float, params: dict[str, float]
) -> None:
    found = sf.fit(sf.load_dataset(name).drop_worst(dropped), law)
    assert found.objective_value == pytest.approx(value, rel=3e-6)  # six digits are given
    assert found.certificate.starts_at_best >= 28
    assert found.certificate.gradient < 1e-9
    for parameter, expected in params.items():
        assert found.params[parameter] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("law", LAWS)
def test_truth_is_recovered_without_noise(law: str) -> None:
    found = sf.fit(table(law), law)
    assert found.converged
    for name, value in LAWS[law].items():
        assert found.params[name] == pytest.approx(value, rel=1e-6)


CONSTRAINTS = [
    Constraints(),
    Constraints(fixed={"c_tokens": 300.0}, ties={"alpha_depth": "alpha_width"}),
    Constraints(bounds={"c_tokens": (0.5, 1e9), "alpha_width": (0.1, 2.0)}),
]


def random_point(law: str, objective: str, constraints: Constraints, seed: int = 0) -> tuple[CentredLaw, np.ndarray]:
    read = Law.parse(law)
    centred = centre(read, t27_columns(0.01), Objective.parse(objective), constraints.checked(read))
    point = np.random.default_rng(seed).uniform(0.3, 1.0, len(centred.free_names))
    for j, parameter in enumerate(centred.free_parameters):
        if parameter.name in constraints.bounds and parameter.is_coefficient:
            point[j] *= 500  # it stands in plain units
    return centred, point


@pytest.mark.parametrize("constraints", CONSTRAINTS)
@pytest.mark.parametrize("objective", ["log-mse", "huber:0.5"])
@pytest.mark.parametrize(
    "law", ["width*depth+tokens", "(width*depth+tokens)^q", "(width+depth+tokens)^(1/alpha_tokens)+0"]
)
def test_derivatives_agree_with_finite_differences(law: str, objective: str, constraints: Constraints) -> None:
    """Central differences of relative step 1e-5: about 1e-9 of the largest entry, plus rounding."""
    centred, point = random_point(law, objective, constraints)
    problem = centred.problem
    state, slopes = evaluate(problem, point[None]), jacobian(problem, point)
    for j in range(len(point)):
        step = 1e-5 * abs(point[j])
        moved = np.stack([point, point])
        moved[:, j] += [step, -step]
        ends, losses = evaluate(problem, moved), predict(problem, moved)
        scale = np.abs(state.gradient).max()
        assert abs((ends.value[0] - ends.value[1]) / (2 * step) - state.gradient[0, j]) < 1e-6 * scale
        scale = np.abs(state.hessian[0]).max()
        np.testing.assert_allclose(
            (ends.gradient[0] - ends.gradient[1]) / (2 * step), state.hessian[0, j], atol=1e-6 * scale
        )
        residuals = problem.objective.transform(losses)
        np.testing.assert_allclose(
            (residuals[0] - residuals[1]) / (2 * step), slopes[:, j], rtol=1e-5, atol=1e-6 * np.abs(slopes).max()
        )


@pytest.mark.parametrize("constraints", CONSTRAINTS)
@pytest.mark.parametrize("law", ["width*depth+tokens", "(width*depth+tokens)^q"])
def test_plain_and_solver_parameters_say_the_same(law: str, constraints: Constraints) -> None:
    centred, point = random_point(law, "log-mse", constraints)
    params = centred.params(point)
    np.testing.assert_allclose(centred.free(params), point, rtol=1e-10)
    given = t27_columns(0.01)
    np.testing.assert_allclose(centred.law.predict(given, params), predict(centred.problem, point[None])[0], rtol=1e-10)
    both = centred.plain(np.stack([point, 1.01 * point]))
    np.testing.assert_allclose(both[0], list(params.values()), rtol=1e-14)
    inner = [p.inner(both[:, i]) for i, p in enumerate(centred.law.parameters)]
    slopes = centred.reporting_jacobian(1.005 * point) @ (0.01 * point)
    # The secant over one percent is the slope in its middle to second order, about 1e-4.
    np.testing.assert_allclose([x[1] - x[0] for x in inner], slopes, rtol=1e-3, atol=1e-5)


def test_the_local_model_is_the_state_with_both_matrices() -> None:
    centred, point = random_point("(width*depth+tokens)^q", "log-mse", Constraints())
    model, state = local_model(centred.problem, point[None]), evaluate(centred.problem, point[None])
    np.testing.assert_allclose(model.hessian, state.hessian)
    slopes = jacobian(centred.problem, point)
    np.testing.assert_allclose(model.normal[0], 2 * slopes.T @ slopes / len(slopes), rtol=1e-10)


def test_with_one_of_both_ends_of_q_the_law_is_its_sum_or_its_largest_term() -> None:
    law, given = Law.parse("(width+depth+tokens)^q"), columns()
    truth = LAWS["(width+depth+tokens)^q"]
    terms = np.stack(list(law.term_values(given, truth).values()))
    np.testing.assert_allclose(law.predict(given, {**truth, "q": 1.0}), terms.sum(axis=0) + 1.7, rtol=1e-14)
    np.testing.assert_allclose(law.predict(given, {**truth, "q": 1e4}), terms.max(axis=0) + 1.7, rtol=1e-3)


def test_kaplan_is_the_published_formula() -> None:
    """Kaplan et al. (2020), equation 1.5 with the numbers below it."""
    n, d = np.array([1e6, 1e8, 1e10]), np.array([1e9, 1e10, 1e11])
    expected = ((6.4e13 / n) ** (0.076 / 0.103) + 1.8e13 / d) ** 0.103
    params = {"c_params": 6.4e13**0.076, "alpha_params": 0.076, "c_tokens": 1.8e13**0.103, "alpha_tokens": 0.103}
    np.testing.assert_allclose(Law.parse("kaplan").predict({"params": n, "tokens": d}, params), expected, rtol=1e-12)


@pytest.mark.parametrize("law", LAWS)
def test_every_use_of_a_fit_takes_the_law(law: str, tmp_path) -> None:
    found = sf.fit(table(law, noise=0.002), law)
    sf.save_fit(found, tmp_path / "fit.json")
    again = sf.load_fit(tmp_path / "fit.json")
    assert (again.law, again.params, again.certificate) == (found.law, found.params, found.certificate)
    name, truth = "alpha_width", LAWS[law]["alpha_width"]
    error = found.by_row.standard_errors[name]
    assert abs(found.params[name] - truth) < 4 * error
    for low, high in (
        sf.bootstrap(found, 60, seed=0).interval(name),
        sf.profile(found, name).interval,
        asymptotic(found, simulations=0).interval(name, "observed"),
    ):
        assert low < found.params[name] < high
        assert 2 * error < high - low < 8 * error  # 3.9 if all of them were the same
    predicted = sf.prediction_interval(found, columns(3, seed=5))
    np.testing.assert_allclose(predicted.loss, found.law.predict(columns(3, seed=5), found.params), rtol=1e-12)
    model = sf.lmfit_model(law)
    given = {name: columns(3, seed=5)[name] for name in found.law.columns}
    np.testing.assert_allclose(model.eval(**given, **found.params), predicted.loss, rtol=1e-12)
    assert all(parameter in sf.describe(found) for parameter in found.params)


def test_posterior_of_a_product() -> None:
    found = sf.fit(table("width*depth+tokens", noise=0.002), "width*depth+tokens")
    low, high = sf.importance_sample(found, n_draws=2000, seed=0).interval("alpha_depth")
    assert low < 0.4 < high


def test_a_sum_makes_q_no_better_than_one() -> None:
    given, truth = columns(120), {**LAWS["(width+depth+tokens)^q"], "q": 1.0}
    loss = Law.parse("(width+depth+tokens)^q").predict(given, truth)
    noisy = loss * np.exp(0.003 * np.random.default_rng(3).standard_normal(len(loss)))
    found = sf.fit(sf.Runs.from_frame(pd.DataFrame({**given, "loss": noisy})), "(width+depth+tokens)^q")
    assert "additive-is-enough" in [w.code for w in found.warnings]
    low, high = found.interval("q")
    assert low < 1 < high


def test_a_bottleneck_is_told_by_the_shares() -> None:
    """Each of two terms decides alone in half of the rows: its share there is above 1 - 1e-4."""
    rng = np.random.default_rng(4)
    width = np.concatenate([rng.uniform(10, 30, 40), rng.uniform(1e6, 3e6, 40)])
    tokens = np.concatenate([rng.uniform(1e12, 3e12, 40), rng.uniform(1e3, 3e3, 40)])
    loss = 1.0 + np.maximum(10 / width**0.7, 30 / tokens**0.5)
    noisy = loss * np.exp(0.001 * rng.standard_normal(80))
    runs = sf.Runs.from_frame(pd.DataFrame({"width": width, "tokens": tokens, "loss": noisy}))
    found = sf.fit(runs, "(width+tokens)^q")
    assert "bottleneck" in [w.code for w in found.warnings]
    assert found.params["alpha_width"] == pytest.approx(0.7, abs=0.01)


@pytest.mark.parametrize("name", NAMED_LAWS)
def test_named_laws_are_read_and_written(name: str) -> None:
    law = Law.parse(name)
    assert Law.parse(str(law)) == law == Law.parse(NAMED_LAWS[name].text)


@pytest.mark.parametrize(
    ("law", "message"),
    [
        ("(width)^q", "couples one term"),
        ("(width+depth)^(1/alpha_tokens)", "none of its exponents"),
        ("(width+depth)^2", "is not a column"),
        ("width*width", "twice"),
        ("(width+depth)^q+tokens", "is not a column"),
    ],
)
def test_what_cannot_be_read_is_said(law: str, message: str) -> None:
    with pytest.raises(sf.OptionError, match=message):
        Law.parse(law)


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (Constraints(fixed={"q": 0.0}), "q is fixed at 0"),
        (Constraints(bounds={"q": (0.0, 5.0)}), "must be positive"),
        (Constraints(bounds={"c_width": (-1.0, 5.0)}), "nothing may be negative"),
        (Constraints(ties={"q": "alpha_width"}), "only exponents"),
    ],
)
def test_constraints_that_a_coupled_law_cannot_have(constraints: Constraints, message: str) -> None:
    with pytest.raises(sf.OptionError, match=message):
        constraints.checked(Law.parse("(width+depth)^q"))


@pytest.mark.parametrize("fixed", [{"q": 1.0}, {"q": 2.0}, {"alpha_tokens": 0.33, "L0": 1.7}, {"c_depth": 3.0}])
def test_fixed_values_hold_and_cost_something(fixed: dict[str, float]) -> None:
    law = "(width+depth+tokens)^q"
    runs = table(law, noise=0.005)
    free, held = sf.fit(runs, law), sf.fit(runs, law, constraints=Constraints(fixed=fixed))
    assert {name: held.params[name] for name in fixed} == pytest.approx(fixed, rel=1e-12)
    assert held.converged
    assert held.objective_value >= free.objective_value * (1 - 1e-9)
    if fixed == {"q": 1.0}:
        total = sf.fit(runs, "width+depth+tokens")
        assert held.objective_value == pytest.approx(total.objective_value, rel=1e-9)


@pytest.mark.parametrize("law", ["kaplan", "coupled"])
def test_verdicts_of_coupled_laws_hold_q_far_up_without_a_warning_of_numpy(law):
    """Held at the end of its range the coupling is 1,000 and a size to this power no float."""
    fitted = sf.fit(sf.load_dataset("chinchilla"), law, n_starts=8)
    assert set(fitted.verdicts) == set(fitted.params)
    size = CentredLaw.of(fitted).free({**fitted.params, "alpha_tokens": 1e-3, "c_tokens": 1e6})
    assert np.isfinite(size).all()
