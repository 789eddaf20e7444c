"""Shared pieces of the printed reports: numbers, tables, remarks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from scalefit.errors import ScalefitWarning

__all__ = ["finite_or_none", "number", "remarks", "render", "table", "warning_documents"]

WIDTH = 100


def render(content: RenderableType, width: int = WIDTH) -> str:
    """Return printed content as plain text."""
    out = StringIO()
    Console(file=out, width=width, no_color=True, highlight=False, markup=False).print(content)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def finite_or_none(value: float) -> float | None:
    """Return a number for a JSON document, which has no form for one that is not finite."""
    return value if math.isfinite(value) else None


def number(value: float, digits: int = 4) -> str:
    """Format a number for people: `digits` significant digits, plain between 1e-4 and 1e5."""
    if math.isnan(value):
        return "-"
    if value == 0 or math.isinf(value):
        return f"{value:g}"
    if 1e-4 <= abs(value) < 1e5:
        decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        return f"{value:,.{decimals}f}" if abs(value) >= 1e4 else f"{value:.{decimals}f}"
    return f"{value:.{digits - 1}e}"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Table:
    """Lay out rows under headings; the first `left` columns are aligned left, the others right."""
    grid = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for i, heading in enumerate(headings):
        grid.add_column(heading, justify="left" if i < left else "right", no_wrap=i < left)
    for row in rows:
        grid.add_row(*row)
    return grid


def remarks(warnings: Iterable[ScalefitWarning]) -> RenderableType:
    """Lay out warnings: code, message, then what to do."""
    blocks: list[RenderableType] = []
    for warning in warnings:
        heading = Text(f"warning {warning.code}", style="yellow")
        body = Text(f"{warning.message} {warning.action}".rstrip())
        blocks += [heading, Padding(body, (0, 0, 0, 2))]
    return Group(*blocks)


def warning_documents(warnings: Iterable[ScalefitWarning]) -> list[dict[str, Any]]:
    """Describe warnings in JSON types."""
    return [{"code": w.code, "message": w.message, "action": w.action, "numbers": dict(w.numbers)} for w in warnings]
