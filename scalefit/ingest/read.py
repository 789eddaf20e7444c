"""Read files of any recognised format into one `Table`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from scalefit.errors import DataError
from scalefit.ingest.binary import read_excel, read_parquet
from scalefit.ingest.build import build_table
from scalefit.ingest.delimited import read_delimited
from scalefit.ingest.documents import read_document, read_lines
from scalefit.ingest.fast import read_fast
from scalefit.ingest.grid import Grid
from scalefit.ingest.join import join_tables
from scalefit.ingest.names import role_candidates
from scalefit.ingest.options import ReadOptions
from scalefit.ingest.source import Source, load_source
from scalefit.ingest.table import Table
from scalefit.ingest.trackers import SHAPERS, recognise_tracker, shape_as

__all__ = ["read_table"]

_SUFFIXES = frozenset([".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx"])
_ONE_RUN = frozenset(["tensorboard", "lightning", "trainer-state"])
_MAX_FILES = 10_000


def read_table(path: str | Path | Sequence[str | Path], options: ReadOptions | None = None) -> Table:
    """Read a file, several files, or a folder (one run a file) into a table.

    Parameters
    ----------
    path : path or sequence of paths
        A folder stands for every table below it.
    options : ReadOptions, optional

    Raises
    ------
    DataError
        If a file cannot be read without guessing; the message names line, column, value and the way out.
    """
    options = options or ReadOptions()
    given = [Path(path)] if isinstance(path, (str, Path)) else [Path(p) for p in path]
    if len(given) == 1 and not given[0].is_dir():
        return _read_file(given[0], options, None)
    files = _labelled([file for p in given for file in _files_of(p)], given[0] if len(given) == 1 else None)
    tables = [_read_file(file, options, label) for file, label in files]
    return join_tables(tables, given[0].name if len(given) == 1 else f"{len(given)} files")


def _read_file(path: Path, options: ReadOptions, label: str | None) -> Table:
    grid, sha256 = _grid_of_file(path, options)
    if label is not None or grid.format in _ONE_RUN:
        grid = _with_run(grid, label or _stem(path))
    return build_table(grid, options, sha256)


def _files_of(path: Path) -> list[Path]:
    """Return the tables at a path: the file itself, or every table below the folder."""
    if not path.is_dir():
        return [path]
    found = sorted(
        file
        for file in path.rglob("*")
        if file.is_file() and _suffix(file) in _SUFFIXES and not file.name.startswith((".", "~"))
    )
    if not found:
        raise DataError(f"folder {path} holds no table ({', '.join(sorted(_SUFFIXES))}); name a file")
    if len(found) > _MAX_FILES:
        raise DataError(f"folder {path} holds {len(found)} tables, more than {_MAX_FILES}; name the files")
    return found


def _suffix(path: Path) -> str:
    """Return the extension in lower case, without ".gz"."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _stem(path: Path) -> str:
    """Return the file name without the extension of a table; other dots belong to the name ("lr0.1.csv")."""
    name = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    return name[: -len(_suffix(path))] if _suffix(path) in _SUFFIXES else name


def _labelled(files: list[Path], folder: Path | None) -> list[tuple[Path, str]]:
    """Return each file with a label of its own: its name, with its folders where names repeat.

    Raises
    ------
    DataError
        If a file is given twice.
    """
    repeated = [file for file, count in Counter(file.resolve() for file in files).items() if count > 1]
    if repeated:
        raise DataError(f"{repeated[0]} is given twice; its rows would count double: name it once")
    shown = [file.relative_to(folder) if folder else file for file in files]
    if folder is None and len(set(map(_stem, shown))) == len(shown):
        return [(file, _stem(file)) for file in files]
    same_name = len(files) > 1 and len({file.name for file in files}) == 1
    labels = [(file.parent if same_name else file.parent / _stem(file)).as_posix() for file in shown]
    if len(set(labels)) < len(labels):
        labels = [file.as_posix() for file in shown]
    return list(zip(files, labels, strict=True))


def _with_run(grid: Grid, label: str) -> Grid:
    """Add a run column that holds one label, unless the file says which run a row belongs to."""
    if role_candidates(grid.names, "run"):
        return grid
    return replace(grid, names=("run", *grid.names), columns=(np.full(len(grid), label, dtype=object), *grid.columns))


def _grid_of_file(path: Path, options: ReadOptions) -> tuple[Grid, str]:
    if options.format in {None, "csv"}:
        fast = read_fast(path, options)
        if fast is not None:
            grid, sha256 = fast
            return (grid if options.format else shape_as_recognised(grid)), sha256
    source = load_source(path)
    return _grid(source, options), source.sha256


def _grid(source: Source, options: ReadOptions) -> Grid:
    form = options.format or _recognise(source)
    if form in {"json", "trainer-state"}:
        return read_document(source)
    if form == "jsonl":
        return read_lines(source)
    if form == "parquet":
        return read_parquet(source)
    if form == "excel":
        return shape_as_recognised(read_excel(source, options))
    grid = read_delimited(source, options)
    return shape_as_recognised(grid) if options.format is None else shape_as(grid, options.format)


def shape_as_recognised(grid: Grid) -> Grid:
    """Bring a table into rows of points by the tracker format that its columns show."""
    form = recognise_tracker(grid)
    return shape_as(grid, form) if form in SHAPERS and form != "csv" else grid


def _recognise(source: Source) -> str:
    """Return the family of formats that the first bytes show; the suffix decides only between JSON forms."""
    data = source.data
    if data.startswith(b"PAR1"):
        return "parquet"
    if data.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        return "excel"
    start = data[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start.startswith((b"{", b"[")):
        return "csv"
    if source.suffix in {".jsonl", ".ndjson"}:
        return "jsonl"
    lines = [line for line in data.split(b"\n", 3)[:3] if line.strip()]
    one_a_line = len(lines) > 1 and all(line.strip().startswith(b"{") for line in lines)
    return "jsonl" if one_a_line and lines[0].strip().endswith(b"}") else "json"
