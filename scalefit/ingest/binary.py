"""Parquet files and Excel workbooks to a `Grid`, through pandas."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError, MissingExtraError
from scalefit.ingest.grid import MAX_EXACT, Dropped, Grid, cells_of, simple_places

__all__ = ["excel_records", "frame_grid", "read_parquet"]


def read_parquet(data: bytes, name: str) -> Grid:
    """Read Apache Parquet; needs pyarrow."""
    import pandas as pd

    try:
        frame = pd.read_parquet(io.BytesIO(data))
    except ImportError:
        raise MissingExtraError("pyarrow", "reading Parquet", "parquet") from None
    except (ValueError, OSError, KeyError) as error:
        raise DataError(f"{name} is no readable Parquet file: {_first_line(error)}") from None
    if not len(frame):
        raise DataError(f"{name} has columns and no rows; export the runs again")
    if frame.index.name is not None or frame.index.nlevels > 1:
        frame = frame.reset_index()
    names = [str(column) for column in frame.columns]
    return frame_grid(name, "parquet", names, [frame.iloc[:, j].to_numpy() for j in range(len(names))])


def frame_grid(name: str, form: str, names: list[str], arrays: list[NDArray[Any]]) -> Grid:
    """Make a grid of arrays: numbers as they are, everything else as text."""
    columns = []
    for array in arrays:
        if array.ndim != 1:
            raise DataError(f"{name}: a column has {array.ndim} dimensions and must have one; give one entry a row")
        is_integer = array.dtype.kind in "iu"
        if array.dtype.kind == "f" or (is_integer and not ((array > MAX_EXACT) | (array < -MAX_EXACT)).any()):
            columns.append(array.astype(np.float64))
        else:
            columns.append(cells_of([None if _is_missing(value) else value for value in array.tolist()]))
    n = len(columns[0]) if columns else 0
    return Grid(
        name, form, tuple(n.strip() for n in names), tuple(columns), simple_places(name, n, 1), Dropped.none(name)
    )


def excel_records(data: bytes, name: str) -> list[list[str]]:
    """Return the first sheet of a workbook as text cells, for the rules of text files; needs openpyxl."""
    import pandas as pd

    try:
        frame = pd.read_excel(io.BytesIO(data), header=None, dtype=object)
    except ImportError:
        raise MissingExtraError("openpyxl", "reading Excel workbooks", "excel") from None
    except Exception as error:  # the engines raise whatever their parsers do
        raise DataError(f"{name} is no readable workbook: {_first_line(error)}") from None
    return [[cell_text(v) for v in row] for row in frame.itertuples(index=False)]


def cell_text(value: Any) -> str:
    """Return a spreadsheet cell as it would stand in a text file."""
    if _is_missing(value):
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    return repr(value) if isinstance(value, float) else str(value).strip()


def _is_missing(value: Any) -> bool:
    return value is None or value != value or type(value).__name__ in {"NAType", "NaTType"}


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or ["unknown"])[0][:200]
