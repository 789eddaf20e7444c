"""Training logs ("iteration 100/500 | consumed tokens: 209715200 | lm loss: 6.51") to a `Grid`, one row a line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from scalefit.errors import DataError
from scalefit.ingest.grid import Dropped, Grid, Places, cells_of, frozen
from scalefit.ingest.names import loss_candidates

__all__ = ["looks_like_log", "read_log"]

_NUMBER = r"[+-]?(?:[0-9][0-9_,]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|nan|inf"
_CUT = re.compile(r"\s*[|;]\s*|,\s+|(?<=\d):\s+|\s+-\s+")
_PAIR = re.compile(rf"(?:.*\]\s*)?([A-Za-z][\w ./()%-]*?)\s*[:=]?\s*({_NUMBER})(?:\s*/\s*[0-9]+)?\s*(?:[A-Za-z%/]+)?")
_ASSIGNED = re.compile(rf"([A-Za-z][\w./-]*)\s?[=:]\s?({_NUMBER})(?=[\s,;|]|$)")
_LONGEST = 4000
"""Characters of a line that are looked at; measurements stand in shorter ones."""


def looks_like_log(text: str) -> bool:
    """Whether several lines name the same numbers, a loss among them; one line alone must use ":" or "="."""
    lines = [line for line in text.split("\n")[:60] if line.strip()]
    kinds = Counter(tuple(pairs) for line in lines if len(pairs := _pairs(line)) > 1)
    kind, n = next(((k, n) for k, n in kinds.most_common() if loss_candidates(k)), ((), 0))
    return n > 1 or (n == 1 and len(lines) == 1 and bool(kind) and any(mark in lines[0] for mark in ":="))


def _pairs(line: str) -> dict[str, str]:
    """Return the names and numbers of a line, by assignments or by parts between bars and commas."""
    line = line[:_LONGEST].strip()
    found: dict[str, str] = {}
    by_parts = [match for part in _CUT.split(line) if (match := _PAIR.fullmatch(part))]
    by_marks = list(_ASSIGNED.finditer(line))
    for match in by_parts if len(by_parts) >= len(by_marks) else by_marks:
        found.setdefault(match[1].strip(), match[2].replace(",", "").replace("_", ""))
    return found


def read_log(text: str, name: str) -> Grid:
    """Read a training log; lines without a loss are no measurements and are listed as dropped.

    Raises
    ------
    DataError
        If no line holds a loss.
    """
    rows: list[dict[str, str]] = []
    lines: list[int] = []
    gone: list[int] = []
    for i, line in enumerate(text.split("\n")):
        pairs = _pairs(line)
        if len(pairs) > 1 and loss_candidates(tuple(pairs)):
            rows.append(pairs)
            lines.append(i + 1)
        elif line.strip():
            gone.append(i + 1)
    if not rows:
        raise DataError(f"{name} is a training log without a loss; give a log whose lines name it, as in 'loss: 3.5'")
    names = tuple(dict.fromkeys(key for row in rows for key in row))
    columns = tuple(cells_of([row.get(key, "") for row in rows]) for key in names)
    dropped = Dropped.of(_places(gone, name), ["no measurement with a loss"] * len(gone))
    return Grid(name, "log", names, columns, _places(lines, name), dropped)


def _places(lines: Sequence[int], name: str) -> Places:
    numbers = np.array(lines, dtype=np.int64)
    return Places(frozen(numbers), frozen(numbers.copy()), None, (name,))
