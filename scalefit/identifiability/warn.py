"""Warnings about a design: what a fit on it could not tell apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import ScalefitWarning
from scalefit.identifiability.columns import ColumnDesign, Correlation
from scalefit.identifiability.outlook import LEVELS
from scalefit.identifiability.repetitions import Repetitions
from scalefit.ingest.table import IntArray
from scalefit.runs import Runs

__all__ = ["correlation_warnings", "duplicate_warnings", "level_warnings", "repetition_warnings", "run_warnings"]

COLLINEAR = 0.9
"""Two ln columns that correlate more than this share most of what they say."""

_NAMED = 3
"""Duplicates that a warning names."""


def level_warnings(columns: Sequence[ColumnDesign]) -> list[ScalefitWarning]:
    """Columns with too few distinct values for a term."""
    found = []
    for column in columns:
        if column.name == "loss" or not 0 < column.levels < LEVELS:
            continue
        plural = "value" if column.levels == 1 else "values"
        found.append(
            ScalefitWarning(
                "constant-column" if column.levels == 1 else "few-levels",
                f"{column.name} has {column.levels} distinct {plural}; a law with a term of it needs {LEVELS}.",
                f"Train at {LEVELS} or more values of {column.name}, or leave it out of the law.",
                {"column": column.name, "levels": column.levels},
            )
        )
    return found


def correlation_warnings(correlations: Sequence[Correlation]) -> list[ScalefitWarning]:
    """Pairs of columns that a law would hold apart and the design does not."""
    found = []
    for pair in correlations:
        a, b, numbers = pair.first, pair.second, {"columns": [pair.first, pair.second], "correlation": pair.value}
        terms = {a, b} in ({"width", "depth"}, {"width", "tokens"}, {"depth", "tokens"}, {"params", "tokens"})
        if not terms or abs(pair.value) <= COLLINEAR:
            continue
        if abs(pair.value) == 1.0:
            code = "tied-columns"
            message = f"{b} is a power of {a} in every row, so that their exponents cannot be separated."
            if {a, b} == {"params", "tokens"}:
                message = "tokens per parameter is tied to the size in every row, so that one curve is all there is."
            action = f"Train runs with {a} and {b} off this line, or leave one of them out of the law."
        else:
            code = "collinear-columns"
            message = f"ln {a} and ln {b} correlate {pair.value:+.2f}, so that their exponents trade off."
            action = f"Runs with {a} and {b} off the common line separate them."
        found.append(ScalefitWarning(code, message, action, numbers))
    return found


def duplicate_warnings(runs: Runs, later: IntArray) -> list[ScalefitWarning]:
    """Rows that repeat an earlier row in every column, the first few by name."""
    if not len(later):
        return []
    named = ", ".join(runs.row_name(int(i)) for i in later[:_NAMED])
    more = f" and {len(later) - _NAMED} more" if len(later) > _NAMED else ""
    rows = "1 row repeats" if len(later) == 1 else f"{len(later)} rows repeat"
    return [
        ScalefitWarning(
            "exact-duplicates",
            f"{rows} an earlier row in every column: {named}{more}.",
            "Delete them, for they count one measurement twice; trainings of their own differ in a seed or a run name.",
            {"rows": len(later), "lines": runs.lines[later[:_NAMED]].tolist()},
        )
    ]


def repetition_warnings(runs: Runs, repetitions: Repetitions) -> list[ScalefitWarning]:
    """Duplicates and replicates."""
    found = duplicate_warnings(runs, repetitions.duplicates)
    if repetitions.noise is not None:
        found.append(
            ScalefitWarning(
                "replicates",
                f"{repetitions.replicated} settings were measured more than once; within them ln loss varies with a "
                f"standard deviation of {repetitions.noise:.2g} ({repetitions.degrees} degrees of freedom).",
                "A good law leaves residuals of about this size; much larger ones mean that it misses something.",
                {
                    "settings": repetitions.replicated,
                    "noise": repetitions.noise,
                    "degrees": repetitions.degrees,
                },
            )
        )
    return found


def run_warnings(runs: Runs, rows: NDArray[np.int64]) -> list[ScalefitWarning]:
    """Several rows of one run."""
    if not runs.has_runs or rows.max() < 2:
        return []
    return [
        ScalefitWarning(
            "several-rows-per-run",
            f"{len(runs)} rows come from {runs.n_runs} runs, up to {int(rows.max())} each; rows of one run are not "
            "independent.",
            "Intervals must resample runs; if only the end of training counts, say --select last.",
            {"rows": len(runs), "runs": runs.n_runs, "largest": int(rows.max())},
        )
    ]
