"""Read a file into a `Table`."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pandas as pd

from scalefit.errors import DataError
from scalefit.ingest.memory import table_from_columns
from scalefit.ingest.options import ReadOptions
from scalefit.ingest.table import Table

__all__ = ["read_table"]


def read_table(path: str | Path, options: ReadOptions) -> Table:
    """Read one file."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"no file {path}")
    frame = pd.read_csv(path, float_precision="round_trip")
    columns = {str(name): frame[name].to_numpy() for name in frame.columns}
    table = table_from_columns(columns, options, path.name)
    origin = replace(table.origin, format="csv", sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    return replace(table, origin=origin)
