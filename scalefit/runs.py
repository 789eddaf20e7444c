"""Runs: a frozen, validated table of trained models, one row a measured loss."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefit.errors import DataError, OptionError, ScalefitWarning
from scalefit.expressions import did_you_mean, evaluate_condition, names_in, reference
from scalefit.files import write_atomically
from scalefit.ingest.duplicates import counted_once
from scalefit.ingest.grid import Dropped, FloatArray, IntArray, frozen
from scalefit.ingest.options import ReadOptions
from scalefit.ingest.read import read_table, table_from_columns
from scalefit.ingest.select import drop_worst, label_codes, select
from scalefit.ingest.table import Origin, Selection, Table, write_csv, write_json
from scalefit.numbers import show_number

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Runs", "decades_beyond"]

_SHAPE = ("width", "depth")


@dataclass(frozen=True, eq=False)
class Runs:
    """A table of runs: named columns of numbers, the run of each row, and every row that was left out.

    Columns keep the names of the file, except that the known roles are called `width`, `depth`, `tokens`,
    `params`, `flops`, `loss` and `run`. Every entry is finite or NaN (missing); arrays are read-only. Each
    method that selects rows returns a new `Runs` whose `dropped` grows.

    Attributes
    ----------
    table : Table
        Columns, places, dropped rows, origin, selections and warnings.

    Examples
    --------
    >>> runs = Runs.from_columns({"width": [512, 1024], "depth": [8, 16], "loss": [4.1, 3.6]})
    >>> runs["width"].tolist(), len(runs), runs.where("width > 600").n_dropped
    ([512.0, 1024.0], 2, 1)
    """

    table: Table

    @staticmethod
    def from_csv(
        path: str | Path, columns: Mapping[str, str] | None = None, options: ReadOptions | None = None
    ) -> Runs:
        """Read a file of any recognised format (CSV, TSV, JSON, W&B, TensorBoard, ...).

        Parameters
        ----------
        path : str or path
            A file, or a folder with one file a run.
        columns : mapping of str to str, optional
            Name here -> column name or expression of the file, such as ``{"tokens": "iter*batch_tokens"}``.
        options : ReadOptions, optional
            Everything else about reading: format, loss column and unit, locale, pattern.

        Raises
        ------
        DataError
            If the file cannot be read without guessing; the message names the way out.
        """
        chosen = (options or ReadOptions()).with_columns(columns)
        return Runs(read_table(path, chosen))

    @staticmethod
    def from_frame(frame: pd.DataFrame, columns: Mapping[str, str] | None = None) -> Runs:
        """Take a pandas DataFrame; names, expressions and missing cells are treated as in a file."""
        names = [str(name) for name in frame.columns]
        values = {name: frame.iloc[:, i].to_numpy() for i, name in enumerate(names)}
        if len(values) < len(names):
            raise DataError("the frame has two columns of the same name; rename one")
        return Runs(table_from_columns(values, ReadOptions().with_columns(columns), "frame"))

    @staticmethod
    def from_columns(columns: Mapping[str, ArrayLike], name: str = "columns") -> Runs:
        """Take columns of equal length, such as ``{"width": [...], "loss": [...], "run": [...]}``."""
        return Runs(table_from_columns(columns, ReadOptions(), name))

    @staticmethod
    def from_table(table: Table) -> Runs:
        """Take what `scalefit.ingest` yields."""
        return Runs(table)

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, name: str) -> FloatArray:
        try:
            return self.table.columns[name]
        except KeyError:
            raise self._unknown(name) from None

    def __contains__(self, name: object) -> bool:
        return name in self.table.columns

    def __repr__(self) -> str:
        return f"Runs({self.origin.name}: {len(self)} rows, {self.n_runs} runs; {', '.join(self.columns)})"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of numbers."""
        return tuple(self.table.columns)

    @property
    def lines(self) -> IntArray:
        """(n,) line of each row in its file, from 1."""
        return self.table.places.lines

    @property
    def dropped(self) -> Dropped:
        """The rows left out, a sequence of `DroppedRow`."""
        return self.table.dropped

    @property
    def n_dropped(self) -> int:
        """How many rows were left out."""
        return len(self.table.dropped)

    @property
    def origin(self) -> Origin:
        """Where the table came from and how it was understood."""
        return self.table.origin

    @property
    def selections(self) -> tuple[Selection, ...]:
        """The steps of the selection with their counts."""
        return self.table.selections

    @property
    def warnings(self) -> tuple[ScalefitWarning, ...]:
        """Remarks of reading and selecting."""
        return self.table.warnings

    @cached_property
    def run_ids(self) -> IntArray:
        """(n,) code of the training run of each row, from 0 in order of appearance.

        Without a run column, or where its cell is missing, each row is a run of its own.
        """
        for columns in (self.table.texts, self.table.columns):
            if "run" in columns:
                return frozen(label_codes(columns["run"]))
        return frozen(np.arange(len(self), dtype=np.int64))

    @property
    def has_runs(self) -> bool:
        """Whether the table says which run a row belongs to."""
        return "run" in self.table.texts or "run" in self.table.columns

    @property
    def n_runs(self) -> int:
        """How many training runs the rows belong to."""
        return int(self.run_ids.max()) + 1 if len(self) else 0

    def row_name(self, i: int) -> str:
        """Return a phrase for row i (from 0), such as "row 5 (line 6) of runs.csv"."""
        return self.table.places.name(i)

    def decades_beyond(self, name: str, values: ArrayLike) -> FloatArray:
        """By how many powers of ten values lie above a column's largest (positive) or below its smallest (negative)."""
        return decades_beyond(self[name], values)

    def where(self, condition: str) -> Runs:
        """Keep the rows where a condition holds, such as ``"loss > 0 and depth >= 4"``.

        A comparison with a missing number is false. Raises `OptionError` for a malformed condition or an
        unknown column.
        """
        mask = evaluate_condition(condition, {**self.table.texts, **self.table.columns})
        used = names_in(condition)
        told = [w for w in self.warnings if w.code == "held-out-rows" and w.numbers["column"] in used]
        if told:
            warnings = tuple(w for w in self.warnings if w not in told)
            return Runs(replace(self.table, warnings=warnings)).where(condition)
        return self._kept(mask, f"where {condition} is false", f"where {condition}")

    def _kept(self, mask: NDArray[np.bool_], reason: str, step: str) -> Runs:
        if not mask.any():
            raise DataError(f"{step} leaves no row of the {len(self)} in {self.origin.name}; relax it")
        return Runs(self.table.keep(mask, reason, step))

    def min_tokens(self, tokens: float) -> Runs:
        """Keep the rows with at least so many tokens."""
        mask = self["tokens"] >= tokens
        shown = show_number(tokens)
        return self._kept(mask, f"fewer than {shown} tokens", f"min-tokens {shown}")

    def drop_worst(self, k: int | str) -> Runs:
        """Drop the k largest losses: every row whose loss is at least the k-th largest.

        Rows that tie with the k-th largest all go, so that the result does not depend on the order of the
        rows; the warning `tie-at-cut` then holds both possible counts. Zero drops nothing; "10%" drops
        a tenth of the rows, rounded down.
        """
        return Runs(drop_worst(self.table, k))

    def select(self, which: str) -> Runs:
        """Keep one row of each run, or of each shape.

        Parameters
        ----------
        which : str
            "last": the row of each run with the most tokens (else steps, else the last in the file);
            "best": the smallest loss of each run; "best-per-shape": the smallest loss of each combination
            of width, depth, params, tokens and flops, over whatever else a sweep varied.
        """
        return Runs(select(self.table, which, self.run_ids if self.has_runs else None))

    def take(self, rows: NDArray[Any], reason: str) -> Runs:
        """Keep some rows, in the order of the table.

        Parameters
        ----------
        rows : (n,) bool array or array of distinct indices
        reason : str
            Why the other rows are left out.
        """
        rows = np.asarray(rows)
        if rows.dtype == np.bool_ and rows.shape == (len(self),):
            return Runs(self.table.keep(rows, reason))
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[rows] = True
        if int(mask.sum()) != rows.size:
            raise OptionError("take: an index occurs twice; a selection keeps a row once")
        return Runs(self.table.keep(mask, reason))

    def complete(self, names: Sequence[str]) -> Runs:
        """Keep the rows in which these columns and the loss are known, and require them to be positive.

        Rows that equal an earlier one in every column, its run or seed among them, count once.

        Raises
        ------
        DataError
            If a column is unknown, a value is zero or negative, or no row is left.
        """
        wanted = list(dict.fromkeys([*names, "loss"]))
        values = {name: self[name] for name in wanted}
        self.require_positive(wanted)
        known = np.logical_and.reduce([np.isfinite(column) for column in values.values()])
        if known.all():
            return Runs(counted_once(self.table))
        if not known.any():
            raise DataError(f"{self.origin.name}: no row has all of {', '.join(wanted)}; name other columns")
        reasons = [
            f"{next(name for name, column in values.items() if not np.isfinite(column[i]))} is missing"
            for i in np.flatnonzero(~known)
        ]
        return Runs(counted_once(self.table.keep(known, reasons)))

    def require_positive(self, names: Sequence[str]) -> None:
        """Raise `DataError` for the first value of these columns that is zero or negative."""
        for name in names:
            column = self[name]
            wrong = np.flatnonzero(column <= 0)
            if not len(wrong):
                continue
            shown = repr(float(column[wrong[0]])) if name == "loss" else show_number(column[wrong[0]])
            more = f" (and {len(wrong) - 1} more rows)" if len(wrong) > 1 else ""
            raise DataError(
                f"{self.row_name(int(wrong[0]))}: {name} is {shown} and must be positive"
                f"{more}; correct it or drop it with --where {shlex.quote(f'{reference(name)} > 0')}"
            )

    def _unknown(self, name: str) -> DataError:
        hints = [warning.action for warning in self.warnings if warning.numbers.get("role") == name]
        whole = [warning.action for warning in self.warnings if "--law" in warning.action]
        remedy = f"give it with --column {name}=COLUMN, or {name}=NUMBER if all rows share it"
        if hints or (whole and name in _SHAPE):
            remedy = [*hints, *whole][0]
        elif name in _SHAPE and {"params", "tokens"} <= set(self.columns):
            remedy = f"fit the law of its size and tokens with --law params+tokens, or {remedy}"
        return DataError(
            f"{self.origin.name} has no column {name!r}{did_you_mean(name, self.columns)}; its columns are "
            f"{', '.join(self.columns)}; {remedy[0].lower()}{remedy[1:].rstrip('.')}"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame: the run, then the columns of numbers."""
        import pandas as pd

        texts = {"run": self.table.texts["run"]} if "run" in self.table.texts else {}
        return pd.DataFrame({**texts, **self.table.columns})

    def to_csv(self, path: str | Path) -> None:
        """Write the tidy CSV, which reads back to the same numbers bit for bit."""
        write_atomically(path, write_csv(self.table))

    def to_json(self, path: str | Path) -> None:
        """Write the tidy JSON document, which reads back to the same numbers bit for bit."""
        write_atomically(path, write_json(self.table))


def decades_beyond(column: FloatArray, values: ArrayLike) -> FloatArray:
    """Powers of ten by which values lie above a column's largest (positive) or below its smallest (negative)."""
    above, below = (np.log10(np.asarray(values) / end) for end in (column.max(), column.min()))
    return np.asarray(np.maximum(0.0, above) + np.minimum(0.0, below))
