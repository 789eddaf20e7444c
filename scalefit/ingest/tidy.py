"""The tidy form of a run table: plain CSV that reads back to the same numbers bit for bit."""

from __future__ import annotations

import csv
import io
import json
import math

from scalefit.ingest.table import Table
from scalefit.numbers import show_number

__all__ = ["OWN_FORMAT", "OWN_MARK", "protect", "unprotect", "write_csv", "write_json"]

OWN_MARK = "# scalefit-runs 1"
"""How the first line of the tidy CSV starts."""

OWN_FORMAT = "scalefit-runs"
"""Value of "format" in the tidy JSON document."""

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def protect(text: str) -> str:
    """Return text that no spreadsheet takes for a formula: an apostrophe goes before = + - @ at the start.

    A text that already starts with an apostrophe gets one more, so that reading can take exactly one away.
    """
    return "'" + text if text.startswith((*_FORMULA_STARTS, "'")) else text


def unprotect(text: str) -> str:
    """Undo `protect`."""
    return text.removeprefix("'")


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
