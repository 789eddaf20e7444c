"""What reading yields: numbers by column with their history; several such tables under one another; the tidy text."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError, ScalefitWarning
from scalefit.ingest.grid import Dropped, FloatArray, Places, frozen
from scalefit.ingest.options import OWN_FORMAT, OWN_MARK, protect
from scalefit.numbers import show_number

__all__ = ["Origin", "Selection", "Table", "join_tables", "write_csv", "write_json"]


@dataclass(frozen=True)
class Selection:
    """One step of the selection: what was asked and how many rows there were before and after."""

    name: str
    before: int
    after: int


@dataclass(frozen=True)
class Origin:
    """Where a table came from and how it was understood.

    Attributes
    ----------
    name : str
        File name or name of the shipped dataset, for messages.
    format : str
        Recognised format, such as "csv" or "wandb-chart".
    sha256 : str
        Of the bytes of the file; of several files, of their hashes in order; empty for a table from memory.
    columns : mapping of str to str
        Name here -> name or expression in the file.
    units : mapping of str to str
        Unit of a column, where known ("nats per token").
    ignored : tuple of str
        Columns of the file that hold no numbers or were left aside, with the reason.
    locale : str
        How numbers were written, such as "decimal comma, thousands dot".
    """

    name: str
    format: str
    sha256: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    locale: str = "decimal point"


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of numbers with their names, places and history; immutable.

    Attributes
    ----------
    columns : mapping of str to (n,) float64 array
        Read-only; every entry is finite or NaN (missing).
    texts : mapping of str to (n,) object array
        Columns of text, for conditions; the text column "run" names the training run of each row.
    places : Places
    dropped : Dropped
    origin : Origin
    selections : tuple of Selection
    warnings : tuple of ScalefitWarning
    keep_duplicates : bool
        Whether rows that equal another in every column are measurements of their own.
    """

    columns: Mapping[str, FloatArray]
    texts: Mapping[str, NDArray[np.object_]]
    places: Places
    dropped: Dropped
    origin: Origin
    selections: tuple[Selection, ...] = ()
    warnings: tuple[ScalefitWarning, ...] = ()
    keep_duplicates: bool = False

    def __len__(self) -> int:
        return len(self.places)

    def keep(self, mask: NDArray[np.bool_], reasons: str | Sequence[str], step: str | None = None) -> Table:
        """Return the rows where the mask is true; the others join `dropped`.

        Parameters
        ----------
        mask : (n,) bool array
        reasons : str or sequence of str
            Why the others go: one reason for all, or one per dropped row in order.
        step : str, optional
            Name of the selection to record with its counts.
        """
        selections = self.selections
        if step is not None:
            selections = (*selections, Selection(step, len(self), int(mask.sum())))
        if mask.all():
            return replace(self, selections=selections)
        gone = np.flatnonzero(~mask)
        places = self.places.take(gone)
        if isinstance(reasons, str):
            new = Dropped(places, frozen(np.zeros(len(gone), dtype=np.int64)), (reasons,))
        else:
            new = Dropped.of(places, reasons)
        index = np.flatnonzero(mask)
        return replace(
            self,
            columns={name: frozen(values[index]) for name, values in self.columns.items()},
            texts={name: frozen(values[index]) for name, values in self.texts.items()},
            places=self.places.take(index),
            dropped=self.dropped + new,
            selections=selections,
        )

    def with_warning(self, warning: ScalefitWarning) -> Table:
        """Return the table with one more warning."""
        return replace(self, warnings=(*self.warnings, warning))


def join_tables(tables: Sequence[Table], name: str) -> Table:
    """Put tables under one another; a column that one of them lacks is missing there.

    Raises
    ------
    DataError
        If the losses have different units.
    """
    units = {table.origin.units.get("loss", "") for table in tables}
    if len(units) > 1:
        raise DataError(f"{name}: the files have losses in {', '.join(sorted(units))}; read them apart")
    tables = _with_one_kind_of_run(tables)

    def stacked(parts: list[NDArray[Any]]) -> NDArray[Any]:
        return frozen(np.concatenate(parts))

    numbers = dict.fromkeys(column for table in tables for column in table.columns)
    texts = dict.fromkeys(column for table in tables for column in table.texts if column not in numbers)
    first = tables[0].origin
    formats = dict.fromkeys(table.origin.format for table in tables)
    origin = Origin(
        name,
        "+".join(formats),
        hashlib.sha256("".join(table.origin.sha256 for table in tables).encode()).hexdigest(),
        {column: d for table in reversed(tables) for column, d in table.origin.columns.items()},
        first.units,
        tuple(dict.fromkeys(entry for table in tables for entry in table.origin.ignored)),
        first.locale,
    )
    dropped = tables[0].dropped
    for table in tables[1:]:
        dropped = dropped + table.dropped
    return Table(
        {name: stacked([t.columns.get(name, np.full(len(t), np.nan)) for t in tables]) for name in numbers},
        {name: stacked([t.texts.get(name, np.full(len(t), "", dtype=object)) for t in tables]) for name in texts},
        Places.join([table.places for table in tables]),
        dropped if len(dropped) else Dropped.none(name),
        origin,
        (),
        _one_of_each_kind(tables),
        tables[0].keep_duplicates,
    )


def _one_of_each_kind(tables: Sequence[Table]) -> tuple[ScalefitWarning, ...]:
    """Return one warning of each code and role: the first, with the number of files where several have it."""
    kinds: dict[tuple[str, Any], list[ScalefitWarning]] = {}
    for table in tables:
        mine = {(warning.code, warning.numbers.get("role")): warning for warning in reversed(table.warnings)}
        for kind in reversed(mine):
            kinds.setdefault(kind, []).append(mine[kind])
    found = []
    for first, *others in kinds.values():
        if others:
            files = len(others) + 1
            message = f"in {files} of {len(tables)} files, for example: {first.message}"
            first = replace(first, message=message, numbers={**first.numbers, "files": files})
        found.append(first)
    return tuple(found)


def _with_one_kind_of_run(tables: Sequence[Table]) -> Sequence[Table]:
    """Return the tables with runs as text in all where some name them and others number them."""
    if not any("run" in table.texts for table in tables):
        return tables
    worded = []
    for table in tables:
        columns = dict(table.columns)
        if "run" in columns:
            labels = np.array([show_number(value) for value in columns.pop("run").tolist()], dtype=object)
            table = replace(table, columns=columns, texts={**table.texts, "run": frozen(labels)})
        worded.append(table)
    return runs_apart(worded)


def runs_apart(tables: Sequence[Table]) -> Sequence[Table]:
    """Return the tables with the file before each run label, where one label has another size in another file."""
    size_of: dict[str, tuple[float, ...]] = {}
    for table in tables:
        columns = [table.columns[name].tolist() for name in ("width", "depth", "params") if name in table.columns]
        for label, *size in zip(table.texts.get("run", ()), *columns, strict=True) if columns else ():
            if label and size_of.setdefault(label, tuple(size)) != tuple(size) and not np.isnan(size).any():
                break
        else:
            continue
        break
    else:
        return tables
    apart = []
    for table in tables:
        labels = [label and f"{table.places.file_of(i)}: {label}" for i, label in enumerate(table.texts.get("run", ()))]
        texts = {"run": frozen(np.array(labels, dtype=object))} if labels else {}
        apart.append(replace(table, texts={**table.texts, **texts}))
    return apart


def write_json(table: Table) -> str:
    """Return the tidy JSON document: format, version, units, and one list a column; a missing cell is null."""
    run = table.texts.get("run")
    labels = {} if run is None else {"run": run.tolist()}
    numbers = {n: [None if math.isnan(v) else v for v in c.tolist()] for n, c in table.columns.items()}
    document = {"format": OWN_FORMAT, "version": 1, "units": dict(table.origin.units), "columns": labels | numbers}
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def write_csv(table: Table) -> str:
    """Return the tidy CSV.

    The first line is a comment that names the format and the unit of the loss; the second holds the
    column names, the run label first, then every column of numbers; a missing cell is empty.
    """
    run = table.texts.get("run")
    names = ([] if run is None else ["run"]) + [protect(name) for name in table.columns]
    columns: list[list[str]] = [] if run is None else [[protect(str(label)) for label in run]]
    columns += [[show_number(value) for value in values.tolist()] for values in table.columns.values()]
    out = io.StringIO()
    out.write(f"{OWN_MARK}; loss in {table.origin.units.get('loss', 'nats per token')}\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
    return out.getvalue()
