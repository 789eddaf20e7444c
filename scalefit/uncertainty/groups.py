"""Which rows belong together, and whether their residuals say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from scalefit.fitting import groups as fitting_groups
from scalefit.fitting.covariance import AUTO, ROWS
from scalefit.fitting.groups import shared_unit

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["FEWEST_CLUSTERS", "Dependence", "Grouping", "choose_grouping", "group_labels", "test_dependence"]

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
class Grouping:
    """Which rows of a table depend on each other, and how that is known.

    Attributes
    ----------
    by : str
        Rows that may resemble each other: those of one ``"run"``, ``"shape"`` or value of a column; ``"row"`` where
        each stands alone.
    n_groups : int
    reason : str
        One sentence.
    tests : mapping of str to Dependence
    """

    by: str
    n_groups: int
    reason: str
    tests: Mapping[str, Dependence]

    @property
    def bootstrap(self) -> str:
        """The bootstrap that suits: by clusters where there are enough, else by rows."""
        return "cluster" if self.by != "row" and self.n_groups >= FEWEST_CLUSTERS else "pairs"


def group_labels(fit: Fit, by: str) -> Labels:
    """(n_rows,) codes from 0 of the group of each row of a fit, by the rule of `scalefit.fitting.groups`."""
    return fitting_groups.group_labels(fit.runs, fit.law, by)


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


def choose_grouping(fit: Fit, by: str | None = None) -> Grouping:
    """Group by what was asked for, of this function or of the fit; else by what rows share.

    Raises
    ------
    OptionError
        If what was asked for is no grouping of this table.
    """
    has_shape = any(name != "tokens" for name in fit.law.columns)
    found = {unit: test_dependence(fit, unit) for unit in ("run", *(["shape"] if has_shape else []))}
    tests = {unit: test for unit, test in found.items() if test is not None}
    asked = by or (None if fit.errors_by in (AUTO, ROWS) else fit.errors_by)
    unit = asked or shared_unit(fit.runs, fit.law)
    n_groups, test = int(group_labels(fit, unit).max()) + 1, tests.get(unit)
    if asked:
        reason = f"rows are {'taken one by one' if unit == 'row' else f'grouped by {unit}'}, as asked"
    elif unit == "run":
        reason = f"the {len(fit.runs)} rows belong to {n_groups} runs, and rows of one run share its luck"
    elif unit == "row":
        reason = "no two rows share a run or a shape"
    elif test is not None and test.dependent:
        reason = (
            f"residuals correlate within shape (intraclass correlation {test.intraclass:.2f}, F {test.f:.1f}, "
            f"p {test.p_value:.0e}), so that rows are not independent"
        )
    else:
        reason = f"the {len(fit.runs)} rows have {n_groups} shapes, and rows of one shape may resemble each other"
    return Grouping(unit, n_groups, reason, tests)
