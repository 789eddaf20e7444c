"""Several tables, one run each, under one another."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError, ScalefitWarning
from scalefit.ingest.table import Dropped, Origin, Places, Table, frozen
from scalefit.numbers import show_number

__all__ = ["join_tables"]


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
        {column: frozen(_stack([_numbers(table, column) for table in tables])) for column in numbers},
        {column: frozen(_stack([_texts(table, column) for table in tables])) for column in texts},
        Places.join([table.places for table in tables]),
        dropped if len(dropped) else Dropped.none(name),
        origin,
        (),
        _one_of_each_kind(tables),
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
    return worded


def _stack(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(parts)


def _numbers(table: Table, column: str) -> NDArray[np.float64]:
    if column in table.columns:
        return table.columns[column]
    return np.full(len(table), np.nan)


def _texts(table: Table, column: str) -> NDArray[np.object_]:
    if column in table.texts:
        return table.texts[column]
    return np.full(len(table), "", dtype=object)
