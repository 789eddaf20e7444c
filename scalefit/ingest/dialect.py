"""How a delimited file is laid out: its delimiter, its header line, its names."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scalefit.errors import DataError
from scalefit.ingest.names import SYNONYMS, loss_candidates, role_candidates
from scalefit.ingest.numbers import MISSING, looks_numeric
from scalefit.ingest.options import OWN_MARK, ReadOptions

__all__ = ["Layout", "layout", "recognise"]

_SAMPLE_BYTES, _SAMPLE_LINES = 64 * 1024, 60
_CANDIDATES = (",", ";", "\t", "|")
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Layout:
    """Layout of a delimited file.

    Attributes
    ----------
    delimiter : str
        One character; " " means runs of spaces.
    header : int or None
        Index of the header among the records (blank lines included), None when `names` came as an option.
    names : tuple of str
    cells : tuple of str
        The header as it stands.
    own : str or None
        The first line of an own tidy file.
    """

    delimiter: str
    header: int | None
    names: tuple[str, ...]
    cells: tuple[str, ...] = ()
    own: str | None = None


def recognise(data: bytes, name: str, options: ReadOptions) -> Layout:
    """Recognise the layout from the beginning of a file.

    Raises
    ------
    DataError
        If the first line holds numbers instead of names, or nothing separates the cells.
    """
    lines = first_lines(data)
    own = lines[0].strip() if lines[0].startswith(OWN_MARK) else None
    delimiter = options.delimiter or ("," if own else guess_delimiter(lines))
    try:
        return layout(_split_lines(lines, delimiter), name, options, delimiter, own)
    except csv.Error as error:
        raise DataError(f"{name} cannot be split into cells: {error}") from None


def layout(
    records: Sequence[Sequence[str]], name: str, options: ReadOptions, delimiter: str, own: str | None = None
) -> Layout:
    """Find the header among the first records; errors as in `recognise`."""
    header = find_header(records, 1 if own else 0)
    if header is None:
        raise DataError(f"{name} holds no table: no line has more than blanks")
    first = records[header]
    filled = [cell for cell in first if cell]
    headless = 2 * sum(looks_numeric(cell) or cell.lower() in MISSING for cell in filled) > len(filled)
    if options.names:
        return (
            Layout(delimiter, None, options.names)
            if headless
            else Layout(delimiter, header, options.names, tuple(first), own)
        )
    if headless:
        known = {2: "tokens,loss", 3: "params,tokens,loss", 4: "width,depth,tokens,loss"}
        raise DataError(
            f"line {header + 1} of {name} holds numbers, not column names ({', '.join(filled[:4])}); name the "
            f"{len(first)} columns with --names, for example --names {known.get(len(first), known[4] + ',...')}"
        )
    names = (re.sub(r"^#\s+", "", first[0]), *first[1:])
    below = records[header + 1 : header + 3]
    if own is None and len(below) == 2 and _are_names_below(first, *below):
        # two header lines, groups above names: an empty group goes on
        group = ""
        grouped = []
        for above, own_name in zip(names, below[0], strict=True):
            group = above or group
            grouped.append(f"{group}.{own_name}" if group and own_name else own_name or group)
        return Layout(delimiter, header + 1, tuple(grouped), tuple(below[0]))
    return Layout(delimiter, header, names, tuple(first), own)


def _are_names_below(groups: Sequence[str], names: Sequence[str], row: Sequence[str]) -> bool:
    """Whether a second line holds the names and the first only their groups: no number, and it names more roles."""
    filled = [cell for cell in names if cell]
    if len(groups) != len(names) or len(filled) < 2 or any(map(looks_numeric, filled)):
        return False
    known = [
        len(loss_candidates(line)) + sum(bool(role_candidates(line, role)) for role in SYNONYMS)
        for line in (groups, names)
    ]
    return known[1] > known[0] and any(map(looks_numeric, row))


def first_lines(data: bytes) -> list[str]:
    """Return the first lines, at least three where the file has them, however long the header is."""
    size = _SAMPLE_BYTES
    while True:
        # only the last character can be cut, and it goes with its line
        lines = _LINE_END.split(data[:size].decode(errors="ignore"))
        if size >= len(data):
            return lines[:_SAMPLE_LINES]
        if len(lines) > 3:
            return lines[:-1][:_SAMPLE_LINES]
        size *= 4


def _split_lines(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    if delimiter == " ":
        return [line.split() for line in lines]
    return [[cell.strip() for cell in r] for r in csv.reader(lines, delimiter=delimiter, skipinitialspace=True)]


def guess_delimiter(lines: Sequence[str]) -> str:
    """Return the delimiter that splits most lines into the same number of cells, at least two."""
    best, best_score = ",", (0.0, 0)
    for delimiter in _CANDIDATES:
        try:
            records = [r for r in _split_lines(lines, delimiter) if any(r)]
        except csv.Error:
            continue
        counts = Counter(len(record) for record in records)
        score = max(((n / len(records), k) for k, n in counts.items() if k > 1), default=(0.0, 0))
        # A header that splits like the rows is worth more than one more cell a row.
        if score[0] > 0 and len(records[0]) < 2:
            score = (score[0] / 2, score[1])
        if score > best_score:
            best, best_score = delimiter, score
    if best_score[0] == 0.0:
        widths = {len(line.split()) for line in lines if line.strip()}
        return " " if len(widths) == 1 and widths != {1} else ","
    return best


def find_header(records: Sequence[Sequence[str]], start: int) -> int | None:
    """Return the index of the header: the first record from `start` with as many filled cells as tables have.

    Title lines above it (one filled cell where later lines have several) and comments are passed over.
    """
    filled = [sum(1 for cell in record if cell) for record in records]
    widest = max(filled, default=0)
    for i, n in enumerate(filled):
        is_comment = n > 0 and records[i][0].startswith("# ") and n < widest
        is_title = n == 1 < widest and i + 1 < len(records)
        if i >= start and n and not is_comment and not is_title:
            return i
    return None
