"""Numbers as people write them: suffixes, percent, digit groups, and the marks of two locales.

A file is read with one decimal mark. Which one is decided by the cells that allow a single reading
(`4,5430` can only hold a decimal comma, `1.000.000` only dots between thousands); `1,024` allows two and
decides nothing. When nothing decides, or the cells contradict each other, reading is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError

__all__ = [
    "MISSING",
    "Evidence",
    "Locale",
    "gather",
    "looks_numeric",
    "parse_column",
    "parse_number",
    "plain_numbers",
    "tells_marks",
    "without_marks",
]

MISSING = frozenset(
    ["", "-", "--", "—", "–", ".", "?", "nan", "na", "n/a", "#n/a", "none", "null", "nil", "missing", "undefined"]
)
"""Cells (in lower case) that stand for a missing value."""

_INFINITE = frozenset(["inf", "infinity", "∞"])
_SUFFIX: Mapping[str, float] = {
    "k": 1e3,
    "thousand": 1e3,
    "m": 1e6,
    "mn": 1e6,
    "million": 1e6,
    "millions": 1e6,
    "b": 1e9,
    "bn": 1e9,
    "g": 1e9,
    "billion": 1e9,
    "billions": 1e9,
    "t": 1e12,
    "tn": 1e12,
    "trillion": 1e12,
    "trillions": 1e12,
    "%": 1e-2,
}
_SPACES = "\u0020\u00a0\u2009\u202f"
_NUMBER = re.compile(
    rf"([+-]?)([0-9][0-9.,'’_{_SPACES}]*|[.,][0-9]+)(e[+-]?[0-9]{{1,4}})?(?:[{_SPACES}]?([a-z]+|%))?", re.ASCII
)
_PLAIN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?", re.ASCII | re.IGNORECASE)
_PLAIN_CHARACTERS = re.compile(r"[0-9.eE+\-\n]*", re.ASCII)
_TWO_POINTS = re.compile(r"\.[^.\n]*\.")
_MAX_LENGTH = 400
_CHUNK = 256
"""Cells that are tried together: one odd cell sends so many to the slow parser."""


@dataclass(frozen=True)
class Locale:
    """The marks of a file's numbers: the decimal mark and the one that may stand between thousands."""

    decimal: str = "."
    thousands: str = ","

    def __str__(self) -> str:
        return "decimal comma" if self.decimal == "," else "decimal point"


@dataclass(frozen=True)
class Evidence:
    """One cell of each kind that speaks about the marks, or None.

    Attributes
    ----------
    comma, point : str or None
        A cell that can only be read with a decimal comma, with a decimal point.
    either_comma, either_point : str or None
        A cell such as "1,024" (or "1.024") in which the mark may be either.
    """

    comma: str | None = None
    point: str | None = None
    either_comma: str | None = None
    either_point: str | None = None

    def locale(self, where: str) -> Locale:
        """Return the locale these cells agree on, or refuse.

        Raises
        ------
        DataError
            If cells contradict each other or only cells with two readings exist.
        """
        if self.comma and self.point:
            raise DataError(
                f"{where}: {self.comma!r} has a decimal comma and {self.point!r} a decimal point; say which is "
                "right with --decimal , or --decimal . (the other cells are then listed as unreadable)"
            )
        if self.comma:
            return Locale(",", ".")
        if self.either_comma and not self.point:
            digits = self.either_comma.replace(",", "")
            raise DataError(
                f"{where}: the comma in {self.either_comma!r} may be a decimal mark or stand between thousands; "
                f"say --decimal , for {self.either_comma.replace(',', '.')} or --thousands , for {digits}"
            )
        return Locale(".", ",")


def _split(text: str) -> tuple[str, str, str, float] | None:
    """Return sign, digits with marks, exponent and factor of a cell that has the form of a number."""
    match = _NUMBER.fullmatch(text.lower()) if len(text) <= _MAX_LENGTH else None
    if match is None:
        return None
    sign, body, exponent, suffix = match.groups()
    if suffix is not None and suffix not in _SUFFIX:
        return None
    return sign, body.strip(_SPACES), exponent or "", _SUFFIX[suffix] if suffix else 1.0


def _grouped(body: str, mark: str) -> bool:
    """Whether the mark stands between groups of three digits: 1,024 or 12,345,678 but not 0,512."""
    head, *rest = body.split(mark)
    return head.isdigit() and len(head) <= 3 and head[0] != "0" and all(len(r) == 3 and r.isdigit() for r in rest)


def gather(cells: Iterable[str]) -> Evidence:
    """Collect what the cells say about the decimal mark."""
    found: dict[str, str] = {}
    for cell in cells:
        parts = _split(cell)
        if parts is None:
            continue
        _, body, exponent, _ = parts
        commas, points = body.count(","), body.count(".")
        if commas + points == 0:
            continue
        if commas and points:
            decimal = "," if body.rfind(",") > body.rfind(".") else "."
            other = "." if decimal == "," else ","
            whole, _, fraction = body.rpartition(decimal)
            if _grouped(whole, other) and fraction.isdigit():
                found.setdefault("comma" if decimal == "," else "point", cell)
            continue
        mark, other_kind = (",", "point") if commas else (".", "comma")
        own_kind = "comma" if commas else "point"
        if commas + points > 1:
            if _grouped(body, mark):
                found.setdefault(other_kind, cell)
        elif _grouped(body, mark) and not exponent:
            found.setdefault(f"either_{own_kind}", cell)
        else:
            found.setdefault(own_kind, cell)
    return Evidence(**found)


def looks_numeric(cell: str) -> bool:
    """Whether a cell has the form of a number in some locale."""
    return _split(cell) is not None


def parse_number(cell: str, locale: Locale) -> float | None:
    """Return the number in a cell, NaN for a missing or infinite one, None for anything else.

    Digit groups may be set off by the locale's mark, by spaces, apostrophes or underscores, always in
    threes. The result is the correctly rounded double of the decimal text.
    """
    if locale.decimal == "." and len(cell) <= _MAX_LENGTH and _PLAIN.fullmatch(cell):
        value = float(cell)
        return value if math.isfinite(value) else math.nan
    lowered = cell.lower()
    if lowered in MISSING or lowered.lstrip("+-") in _INFINITE or lowered.lstrip("+-") == "nan":
        return float("nan")
    parts = _split(cell)
    if parts is None:
        return None
    sign, body, exponent, factor = parts
    whole, *fraction = body.split(locale.decimal)
    if len(fraction) > 1 or (fraction and fraction[0] and not fraction[0].isdigit()):
        return None
    marks = {mark for mark in whole if not mark.isdigit()}
    if len(marks) > 1 or marks & {"." if locale.decimal == "," else ","} - {locale.thousands}:
        return None
    if marks and not _grouped(whole, marks.pop()):
        return None
    digits = re.sub(r"[^0-9]", "", whole) or "0"
    # rounded once: the factor joins the decimal exponent
    power = (int(exponent[1:] or 0) if exponent else 0) + round(math.log10(factor))
    value = float(f"{sign}{digits}.{fraction[0] if fraction else ''}e{power}")
    return value if math.isfinite(value) else math.nan


_MARKED = re.compile(
    r"[~≈≃∼*_`\s]*(?P<number>[+-]?[0-9.,][0-9.,'’]*(?:e[+-]?[0-9]+)?)[*†‡§^_`\s]*"
    r"(?:(?:±|\+/?-)\s*[0-9.,]+[*†‡§^\s]*)?(?:\([^()]{0,60}\))?[*†‡§^_`\s]*",
    re.IGNORECASE,
)


def without_marks(cell: str) -> str | None:
    """Return the number in a cell that holds marks beside it: "3.62*", "3.47 ± 0.01", "~3.16", "2.67 (best)"."""
    match = _MARKED.fullmatch(cell) if len(cell) <= _MAX_LENGTH else None
    return match["number"] if match else None


def plain_numbers(cells: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Read plain numbers (12, 3.5, 1e9) many at a time.

    Returns
    -------
    values : (n,) float64 array
        What `parse_number` returns with a decimal point; NaN where `plain` is false.
    plain : (n,) bool array
        False where a cell has any other form, and for some plain cells near such a one.
    """
    values = np.full(len(cells), np.nan)
    plain = np.zeros(len(cells), dtype=np.bool_)
    for start in range(0, len(cells), _CHUNK):
        chunk = cells[start : start + _CHUNK]
        # of these characters float() takes what _PLAIN matches and nothing else
        if not _PLAIN_CHARACTERS.fullmatch("\n".join(chunk)) or max(map(len, chunk)) > _MAX_LENGTH:
            continue
        try:
            values[start : start + len(chunk)] = list(map(float, chunk))
        except ValueError:
            continue
        plain[start : start + len(chunk)] = True
    values[np.isinf(values)] = np.nan
    return values, plain


def tells_marks(cells: Sequence[str]) -> bool:
    """Whether a cell has a comma or two points; without any, `gather` finds nothing but decimal points."""
    text = "\n".join(cells)
    return "," in text or _TWO_POINTS.search(text) is not None


def parse_column(cells: NDArray[np.object_], locale: Locale) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Parse a column of text.

    Returns
    -------
    values : (n,) float64 array
        NaN where the cell is missing, infinite or unreadable.
    unreadable : (n,) bool array
        Where the cell is neither a number nor a sign for a missing one.
    """
    texts = cells.tolist()
    unreadable = np.zeros(len(cells), dtype=np.bool_)
    if locale.decimal == ".":
        values, plain = plain_numbers(texts)
        rest = np.flatnonzero(~plain).tolist()
    else:
        values, rest = np.full(len(cells), np.nan), list(range(len(cells)))
    known: dict[str, float | None] = {}
    for i in rest:
        cell = texts[i]
        if cell not in known:
            known[cell] = parse_number(cell, locale)
        value = known[cell]
        unreadable[i] = value is None
        values[i] = np.nan if value is None else value
    return values, unreadable
