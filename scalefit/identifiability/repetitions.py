"""Rows that repeat others, and the noise that repeated settings show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import ScalefitWarning
from scalefit.ingest.duplicates import Distinct, duplicate_warning, exact_duplicates, hash_rows, may_repeat
from scalefit.ingest.grid import IntArray
from scalefit.ingest.names import normal_name
from scalefit.ingest.select import label_codes
from scalefit.runs import Runs

__all__ = ["Repetitions", "find_repetitions"]


_FEW = 20_000
"""Repeated rows up to which their other columns are compared."""

_SAME_SETTING = frozenset(
    ["seed", "rng", "repeat", "replicate", "trial", "run_id", "id", "step", "name", "uuid", "index"]
)
"""Columns in which repeats of one setting differ."""


@dataclass(frozen=True, eq=False)
class Repetitions:
    """Rows that repeat others.

    Attributes
    ----------
    duplicates : (k,) int64 array
        Rows equal to an earlier row in every column; they carry no information.
    replicated : int
        Settings (combinations of the design columns) measured more than once, duplicates apart.
    noise : float or None
        Standard deviation of ln loss within those settings, pooled; None without any.
    degrees : int
        Degrees of freedom of that estimate.
    differing : tuple of str
        Other columns in which rows of equal design differ, such as a learning rate: they are no repeats.
    """

    duplicates: IntArray
    replicated: int
    noise: float | None
    degrees: int
    differing: tuple[str, ...] = ()

    def warnings(self, runs: Runs) -> list[ScalefitWarning]:
        """Duplicates and replicates of the table, in words."""
        found = [duplicate_warning(runs.table, self.duplicates)] if len(self.duplicates) else []
        if self.differing:
            listed = ", ".join(self.differing)
            message = f"rows of equal size and tokens differ in {listed}: they are no repeats of one another."
            action = "Choose one value with --where, or the best row of each shape with --select best-per-shape."
            found.append(ScalefitWarning("settings-differ", message, action, {"columns": list(self.differing)}))
        if self.noise is not None:
            found.append(
                ScalefitWarning(
                    "replicates",
                    f"{self.replicated} settings were measured more than once; within them ln loss varies with a "
                    f"standard deviation of {self.noise:.2g} ({self.degrees} degrees of freedom).",
                    "A good law leaves residuals of about this size; much larger ones mean that it misses something.",
                    {"settings": self.replicated, "noise": self.noise, "degrees": self.degrees},
                )
            )
        return found


def find_repetitions(runs: Runs, design: Sequence[str], counted: Mapping[str, Distinct]) -> Repetitions:
    """Count duplicates, and pool the variance of ln loss over settings that occur more than once.

    Parameters
    ----------
    runs : Runs
    design : sequence of str
        Columns that make up a setting.
    counted : mapping of str to Distinct
        For these columns and the loss.
    """
    later = exact_duplicates(runs.table, counted)
    # Without tokens or compute, rows of one run differ in how far they were trained.
    ambiguous = len(runs) - len(later) > runs.n_runs and not {"tokens", "flops"} & set(design)
    if not design or ambiguous:
        return Repetitions(later, 0, None, 0)
    single = runs["loss"] > 0
    single[later] = False
    rows = may_repeat(runs.table, design, counted)
    known = np.logical_and.reduce([~np.isnan(runs[name]) for name in design])  # a missing cell equals nothing
    rows = rows[(single & known)[rows]]
    settings = hash_rows([runs[name][rows] for name in design])
    _, group, counts = np.unique(settings, return_inverse=True, return_counts=True)
    differing = _differing(runs, rows, group, counts, design)
    if differing:
        cells = {**runs.table.columns, **runs.table.texts}
        codes = [label_codes(cells[name])[rows] for name in differing]
        settings = hash_rows([settings.view(np.float64), *(code.astype(np.float64) for code in codes)])
        _, group, counts = np.unique(settings, return_inverse=True, return_counts=True)
    degrees = len(rows) - len(counts)
    if degrees == 0:
        return Repetitions(later, 0, None, 0, differing)
    y = np.log(runs["loss"][rows])
    residual = y - (np.bincount(group, weights=y) / counts)[group]
    noise = float(np.sqrt(residual @ residual / degrees))
    return Repetitions(later, int((counts > 1).sum()), noise, degrees, differing)


def _differing(
    runs: Runs, rows: IntArray, group: NDArray[np.int64], counts: NDArray[np.int64], design: Sequence[str]
) -> tuple[str, ...]:
    """Other settings that differ between rows of equal design: columns of few values, each of them used again."""
    repeated = counts[group] > 1
    if not repeated.any() or int(repeated.sum()) > _FEW:
        return ()
    found = []
    for name, values in (*runs.table.columns.items(), *runs.table.texts.items()):
        if name in (*design, "loss", "run") or normal_name(name) in _SAME_SETTING:
            continue
        codes = label_codes(values)[rows][repeated]
        several = len(np.unique(np.column_stack([group[repeated], codes]), axis=0)) > len(np.unique(group[repeated]))
        if several and 2 * len(np.unique(codes)) <= len(codes):
            found.append(name)
    return tuple(found)
