"""From a sweep's table to exponents with intervals and a verdict on convergence."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
from scipy import stats

from scalefit.errors import DataError
from scalefit.experiments.cells import Array, Cell
from scalefit.experiments.remarks import cell_warnings
from scalefit.experiments.results import DepthExponent, Estimate, LocalSlope
from scalefit.experiments.table import by_condition, check_table, total_units

__all__ = ["depth_exponents"]

HALF = (0.4, 0.6)
"""A horizon between these fractions of another counts as its half."""

AGREEMENT = 0.1
"""Exponents of two horizons agree within this or two standard errors of their difference."""


def depth_exponents(
    table: pd.DataFrame, *, level: float = 0.95, allow_unannealed: bool = False
) -> tuple[DepthExponent, ...]:
    """Fit the exponents of every condition and horizon of a sweep.

    Parameters
    ----------
    table : DataFrame
        As `read_sweep` gives it.
    level : float
        Confidence of the intervals.
    allow_unannealed : bool
        Accept losses of students whose rate was never annealed.

    Returns
    -------
    tuple of DepthExponent
        By condition, the longest horizon first.

    Raises
    ------
    DataError
        The table is empty, not annealed or holds a student twice, its total units are fixed, or fewer than three
        depths are left.
    """
    if not 0 < level < 1:
        raise DataError(f"level is {level} and must lie between 0 and 1")
    check_table(table, allow_unannealed=allow_unannealed)
    if (units := total_units(table)) is not None:
        raise DataError(
            f"depth times hidden units is {units} for every student: such a table compares arrangements of one size "
            "and asks for no exponent; use units_controls"
        )
    found: list[DepthExponent] = []
    for label, condition in by_condition(table):
        shorter: dict[int, Cell] = {}
        cells = [Cell(rows, label) for _, rows in condition.groupby("horizon", sort=True)]
        results = []
        for cell in cells:
            half = [other for horizon, other in shorter.items() if HALF[0] <= horizon / cell.horizon <= HALF[1]]
            results.append(_describe(cell, half[-1] if half else None, level))
            if cell.horizon:
                shorter[cell.horizon] = cell
        found.extend(reversed(results))
    return tuple(found)


def _estimate(alphas: Array, level: float) -> Estimate:
    known = alphas[np.isfinite(alphas)]
    n = len(known)
    mean = float(known.mean()) if n else float("nan")
    reach = float("nan")
    if n > 1:
        reach = float(stats.t.ppf((1 + level) / 2, n - 1) * known.std(ddof=1) / np.sqrt(n))
    return Estimate(mean, (mean - reach, mean + reach), tuple(alphas.tolist()))


def _describe(cell: Cell, half: Cell | None, level: float) -> DepthExponent:
    logs = np.log(cell.losses)
    slopes = tuple(
        LocalSlope((a, b), _estimate((logs[:, j] - logs[:, j + 1]) / np.log(b / a), level))
        for j, (a, b) in enumerate(pairwise(cell.depths))
    )
    shares = cell.floor_shares[np.isfinite(cell.floor_shares)]
    share = float(shares.max()) if shares.size else float("nan")
    converged, half_alpha = _agreement(cell, half)
    estimates = {variant: _estimate(alphas, level) for variant, alphas in cell.alphas.items()}
    return DepthExponent(
        condition=cell.condition,
        label=cell.label,
        horizon=cell.horizon,
        teacher_depth=cell.teacher_depth,
        depths=cell.depths,
        seeds=cell.seeds,
        estimates=estimates,
        floor_share=share,
        local_slopes=slopes,
        half=half_alpha,
        converged=False if cell.rising else converged,
        warnings=cell_warnings(cell, converged, half_alpha, estimates["no-floor"].alpha, share),
    )


def _agreement(cell: Cell, half: Cell | None) -> tuple[bool | None, float]:
    """Compare with the half horizon, teacher by teacher."""
    if half is None:
        return None, float("nan")
    before = dict(zip(half.seeds, half.alphas["no-floor"], strict=True))
    after = dict(zip(cell.seeds, cell.alphas["no-floor"], strict=True))
    both = [seed for seed in before if np.isfinite(before[seed]) and np.isfinite(after.get(seed, np.nan))]
    if not both:
        return None, float("nan")
    change = np.array([after[seed] - before[seed] for seed in both])
    error = change.std(ddof=1) / np.sqrt(change.size) if change.size > 1 else 0.0
    agrees = bool(abs(change.mean()) <= max(AGREEMENT, 2 * error))
    return agrees, float(np.mean([before[seed] for seed in both]))
