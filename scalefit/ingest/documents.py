"""JSON in its forms to a `Grid`: lists of objects, one object a line, columns, trainer_state.json."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scalefit.errors import DataError
from scalefit.ingest.grid import Dropped, Grid, Places, cells_of, frozen, simple_places
from scalefit.ingest.names import loss_candidates
from scalefit.ingest.options import OWN_FORMAT

__all__ = ["read_document", "read_lines"]

_MAX_DEPTH = 8


def read_document(text: str, name: str) -> Grid:
    """Read one JSON document."""
    document = _load(text, name, 1)
    if isinstance(document, list):
        return _from_records(name, "json", document, None)
    if not isinstance(document, dict):
        raise DataError(f"{name} holds a single JSON value; give a list of objects, one a run")
    if document.get("format") == OWN_FORMAT:
        return _own(name, document)
    if isinstance(document.get("log_history"), list):
        return _trainer_state(name, document)
    lists = {key: value for key, value in document.items() if isinstance(value, list)}
    if lists and not any(isinstance(v, (list, dict)) for value in lists.values() for v in value):
        return _from_columns(name, "json", lists)
    holders = [key for key, value in lists.items() if value and all(isinstance(v, dict) for v in value)]
    if len(holders) == 1:
        return _from_records(name, "json", lists[holders[0]], None)
    if document and all(isinstance(value, dict) for value in document.values()):
        if loss_candidates(tuple(document)):  # a data frame's to_json: column -> index -> value
            index = dict.fromkeys(key for value in document.values() for key in value)
            columns = {name: [value.get(key) for key in index] for name, value in document.items()}
            return _from_columns(name, "json", columns)
        return _from_records(name, "json", [{"run": k, **v} for k, v in document.items()], None)
    raise DataError(f"{name} holds no table: give a list of objects, an object of columns, or one object a line")


def read_lines(text: str, name: str) -> Grid:
    """Read one JSON object a line."""
    records, lines = [], []
    for i, line in enumerate(text.split("\n")):
        if line.strip():
            records.append(_load(line, name, i + 1))
            lines.append(i + 1)
    return _from_records(name, "jsonl", records, lines)


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


def _flat(record: Mapping[str, Any], prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """Return nested objects as dotted names; lists are left out, they are no cells."""
    out: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, dict) and depth < _MAX_DEPTH:
            out.update(_flat(value, f"{prefix}{key}.", depth + 1))
        elif not isinstance(value, (list, dict)):
            out[f"{prefix}{key}"] = value
    return out


def _from_records(name: str, form: str, records: Sequence[Any], lines: Sequence[int] | None) -> Grid:
    if not records or not all(isinstance(record, dict) for record in records):
        raise DataError(f'{name} must be a list of objects such as {{"width": 512, "loss": 3.1}}')
    flat = [_flat(record) for record in records]
    names = tuple(dict.fromkeys(key for record in flat for key in record))
    columns = tuple(cells_of([record.get(key) for record in flat]) for key in names)
    n = len(records)
    rows = np.arange(1, n + 1, dtype=np.int64)
    places = Places(frozen(rows), frozen(np.array(rows if lines is None else lines, dtype=np.int64)), None, (name,))
    return Grid(name, form, tuple(key.strip() for key in names), columns, places, Dropped.none(name))


def _from_columns(name: str, form: str, lists: Mapping[str, Sequence[Any]]) -> Grid:
    lengths = {key: len(value) for key, value in lists.items()}
    if len(set(lengths.values())) != 1 or not next(iter(lengths.values())):
        raise DataError(f"{name}: its columns have {lengths} entries; give each one entry a row")
    n = next(iter(lengths.values()))
    columns = tuple(cells_of(value) for value in lists.values())
    return Grid(name, form, tuple(lists), columns, simple_places(name, n, 1), Dropped.none(name))


def _own(name: str, document: Mapping[str, Any]) -> Grid:
    columns = document.get("columns")
    if document.get("version") != 1 or not isinstance(columns, dict) or not columns:
        raise DataError(f"{name}: version {document.get('version')!r} of {OWN_FORMAT} is unknown; 1 is read")
    if not all(isinstance(value, list) for value in columns.values()):
        raise DataError(f'{name}: every entry of "columns" must be a list, one number a row')
    grid = _from_columns(name, "scalefit-json", columns)
    units = document.get("units")
    unit = units.get("loss", "") if isinstance(units, dict) else ""
    return Grid(name, grid.format, grid.names, grid.columns, grid.places, grid.dropped, own=True, loss_unit=str(unit))


def _trainer_state(name: str, document: Mapping[str, Any]) -> Grid:
    """Read the log of the Hugging Face Trainer: one row a logged step.

    The last entry, which holds `train_loss`, is the mean over the whole training and no point of the
    curve; it is dropped.
    """
    records = [entry for entry in document["log_history"] if isinstance(entry, dict)]
    if not records:
        raise DataError(f"{name}: log_history is empty; train with logging_steps > 0")
    grid = _from_records(name, "trainer-state", records, None)
    summary = [i for i, entry in enumerate(records) if "train_runtime" in entry or "train_loss" in entry]
    mask = np.ones(len(records), dtype=np.bool_)
    mask[summary] = False
    grid = grid.keep(mask, ["the mean over the whole training, no point of the curve"] * len(summary))
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
