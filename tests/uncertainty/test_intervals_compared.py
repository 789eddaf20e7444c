"""Where two intervals disagree, and intervals of weighted draws, against values by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from scalefit.uncertainty.comparison import compare_intervals, difference
from scalefit.uncertainty.posterior.diagnostics import weighted_interval


@pytest.mark.parametrize(
    ("one", "other", "log", "expected"),
    [
        ((1.0, 3.0), (1.0, 2.0), False, (2.0, False)),
        ((1.0, 2.0), (1.0, 3.0), False, (0.5, False)),
        ((2.1, 3.1), (1.0, 3.0), False, (0.5, True)),
        ((0.0, 1.9), (1.0, 3.0), False, (0.95, True)),
        ((2.0, 8.0), (1.0, 16.0), True, (0.5, False)),
        ((1.0, 3.0), (1.0, 16.0), True, (math.log(3) / math.log(16), True)),  # the centre is 4
        ((-1.0, 3.0), (1.0, 3.0), True, (2.0, False)),  # no logarithms below zero
        ((1.0, math.inf), (1.0, 3.0), False, (math.inf, False)),
        ((1.0, 3.0), (-math.inf, 3.0), False, (0.0, False)),
        ((1.0, math.inf), (2.0, math.inf), False, (1.0, False)),
        ((1.0, 1.0), (1.0, 1.0), False, (1.0, False)),
        ((1.0, 3.0), (2.0, 2.0), False, (math.inf, True)),
        ((1.0, 1.0), (2.0, 2.0), False, (1.0, True)),
    ],
)
def test_the_ratio_of_widths_and_a_missed_centre(one, other, log, expected):
    ratio, apart = difference(one, other, log)
    assert (ratio, apart) == (pytest.approx(expected[0]), expected[1])


def test_disagreements_are_wide_narrow_or_apart(chin203_fit):
    """Against the trusted interval from 1 to 3: half as wide again is too much, and so is two thirds of it."""
    others = {
        "wider": ((0.51, 3.49), None), "too wide": ((0.49, 3.51), (1.51, False)),
        "narrower": ((1.32, 2.68), None), "too narrow": ((1.34, 2.66), (0.66, False)),
        "apart": ((2.1, 4.0), (0.95, True)), "beside": ((1.9, 4.0), None),
    }  # fmt: skip
    found = compare_intervals(chin203_fit, ["wald"])
    intervals = {"wald": {"L0": (1.0, 3.0)}} | {
        name: {"L0": ends, "c_width": (1, 2)} for name, (ends, _) in others.items()
    }
    compared = replace(found, intervals=intervals, preferred=("wald",), reservations={})
    assert compared.default == "wald"
    expected = [
        {"method": name, "parameter": "L0", "width_ratio": pytest.approx(says[0]), "apart": says[1]}
        for name, (_, says) in others.items()
        if says is not None
    ]
    assert compared.disagreements() == expected


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_weights_count_draws(level):
    """A draw of weight w is w equal draws."""
    rng = np.random.default_rng(0)
    values, weights = rng.standard_normal(400), rng.integers(1, 9, 400)
    low, high = weighted_interval(values, weights.astype(float), level)
    repeated = np.sort(np.repeat(values, weights))
    ends = np.quantile(repeated, [(1 - level) / 2, (1 + level) / 2], method="inverted_cdf")
    assert (low, high) == tuple(ends)
    assert weighted_interval(values, weights / weights.sum(), level) == (low, high)


def test_the_default_level_of_weighted_draws_is_95_percent():
    values = np.arange(1000.0)
    assert weighted_interval(values, np.ones(1000)) == weighted_interval(values, np.ones(1000), 0.95)
