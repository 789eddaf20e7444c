"""Delimited text to a `Grid`: its layout, its cells, and what is no data left out with its reason.

Numbers of large files are parsed by pandas, block by block and column by column. A block that is not regular (a
quote, a blank line, a comment, another number of cells on some line) is split by the csv module instead, with
the line of each record; a column in which some cell is no plain number is taken as text. Both ways give the same.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError
from scalefit.ingest.dialect import Layout, recognise
from scalefit.ingest.grid import Dropped, Grid, IntArray, Places, frozen
from scalefit.ingest.names import role_candidates
from scalefit.ingest.numbers import looks_numeric, plain_numbers, tells_marks
from scalefit.ingest.options import CHART_SEPARATOR, ReadOptions, unprotect

__all__ = ["grid_of_records", "read_delimited"]

PANDAS_FROM = 512 * 1024
"""Bytes from which pandas parses; below, importing it would cost more than it saves."""

_BLOCK = 1024**2
"""Bytes that are parsed together: one odd line sends so many to the csv module."""
_SUMMARIES = frozenset(["mean", "average", "avg", "median", "total", "sum", "std", "stdev", "min", "max", "count"])


@dataclass(frozen=True)
class _Part:
    """Some consecutive rows: columns of numbers or text, their lines, rows that do not fit, and where the text is."""

    columns: list[NDArray[Any]]
    lines: IntArray
    odd: dict[int, str]
    text: slice | list[NDArray[np.object_]]
    n_lines: int


def read_delimited(data: bytes, name: str, options: ReadOptions) -> Grid:
    """Read delimited text of any layout that `recognise` knows.

    Raises
    ------
    DataError
        If the first line holds numbers instead of names, nothing separates the cells, quotes are broken, no row
        follows the header, or most rows do not fit it.
    """
    found = recognise(data, name, options)
    parts = _parts(data, name, found, options)
    if parts is None:
        return grid_of_records(_records(data.decode(), found.delimiter, name), name, found)
    columns = [_joined(parts, j, data, found.delimiter) for j in range(len(found.names))]
    starts = np.cumsum([0, *(len(part.lines) for part in parts)])
    odd = {int(start) + i: reason for start, part in zip(starts, parts, strict=False) for i, reason in part.odd.items()}
    return _grid(name, found, found.names, columns, np.concatenate([part.lines for part in parts]), odd)


def _parts(data: bytes, name: str, found: Layout, options: ReadOptions) -> list[_Part] | None:
    """Return a large file in parts, or None where all of it must be read as text.

    So it is where a quote may join lines, and where a number may be written with other marks than a point.
    """
    other_marks = options.decimal == "," or options.thousands == "."
    plain = found.own is None and len(found.names) > 1 and found.delimiter != " " and not other_marks
    if not plain or len(data) < PANDAS_FROM or b'"' in data or any(CHART_SEPARATOR in n for n in found.names):
        return None
    named = options.columns.get("run")
    labels = {*role_candidates(found.names, "run"), *(i for i, n in enumerate(found.names) if n == named)}
    start = 0
    line = 0 if found.header is None else found.header + 1
    for _ in range(line):
        start = data.find(b"\n", start) + 1
        if not start:
            return None  # lines end in carriage returns alone
    if b"\r" in data[:start].replace(b"\r\n", b""):
        return None
    parts = []
    while start < len(data):
        at = slice(start, data.find(b"\n", start + _BLOCK) + 1 or len(data))
        block = data[at]
        part = _by_pandas(block, at, found, labels) or _by_csv(block, name, found, labels)
        if part is None or may_have_other_marks(part, labels):
            return None
        parts.append(replace(part, lines=part.lines + line))
        line, start = line + part.n_lines, at.stop
    odd, n = sum(len(part.odd) for part in parts), sum(len(part.lines) for part in parts)
    return parts if 2 * odd <= n and n else None  # else the exact words are in grid_of_records


def _by_pandas(block: bytes, at: slice, found: Layout, labels: set[int]) -> _Part | None:
    """Parse a block if every line has as many cells as the header and none is a comment."""
    mark, k = found.delimiter.encode(), len(found.names)
    if block[: block.find(b"\n")].count(mark) != k - 1:
        return None
    try:
        columns = _frame(block, found.delimiter, k, dict.fromkeys(labels, str))
        odd = [j for j, c in enumerate(columns) if not (c.dtype == object or _is_clean(c))]
        if odd:  # words such as True, numbers beyond the range
            texts = _frame(block, found.delimiter, k, dict.fromkeys(odd, str), odd)
            columns = [texts[odd.index(j)] if j in odd else column for j, column in enumerate(columns)]
    except (ValueError, OverflowError):
        return None
    n = len(columns[0])
    # A longer line than the first is an error to pandas; with so many delimiters none is then shorter either.
    if np.count_nonzero(np.frombuffer(block, dtype=np.uint8) == mark[0]) != (k - 1) * n:
        return None
    if b"\r" in block and block.count(b"\n") + (not block.endswith(b"\n")) != n:
        return None  # a carriage return by itself ends a line too
    if columns[0].dtype == object and any(cell.startswith("# ") for cell in columns[0].tolist()):
        return None
    return _Part(columns, np.arange(1, n + 1, dtype=np.int64), {}, at, n)


def _is_clean(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "iu" or (values.dtype.kind == "f" and bool(np.isfinite(values).all()))


def _frame(
    block: bytes, delimiter: str, width: int, kinds: dict[int, type], which: list[int] | None = None
) -> list[NDArray[Any]]:
    """Return columns as numbers or as stripped text, without a word on standard error: nothing here can warn."""
    import pandas as pd

    frame = pd.read_csv(
        io.BytesIO(block),
        sep=delimiter,
        header=None,
        names=list(range(width)),
        usecols=which,
        index_col=False,
        na_filter=False,
        skip_blank_lines=False,
        quoting=csv.QUOTE_NONE,
        low_memory=False,  # a column of a block has one kind
        float_precision="round_trip" if int(pd.__version__.split(".")[0]) < 3 else None,
        dtype=kinds,
    )
    columns: list[NDArray[Any]] = []
    for j in which or range(width):
        values = frame[j].to_numpy()
        if values.dtype == object and j not in kinds and not isinstance(values[0], str):
            columns.append(values.astype(np.bool_))  # integers beyond 64 bits: of no kind, to be read as text
        elif values.dtype == object:
            columns.append(_cells([value.strip() for value in values.tolist()]))
        else:
            columns.append(values)
    return columns


def _cells(texts: list[str]) -> NDArray[np.object_]:
    cells = np.empty(len(texts), dtype=object)
    cells[:] = texts
    return cells


def _by_csv(block: bytes, name: str, found: Layout, labels: set[int]) -> _Part | None:
    """Split a block that is not regular; None if its lines cannot be counted."""
    k = len(found.names)
    if block.count(b"\r") != block.count(b"\r\n"):
        return None  # a carriage return by itself ends a line too
    rows, lines = [], []
    for line, record in _records(block.decode(), found.delimiter, name):
        if any(record) and not record[0].startswith("# "):
            rows.append(record)
            lines.append(line)
    odd = {i: _misfit(row, k) for i, row in enumerate(rows) if len(row) != k}
    fits = np.array([len(row) == k for row in rows], dtype=np.bool_)
    columns, texts = [], _columns(rows, k)
    for j, cells in enumerate(texts):
        numbers = np.full(len(rows), np.nan)
        numbers[fits], plain = plain_numbers(cells[fits].tolist())
        columns.append(numbers if j not in labels and plain.all() and np.isfinite(numbers[fits]).all() else cells)
    return _Part(columns, np.array(lines, dtype=np.int64), odd, texts, block.count(b"\n"))


def may_have_other_marks(part: _Part, labels: set[int]) -> bool:
    """Whether a cell looks like a number with a comma or two points: then numbers read so far are in doubt."""
    texts = [column.tolist() for j, column in enumerate(part.columns) if column.dtype == object and j not in labels]
    return any(tells_marks(t) and any(looks_numeric(cell) and tells_marks([cell]) for cell in set(t)) for t in texts)


def _joined(parts: Sequence[_Part], j: int, data: bytes, delimiter: str) -> NDArray[Any]:
    """Join a column; where one part holds text, the cells of the others are read again as text."""
    columns = [part.columns[j] for part in parts]
    if all(column.dtype != object for column in columns):
        return np.concatenate(columns, dtype=np.float64)
    width = len(parts[0].columns)
    for i, part in enumerate(parts):
        if columns[i].dtype != object:
            text = part.text
            columns[i] = _frame(data[text], delimiter, width, {j: str}, [j])[0] if isinstance(text, slice) else text[j]
    return np.concatenate(columns)


def _records(text: str, delimiter: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line on which each record starts, and its stripped cells.

    A quote that is never closed would swallow the lines after it, so a record of several lines must be
    quoted without fault.
    """
    lines = io.StringIO(text, newline="")
    if delimiter == " ":
        for i, line in enumerate(lines):
            yield i + 1, line.split()
        return
    taken: list[str] = []

    def remembered() -> Iterator[str]:
        for line in lines:
            taken.append(line)
            yield line

    reader = csv.reader(remembered(), delimiter=delimiter, skipinitialspace=True)
    before = 0
    shared: dict[str, str] = {}
    try:
        for record in reader:
            if len(taken) > 1:
                list(csv.reader(taken, delimiter=delimiter, skipinitialspace=True, strict=True))
            taken.clear()
            yield before + 1, [shared.setdefault(cell, cell) for cell in map(str.strip, record)]
            before = reader.line_num
    except csv.Error as error:
        raise DataError(
            f"line {before + 1} of {name} cannot be split into cells ({error}); mend its quotes: one is opened "
            "and not closed, or stands inside a cell"
        ) from None


def grid_of_records(records: Iterable[tuple[int, list[str]]], name: str, found: Layout) -> Grid:
    """Make a grid of (line, cells) records, dropping what is no data and saying why; errors as above."""
    rows: list[list[str]] = []
    lines: list[int] = []
    header_line = 0
    for i, (line, record) in enumerate(records):
        if found.header is not None and i <= found.header:
            header_line = line
        elif any(record) and not record[0].startswith("# "):
            rows.append(record)
            lines.append(line)
    if not rows and found.header:
        raise DataError(
            f"{name} is no table that can be recognised: no row follows line {header_line}, the only one "
            "that looks like a header; name the separator with --delimiter or the columns with --names"
        )
    if not rows:
        raise DataError(f"{name} has a header and no rows; export the runs again")
    names, k = found.names, len(found.names)
    if all(len(row) == k + 1 for row in rows):
        first = [row[0] for row in rows]
        if all(row[-1] == "" for row in rows):
            rows = [row[:-1] for row in rows]
        elif any(first == [str(i + start) for i in range(len(rows))] for start in (0, 1)):
            names = ("", *names)
    odd = {i: _misfit(row, k) for i, row in enumerate(rows) if len(row) != len(names)}
    if 2 * len(odd) > len(rows):
        i = next(iter(odd))
        raise DataError(
            f"{name}: {len(odd)} of {len(rows)} rows do not fit the header; line {lines[i]} has {len(rows[i])} "
            f"cells and the header {k}; say --delimiter, or write decimal commas in a file split by semicolons"
        )
    return _grid(name, found, names, _columns(rows, len(names)), np.array(lines, dtype=np.int64), odd)


def _misfit(row: Sequence[str], k: int) -> str:
    return f"{len(row)} {'cell' if len(row) == 1 else 'cells'} where the header has {k}"


def _columns(rows: Sequence[Sequence[str]], k: int) -> list[NDArray[Any]]:
    """Return the cells by column; a row that does not fit leaves its first cell, which names it."""
    blank = [""] * (k - 1)
    rows = [row if len(row) == k else [row[0], *blank] for row in rows]
    return [_cells([row[j] for row in rows]) for j in range(k)]


def _grid(
    name: str, found: Layout, names: Sequence[str], columns: list[NDArray[Any]], lines: IntArray, odd: dict[int, str]
) -> Grid:
    """Make the grid, without repeated headers, rows that do not fit, and summaries under the table."""
    n = len(lines)
    places = Places(frozen(np.arange(1, n + 1, dtype=np.int64)), frozen(lines), None, (name,))
    grid = Grid(name, "csv", tuple(names), tuple(columns), places, Dropped.none(name))
    reasons = dict(odd)
    if found.own is None and columns[0].dtype == object and (not names[0] or role_candidates(names[:1], "run")):
        i = n - 1
        while i > 0 and str(columns[0][i]).lower().rstrip(":") in _SUMMARIES:
            reasons.setdefault(i, f"{columns[0][i]} is a summary of the rows above")
            i -= 1
    if len(found.cells) == len(columns) and all(column.dtype == object for column in columns):
        same = np.logical_and.reduce([column == cell for column, cell in zip(columns, found.cells, strict=True)])
        reasons.update(dict.fromkeys(np.flatnonzero(same).tolist(), "repeated header"))
    if found.own is not None:
        plain = tuple(_cells([unprotect(cell) for cell in column.tolist()]) for column in columns)
        grid = replace(grid, format="scalefit-csv", names=tuple(map(unprotect, names)), columns=plain, own=True)
        grid = replace(grid, loss_unit=found.own.partition("loss in ")[2])
    mask = np.ones(n, dtype=np.bool_)
    mask[list(reasons)] = False
    return grid.keep(mask, [reasons[i] for i in sorted(reasons)])
