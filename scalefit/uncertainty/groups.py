"""Which rows belong together, and whether their residuals say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from scalefit.errors import OptionError
from scalefit.fitting.fit import Fit

__all__ = ["FEWEST_CLUSTERS", "Dependence", "Plan", "choose_method", "group_labels", "test_dependence"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

FEWEST_CLUSTERS = 15
"""With fewer, resampling clusters gives intervals that are too narrow by more than anyone should accept."""

REJECTS = 0.01
"""Rows of a shape are taken for dependent when chance explains their likeness with less than this probability."""


@dataclass(frozen=True)
class Dependence:
    """A test of whether residuals of one group resemble each other (one-way analysis of variance).

    Attributes
    ----------
    by : str
        What groups the rows: ``"run"`` or ``"shape"``.
    n_groups : int
    f : float
        Mean square between groups over mean square within.
    p_value : float
        Probability of so large an F for independent rows.
    intraclass : float
        Correlation of two residuals of one group, estimated from the mean squares.
    """

    by: str
    n_groups: int
    f: float
    p_value: float
    intraclass: float

    @property
    def dependent(self) -> bool:
        """Whether the test rejects independence."""
        return self.p_value < REJECTS

    def document(self) -> dict[str, Any]:
        """The numbers, JSON-ready."""
        return asdict(self) | {"dependent": self.dependent}


@dataclass(frozen=True)
class Plan:
    """The bootstrap that suits a table, and why.

    Attributes
    ----------
    method : str
        ``"pairs"`` or ``"cluster"``.
    by : str
        Resampling unit: ``"row"``, ``"run"`` or ``"shape"``.
    reason : str
        One sentence.
    tests : mapping of str to Dependence
    """

    method: str
    by: str
    reason: str
    tests: Mapping[str, Dependence]


def group_labels(fit: Fit, by: str) -> Labels:
    """(n_rows,) codes from 0 of the group of each row.

    Parameters
    ----------
    fit : Fit
    by : str
        ``"row"``: each alone; ``"run"``: the table's runs; ``"shape"``: rows that agree in all columns of the law
        but tokens; else a column of the table.

    Raises
    ------
    OptionError
        If the grouping is unknown or the law has no column but tokens.
    """
    runs = fit.runs
    if by == "row":
        return np.arange(len(runs), dtype=np.int64)
    if by == "run":
        return runs.run_ids
    if by == "shape":
        columns = [runs[name] for name in fit.law.columns if name != "tokens"]
        if not columns:
            raise OptionError(f"the law {fit.law} has no column but tokens, so that its rows have no shape")
        return np.unique(np.stack(columns), axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)
    if by in runs:
        return np.unique(runs[by], return_inverse=True)[1].astype(np.int64)
    raise OptionError(f"unknown grouping {by!r}; choose row, run, shape or a column of the table")


def test_dependence(fit: Fit, by: str) -> Dependence | None:
    """Test whether residuals of one group resemble each other; None if no group has two rows, or all are one.

    The degrees of freedom within groups are those of the rows less groups; the fit's own parameters take from the
    differences between groups, which makes the test conservative.
    """
    labels = group_labels(fit, by)
    counts = np.bincount(labels)
    n, n_groups = len(labels), len(counts)
    if n_groups in (1, n):
        return None
    residuals = fit.residuals - fit.residuals.mean()
    means = np.bincount(labels, residuals) / counts
    within = float(np.sum((residuals - means[labels]) ** 2) / (n - n_groups))
    between = float(np.sum(counts * means**2) / (n_groups - 1))
    if within == 0:
        return None
    f = between / within
    typical = (n - float(np.sum(counts**2)) / n) / (n_groups - 1)
    intraclass = (between - within) / (between + (typical - 1) * within)
    return Dependence(by, n_groups, f, float(stats.f.sf(f, n_groups - 1, n - n_groups)), intraclass)


# The name begins with "test" for people, not for pytest.
test_dependence.__test__ = False  # type: ignore[attr-defined]


def choose_method(fit: Fit) -> Plan:
    """Choose the resampling unit: runs where rows share them, shapes where their residuals do, rows else."""
    n, n_runs = len(fit.runs), fit.runs.n_runs
    has_shape = any(name != "tokens" for name in fit.law.columns)
    found = {by: test_dependence(fit, by) for by in ("run", *(["shape"] if has_shape else []))}
    tests = {by: test for by, test in found.items() if test is not None}
    if n_runs < n:
        if n_runs >= FEWEST_CLUSTERS:
            reason = f"the {n} rows belong to {n_runs} runs, and rows of one run share its luck"
            return Plan("cluster", "run", reason, tests)
        reason = f"rows share runs, but {n_runs} runs are too few to resample ({FEWEST_CLUSTERS} needed)"
        return Plan("pairs", "row", reason + "; expect these intervals to be too narrow", tests)
    shape = tests.get("shape")
    if shape is not None and shape.dependent and shape.n_groups >= FEWEST_CLUSTERS:
        reason = (
            f"residuals correlate within shape (intraclass correlation {shape.intraclass:.2f}, F {shape.f:.1f}, "
            f"p {shape.p_value:.0e}), so that rows are not independent"
        )
        return Plan("cluster", "shape", reason, tests)
    return Plan("pairs", "row", "nothing in the table speaks against independent rows", tests)
