"""Simulated tables: the noise that was asked for, shares with their errors, and the same numbers for any workers."""

from __future__ import annotations

import importlib.util
import json
from types import ModuleType

import numpy as np
import pytest
from known_tables import T27_LAW, t27_columns
from scipy import stats

import scalefit
from scalefit.errors import OptionError
from scalefit.fitting.fit import fit
from scalefit.laws.law import Law
from scalefit.report import describe, document
from scalefit.runs import Runs
from scalefit.simulation import Scenario, Share, simulate
from scalefit.uncertainty.comparison import Settings

LAW = Law.parse("width+depth+tokens")
DESIGN = Runs.from_columns(t27_columns())


def test_the_public_names_are_no_modules():
    """A public name that is also a module's changes its meaning when that module is imported."""
    for name in scalefit.__all__:
        assert not isinstance(getattr(scalefit, name), ModuleType), name
        assert importlib.util.find_spec(f"scalefit.{name}") is None, name
    assert scalefit.simulate is simulate


def test_tables_have_the_noise_asked_for():
    rng = np.random.default_rng(3)
    truth = LAW.predict(DESIGN, T27_LAW)
    scenario = Scenario(DESIGN, LAW, T27_LAW, noise=0.01, group_noise=0.03)
    errors = np.array([np.log(scenario.table(rng)["loss"] / truth) for _ in range(400)]).reshape(-1, 9, 3)
    # Rows stand in groups of three tokens to a shape. Standard deviations of thousands are known to 2 %.
    assert errors.std() == pytest.approx(np.hypot(0.01, 0.03), rel=0.05)
    assert (errors - errors.mean(axis=2, keepdims=True)).std() == pytest.approx(0.01 * np.sqrt(2 / 3), rel=0.05)


def test_a_scenario_of_a_fit_has_its_noise_and_what_rows_share(chin203_fit):
    shared = Scenario.of(chin203_fit)
    # Standard deviations by an independent implementation, per cent of the loss.
    assert shared.by == "shape"
    assert (100 * shared.noise, 100 * shared.group_noise) == pytest.approx((0.450, 0.405), abs=2e-3)
    assert shared.params == chin203_fit.params
    rng = np.random.default_rng(1)
    fitted = chin203_fit.predict(chin203_fit.runs)
    errors = [np.log(shared.table(rng)["loss"] / fitted) for _ in range(40)]
    # The variance of 40 tables of 39 shapes, most of one row or two, is known to some per cent.
    assert np.std(errors) == pytest.approx(np.hypot(0.0045, 0.00405), rel=0.08)
    rng = np.random.default_rng(2)
    columns = {"depth": np.geomspace(2, 64, 40)}
    loss = (1.7 + 3 / columns["depth"]) * np.exp(0.01 * rng.standard_normal(40))
    alone = Scenario.of(fit(Runs.from_columns({**columns, "loss": loss}), "depth"))
    assert alone.group_noise == 0
    assert alone.noise == pytest.approx(0.01, rel=0.25)  # of 37 degrees of freedom


def test_shares_carry_the_exact_binomial_interval():
    for hits, n in ((0, 20), (7, 20), (20, 20), (190, 200)):
        expected = stats.binomtest(hits, n).proportion_ci(method="exact")
        assert Share(hits, n).interval == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_power_rises_with_the_distance_and_bias_is_small():
    scenario = Scenario(DESIGN, LAW, T27_LAW, noise=0.005)
    settings = Settings(seed=2, names=("alpha_depth",))
    found = {
        value: simulate(scenario, 60, methods=("wald",), against={"alpha_depth": value}, settings=settings)
        for value in (1.0, 1.1, 1.5)
    }
    powers = [found[value].power["wald"]["alpha_depth"].value for value in (1.0, 1.1, 1.5)]
    assert powers[0] < 0.2  # the truth is excluded by 5 % of the intervals: P(Binomial(60, 0.05) >= 12) = 1e-4
    assert powers[0] < powers[1] < powers[2]
    assert powers[2] == 1.0
    bias, error = found[1.0].bias("alpha_depth")
    assert abs(bias) < 4 * error
    assert found[1.0].spread("alpha_depth") == pytest.approx(0.05, rel=0.4)
    assert found[1.0].determined["alpha_depth"].value == 1.0


def test_workers_do_not_change_the_result():
    scenario = Scenario(DESIGN, LAW, T27_LAW)
    alone, together = (
        simulate(scenario, 20, methods=("wald",), settings=Settings(workers=workers)) for workers in (0, 2)
    )
    assert document(alone) == document(together)


def test_document_and_report():
    found = simulate(Scenario(DESIGN, LAW, T27_LAW), 10, methods=("wald",), against={"alpha_depth": 2})
    facts = json.loads(json.dumps(document(found)))
    assert facts["coverage"]["wald"]["L0"]["n"] == 10
    assert facts["truth"] == T27_LAW
    text = describe(found)
    assert "10 tables of 27 rows" in text
    assert "leaves out alpha_depth = 2" in text


def test_what_makes_no_sense_is_refused():
    with pytest.raises(OptionError, match="the truth lacks L0"):
        Scenario(DESIGN, LAW, {n: v for n, v in T27_LAW.items() if n != "L0"})
    with pytest.raises(OptionError, match="one must be positive"):
        Scenario(DESIGN, LAW, T27_LAW, noise=0.0)
    with pytest.raises(OptionError, match="no parameter 'alpha_flops'"):
        simulate(Scenario(DESIGN, LAW, T27_LAW), 10, against={"alpha_flops": 1})
    with pytest.raises(OptionError, match="unknown method 'magic'"):
        simulate(Scenario(DESIGN, LAW, T27_LAW), 10, methods=("magic",))
