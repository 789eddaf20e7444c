"""A walk through a nested record: the rows it stands for, and what is no cell, by its path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scalefit.errors import DataError
from scalefit.ingest.names import normal_name

__all__ = ["Row", "Walk", "is_nested"]

_MAX_DEPTH = 12
_MAX_REPEATED = 5_000_000
_SETS = frozenset(
    """val eval valid validation dataset eval_set eval_dataset eval_name task split set benchmark corpus domain subset
    source""".split()  # noqa: SIM905 - a list of words
)
"""Keys that tell the evaluations of one model apart."""

Row = dict[str, Any]


class Walk:
    """One walk through a document: its rows, and the paths of what is no cell.

    Attributes
    ----------
    aside : dict of str to None
        "path (reason)" of each value left aside, once.
    has_rows : bool
        Whether a list of objects was met.
    repeated : int
        Cells that repeat what is outside an inner list.
    """

    def __init__(self, name: str, keep_lists: bool = False) -> None:
        self.name = name
        self.keep_lists = keep_lists
        self.aside: dict[str, None] = {}
        self.has_rows = False
        self.repeated = 0

    def rows(self, record: Mapping[str, Any]) -> list[Row]:
        """Return the rows of a record: itself, or one for each object of its inner lists with what is outside."""
        outer: Row = {}
        holders: dict[str, list[Row]] = {}
        self._flatten(record, "", 0, outer, holders)
        if not holders:
            return [outer]
        self.has_rows = True
        found = []
        for path, items in holders.items():
            sets = set_key(items)
            if sets is not None:
                self._as_columns(path, items, sets, outer)
                continue
            parts = [row for item in items for row in self.rows(item)]
            names = dict.fromkeys(key for row in parts for key in row)
            last = {key.rpartition(".")[2] for key in outer}
            clash = len(holders) > 1 or any(key.rpartition(".")[2] in last for key in names)
            prefix = f"{path}." if clash else ""
            found += [{f"{prefix}{key}": value for key, value in row.items()} for row in parts]
        if not found:
            return [outer]
        inner = {key.rpartition(".")[2] for row in found for key in row}
        # a whole name would win over the last part of another: both must be named by their places
        outer = {key if "." in key or key not in inner else f"settings.{key}": value for key, value in outer.items()}
        self.repeated += len(outer) * (len(found) - 1)
        if self.repeated > _MAX_REPEATED:
            raise DataError(f"{self.name}: settings repeat in too many rows; give one flat table")
        for row in found:
            for key, value in outer.items():
                self._put(row, key, value)
        return found

    def _flatten(
        self, record: Mapping[str, Any], prefix: str, depth: int, outer: Row, holders: dict[str, list[Row]]
    ) -> None:
        for key, value in record.items():
            path = f"{prefix}{key}"
            if isinstance(value, dict):
                if depth >= _MAX_DEPTH:
                    raise DataError(f"{self.name}: {path[:80]} is nested more than {_MAX_DEPTH} deep; flatten it")
                if not value:
                    self.aside[f"{path} (empty)"] = None
                self._flatten(value, f"{path}.", depth + 1, outer, holders)
            elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
                if not all(isinstance(item, dict) for item in value):
                    raise DataError(f"{self.name}: the list {path} mixes objects with other values; give objects alone")
                if path in holders:
                    raise DataError(f"{self.name} names {path} twice; rename one")
                holders[path] = value
            elif isinstance(value, list) and not (self.keep_lists and value and not is_nested(value)):
                self.aside[f"{path} ({'a list' if value else 'empty'})"] = None
            else:
                self._put(outer, path, value)

    def _put(self, row: Row, key: str, value: Any) -> None:
        if key in row:
            raise DataError(f"{self.name} names {key} twice; rename one")
        row[key] = value

    def _as_columns(self, path: str, items: Sequence[Row], sets: str, outer: Row) -> None:
        """Put the evaluations of one model side by side: eval.c4.loss, eval.wiki.loss."""
        lead = path if {"eval", "val", "evals", "evaluation", "validation"} & set(normal_name(path).split("_")) else ""
        for item in items:
            cells = self.rows({key: value for key, value in item.items() if key != sets})
            if len(cells) > 1:
                raise DataError(f"{self.name}: {path} holds lists of rows for each {sets}; give one table a set")
            for key, value in cells[0].items():
                self._put(outer, f"{lead or 'eval'}.{item[sets]}.{key}", value)

    def flat(self, record: Mapping[str, Any]) -> Row:
        """Return a record of one row; lists of objects in it are left aside too."""
        outer: Row = {}
        holders: dict[str, list[Row]] = {}
        self._flatten(record, "", 0, outer, holders)
        self.aside.update(dict.fromkeys(f"{path} (a list)" for path in holders))
        return outer

    def leave_lists(self, rows: Sequence[Row]) -> None:
        """List the columns that turned out to be lists and take them out of the rows."""
        for row in rows:
            for key in [key for key, value in row.items() if isinstance(value, list)]:
                self.aside[f"{key} (a list)"] = None
                del row[key]


def is_nested(values: Sequence[Any]) -> bool:
    return any(isinstance(value, (list, dict)) for value in values)


def set_key(items: Sequence[Row]) -> str | None:
    """Return the key that names the evaluation set of each item, if these are evaluations of one model."""
    for key in items[0]:
        labels = [item.get(key) for item in items]
        is_label = all(isinstance(label, str) and label for label in labels) and len(set(labels)) == len(labels)
        if normal_name(key) in _SETS and is_label and len(items) > 1:
            return key
    return None
