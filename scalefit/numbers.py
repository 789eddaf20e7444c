"""Numbers as text, exactly."""

from __future__ import annotations

import math

__all__ = ["show_number"]


def show_number(value: float) -> str:
    """Return the shortest text that reads back to the same float: "1024", "3.25", "1e+22"; "" for NaN."""
    value = float(value)
    if math.isnan(value):
        return ""
    if value.is_integer() and abs(value) < 1e16 and math.copysign(1.0, value) * value >= 0:
        return "-0.0" if value == 0 and math.copysign(1.0, value) < 0 else str(int(value))
    return repr(value)
