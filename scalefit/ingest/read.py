"""Read files of any recognised format into one `Table`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from scalefit.errors import DataError, ScalefitWarning
from scalefit.ingest.build import build_table
from scalefit.ingest.delimited import grid_of_records, read_delimited
from scalefit.ingest.dialect import layout
from scalefit.ingest.duplicates import without_copies
from scalefit.ingest.grid import Grid
from scalefit.ingest.hints import missing_roles, suspicious
from scalefit.ingest.names import role_candidates
from scalefit.ingest.options import ReadOptions
from scalefit.ingest.source import Source, as_utf8, load_source
from scalefit.ingest.table import Table, join_tables
from scalefit.ingest.trackers import SHAPERS, drop_unfinished, recognise_tracker, shape_as, wide_columns

__all__ = ["read_table", "table_from_columns"]

_SUFFIXES = frozenset([".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx", ".yaml", ".yml", ".log"])
_ONE_RUN = frozenset(["tensorboard", "lightning", "trainer-state", "log"])
_PACKED = (".gz", ".zst", ".bz2", ".xz", ".zip")
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
    words = [path] if isinstance(path, (str, Path)) else list(path)
    if len(words) == 1 and is_elsewhere(words[0]):
        return _read_file(words[0], options, None)
    given = [file for word in words for file in matches_of(word)]
    if len(given) == 1 and not given[0].is_dir():
        return _read_file(given[0], options, None)
    found = [file for p in given for file in files_of(p)]
    fits = [file for file in found if file not in given and _is_fit(file)]
    files = label_files([file for file in found if file not in fits], given[0] if len(given) == 1 else None)
    tables = [_read_file(file, options, label) for file, label in files]
    if not options.keep_duplicates:
        tables = without_copies(tables, [label for _, label in files])
    table = join_tables(tables, given[0].name if len(given) == 1 else f"{len(given)} files")
    if not fits:
        return table
    message = f"{', '.join(file.name for file in fits)} of {table.origin.name} hold fits, no runs, and were skipped."
    return table.with_warning(ScalefitWarning("fits-skipped", message, "", {"files": [file.name for file in fits]}))


def _is_fit(file: Path) -> bool:
    with file.open("rb") as opened:
        return re.search(rb'"(?:schema|kind)": "scalefit-fit', opened.read(200)) is not None


def table_from_columns(columns: Mapping[str, ArrayLike], options: ReadOptions, name: str) -> Table:
    """Build a table from columns of equal length that are already in memory, by the rules of files.

    Raises
    ------
    DataError
        If lengths differ, no row is left, or names are ambiguous.
    """
    from scalefit.ingest.binary import frame_grid

    arrays = {str(key): np.atleast_1d(np.asarray(value)) for key, value in columns.items()}
    lengths = {key: len(array) for key, array in arrays.items()}
    if len(set(lengths.values())) != 1:
        raise DataError(f"{name}: the columns have {lengths} entries; give each one entry a row")
    if not next(iter(lengths.values())):
        raise DataError(f"{name}: the columns are empty; give at least one row")
    return _table(frame_grid(name, "memory", list(arrays), list(arrays.values())), options)


def _table(grid: Grid, options: ReadOptions, sha256: str = "") -> Table:
    """Understand a grid and remark on what it lacks and on values that are rarely meant."""
    table = build_table(grid if options.keep_unfinished else drop_unfinished(grid), options, sha256)
    warnings = (*table.warnings, *missing_roles(table), *suspicious(table))
    return replace(table, warnings=warnings, keep_duplicates=options.keep_duplicates)


def _read_file(path: str | Path, options: ReadOptions, label: str | None) -> Table:
    source = load_source(path)
    grid = _grid(source, options)
    if (label is not None or grid.format in _ONE_RUN) and not role_candidates(grid.names, "run"):
        run = np.full(len(grid), label or _stem(Path(path)), dtype=object)
        grid = replace(grid, names=("run", *grid.names), columns=(run, *grid.columns))
    return _table(grid, options, source.sha256)


def is_elsewhere(word: str | Path) -> bool:
    """Whether a source is standard input or an address."""
    return str(word) == "-" or "://" in str(word)


def matches_of(word: str | Path) -> list[Path]:
    """Return the path, or the files that a pattern such as "logs/*.csv" stands for."""
    if is_elsewhere(word):
        raise DataError(f"{word} is read alone; save it as a file to read it with others")
    path = Path(word)
    if path.exists() or not set("*?[") & set(str(word)):
        return [path]
    found = sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
    if not found:
        raise DataError(f"no file matches {str(word)!r}; name a file or a folder")
    return found


def files_of(path: Path) -> list[Path]:
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
    """Return the extension in lower case, without that of a compression."""
    ending = next((ending for ending in _PACKED if path.name.lower().endswith(ending)), "")
    return Path(path.name.lower().removesuffix(ending)).suffix


def _stem(path: Path) -> str:
    """Return the file name without the extension of a table; other dots belong to the name ("lr0.1.csv")."""
    ending = next((ending for ending in _PACKED if path.name.lower().endswith(ending)), "")
    name = path.name[: len(path.name) - len(ending)]
    return name[: -len(_suffix(path))] if _suffix(path) in _SUFFIXES else name


def label_files(files: list[Path], folder: Path | None) -> list[tuple[Path, str]]:
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


def _grid(source: Source, options: ReadOptions) -> Grid:
    form = options.format or recognise_format(source)
    if form == "parquet":
        from scalefit.ingest.binary import read_parquet

        return read_parquet(source.data, source.name)
    if form == "excel":
        from scalefit.ingest.binary import excel_records

        records = excel_records(source.data, source.name)
        found = layout(records[:60], source.name, options, ",")
        grid = grid_of_records(((i + 1, record) for i, record in enumerate(records)), source.name, found)
        return _shaped(_unpacked(replace(grid, format="excel")))
    text, warnings = as_utf8(source)
    if form in {"json", "jsonl", "trainer-state"}:
        from scalefit.ingest.documents import read_document, read_lines

        grid = (read_lines if form == "jsonl" else read_document)(text.decode(), source.name)
    elif form == "yaml":
        from scalefit.ingest.documents import grid_of_document
        from scalefit.ingest.yaml_documents import read_yaml

        grid = grid_of_document(read_yaml(text.decode(), source.name), source.name, "yaml")
    elif form == "log":
        from scalefit.ingest.logs import read_log

        grid = read_log(text.decode(), source.name)
    else:
        grid = _unpacked(read_delimited(text, source.name, options))
        grid = _shaped(grid) if options.format is None else shape_as(grid, options.format)
        asked = options.format or options.loss or options.columns.get("loss")
        if grid.format == "csv" and not asked and wide_columns(grid):
            raise DataError(
                f"{source.name} has no loss column; its columns are {', '.join(grid.names)}; if each of them but the "
                "steps is a run and holds its loss, say --format wide"
            )
    return replace(grid, warnings=(*warnings, *grid.warnings))


def _unpacked(grid: Grid) -> Grid:
    """Unpack the cells of trackers that write mappings as text."""
    if not any(c.dtype == object and any(cell.startswith("{") for cell in c[:3].tolist()) for c in grid.columns):
        return grid
    from scalefit.ingest.documents import unpack_cells

    return unpack_cells(grid)


def _shaped(grid: Grid) -> Grid:
    """Bring a table into rows of points by the tracker format that its columns show."""
    form = recognise_tracker(grid)
    return shape_as(grid, form) if form in SHAPERS and form != "csv" else grid


def recognise_format(source: Source) -> str:
    """Return the family of formats that the first bytes show; the suffix decides only between JSON forms."""
    data = source.data
    if data.startswith(b"PAR1"):
        return "parquet"
    if data.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        return "excel"
    start = data[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()
    if source.suffix in {".yaml", ".yml"} or re.match(rb"(?:---\s+)?- (?:\{|[\w./-]+: )", start):
        return "yaml"
    if re.search(rb"(?:[A-Za-z)][:=] *|[a-z] +)[-+.]?[0-9]", start[:2000]) and not start.startswith(
        (b"{", b"[{", b'["', b"#")
    ):
        from scalefit.ingest.logs import looks_like_log

        if looks_like_log(data[: 64 * 1024].decode(errors="replace")):
            return "log"
    if not start.startswith((b"{", b"[")):
        return "csv"
    if source.suffix in {".jsonl", ".ndjson"}:
        return "jsonl"
    lines = [line for line in data.split(b"\n", 3)[:3] if line.strip()]
    one_a_line = len(lines) > 1 and all(line.strip().startswith(b"{") for line in lines)
    return "jsonl" if one_a_line and lines[0].strip().endswith(b"}") else "json"
