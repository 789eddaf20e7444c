"""Numbers as text, results as JSON, names as what may be printed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

__all__ = ["json_text", "show_number", "to_json", "visible"]

# Controls of terminals, marks that turn the direction of writing, line ends other than ours, halves of characters.
_HIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str, lines: bool = True) -> str:
    """Return text for a terminal with escapes in place of what is not seen there and may do harm.

    Names come from other people's files. Line ends stay where `lines` says that the text has several.

    Examples
    --------
    >>> visible("run\\x1b[2Ja")
    'run\\\\x1b[2Ja'
    """
    shown = _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
    return shown if lines else shown.replace("\n", "\\n")


def show_number(value: float) -> str:
    """Return the shortest text that reads back to the same float: "1024", "3.25", "1e+22"; "" for NaN."""
    value = float(value)
    if math.isnan(value):
        return ""
    if value.is_integer() and abs(value) < 1e16 and math.copysign(1.0, value) * value >= 0:
        return "-0.0" if value == 0 and math.copysign(1.0, value) < 0 else str(int(value))
    return repr(value)


def to_json(value: Any, exact: bool = False) -> Any:
    """Return any result in the types of JSON, all the way down; every JSON document of ours goes through here.

    Mappings and dataclasses become dicts (attributes that start with an underscore are left out), sequences and
    arrays lists, sets sorted lists, enumerations their values, NumPy's scalars Python's. JSON has no form for a
    number that is not finite: it becomes None, unless `exact` keeps it for a file that Python alone reads back.

    Raises
    ------
    TypeError
        If something has no form in JSON.

    Examples
    --------
    >>> to_json({"alpha": (0.5, float("inf")), "at": {3: float("nan")}})
    {'alpha': [0.5, None], 'at': {'3': None}}
    """
    if isinstance(value, Enum):
        return to_json(value.value, exact)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return float(value) if exact or math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(to_json(key, exact)): to_json(item, exact) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item, exact) for item in value]
    if isinstance(value, Set):
        return [to_json(item, exact) for item in sorted(value)]
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy, columns of pandas
        return to_json(value.tolist(), exact)
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name), exact) for f in fields(value) if not f.name.startswith("_")}
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def json_text(value: Any, indent: int | None = 1, exact: bool = False) -> str:
    """Return one JSON document, with a newline at its end; the arguments as in `to_json`."""
    return json.dumps(to_json(value, exact), indent=indent, allow_nan=exact) + "\n"
