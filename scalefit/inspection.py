"""What a table of runs can tell before any fit: its design, its repetitions, the laws it may determine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import ScalefitWarning
from scalefit.ingest.table import FloatArray
from scalefit.runs import Runs

__all__ = ["ColumnDesign", "Correlation", "Inspection", "LawOutlook", "Repetitions", "inspect_runs"]

DESIGN = ("width", "depth", "tokens", "params", "flops")
"""Columns that describe a run rather than measure it."""

LAWS = ("width+depth+tokens", "params+tokens", "width+tokens", "depth+tokens", "width+depth", "tokens", "flops")
"""Laws that people fit, from the most to the least telling."""

LEVELS = 3
"""Distinct values that a coefficient and an exponent beside a constant need."""

SAME_DIRECTION = 1 - 1e-9
COLLINEAR = 0.9


@dataclass(frozen=True)
class ColumnDesign:
    """Spread of one column: distinct values, range, decades between its ends."""

    name: str
    levels: int
    minimum: float
    maximum: float
    decades: float


@dataclass(frozen=True)
class Correlation:
    """Correlation of the logarithms of two columns."""

    first: str
    second: str
    value: float


@dataclass(frozen=True)
class Repetitions:
    """Rows that repeat others.

    Attributes
    ----------
    duplicates : int
        Rows equal to an earlier row in every column; they carry no information.
    replicated : int
        Settings (combinations of the design columns) measured more than once, duplicates apart.
    noise : float or None
        Standard deviation of ln loss within those settings, pooled; None without any.
    degrees : int
        Degrees of freedom of that estimate.
    """

    duplicates: int
    replicated: int
    noise: float | None
    degrees: int


@dataclass(frozen=True)
class LawOutlook:
    """What a design says of one law, before any fit.

    Attributes
    ----------
    law : str
    n_parameters : int
    not_determined : tuple of str
        Parameters that no losses on this design can determine; empty when the design allows all.
    reason : str
        Why; empty when all is well.
    """

    law: str
    n_parameters: int
    not_determined: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Inspection:
    """What `inspect_runs` found.

    Attributes
    ----------
    columns : tuple of ColumnDesign
    correlations : tuple of Correlation
    n_shapes : int or None
        Distinct combinations of width and depth; None where one is missing.
    rows_per_run : tuple of int
        Smallest, median and largest number of rows of a run.
    repetitions : Repetitions
    laws : tuple of LawOutlook
    warnings : tuple of ScalefitWarning
    """

    columns: tuple[ColumnDesign, ...]
    correlations: tuple[Correlation, ...]
    n_shapes: int | None
    rows_per_run: tuple[int, int, int]
    repetitions: Repetitions
    laws: tuple[LawOutlook, ...]
    warnings: tuple[ScalefitWarning, ...]


def inspect_runs(runs: Runs) -> Inspection:
    """Describe the design of a table and what each common law can hope for.

    Parameters
    ----------
    runs : Runs
        Missing cells are allowed; they are left out column by column.

    Examples
    --------
    >>> runs = Runs.from_columns({"width": [64, 128, 256], "depth": [1, 2, 4], "loss": [4.0, 3.5, 3.2]})
    >>> inspect_runs(runs).correlations[0].value
    1.0
    """
    names = [name for name in DESIGN if name in runs]
    columns = tuple(_column(name, runs[name]) for name in (*names, "loss"))
    levels = {column.name: column.levels for column in columns}
    logs = {name: _log(runs[name]) for name in names}
    pairs = ((a, b, _correlation(logs[a], logs[b])) for a, b in combinations(names, 2))
    correlations = tuple(Correlation(a, b, value) for a, b, value in pairs if value is not None)
    shapes = None
    if "width" in names and "depth" in names:
        shapes = len(np.unique(_hashes([runs["width"], runs["depth"]])))
    rows = np.bincount(runs.run_ids) if len(runs) else np.ones(1, dtype=np.int64)
    repetitions = _repetitions(runs, names)
    laws = tuple(_outlook(law, runs, levels, correlations) for law in LAWS if set(law.split("+")) <= set(names))
    warnings = (
        *_level_warnings(columns),
        *_correlation_warnings(correlations),
        *_repetition_warnings(repetitions),
        *_run_warnings(runs, rows),
    )
    per_run = (int(rows.min()), int(np.median(rows)), int(rows.max()))
    return Inspection(columns, correlations, shapes, per_run, repetitions, laws, warnings)


def _column(name: str, values: FloatArray) -> ColumnDesign:
    finite = values[np.isfinite(values)] if np.isnan(values).any() else values
    if not len(finite):
        return ColumnDesign(name, 0, float("nan"), float("nan"), float("nan"))
    low, high = float(finite.min()), float(finite.max())
    decades = float(np.log10(high / low)) if low > 0 else float("nan")
    return ColumnDesign(name, _levels(finite), low, high, decades)


def _levels(values: FloatArray) -> int:
    """Number of distinct values."""
    ordered = np.sort(values)
    return 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))


def _log(values: FloatArray) -> FloatArray:
    """Natural logarithm, NaN where there is none."""
    return np.asarray(np.log(values, out=np.full(len(values), np.nan), where=values > 0))


def _correlation(x: FloatArray, y: FloatArray) -> float | None:
    """Correlation over rows where both are known; None where one does not vary."""
    known = ~np.isnan(x + y)
    if not known.all():
        x, y = x[known], y[known]
    if len(x) < 2:
        return None
    x, y = x - x.mean(), y - y.mean()
    size = float(np.sqrt((x @ x) * (y @ y)))
    rounding = 1e-12 * len(x)
    if x @ x < rounding or y @ y < rounding:
        return None
    value = float(x @ y / size)
    return round(value, 15) if abs(value) < SAME_DIRECTION else float(np.sign(value))


def _hashes(columns: Sequence[FloatArray]) -> NDArray[np.uint64]:
    """One 64-bit number a row, equal for equal rows (splitmix64 of the bits, column by column).

    Unequal rows collide with probability n^2 / 2^65, below 1e-7 for a million rows.
    """
    mixed = np.zeros(len(columns[0]), dtype=np.uint64)
    for values in columns:
        # adding zero turns -0.0 into 0.0; one NaN pattern stands for missing
        mixed += np.where(np.isnan(values), np.nan, values + 0.0).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(30)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(27)
        mixed *= np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed


def _repeats(hashes: NDArray[np.uint64]) -> int:
    """How many entries equal an earlier one; sorting without indices is many times faster than with them."""
    ordered = np.sort(hashes)
    return int(np.count_nonzero(ordered[1:] == ordered[:-1]))


def _repetitions(runs: Runs, design: Sequence[str]) -> Repetitions:
    """Count duplicates, and pool the variance of ln loss over settings that occur more than once."""
    every = [runs[name] for name in runs.columns]
    if runs.has_runs and "run" not in runs:
        every.append(runs.run_ids.astype(np.float64))
    rows = _hashes(every)
    repeated = _repeats(rows)
    first = np.unique(rows, return_index=True)[1] if repeated else np.arange(len(runs))
    # Without tokens or compute, rows of one run differ in how far they were trained.
    if not design or (len(first) > runs.n_runs and not {"tokens", "flops"} & set(design)):
        return Repetitions(repeated, 0, None, 0)
    first = first[runs["loss"][first] > 0]
    settings = _hashes([runs[name][first] for name in design])
    degrees = _repeats(settings)
    if degrees == 0:
        return Repetitions(repeated, 0, None, 0)
    _, group, counts = np.unique(settings, return_inverse=True, return_counts=True)
    y = np.log(runs["loss"][first])
    residual = y - (np.bincount(group, weights=y) / counts)[group]
    noise = float(np.sqrt(residual @ residual / degrees))
    return Repetitions(repeated, int((counts > 1).sum()), noise, degrees)


def _outlook(law: str, runs: Runs, levels: dict[str, int], correlations: Sequence[Correlation]) -> LawOutlook:
    columns = law.split("+")
    parameters = [name for column in columns for name in (f"c_{column}", f"alpha_{column}")] + ["L0"]
    n = int(np.logical_and.reduce([np.isfinite(runs[column]) for column in columns]).sum())
    if n < len(parameters) + 1:
        reason = f"{len(parameters)} parameters need at least {len(parameters) + 1} rows, {n} given"
        return LawOutlook(law, len(parameters), tuple(parameters), reason)
    bad: list[str] = []
    reasons = []
    for column in columns:
        if levels[column] < LEVELS:
            bad += [f"c_{column}", f"alpha_{column}"]
            plural = "value" if levels[column] == 1 else "values"
            reasons.append(f"{levels[column]} distinct {plural} of {column}, {LEVELS} are needed")
    for pair in correlations:
        if abs(pair.value) == 1.0 and {pair.first, pair.second} <= set(columns):
            bad += [f"{kind}_{column}" for column in (pair.first, pair.second) for kind in ("c", "alpha")]
            reasons.append(f"{pair.second} is a power of {pair.first} in every row")
    return LawOutlook(law, len(parameters), tuple(dict.fromkeys(bad)), "; ".join(reasons))


def _level_warnings(columns: Sequence[ColumnDesign]) -> list[ScalefitWarning]:
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


def _correlation_warnings(correlations: Sequence[Correlation]) -> list[ScalefitWarning]:
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


def _repetition_warnings(repetitions: Repetitions) -> list[ScalefitWarning]:
    found = []
    if repetitions.duplicates:
        rows = "1 row repeats" if repetitions.duplicates == 1 else f"{repetitions.duplicates} rows repeat"
        found.append(
            ScalefitWarning(
                "exact-duplicates",
                f"{rows} an earlier row in every column.",
                "Remove them: they count one measurement twice.",
                {"rows": repetitions.duplicates},
            )
        )
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


def _run_warnings(runs: Runs, rows: NDArray[np.int64]) -> list[ScalefitWarning]:
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
