"""Quantiles of Student's t are SciPy's."""

from __future__ import annotations

import itertools

import pytest
from scipy.stats import t as student

from scalefit.errors import OptionError
from scalefit.fitting.student import t_quantile

DEGREES = (0.7, 1, 1.5, 2, 3.7, 5, 8.3, 12.4, 29, 100.5, 999, 1000, 1001, 54321.0)
PROBABILITIES = (0.5, 0.6, 0.8, 0.95, 0.975, 0.995, 0.9995, 0.3, 0.025)


@pytest.mark.parametrize(("degrees", "probability"), list(itertools.product(DEGREES, PROBABILITIES)))
def test_quantiles_are_scipys(degrees, probability):
    # SciPy's own quantiles are good to about 1e-10 at the far ends of few degrees.
    expected = student.ppf(probability, degrees)
    assert t_quantile(degrees, probability) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("degrees", "probability"), [(0, 0.5), (3, 0), (3, 1), (float("nan"), 0.5)])
def test_impossible_quantiles_are_refused(degrees, probability):
    with pytest.raises(OptionError, match="t has no quantile"):
        t_quantile(degrees, probability)
