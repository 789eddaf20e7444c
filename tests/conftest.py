"""Fixtures that many tests share, and repeatable property tests."""

# ruff: noqa: E402
from __future__ import annotations

import os
import signal

# A shell that starts the tests in its background has them ignore Ctrl-C, and so would every process they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# One BLAS thread, as in worker processes, or sums come out in another order; before NumPy is loaded.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import pytest
from hypothesis import settings
from known_tables import t27_columns

from scalefit.datasets import load_dataset
from scalefit.fitting.fit import Fit, fit
from scalefit.runs import Runs

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(scope="session")
def t27() -> Runs:
    """The noiseless table."""
    return Runs.from_columns(t27_columns(), name="t27")


@pytest.fixture(scope="session")
def chin203() -> Runs:
    """The Chinchilla table without its 40 largest losses (42 rows go, by a tie)."""
    return load_dataset("chinchilla").drop_worst(40)


@pytest.fixture(scope="session")
def chin203_fit(chin203: Runs) -> Fit:
    """The worked example, fitted."""
    return fit(chin203)
