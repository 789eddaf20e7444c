"""A sweep's table: read, checked, cut into conditions; and the control that keeps the total number of units fixed.

With depth times hidden units the same for all students, depth varies at constant size: such a table asks for no
exponent. What it shows is how much the arrangement matters: the ratio of the largest to the smallest loss, 1 where
only the total number of units counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from scalefit.datasets import dataset_path, list_datasets
from scalefit.errors import DataError

__all__ = [
    "CONDITION",
    "UnitsControl",
    "by_condition",
    "check_table",
    "describe_units",
    "finite_teacher_factor",
    "read_sweep",
    "total_units",
    "units_controls",
    "units_document",
]

CONDITION = ("kind", "gain", "width", "objective", "temperature", "integrator", "target")
"""Columns that tell apart what is fitted separately; seeds are the teachers, horizons are compared."""

NUMBERS = ("gain", "width", "temperature", "seed", "depth", "hidden_units", "horizon", "teacher_depth", "loss")

NEEDED = (*CONDITION, "seed", "depth", "hidden_units", "horizon", "annealed", "status", "loss", "teacher_depth")


def read_sweep(path: str | Path) -> pd.DataFrame:
    """Read the results table of a sweep: a CSV file, a folder that holds ``results.csv``, or a shipped table.

    Raises
    ------
    DataError
        There is no such file, it is no CSV table, a column is missing, or a cell is wrong.
    """
    path = Path(path)
    if not path.exists() and str(path) in list_datasets():
        path = dataset_path(str(path))
    path = path / "results.csv" if path.is_dir() else path
    if not path.is_file():
        raise DataError(f"{path} does not exist; give a results.csv, the folder of a sweep or a shipped table")
    try:
        table = pd.read_csv(path)
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is no CSV table ({error}); give the results.csv of a sweep") from None
    if missing := [name for name in NEEDED if name not in table]:
        raise DataError(f"{path} has no column {missing[0]!r}; a sweep's results have {', '.join(NEEDED)}")
    for name in NUMBERS:
        wrong = pd.to_numeric(table[name], errors="coerce").isna() & table[name].notna()
        if wrong.any():
            raise DataError(f"{_place(table, wrong, name, path)} and must be a number; correct it or drop the row")
    wrong = (table["status"] == "ok") & ~(table["loss"] > 0)
    if wrong.any():
        raise DataError(f"{_place(table, wrong, 'loss', path)} and must be positive; correct it or drop the row")
    return table


def _place(table: pd.DataFrame, wrong: pd.Series[bool], name: str, path: Path) -> str:
    """Name the first wrong cell; the header is line 1."""
    row = int(wrong.to_numpy().argmax())
    return f"line {row + 2} of {path}: {name} is {table[name].iloc[row]}"


def check_table(table: pd.DataFrame, *, allow_unannealed: bool) -> None:
    """Refuse a table that is empty, not annealed, or holds a student twice.

    Raises
    ------
    DataError
    """
    if table.empty:
        raise DataError("the sweep has no finished student yet; resume it first")
    if not allow_unannealed and not table["annealed"].all():
        raise DataError(
            f"{int((~table['annealed']).sum())} of {len(table)} losses were measured before the rate was annealed, "
            "and exponents from them measure the schedule; train with an annealed schedule, "
            "or pass --allow-unannealed"
        )
    student = [*CONDITION, "horizon", "seed", "depth"]
    if (twice := table.duplicated(student)).any():
        row = table[twice].iloc[0]
        raise DataError(
            f"the {row['kind']} student of seed {row['seed']}, depth {row['depth']} and horizon {row['horizon']} "
            "stands in the table more than once; analyse one sweep at a time"
        )


def total_units(table: pd.DataFrame) -> int | None:
    """Depth times hidden units where the table keeps it fixed while hidden units vary, otherwise ``None``."""
    products = (table["depth"] * table["hidden_units"]).unique()
    return int(products[0]) if len(products) == 1 and table["hidden_units"].nunique() > 1 else None


def finite_teacher_factor(depths: Sequence[int], teacher_depth: int) -> float:
    """Factor by which a power law in depth overstates an exponent of one in 1/depth - 1/L: a slope in logarithms.

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


def by_condition(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the label and the rows of every condition; labels name the kind and what else varies."""
    varying = [name for name in CONDITION[1:] if table[name].nunique(dropna=False) > 1]
    for _, rows in table.groupby(list(CONDITION), dropna=False, sort=True):
        values = {name: rows[name].iloc[0] for name in varying}
        parts = [
            f"{name}={value:g}" if isinstance(value, float) else str(value)
            for name, value in values.items()
            if pd.notna(value)
        ]
        yield " ".join([str(rows["kind"].iloc[0]), *parts]), rows


@dataclass(frozen=True)
class UnitsControl:
    """Losses of one condition and training horizon at a fixed total number of hidden units.

    Attributes
    ----------
    label : str
        The kind, and whatever else differs within the table.
    horizon : int
        Training steps.
    units : int
        Depth times hidden units of a layer.
    depths, seeds : tuple of int
        Seeds are the teachers that have a loss at every depth.
    losses : tuple of float
        Mean over teachers, by depth.
    ratio : float
        Largest over smallest of `losses`.
    per_teacher : tuple of float
        The same ratio within each teacher, in the order of `seeds`.
    n_left_out : int
        Teachers left out because a student diverged.
    """

    label: str
    horizon: int
    units: int
    depths: tuple[int, ...]
    seeds: tuple[int, ...]
    losses: tuple[float, ...]
    ratio: float
    per_teacher: tuple[float, ...]
    n_left_out: int

    @classmethod
    def of(cls, rows: pd.DataFrame, label: str, units: int) -> UnitsControl:
        """Compare the losses of one condition and horizon."""
        horizon = int(rows["horizon"].iloc[0])
        losses = rows.assign(loss=rows["loss"].where(rows["status"] == "ok")).pivot(
            index="seed", columns="depth", values="loss"
        )
        whole = losses.dropna()
        if whole.empty:
            raise DataError(
                f"{label}, horizon {horizon}: no teacher has a loss at each of the depths {list(losses.columns)}; "
                "lower the learning rate, or leave out the depths that diverge"
            )
        means, ratios = whole.mean(), whole.max(axis=1) / whole.min(axis=1)
        return cls(
            label=label,
            horizon=horizon,
            units=units,
            depths=tuple(int(depth) for depth in whole.columns),
            seeds=tuple(int(seed) for seed in whole.index),
            losses=tuple(means.tolist()),
            ratio=float(means.max() / means.min()),
            per_teacher=tuple(ratios.tolist()),
            n_left_out=len(losses) - len(whole),
        )


def units_controls(table: pd.DataFrame, *, allow_unannealed: bool = False) -> tuple[UnitsControl, ...]:
    """Compare losses at a fixed total number of hidden units, by condition, the longest horizon first.

    Parameters
    ----------
    table : DataFrame
        As `read_sweep` gives it.
    allow_unannealed : bool
        Accept losses of students whose rate was never annealed.

    Raises
    ------
    DataError
        The table is empty or not annealed, its units are not fixed, or no teacher has a loss at every depth.
    """
    check_table(table, allow_unannealed=allow_unannealed)
    units = total_units(table)
    if units is None:
        raise DataError("depth times hidden units is not the same for all students; use depth_exponents")
    return tuple(
        UnitsControl.of(rows, label, units)
        for label, condition in by_condition(table)
        for _, rows in reversed(list(condition.groupby("horizon", sort=True)))
    )


def units_document(found: Sequence[UnitsControl]) -> dict[str, Any]:
    """Turn results into one JSON document: by label, the longest horizon with the others under ``horizons``."""
    document: dict[str, Any] = {}
    for item in found:
        if item.label not in document:
            document[item.label] = {
                "ratio": item.ratio,
                "per_teacher": list(item.per_teacher),
                "total_units": item.units,
                "depths": list(item.depths),
                "losses": list(item.losses),
                "n_teachers": len(item.seeds),
                "n_left_out": item.n_left_out,
                "horizon": item.horizon,
                "horizons": [],
            }
        document[item.label]["horizons"].append({"horizon": item.horizon, "ratio": item.ratio})
    return document


def describe_units(found: Sequence[UnitsControl]) -> str:
    """Write results for people: one block a condition and horizon."""
    blocks = []
    for item in found:
        depths = ", ".join(str(depth) for depth in item.depths)
        left_out = f", {item.n_left_out} left out for a diverged student" if item.n_left_out else ""
        losses = ", ".join(f"{depth}: {loss:.3g}" for depth, loss in zip(item.depths, item.losses, strict=True))
        blocks.append(
            f"{item.label}: depth x hidden units = {item.units}, depths {depths}, "
            f"{len(item.seeds)} teachers{left_out}\n"
            f"  {item.horizon} steps: largest over smallest loss {item.ratio:.2f}, "
            f"by teacher {min(item.per_teacher):.2f} to {max(item.per_teacher):.2f}\n"
            f"    loss by depth: {losses}"
        )
    return "\n\n".join(blocks)
