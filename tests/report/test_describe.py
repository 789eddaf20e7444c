"""Every result has a page and a document, found by its type alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from known_tables import t27_columns

import scalefit as sf
from scalefit.errors import OptionError, ScalefitWarning
from scalefit.experiments.depth_exponents import depth_exponents, read_sweep, units_controls
from scalefit.report import describe, document
from scalefit.report.text import PAGES, remarks, render, span
from scalefit.simulation import Scenario
from scalefit.theory import CHECKS
from scalefit.uncertainty.comparison import Settings, compare_intervals
from scalefit.uncertainty.profile import profile


def epoch_fit() -> sf.Fit:
    return sf.fit(sf.load_dataset("chinchilla").drop_worst(5), "params+tokens")


RESULTS: dict[str, tuple[Callable[[sf.Fit], Any], str]] = {
    "Fit": (lambda fit: fit, "alpha_depth"),
    "Runs": (lambda fit: fit.runs, "what the design can determine"),
    "Samples": (lambda fit: sf.bootstrap(fit, n_resamples=100, seed=0), "95 % interval"),
    "Profile": (lambda fit: profile(fit, "alpha_depth"), "alpha_depth 1.325, 95 % interval by profile"),
    "Comparison": (lambda fit: compare_intervals(fit, ["wald"], Settings(simulations=0)), "the data say"),
    "OptimalShape": (lambda fit: sf.optimal_shape(fit, params=1e9), "budget: params 1e+09"),
    "Allocation": (lambda _: sf.optimal_allocation(epoch_fit(), 1e21), "tokens a parameter"),
    "Requirement": (lambda _: sf.needed_for_loss(epoch_fit(), 2.2), "what a loss of 2.2 takes"),
    "SpeedUp": (lambda _: sf.speed_up(epoch_fit(), epoch_fit(), [1e20]), "speed-up"),
    "IsoFlop": (lambda _: sf.isoflop(sf.load_dataset("chinchilla"), [1e20, 3e20, 1e21]), "N at the minimum"),
    "Prediction": (lambda fit: sf.prediction_interval(fit, {"width": 9, "depth": 9, "tokens": 1e9}), "law's mean"),
    "Suggestion": (lambda fit: sf.suggest_runs(fit, "alpha_depth", 2), "2 runs for alpha_depth"),
    "Simulation": (
        lambda fit: sf.simulate(Scenario(fit.runs, fit.law, fit.params), 2, methods=("wald",)),
        "2 tables of 203 rows",
    ),
    "DepthExponent": (lambda _: depth_exponents(read_sweep("toy_laptop")), "loss ~ 1 / depth^alpha"),
    "UnitsControl": (lambda _: units_controls(read_sweep("toy_total_units")), "depth x hidden units"),
    "Finding": (lambda _: next(iter(CHECKS.values())).run(), "verdict"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_has_a_page_and_a_document(name: str, chin203_fit: sf.Fit) -> None:
    make, expected = RESULTS[name]
    result = make(chin203_fit)
    assert expected in describe(result)
    text = json.dumps(document(result), allow_nan=False)  # nothing that JSON has no form for
    assert json.loads(text) == document(result)


def test_pages_are_those_tested_here() -> None:
    made_by_commands = {"Allocations", "Checked", "ExperimentSummary", "Shapes"}  # tested with the commands
    assert set(PAGES) == set(RESULTS) | made_by_commands


def test_several_results_of_a_kind_share_a_page() -> None:
    found = depth_exponents(read_sweep("toy_laptop"))
    assert len(describe(found)) > len(describe(found[0]))
    assert describe(found[0]) == describe([found[0]])


@pytest.mark.parametrize("thing", [3, "text", [], {"a": 1}, object()])
def test_what_is_no_result_is_refused(thing: object) -> None:
    with pytest.raises(OptionError, match="there is no report of"):
        describe(thing)
    with pytest.raises(OptionError, match="there is no document of"):
        document(thing)


def test_a_report_imports_only_what_made_its_result() -> None:
    program = (
        "import sys, scalefit as sf; sf.describe(sf.fit(sf.load_dataset('gemstones'), n_starts=2)); "
        "print([m for m in sys.modules if m.startswith('scalefit.') and "
        "m.split('.')[1] in ('uncertainty', 'optimal', 'design', 'experiments', 'theory', 'simulation', 'cli')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_remarks_keep_the_order_of_the_result() -> None:
    told = [ScalefitWarning(code, f"of {code}.", "Do.") for code in ("zebra", "ant", "middle")]
    assert [line for line in render(remarks(told)).splitlines() if line.startswith("warning")] == [
        "warning zebra",
        "warning ant",
        "warning middle",
    ]


def test_warnings_of_reading_come_before_those_of_the_design() -> None:
    columns = t27_columns()
    runs = sf.Runs.from_columns({**columns, "depth": np.full(27, 16.0)})
    read = ScalefitWarning("first-of-all", "read.", "Look.")
    table = sf.Runs(runs.table.__class__(**{**vars(runs.table), "warnings": (read,)}))
    codes = [w["code"] for w in document(table)["warnings"]]
    assert codes[0] == "first-of-all"
    assert len(codes) > 1
    text = describe(table)
    assert [text.index(f"warning {code}") for code in codes] == sorted(text.index(f"warning {code}") for code in codes)


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        ((1.0, 2.0), "1.000 to 2.000"),
        ((-np.inf, 2.0), "open to 2.000"),
        ((0.5, np.inf), "0.5000 to open"),
        ((np.nan, np.nan), "-"),
    ],
)
def test_ends_that_do_not_exist_are_said(interval: tuple[float, float], text: str) -> None:
    assert span(interval) == text
