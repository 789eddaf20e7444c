"""How a delimited file is laid out: its delimiter, its header line, its names."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scalefit.errors import DataError
from scalefit.ingest.numbers import MISSING, looks_numeric
from scalefit.ingest.options import ReadOptions
from scalefit.ingest.tidy import OWN_MARK

__all__ = ["Dialect", "layout", "recognise", "split_lines"]

_CANDIDATES = (",", ";", "\t", "|")
_SAMPLE = 60


@dataclass(frozen=True)
class Dialect:
    """Layout of a delimited file.

    Attributes
    ----------
    delimiter : str
        One character; " " means runs of spaces.
    header : int or None
        Index of the header among the records (blank lines included), None when `names` came as an option.
    names : tuple of str
    own : str or None
        The first line of an own tidy file.
    """

    delimiter: str
    header: int | None
    names: tuple[str, ...]
    own: str | None = None


def split_lines(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """Split text into records of stripped cells with one delimiter."""
    if delimiter == " ":
        return [line.split() for line in lines]
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=False)
    return [[cell.strip() for cell in record] for record in reader]


def recognise(text: str, name: str, options: ReadOptions) -> Dialect:
    """Recognise the layout from the beginning of a file.

    Raises
    ------
    DataError
        If the first line holds numbers instead of names, or nothing separates the cells.
    """
    lines = _sample(text)
    own = lines[0].strip() if lines[0].startswith(OWN_MARK) else None
    delimiter = options.delimiter or ("," if own else _delimiter(lines))
    try:
        records = split_lines(lines, delimiter)
    except csv.Error as error:
        raise DataError(f"{name} cannot be split into cells: {error}") from None
    return layout(records, name, options, delimiter, own)


def layout(
    records: Sequence[Sequence[str]], name: str, options: ReadOptions, delimiter: str, own: str | None = None
) -> Dialect:
    """Find the header among the first records; errors as in `recognise`."""
    header = _header(records, 1 if own else 0)
    if header is None:
        raise DataError(f"{name} holds no table: no line has more than blanks")
    first = records[header]
    filled = [cell for cell in first if cell]
    numeric = sum(looks_numeric(cell) or cell.lower() in MISSING for cell in filled)
    headless = 2 * numeric > len(filled)
    if options.names:
        return Dialect(delimiter, None if headless else header, options.names, own)
    if headless:
        raise DataError(
            f"line {header + 1} of {name} holds numbers, not column names ({', '.join(filled[:4])}); "
            f"name the {len(first)} columns with --names, for example --names {_example(len(first))}"
        )
    names = (re.sub(r"^#\s+", "", first[0]), *first[1:])
    return Dialect(delimiter, header, names, own)


def _example(n: int) -> str:
    known = {2: "tokens,loss", 3: "params,tokens,loss", 4: "width,depth,tokens,loss"}
    return known.get(n, "width,depth,tokens,loss,...")


def _sample(text: str) -> list[str]:
    head = text[: 64 * 1024]
    lines = re.split(r"\r\n|\r|\n", head)
    if len(head) < len(text) and len(lines) > 1:
        lines.pop()
    return lines[:_SAMPLE]


def _delimiter(lines: Sequence[str]) -> str:
    """Return the delimiter that splits most lines into the same number of cells, at least two."""
    best, best_score = ",", (0.0, 0)
    for delimiter in _CANDIDATES:
        try:
            records = [r for r in split_lines(lines, delimiter) if any(r)]
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


def _header(records: Sequence[Sequence[str]], start: int) -> int | None:
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
