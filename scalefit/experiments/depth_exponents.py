"""Exponents of loss against depth from a sweep of teacher-student models.

For each teacher (seed) the package's own fitter finds alpha of

    loss = c depth^-alpha                          no-floor (the default),               (1)
    loss = c depth^-alpha + L0                     floor,                                (2)
    loss = c (1/depth - 1/L)^alpha                 finite-teacher, L layers,             (3)

all by least squares of ln loss. A student of depth L can be the teacher, so the law of a finite teacher runs
in 1/depth - 1/L; read by equation (1) it looks steeper by the factor that `finite_teacher_factor` gives.
Chance enters through the teachers: intervals are Student's t over per-teacher exponents, never over points.
A sweep at a fixed total number of hidden units asks for no exponent: `units_controls` compares its losses.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize.elementwise import find_root

from scalefit.errors import DataError
from scalefit.experiments.results import (
    Convergence,
    DepthExponent,
    Estimate,
    LocalSlope,
    describe,
    longest_horizons,
    to_document,
)
from scalefit.experiments.sweeps import (
    CONDITION,
    UnitsControl,
    by_condition,
    check_table,
    describe_units,
    finite_teacher_factor,
    read_sweep,
    total_units,
    units_controls,
    units_document,
)
from scalefit.fitting.fit import fit
from scalefit.runs import Runs

__all__ = [
    "Convergence",
    "DepthExponent",
    "Estimate",
    "LocalSlope",
    "UnitsControl",
    "by_condition",
    "depth_exponents",
    "describe",
    "describe_units",
    "finite_teacher_factor",
    "longest_horizons",
    "read_sweep",
    "to_document",
    "total_units",
    "units_controls",
    "units_document",
]

Array = NDArray[np.float64]

VARIANTS = {"no-floor": "depth", "floor": "depth", "finite-teacher": "effective_depth"}
"""Column of the power term, by variant."""

LEAST_DEPTHS = 3

HALF = (0.4, 0.6)
"""A horizon between these fractions of another counts as its half."""

LEAST_TEACHERS = 3
"""With two teachers the spread of their moves is itself a guess: nothing is concluded."""

POWERS = (0.25, 4.0)
"""Powers of the horizon with which an exponent may approach its limit; slower ones cannot be extrapolated."""


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
        cells = [_Cell(rows, label) for _, rows in condition.groupby("horizon", sort=True)]
        found += [cell.describe(cells[:i], level) for i, cell in reversed(list(enumerate(cells)))]
    return tuple(found)


class _Cell:
    """The losses of one condition and horizon, with the fits of every teacher.

    Attributes
    ----------
    losses : (n_teachers, n_depths) float array
        NaN where a student diverged.
    alphas : dict of str to (n_teachers,) float array
        Exponents by variant.
    floor_shares : (n_teachers,) float array
        Fitted L0 over the smallest loss.
    """

    def __init__(self, rows: pd.DataFrame, label: str) -> None:
        first = rows.iloc[0]
        self.condition = {name: first[name] for name in CONDITION}
        self.label = label
        self.horizon, self.teacher_depth = int(first["horizon"]), int(first["teacher_depth"])
        good = rows[(rows["status"] == "ok") & rows["loss"].notna()]
        matrix = good.pivot(index="seed", columns="depth", values="loss")
        self.n_diverged = len(rows) - len(good)
        enough = matrix.notna().sum(axis=1) >= LEAST_DEPTHS
        if not enough.any():
            raise DataError(
                f"{self.label}, horizon {self.horizon}: no teacher has {LEAST_DEPTHS} depths with a loss "
                f"(depths are {[int(d) for d in matrix.columns]}); an exponent needs {LEAST_DEPTHS} or more"
            )
        matrix = matrix[enough]
        self.seeds = tuple(int(seed) for seed in matrix.index)
        self.depths = tuple(int(depth) for depth in matrix.columns)
        self.losses: Array = matrix.to_numpy(dtype=float)
        self.alphas = {variant: np.full(len(self.seeds), np.nan) for variant in VARIANTS}
        self.floor_shares = np.full(len(self.seeds), np.nan)
        for i in range(len(self.seeds)):
            self._fit_teacher(i)

    def _fit_teacher(self, i: int) -> None:
        seen = np.isfinite(self.losses[i])
        depth, loss = np.asarray(self.depths, dtype=float)[seen], self.losses[i, seen]
        columns = {"depth": depth, "loss": loss}
        if self.condition["target"] == "teacher" and depth.max() < self.teacher_depth:
            columns["effective_depth"] = 1 / (1 / depth - 1 / self.teacher_depth)
        runs = Runs.from_columns(columns, name=f"{self.label}, seed {self.seeds[i]}")
        for variant, column in VARIANTS.items():
            floor = variant == "floor"
            # A curve with floor needs more than three points, and rising losses have no floor to find.
            if column not in columns or (floor and (len(depth) <= LEAST_DEPTHS or (np.diff(loss) > 0).any())):
                continue
            found = fit(runs, column if floor else f"{column}+0", n_starts=8)
            if found.converged:
                self.alphas[variant][i] = found.params[found.law.factors[0].exponent]
                if floor:
                    self.floor_shares[i] = found.params["L0"] / loss.min()

    def describe(self, shorter: Sequence[_Cell], level: float) -> DepthExponent:
        """Turn the fits into one record; `shorter` are the cells of the same condition at shorter horizons."""
        logs = np.log(self.losses)
        slopes = tuple(
            LocalSlope((a, b), _estimate((logs[:, j] - logs[:, j + 1]) / np.log(b / a), level))
            for j, (a, b) in enumerate(pairwise(self.depths))
        )
        halves = [cell for cell in shorter if cell.horizon and HALF[0] <= cell.horizon / self.horizon <= HALF[1]]
        before, after = _paired([halves[-1], self]) if halves else np.empty((2, 0))
        shares = self.floor_shares[np.isfinite(self.floor_shares)]
        estimates = {variant: _estimate(alphas, level) for variant, alphas in self.alphas.items()}
        trained = [cell for cell in shorter if cell.horizon]
        return DepthExponent(
            condition=self.condition,
            label=self.label,
            horizon=self.horizon,
            teacher_depth=self.teacher_depth,
            depths=self.depths,
            seeds=self.seeds,
            estimates={**estimates, "extrapolated": _extrapolated([*trained[-2:], self], level)},
            floor_share=float(shares.max()) if shares.size else float("nan"),
            local_slopes=slopes,
            half=float(before.mean()) if before.size else float("nan"),
            # 90 %: two one-sided tests at 5 %
            move=_estimate(after - before, 0.90).interval if before.size >= LEAST_TEACHERS else (float("nan"),) * 2,
            rising=bool((np.diff(self.losses, axis=1) > 0).any()),
            n_diverged=self.n_diverged,
        )


def _estimate(alphas: Array, level: float) -> Estimate:
    known = alphas[np.isfinite(alphas)]
    n = len(known)
    mean = float(known.mean()) if n else float("nan")
    reach = float("nan")
    if n > 1:
        reach = float(stats.t.ppf((1 + level) / 2, n - 1) * known.std(ddof=1) / np.sqrt(n))
    return Estimate(mean, (mean - reach, mean + reach), tuple(alphas.tolist()))


def _paired(cells: Sequence[_Cell]) -> Array:
    """Exponents without floor of the teachers that have one in every cell; (n_cells, n_teachers)."""
    by_seed = [dict(zip(cell.seeds, cell.alphas["no-floor"].tolist(), strict=True)) for cell in cells]
    rows = [[alphas.get(seed, np.nan) for seed in cells[-1].seeds] for alphas in by_seed]
    found = np.array(rows)
    return found[:, np.isfinite(found).all(axis=0)]


def _extrapolated(cells: Sequence[_Cell], level: float) -> Estimate:
    """Exponent of unlimited training: the limit of alpha(h) = limit + b h^-p through the last three horizons.

    Fitted to the means over teachers, since three points of one teacher are too noisy to bend; the interval is
    Student's t over the jackknife's pseudo-values, one a teacher.
    """
    unknown = Estimate(float("nan"), (float("nan"),) * 2, ())
    if len(cells) < 3:
        return unknown
    alphas, horizons = _paired(cells), np.array([cell.horizon for cell in cells], dtype=float)
    n = alphas.shape[1]
    if n < LEAST_TEACHERS:
        return unknown
    whole = _limit(alphas.mean(axis=1), horizons)
    without = np.array([_limit(np.delete(alphas, i, axis=1).mean(axis=1), horizons) for i in range(n)])
    pseudo = n * whole - (n - 1) * without
    if not np.isfinite(pseudo).all():
        return unknown
    interval = _estimate(pseudo, level).interval
    shift = whole - float(pseudo.mean())  # the interval stands around the estimate itself
    return Estimate(whole, (interval[0] + shift, interval[1] + shift), tuple(pseudo.tolist()))


def _limit(alphas: Array, horizons: Array) -> float:
    """Limit of the curve through three points, NaN where the exponent does not slow down as a power within `POWERS`."""
    ratio = (alphas[2] - alphas[1]) / (alphas[1] - alphas[0]) if alphas[1] != alphas[0] else np.nan

    def steps(p: Array) -> Array:
        x0, x1, x2 = (h**-p for h in horizons / horizons[-1])
        return np.asarray((x2 - x1) / (x1 - x0))

    most, least = steps(np.array(POWERS))  # falls with p
    if not least < ratio < most:
        return float("nan")
    p = float(find_root(lambda p: steps(p) - ratio, POWERS).x)
    x1, x2 = (horizons[1:] / horizons[-1]) ** -p
    return float(alphas[2] - (alphas[2] - alphas[1]) / (x2 - x1) * x2)
