"""Delimited text to a `Grid`: every record with its line, and what is no data left out with its reason."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from scalefit.errors import DataError
from scalefit.ingest.dialect import Dialect, recognise
from scalefit.ingest.grid import Grid
from scalefit.ingest.names import role_candidates
from scalefit.ingest.options import ReadOptions
from scalefit.ingest.source import Source, decode
from scalefit.ingest.table import Dropped, Places, frozen
from scalefit.ingest.tidy import unprotect

__all__ = ["grid_of_records", "is_summary", "read_delimited"]

_SUMMARIES = frozenset(["mean", "average", "avg", "median", "total", "sum", "std", "stdev", "min", "max", "count"])


def read_delimited(source: Source, options: ReadOptions) -> Grid:
    """Read delimited text of any layout that `recognise` knows."""
    text, warnings = decode(source)
    dialect = recognise(text, source.name, options)
    grid = grid_of_records(_split(text, dialect.delimiter, source.name), source.name, dialect)
    return replace(grid, warnings=warnings)


def grid_of_records(records: Iterable[tuple[int, list[str]]], name: str, dialect: Dialect) -> Grid:
    """Make a grid of (line, cells) records, dropping what is no data and saying why.

    Raises
    ------
    DataError
        If quotes are broken, no row follows the header, or most rows do not fit it.
    """
    header, rows, lines = _after_header(records, name, dialect)
    names, rows, odd = _fit_to_header(rows, lines, list(dialect.names), name)
    n = len(rows)
    columns = []
    for j in range(len(names)):
        cells = np.empty(n, dtype=object)
        cells[:] = [row[j] if len(row) == len(names) else "" for row in rows]
        columns.append(cells)
    numbers = frozen(np.arange(1, n + 1, dtype=np.int64))
    places = Places(numbers, frozen(np.array(lines, dtype=np.int64)), None, (name,))
    grid = Grid(name, "csv", tuple(names), tuple(columns), places, Dropped.none(name))
    if dialect.own is not None:
        unit = dialect.own.partition("loss in ")[2]
        grid = replace(_unprotected(grid), format="scalefit-csv", own=True, loss_unit=unit)
    repeated = {i: "repeated header" for i, row in enumerate(rows) if row == header}
    summaries = {} if grid.own else _summaries(names, rows)
    reasons = {**summaries, **odd, **repeated}
    mask = np.ones(n, dtype=np.bool_)
    mask[list(reasons)] = False
    return grid.keep(mask, [reasons[i] for i in sorted(reasons)])


def is_summary(label: str) -> bool:
    """Whether a label is one that spreadsheets put before a summary of the rows above."""
    return label.lower().rstrip(":") in _SUMMARIES


def _summaries(names: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[int, str]:
    """Return the rows at the end that a spreadsheet adds under a column of labels or of row numbers."""
    found: dict[int, str] = {}
    if not names or (names[0] and not role_candidates(names[:1], "run")):
        return found
    for i in range(len(rows) - 1, 0, -1):
        if not is_summary(rows[i][0]):
            break
        found[i] = f"{rows[i][0]} is a summary of the rows above"
    return found


def _unprotected(grid: Grid) -> Grid:
    columns = []
    for column in grid.columns:
        cells = np.empty(len(column), dtype=object)
        cells[:] = [unprotect(cell) for cell in column.tolist()]
        columns.append(cells)
    return replace(grid, names=tuple(map(unprotect, grid.names)), columns=tuple(columns))


def _after_header(
    records: Iterable[tuple[int, list[str]]], name: str, dialect: Dialect
) -> tuple[list[str], list[list[str]], list[int]]:
    """Return the header record, the records after it that are neither blank nor comments, and their lines."""
    rows: list[list[str]] = []
    lines: list[int] = []
    header: list[str] = []
    header_line = 0
    for i, (line, record) in enumerate(records):
        if dialect.header is not None and i <= dialect.header:
            header, header_line = record, line
        elif any(record) and not record[0].startswith("# "):
            rows.append(record)
            lines.append(line)
    if not rows and dialect.header:
        raise DataError(
            f"{name} is no table that can be recognised: no row follows line {header_line}, the only one "
            "that looks like a header; name the separator with --delimiter or the columns with --names"
        )
    if not rows:
        raise DataError(f"{name} has a header and no rows; export the runs again")
    return header, rows, lines


def _split(text: str, delimiter: str, name: str) -> Iterator[tuple[int, list[str]]]:
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
    reader = csv.reader(_remembered(lines, taken), delimiter=delimiter, skipinitialspace=True)
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


def _remembered(lines: Iterable[str], taken: list[str]) -> Iterator[str]:
    """Pass lines on, and keep them in `taken` too."""
    for line in lines:
        taken.append(line)
        yield line


def _fit_to_header(
    rows: list[list[str]], lines: list[int], names: list[str], name: str
) -> tuple[list[str], list[list[str]], dict[int, str]]:
    """Make rows as wide as the header where that is certain; otherwise say what is wrong with each."""
    k = len(names)
    extra = sum(len(row) == k + 1 for row in rows)
    if extra == len(rows):
        if all(row[-1] == "" for row in rows):
            return names, [row[:-1] for row in rows], {}
        if _counts_up([row[0] for row in rows]):
            return ["", *names], rows, {}
    wrong = {i: f"{_cells(len(row))} where the header has {k}" for i, row in enumerate(rows) if len(row) != k}
    if 2 * len(wrong) > len(rows):
        i = next(iter(wrong))
        raise DataError(
            f"{name}: {len(wrong)} of {len(rows)} rows do not fit the header; line {lines[i]} has {len(rows[i])} "
            f"cells and the header {k}; say --delimiter, or write decimal commas in a file split by semicolons"
        )
    return names, rows, wrong


def _cells(n: int) -> str:
    return "1 cell" if n == 1 else f"{n} cells"


def _counts_up(cells: list[str]) -> bool:
    return any(cells == [str(i + start) for i in range(len(cells))] for start in (0, 1))
