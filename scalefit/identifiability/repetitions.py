"""Rows that repeat others, and the noise that repeated settings show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scalefit.errors import ScalefitWarning
from scalefit.ingest.duplicates import Distinct, duplicate_warning, exact_duplicates, hash_rows, may_repeat
from scalefit.ingest.grid import IntArray
from scalefit.runs import Runs

__all__ = ["Repetitions", "find_repetitions"]


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
    """

    duplicates: IntArray
    replicated: int
    noise: float | None
    degrees: int

    def warnings(self, runs: Runs) -> list[ScalefitWarning]:
        """Duplicates and replicates of the table, in words."""
        found = [duplicate_warning(runs.table, self.duplicates)] if len(self.duplicates) else []
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
    rows = rows[single[rows]]
    settings = hash_rows([runs[name][rows] for name in design])
    _, group, counts = np.unique(settings, return_inverse=True, return_counts=True)
    degrees = len(rows) - len(counts)
    if degrees == 0:
        return Repetitions(later, 0, None, 0)
    y = np.log(runs["loss"][rows])
    residual = y - (np.bincount(group, weights=y) / counts)[group]
    noise = float(np.sqrt(residual @ residual / degrees))
    return Repetitions(later, int((counts > 1).sum()), noise, degrees)
