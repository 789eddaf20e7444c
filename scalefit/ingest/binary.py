"""Parquet files and Excel workbooks to a `Grid`, within a bound on what they may unfold to."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError, MissingExtraError
from scalefit.ingest.grid import MAX_EXACT, Dropped, Grid, cells_of, simple_places

__all__ = ["excel_records", "frame_grid", "read_parquet"]


_LEAST_BOUND = 256 * 1024**2
"""Bytes in memory that any file may take; beyond, so many times the size of the file."""
_MOST_TIMES = 60
_FAR_ROWS = 10_000
_MAX_NESTING = 5


def read_parquet(data: bytes, name: str) -> Grid:
    """Read Apache Parquet; needs pyarrow. Columns of lists are left aside, structures are unfolded.

    A run-length code may stand for any number of rows, so the table is read piece by piece up to a bound.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("pyarrow", "reading Parquet", "parquet") from None
    bound = max(_LEAST_BOUND, _MOST_TIMES * len(data))
    try:
        file = pq.ParquetFile(io.BytesIO(data))
        groups = [file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups)]
        # a text may stand in every row, so that few rows can be large
        rows = int(np.clip(bound // max(1, sum(groups)), 1024, 65536))
        batches, held = [], sum(groups)
        for batch in file.iter_batches(batch_size=rows) if held <= bound else ():
            held += batch.nbytes
            if held > bound:
                break
            batches.append(batch)
        if held > bound:
            raise DataError(
                f"{name} holds {file.metadata.num_rows} rows by {file.metadata.num_columns} columns, more "
                f"than {bound // 1024**2} MB when unfolded; write what a law needs to a file of its own"
            )
        table = pa.Table.from_batches(batches, file.schema_arrow)
        frame = table.to_pandas()
        for _ in range(_MAX_NESTING):
            if any(pa.types.is_struct(field.type) for field in table.schema):
                table = table.flatten()
                frame = table.to_pandas(ignore_metadata=True)
    except (pa.ArrowException, ValueError, OSError, KeyError, OverflowError) as error:
        raise DataError(f"{name} is no readable Parquet file: {_first_line(error)}") from None
    if not len(frame):
        raise DataError(f"{name} has columns and no rows; export the runs again")
    if frame.index.name is not None or frame.index.nlevels > 1:
        frame = frame.reset_index()
    kinds = {field.name: field.type for field in table.schema}
    lists = [str(n) for n in frame.columns if str(n) in kinds and pa.types.is_nested(kinds[str(n)])]
    kept = [j for j, column in enumerate(frame.columns) if str(column) not in lists]
    names = [str(frame.columns[j]) for j in kept]
    grid = frame_grid(name, "parquet", names, [frame.iloc[:, j].to_numpy() for j in kept])
    return replace(grid, ignored=tuple(f"{column} (a list)" for column in lists))


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
    """Return the first sheet of a workbook as text cells, for the rules of text files; needs openpyxl.

    One cell far from the others makes no table: a sheet is read as far as its filled cells account for.
    """
    try:
        import openpyxl
    except ImportError:
        raise MissingExtraError("openpyxl", "reading Excel workbooks", "excel") from None
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > max(_LEAST_BOUND, _MOST_TIMES * len(data)):
            raise DataError(f"{name} unfolds to {size // 1024**2} MB; save the sheet of runs alone")
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        sheet = book.worksheets[0]
        sheet.reset_dimensions()  # a stated size may be false
        records: list[list[str]] = []
        filled = cells = 0
        for row in sheet.iter_rows(values_only=True):
            record = [cell_text(value) for value in row]
            filled += any(record)
            cells += len(record)
            if len(records) > _FAR_ROWS + 20 * filled or cells > 1_000_000 + 200 * filled * 20:
                raise DataError(f"{name}: a cell near row {len(records) + 1} stands far from the others; delete it")
            records.append(record)
    except DataError:
        raise
    except Exception as error:  # the engine raises whatever its parsers do
        raise DataError(f"{name} is no readable workbook: {_first_line(error)}") from None
    width = max((len(record) for record in records), default=0)
    while records and not any(records[-1]):
        records.pop()
    while width and not any(record[width - 1] for record in records if len(record) == width):
        width -= 1
    if width * len(records) > 1_000_000 + 200 * filled * 20:
        raise DataError(f"{name}: a cell in column {width} stands far from the others; delete it")
    return [[*record, *[""] * (width - len(record))][:width] for record in records]


def cell_text(value: Any) -> str:
    """Return a spreadsheet cell as it would stand in a text file."""
    if _is_missing(value):
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    return repr(value) if isinstance(value, float) else str(value).strip()


def _is_missing(value: Any) -> bool:
    if isinstance(value, (list, dict, np.ndarray)):
        return False
    return value is None or value != value or type(value).__name__ in {"NAType", "NaTType"}


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or ["unknown"])[0][:200]
