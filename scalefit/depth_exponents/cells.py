"""One condition at one horizon: its losses by teacher and depth, the fits, the remarks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from scalefit.errors import DataError, ScalefitWarning
from scalefit.fitting import FitStatus, fit
from scalefit.runs import Runs

__all__ = ["CONDITION", "VARIANTS", "Cell", "cell_warnings", "finite_teacher_factor"]

Array = NDArray[np.float64]

CONDITION = ("kind", "gain", "width", "objective", "temperature", "integrator", "target")
"""Columns that tell apart what is fitted separately; seeds are the teachers, horizons are compared."""

VARIANTS = {"no-floor": "depth", "floor": "depth", "finite-teacher": "effective_depth"}
"""Column of the power term, by variant."""

LEAST_DEPTHS = 3


def finite_teacher_factor(depths: Sequence[int], teacher_depth: int) -> float:
    """Factor by which equation (1) overstates an exponent of equation (3): a slope in logarithms.

    Examples
    --------
    >>> round(finite_teacher_factor([6, 12, 16, 24, 32, 48], 128), 3)
    1.193
    """
    d = np.asarray(depths, dtype=float)
    return float(-np.polyfit(np.log(d), np.log(1 / d - 1 / teacher_depth), 1)[0])


class Cell:
    """The losses of one condition and horizon, with the fits of every teacher.

    Parameters
    ----------
    rows : DataFrame
        Rows of a sweep that share condition and horizon.
    varying : sequence of str
        Columns to name in the label beside the kind.

    Attributes
    ----------
    losses : (n_teachers, n_depths) float array
        NaN where a student diverged.
    alphas : dict of str to (n_teachers,) float array
        Exponents by variant.
    floor_shares : (n_teachers,) float array
        Fitted L0 over the smallest loss.
    """

    def __init__(self, rows: pd.DataFrame, varying: Sequence[str]) -> None:
        first = rows.iloc[0]
        self.condition = {name: first[name] for name in CONDITION}
        parts = [f"{name}={first[name]:g}" if isinstance(first[name], float) else str(first[name]) for name in varying]
        self.label = " ".join([str(first["kind"]), *parts])
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


def cell_warnings(cell: Cell, converged: bool | None, half: float, share: float) -> list[ScalefitWarning]:
    remarks = []
    alphas = cell.alphas["no-floor"]
    alpha = float(np.mean(alphas[np.isfinite(alphas)])) if np.isfinite(alphas).any() else float("nan")
    if converged is False:
        remarks.append(
            ScalefitWarning(
                "not-converged",
                f"half the steps give {half:.2f}, all of them {alpha:.2f}: the exponent still moves.",
                "Train longer; until then it is a lower or upper bound, not the exponent.",
                {"half": half, "alpha": alpha},
            )
        )
    if converged is None and cell.horizon:
        remarks.append(
            ScalefitWarning(
                "convergence-unknown",
                "no horizon of about half the steps was trained.",
                "Add 0.5 to the configuration's horizons.",
            )
        )
    if cell.rising:
        remarks.append(
            ScalefitWarning(
                "tail-reversed",
                "a deeper student has the larger loss: deep students are unfinished.",
                "Train longer, or leave out the deepest; a floor fitted to such losses is not one.",
            )
        )
    if np.isfinite(share) and share > 0.5:
        remarks.append(
            ScalefitWarning(
                "floor-takes-over",
                f"the fitted floor is up to {share:.0%} of the smallest loss.",
                "Do not read the exponent with floor: floor and exponent trade against each other.",
                {"floor_share": share},
            )
        )
    if cell.finite and max(cell.depths) > cell.teacher_depth / 4:
        factor = finite_teacher_factor([d for d in cell.depths if d < cell.teacher_depth], cell.teacher_depth)
        remarks.append(
            ScalefitWarning(
                "students-near-teacher",
                f"depth {max(cell.depths)} is more than a quarter of the teacher's {cell.teacher_depth} layers: "
                f"the finite teacher alone makes exponents read {factor:.2f} times too steep.",
                "Compare the finite-teacher variant, or use a deeper teacher.",
                {"factor": factor},
            )
        )
    if cell.n_diverged:
        remarks.append(
            ScalefitWarning(
                "diverged-students",
                f"{cell.n_diverged} students diverged and are left out.",
                "Lower the learning rate.",
                {"n_diverged": cell.n_diverged},
            )
        )
    if len(cell.seeds) < 2:
        remarks.append(
            ScalefitWarning(
                "one-teacher",
                "with one teacher there is no interval.",
                "Add seeds: uncertainty lies between teachers.",
            )
        )
    return remarks
