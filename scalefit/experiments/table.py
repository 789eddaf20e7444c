"""A sweep's table: read, checked, cut into conditions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from scalefit.datasets import dataset_path, list_datasets
from scalefit.errors import DataError

__all__ = ["CONDITION", "by_condition", "check_table", "read_sweep", "total_units"]

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
    _check_cells(table, path)
    return table


def _check_cells(table: pd.DataFrame, path: Path) -> None:
    for name in NUMBERS:
        wrong = pd.to_numeric(table[name], errors="coerce").isna() & table[name].notna()
        if wrong.any():
            raise DataError(f"{_place(table, wrong, name, path)} and must be a number; correct it or drop the row")
    wrong = (table["status"] == "ok") & ~(table["loss"] > 0)
    if wrong.any():
        raise DataError(f"{_place(table, wrong, 'loss', path)} and must be positive; correct it or drop the row")


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
