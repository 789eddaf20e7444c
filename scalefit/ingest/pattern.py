"""Numbers in the name of a run, taken out by a regular expression with named groups."""

from __future__ import annotations

import re
from collections.abc import Sequence

from scalefit.errors import DataError, OptionError

__all__ = ["compile_pattern", "groups_of", "suggest_pattern"]

MAX_LENGTH = 160
MAX_REPEATS = 5
MAX_WIDE_REPEATS = 2
"""Repeats of anything but digits: the time grows with the length of a name to their number."""

_KNOWN = (
    r"w(?P<width>\d+)-d(?P<depth>\d+)",
    r"w(?P<width>\d+)_d(?P<depth>\d+)",
    r"d(?P<width>\d+)-l(?P<depth>\d+)",
    r"d(?P<width>\d+)_l(?P<depth>\d+)",
    r"width(?P<width>\d+).depth(?P<depth>\d+)",
    r"(?P<width>\d+)x(?P<depth>\d+)",
)
_REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{\d*,\d*\}|\{\d+\})")


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern with named groups that cannot run for ever.

    A repeated group, a back reference, or more than five open-ended repeats could take time exponential in
    the length of a name; no run name needs them, so they are refused.
    """
    if len(pattern) > MAX_LENGTH:
        raise OptionError(f"pattern of {len(pattern)} characters is too long: at most {MAX_LENGTH} are read")
    bare = re.sub(r"\\.", "x", re.sub(r"\[\^?\]?[^\]]*\]", "x", pattern))
    repeats = len(re.findall(r"[*+]|\{\d*,\d*\}", bare))
    wide = repeats - len(re.findall(r"(?:\\d|\[0-9\])(?:[*+]|\{\d*,\d*\})", pattern))
    too_many = repeats > MAX_REPEATS or wide > MAX_WIDE_REPEATS
    if too_many or _REPEATED_GROUP.search(bare) or re.search(r"\\[1-9]|\(\?P=|\(\?\(", pattern):
        raise OptionError(
            f"pattern {pattern!r} repeats a group, refers back, or has more than {MAX_REPEATS} repeats "
            f"({MAX_WIDE_REPEATS} of anything but digits), and might "
            r"never end; write each number out, as in w(?P<width>\d+)-d(?P<depth>\d+)"
        )
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise OptionError(f"pattern {pattern!r} is no regular expression: {error}") from None
    if not compiled.groupindex:
        raise OptionError(
            rf"pattern {pattern!r} names no group; name each number, as in w(?P<width>\d+)-d(?P<depth>\d+)"
        )
    return compiled


def groups_of(pattern: str, labels: Sequence[str], name: str) -> dict[str, list[str]]:
    """Return the groups of every label: group name -> (n,) texts, "" where the group is absent.

    Raises
    ------
    DataError
        If no label matches.
    """
    compiled = compile_pattern(pattern)
    known = {label: compiled.search(label[:MAX_LENGTH]) for label in set(labels)}
    if not any(known.values()):
        raise DataError(f"{name}: pattern {pattern!r} matches no run name; the first is {labels[0]!r}")
    out: dict[str, list[str]] = {group: [] for group in compiled.groupindex}
    for label in labels:
        match = known[label]
        for group, texts in out.items():
            texts.append((match.group(group) or "") if match else "")
    return out


def suggest_pattern(labels: Sequence[str]) -> str | None:
    """Return a usual pattern for width and depth that matches every label, for a hint."""
    distinct = set(labels)
    return next((p for p in _KNOWN if distinct and all(re.search(p, label[:MAX_LENGTH]) for label in distinct)), None)
