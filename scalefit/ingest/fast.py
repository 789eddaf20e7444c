"""The fast reader: large, regular, delimited tables through pandas, or nothing.

It answers only when the file is certain to mean the same to the exact reader: no quotes, no blank lines, no
comments, the same number of cells on every line, and no text that could be numbers in another locale. In every
other case it returns None and the exact reader decides. A column in which some cell is no plain number (blank,
"nan", "oops", "3B") comes as text, as from the exact reader, and only such cells are parsed one by one.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError
from scalefit.ingest.delimited import is_summary
from scalefit.ingest.dialect import Dialect, recognise
from scalefit.ingest.grid import Grid, simple_places
from scalefit.ingest.names import role_candidates
from scalefit.ingest.numbers import looks_numeric, tells_marks
from scalefit.ingest.options import ReadOptions
from scalefit.ingest.table import Dropped
from scalefit.ingest.trackers import CHART_SEPARATOR

__all__ = ["read_fast"]

FAST_FROM = 512 * 1024
"""Bytes from which the fast reader is tried; below, importing pandas would cost more than it saves."""

_HEAD = 64 * 1024
_CHUNK = 512 * 1024


@dataclass(frozen=True)
class _Scan:
    """What one pass over the bytes of a file shows."""

    sha256: str
    size: int
    newlines: int | None
    delimiters: int
    is_simple: bool


def read_fast(path: Path, options: ReadOptions) -> tuple[Grid, str] | None:
    """Return the grid and the hash of a large clean file, or None when the exact reader must look at it."""
    found = _simple_dialect(path, options)
    if found is None:
        return None
    dialect, returns = found
    names = dialect.names
    # The pass over the bytes releases the interpreter lock: it runs beside the parser.
    with ThreadPoolExecutor(max_workers=1) as pool:
        pending = pool.submit(_scan, path, dialect.delimiter.encode(), returns)
        columns = _parse(path, dialect.delimiter, len(names), _labels(names, options))
        scan = pending.result()
    if columns is None or not scan.is_simple or scan.size != path.stat().st_size:
        return None
    n = len(columns[0])
    # Where no line has fewer cells, so many delimiters mean the same number of cells on every line.
    if scan.delimiters != (len(names) - 1) * (n + 1) or scan.newlines not in {None, n, n + 1}:
        return None
    if _has_short_line(path, columns[-1], dialect) or _holds_no_data(columns[0], names[0]):
        return None
    grid = Grid(path.name, "csv", names, columns, simple_places(path.name, n), Dropped.none(path.name))
    return grid, scan.sha256


def _has_short_line(path: Path, last: NDArray[Any], dialect: Dialect) -> bool:
    """Whether a line has fewer cells than the header: the parser leaves its last cell empty."""
    if last.dtype != object:
        return False
    rows = set(np.flatnonzero(last == "").tolist())
    if not rows:
        return False
    mark, width = dialect.delimiter.encode(), len(dialect.names)
    with path.open("rb") as file:
        return any(i in rows and line.count(mark) != width - 1 for i, line in enumerate(file, -1))


def _holds_no_data(first: NDArray[Any], name: str) -> bool:
    """Whether the first column shows a comment, the header once more, or a summary of the rows above."""
    if first.dtype != object:
        return False
    cells = first.tolist()
    return is_summary(cells[-1]) or name in cells or any(cell.startswith("# ") for cell in cells)


def _simple_dialect(path: Path, options: ReadOptions) -> tuple[Dialect, bool] | None:
    """Return the layout and whether lines end with a carriage return, of a file that may be simple."""
    other_marks = options.decimal == "," or options.thousands == "."
    if options.names or other_marks or not path.is_file() or path.stat().st_size < FAST_FROM:
        return None
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head.startswith((b"\xef\xbb\xbf", b"\x1f\x8b", b"PAR1", b"PK", b"{", b"[")):
        return None
    try:
        dialect = recognise(head.decode("utf-8", errors="ignore"), path.name, options)
    except DataError:
        return None
    simple = dialect.header == 0 and dialect.own is None and dialect.delimiter in {",", "\t", "|"}
    simple = simple and not any(CHART_SEPARATOR in name for name in dialect.names)
    simple = simple and len(set(dialect.names)) == len(dialect.names) > 1
    return (dialect, b"\r" in head) if simple else None


def _labels(names: tuple[str, ...], options: ReadOptions) -> set[int]:
    """Return the columns whose cells are labels, to be taken as they are written: "01" is not "1"."""
    named = options.columns.get("run")
    return {*role_candidates(names, "run"), *(i for i, name in enumerate(names) if name == named)}


def _scan(path: Path, delimiter: bytes, returns: bool) -> _Scan:
    """Hash a file and count what decides whether it is regular.

    Where lines end with line feeds alone the parser's rows are the lines; else line feeds are counted, so
    that a carriage return by itself is noticed.
    """
    digest, buffer = hashlib.sha256(), bytearray(_CHUNK)
    chunk = memoryview(buffer)
    size = newlines = delimiters = 0
    unwanted = (b'"', b"\0") if returns else (b'"', b"\0", b"\r")
    is_simple = True
    with path.open("rb", buffering=0) as file:
        while length := file.readinto(chunk):
            part = chunk[:length]
            digest.update(part)
            codes = np.frombuffer(part, dtype=np.uint8)
            delimiters += int(np.count_nonzero(codes == delimiter[0]))
            newlines += int(np.count_nonzero(codes == ord("\n"))) if returns else 0
            is_simple = is_simple and all(buffer.find(mark, 0, length) < 0 for mark in unwanted)
            size += length
    return _Scan(digest.hexdigest(), size, newlines if returns else None, delimiters, is_simple)


def _parse(path: Path, delimiter: str, width: int, labels: set[int]) -> tuple[NDArray[Any], ...] | None:
    """Return numbers as float64 and the rest as text; None for what only the exact reader may judge."""
    import pandas as pd

    try:
        frame = _read(path, delimiter, width, {"dtype": dict.fromkeys(labels, str)})
        odd = [j for j in range(width) if not (j in labels or _is_clean(frame[j].to_numpy()))]
        texts = _read(path, delimiter, width, {"dtype": str, "usecols": [*labels, *odd]}) if odd else frame
    except (ValueError, OverflowError, pd.errors.ParserWarning):
        return None
    columns: list[NDArray[Any]] = []
    for j in range(width):
        if j in labels or j in odd:
            cells = [value.strip() if isinstance(value, str) else None for value in texts[j].to_numpy()]
            if None in cells or (j in odd and _may_be_of_other_marks(cells)):
                return None
            columns.append(np.array(cells, dtype=object))
        else:
            columns.append(frame[j].to_numpy().astype(np.float64, copy=False))
    return tuple(columns)


def _read(path: Path, delimiter: str, width: int, how: dict[str, Any]) -> Any:
    """Parse with pandas, from the path, since only then does it use more than one core."""
    import pandas as pd

    exact: dict[str, Any] = {"float_precision": "round_trip"} if int(pd.__version__.split(".")[0]) < 3 else {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", pd.errors.DtypeWarning)  # such a column is read again, as text
        return pd.read_csv(
            path,
            sep=delimiter,
            header=None,
            skiprows=1,
            names=list(range(width)),
            index_col=False,
            na_filter=False,
            skip_blank_lines=False,
            **exact,
            **how,
        )


def _is_clean(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "iu" or (values.dtype.kind == "f" and bool(np.isfinite(values).all()))


def _may_be_of_other_marks(cells: Sequence[Any]) -> bool:
    return tells_marks(cells) and any(looks_numeric(cell) and tells_marks([cell]) for cell in set(cells))
