"""One condition at one horizon: its losses by teacher and depth, the fits of every teacher."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from scalefit.errors import DataError
from scalefit.experiments.table import CONDITION
from scalefit.fitting.fit import FitStatus, fit
from scalefit.runs import Runs

__all__ = ["VARIANTS", "Cell", "finite_teacher_factor"]

Array = NDArray[np.float64]

VARIANTS = {"no-floor": "depth", "floor": "depth", "finite-teacher": "effective_depth"}
"""Column of the power term, by variant."""

LEAST_DEPTHS = 3


def finite_teacher_factor(depths: Sequence[int], teacher_depth: int) -> float:
    """Factor by which equation (1) overstates an exponent of equation (3): a slope in logarithms.

    Raises
    ------
    DataError
        A student is as deep as its teacher.

    Examples
    --------
    >>> round(finite_teacher_factor([6, 12, 16, 24, 32, 48], 128), 3)
    1.193
    """
    if max(depths) >= teacher_depth:
        raise DataError(f"depth {max(depths)} must be less than the teacher's {teacher_depth} layers; leave it out")
    d = np.asarray(depths, dtype=float)
    return float(-np.polyfit(np.log(d), np.log(1 / d - 1 / teacher_depth), 1)[0])


class Cell:
    """The losses of one condition and horizon, with the fits of every teacher.

    Parameters
    ----------
    rows : DataFrame
        Rows of a sweep that share condition and horizon.
    label : str
        As `by_condition` gives it.

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
        self.finite = first["target"] == "teacher"
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
        if self.finite and depth.max() < self.teacher_depth:
            columns["effective_depth"] = 1 / (1 / depth - 1 / self.teacher_depth)
        runs = Runs.from_columns(columns, name=f"{self.label}, seed {self.seeds[i]}")
        for variant, column in VARIANTS.items():
            floor = variant == "floor"
            # A curve with floor needs more than three points, and rising losses have no floor to find.
            if column not in columns or (floor and (len(depth) <= LEAST_DEPTHS or (np.diff(loss) > 0).any())):
                continue
            found = fit(runs, column if floor else f"{column}+0", n_starts=8)
            if found.status != FitStatus.FAILED:
                self.alphas[variant][i] = found.params[f"alpha_{column}"]
                if floor:
                    self.floor_shares[i] = found.params["L0"] / loss.min()

    @property
    def rising(self) -> bool:
        """Whether some teacher's deeper student has the larger loss."""
        return bool((np.diff(self.losses, axis=1) > 0).any())
