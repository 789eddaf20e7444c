"""JSON in its forms to a `Grid`: lists of objects, one object a line, columns, nested runs, trainer_state.json.

Every value is used, listed as left aside, or refused: values outside an inner list of rows belong to each of its
rows, evaluation sets of one run become columns, and what is no cell (a list of labels, say) is named in `ignored`.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scalefit.errors import DataError
from scalefit.ingest.grid import Dropped, Grid, Places, cells_of, frozen, simple_places
from scalefit.ingest.names import loss_candidates, role_candidates
from scalefit.ingest.options import OWN_FORMAT
from scalefit.ingest.walk import Row, Walk, is_nested

__all__ = ["grid_of_document", "read_document", "read_lines", "unpack_cells"]

_MAX_ROWS = 20_000_000
_MAX_CELL = 1_000_000
_NOT_FINITE = re.compile(r"(?<=[:\[, ])-?(?:nan|inf)(?=[,}\] ])")
_MAX_BLANK = 2_000_000
"""Cells without a value that a table of objects may have, beside 20 times those with one."""


def read_document(text: str, name: str) -> Grid:
    """Read one JSON document."""
    return grid_of_document(_load(text, name, 1), name, "json")


def read_lines(text: str, name: str) -> Grid:
    """Read one JSON object a line."""
    records, lines = [], []
    for i, line in enumerate(text.split("\n")):
        if line.strip():
            records.append(_load(line, name, i + 1))
            lines.append(i + 1)
    return _from_records(name, "jsonl", records, lines)


def grid_of_document(document: Any, name: str, form: str) -> Grid:
    """Make a grid of a document of lists, mappings, texts and numbers."""
    if isinstance(document, list):
        return _from_records(name, form, document)
    if not isinstance(document, dict):
        raise DataError(f"{name} holds a single {form.upper()} value; give a list of objects, one a run")
    if document.get("format") == OWN_FORMAT:
        return own_document(name, document)
    if any(str(document.get(key, "")).startswith("scalefit-fit") for key in ("kind", "schema")):
        raise DataError(f"{name} is a finished fit and no table of runs; name the table that was fitted")
    if isinstance(document.get("log_history"), list):
        return trainer_state(name, document)
    if isinstance(document.get("results"), dict) and {"versions", "n-shot", "config_general"} & set(document):
        raise DataError(
            f"{name} is the result of an evaluation harness: it holds scores of one model and no training loss; give "
            "a table with one row a model and its loss"
        )
    if set(document) == {"schema", "data"} and isinstance(document["data"], list):  # to_json(orient="table")
        return _from_records(name, form, document["data"])
    if {"columns", "data"} <= set(document) <= {"columns", "index", "data"}:  # to_json(orient="split")
        return split_frame(name, form, document)
    found = by_name(document, name)
    if isinstance(found, dict):
        return _from_columns(name, form, found)
    return _of_one(name, form, document) if found is None else _from_records(name, form, found)


def by_name(document: Mapping[str, Any], name: str) -> dict[str, list[Any]] | list[Row] | None:
    """Return the columns of a data frame's to_json (column -> index -> value), or records by their run names."""
    if not document or not all(isinstance(value, dict) for value in document.values()):
        return None
    if loss_candidates(tuple(document)):
        index = dict.fromkeys(key for value in document.values() for key in value)
        columns = {key: [value.get(at) for at in index] for key, value in document.items()}
        return None if any(is_nested(cells) for cells in columns.values()) else columns
    measured = all(loss_candidates(tuple(Walk(name).rows(value)[0])) for value in document.values())
    if not measured or len(document) == 1 or any("run" in value for value in document.values()):
        return None
    return [{"run": key, **value} for key, value in document.items()]


def _of_one(name: str, form: str, document: Mapping[str, Any]) -> Grid:
    """Read a mapping that describes one run, one list of rows with their settings, or columns of equal length."""
    walk = Walk(name, keep_lists=True)
    rows = walk.rows(document)
    lists = {key: value for key, value in rows[0].items() if isinstance(value, list)} if len(rows) == 1 else {}
    measured = [key for key in lists if loss_candidates((key,))]
    if lists and (measured or len(lists) == len(rows[0])):
        length = len(lists[measured[0]] if measured else next(iter(lists.values())))
        columns = {key: value for key, value in lists.items() if len(value) == length}
        if len(columns) < len(lists) and (not measured or len(columns) == 1):
            raise _of_unequal_length(name, {key: len(value) for key, value in lists.items()})
        shared = {key: [value] * length for key, value in rows[0].items() if key not in lists}
        grid = _from_columns(name, form, columns | shared)
        return replace(grid, ignored=(*walk.aside, *(f"{key} (a list)" for key in lists if key not in columns)))
    found = {key for row in rows for key in row}
    if len(rows) == 1 and not walk.has_rows and not loss_candidates(tuple(found)):
        raise DataError(f"{name} holds no table: give a list of objects, an object of columns, or one object a line")
    walk.leave_lists(rows)
    return _grid_of_rows(name, form, rows, None, tuple(walk.aside))


def _load(text: str, name: str, line: int) -> Any:
    def without_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise DataError(f"{name}: the key {twice!r} occurs twice in one object; rename one")
        return found

    try:
        return json.loads(text, object_pairs_hook=without_duplicates)
    except json.JSONDecodeError as error:
        raise DataError(
            f"line {line + error.lineno - 1} of {name} is not JSON: {error.msg} at character {error.colno}; "
            "mend that line"
        ) from None
    except (RecursionError, ValueError):
        raise DataError(f"{name} is nested too deeply or holds a number of over 4300 digits") from None


def _from_records(name: str, form: str, records: Sequence[Any], lines: Sequence[int] | None = None) -> Grid:
    if not records or not all(isinstance(record, dict) for record in records):
        raise DataError(f'{name} must be a list of objects such as {{"width": 512, "loss": 3.1}}')
    walk = Walk(name)
    rows: list[Row] = []
    of: list[int] = []
    for i, record in enumerate(records):
        inner = walk.rows(record)
        rows += inner
        of += [i] * len(inner)
        if len(rows) > _MAX_ROWS:
            raise DataError(f"{name} unfolds to more than {_MAX_ROWS} rows; give one list of objects")
    names = tuple(dict.fromkeys(key for row in rows for key in row))
    if len(rows) > len(records) and not role_candidates(names, "run"):
        rows = [{"run": f"record {i + 1}", **row} for i, row in zip(of, rows, strict=True)]
    return _grid_of_rows(name, form, rows, None if lines is None else [lines[i] for i in of], tuple(walk.aside))


def _grid_of_rows(name: str, form: str, rows: Sequence[Row], lines: Sequence[int] | None, aside: Sequence[str]) -> Grid:
    names = tuple(dict.fromkeys(key for row in rows for key in row))
    if len(names) * len(rows) > _MAX_BLANK + 20 * sum(map(len, rows)):
        raise DataError(f"{name}: its {len(rows)} objects share few of their {len(names)} keys and make no table")
    columns = tuple(cells_of([row.get(key) for row in rows]) for key in names)
    numbers = np.arange(1, len(rows) + 1, dtype=np.int64)
    at = numbers.copy() if lines is None else np.array(lines, dtype=np.int64)
    places = Places(frozen(numbers), frozen(at), None, (name,))
    stripped = tuple(key.strip() for key in names)
    return Grid(name, form, stripped, columns, places, Dropped.none(name), ignored=tuple(aside))


def _from_columns(name: str, form: str, lists: Mapping[str, Sequence[Any]]) -> Grid:
    lengths = {key: len(value) for key, value in lists.items()}
    if len(set(lengths.values())) != 1 or not next(iter(lengths.values())):
        raise _of_unequal_length(name, lengths)
    columns = tuple(cells_of(value) for value in lists.values())
    n = next(iter(lengths.values()))
    names = tuple(key.strip() for key in lists)
    return Grid(name, form, names, columns, simple_places(name, n, 1), Dropped.none(name))


def _of_unequal_length(name: str, lengths: Mapping[str, int]) -> DataError:
    return DataError(f"{name}: its columns have {lengths} entries; give each one entry a row")


def split_frame(name: str, form: str, document: Mapping[str, Any]) -> Grid:
    names, data = document["columns"], document["data"]
    lists = isinstance(names, list) and isinstance(data, list) and all(isinstance(row, list) for row in data)
    if not lists or not data or any(len(row) != len(names) or is_nested(row) for row in data):
        raise DataError(f'{name}: give "data" one list a row, with one cell for each of "columns"')
    columns = {str(key): [row[j] for row in data] for j, key in enumerate(names)}
    if len(columns) < len(names):
        raise DataError(f'{name}: "columns" names a column twice; rename one')
    return replace(_from_columns(name, form, columns), ignored=("index (row counter)",) if "index" in document else ())


def own_document(name: str, document: Mapping[str, Any]) -> Grid:
    columns = document.get("columns")
    if document.get("version") != 1 or not isinstance(columns, dict) or not columns:
        raise DataError(f"{name}: version {document.get('version')!r} of {OWN_FORMAT} is unknown; 1 is read")
    if not all(isinstance(value, list) for value in columns.values()):
        raise DataError(f'{name}: every entry of "columns" must be a list, one number a row')
    grid = _from_columns(name, "scalefit-json", columns)
    units = document.get("units")
    unit = units.get("loss", "") if isinstance(units, dict) else ""
    return Grid(name, grid.format, grid.names, grid.columns, grid.places, grid.dropped, own=True, loss_unit=str(unit))


def trainer_state(name: str, document: Mapping[str, Any]) -> Grid:
    """Read the log of the Hugging Face Trainer: one row a logged step.

    The last entry, which holds `train_loss`, is the mean over the whole training and no point of the
    curve; it is dropped.
    """
    records = document["log_history"]
    if not records:
        raise DataError(f"{name}: log_history is empty; train with logging_steps > 0")
    grid = _from_records(name, "trainer-state", records)
    summary = [i for i, entry in enumerate(records) if "train_runtime" in entry or "train_loss" in entry]
    mask = np.ones(len(records), dtype=np.bool_)
    mask[summary] = False
    grid = grid.keep(mask, ["the mean over the whole training, no point of the curve"] * len(summary))
    outside = tuple(f"{key} (of the trainer, not of a step)" for key in document if key != "log_history")
    grid = replace(grid, ignored=(*grid.ignored, *outside))
    gone = {i for i, column in enumerate(grid.names) if column in {"train_loss", "train_runtime", "total_flos"}}
    gone |= {i for i, column in enumerate(grid.names) if column.startswith("train_") and i not in gone}
    grid = grid.without(gone, "summary of the training")
    if "eval_loss" in grid.names:
        return replace(grid, loss="eval_loss")
    if any(column.startswith("eval_") and column.endswith("_loss") for column in grid.names):
        return grid  # losses of several evaluation sets: the user chooses
    if "loss" not in grid.names:
        raise DataError(f"{grid.name}: log_history has neither eval_loss nor loss; train with logging_steps > 0")
    return replace(grid, loss="loss")


def unpack_cells(grid: Grid) -> Grid:
    """Return the grid with columns of mappings as text ("{'d_model': 512}") unpacked into a column for each key."""
    names, columns = [], []
    walk = Walk(grid.name)
    for name, column in zip(grid.names, grid.columns, strict=True):
        filled = [cell for cell in column.tolist() if cell] if column.dtype == object else []
        if not filled or not all(cell.startswith("{") and cell.endswith("}") for cell in filled):
            names.append(name)
            columns.append(column)
            continue
        rows = [walk.flat({name: _mapping(cell, grid, i)} if cell else {}) for i, cell in enumerate(column.tolist())]
        for key in dict.fromkeys(key for row in rows for key in row):
            names.append(key.strip())
            columns.append(cells_of([row.get(key) for row in rows]))
    return replace(grid, names=tuple(names), columns=tuple(columns), ignored=(*grid.ignored, *walk.aside))


def _mapping(cell: str, grid: Grid, i: int) -> dict[str, Any]:
    """Read a mapping written in JSON or by Python; no code is run."""
    for read in (json.loads, lambda text: ast.literal_eval(_NOT_FINITE.sub("None", text))):
        try:
            found = read(cell)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(found, dict) and len(cell) <= _MAX_CELL:
            return {str(key): value for key, value in found.items()}
    shown = cell if len(cell) <= 40 else cell[:37] + "..."
    raise DataError(
        f"{grid.places.name(i)}: the cell {shown!r} looks like a mapping and cannot be read as one; write it as JSON"
    )
