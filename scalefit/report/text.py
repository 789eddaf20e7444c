"""Every result as a page or as a document, and the pieces that pages share: numbers, tables, remarks.

Each page module registers its results with `report`, which lays them out, and `facts`, which says what stands in
JSON. A page is imported when its result comes: nothing here imports what makes the results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import singledispatch
from importlib import import_module
from io import StringIO
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from scalefit.errors import OptionError, ScalefitWarning
from scalefit.numbers import to_json, visible

__all__ = ["describe", "document", "facts", "layout", "number", "remarks", "render", "report", "span", "table"]

WIDTH = 100

PAGES = {
    "Allocation": "allocation",
    "Allocations": "allocation",
    "Checked": "check",
    "Comparison": "ci",
    "DepthExponent": "experiments",
    "ExperimentSummary": "experiments",
    "Finding": "experiments",
    "Fit": "fit",
    "IsoFlop": "allocation",
    "OptimalShape": "optimal",
    "Prediction": "predict",
    "Profile": "ci",
    "Requirement": "allocation",
    "Runs": "check",
    "Samples": "ci",
    "Shapes": "optimal",
    "Simulation": "simulate",
    "SpeedUp": "allocation",
    "Suggestion": "suggest",
    "UnitsControl": "experiments",
}
"""Result -> the module here that lays it out."""


def describe(result: Any) -> str:
    """Return a result, or several of one kind, as the command line prints it.

    Parameters
    ----------
    result : Fit, Runs, Samples, Profile, Comparison, OptimalShape, Prediction, Simulation, Suggestion, ...

    Raises
    ------
    OptionError
        If it is nothing that this package makes.

    Examples
    --------
    >>> import scalefit as sf
    >>> text = sf.describe(sf.fit(sf.load_dataset("chinchilla").drop_worst(40)))
    >>> text.splitlines()[0]
    'loss = c_width/width^alpha_width + c_depth/depth^alpha_depth + c_tokens/tokens^alpha_tokens + L0'
    """
    return render(layout(result))


def layout(result: Any) -> RenderableType:
    """Lay out a result, or several of one kind, for a terminal."""
    page: RenderableType = _registered(report, result)(result)
    return page


def document(result: Any) -> Any:
    """Return a result, or several of one kind, in the types of JSON."""
    return to_json(_registered(facts, result)(result))


@singledispatch
def report(result: Any) -> RenderableType:
    """Lay out one result; the pages register theirs."""
    raise OptionError(f"there is no report of {type(result).__name__}; it describes {', '.join(PAGES)}")


@singledispatch
def facts(result: Any) -> Any:
    """Say what a document holds of one result, in anything that `to_json` takes; the pages register theirs."""
    raise OptionError(f"there is no document of {type(result).__name__}; there is one of {', '.join(PAGES)}")


def _registered(function: Any, result: Any) -> Callable[[Any], Any]:
    """What a page registered for a result, or for the first of several."""
    kind = type(result[0] if isinstance(result, (list, tuple)) and result else result)
    for base in kind.__mro__:
        if base.__name__ in PAGES and base.__module__.startswith("scalefit."):
            import_module(f"scalefit.report.{PAGES[base.__name__]}")
    found: Callable[[Any], Any] = function.dispatch(kind)
    return found


def render(content: RenderableType, width: int = WIDTH) -> str:
    """Return printed content as plain text."""
    if isinstance(content, str):
        return visible(content).rstrip("\n") + "\n"
    out = StringIO()
    for piece in pieces(content):
        # a table is as wide as its cells: on paper a broken interval is worse than a long line
        wide = 2 * width if isinstance(piece, Table) else width
        print_visibly(Console(file=out, width=wide, no_color=True, highlight=False, markup=False), piece)
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n")[:-1]) + "\n"


def pieces(content: RenderableType) -> Iterator[RenderableType]:
    """The parts of a page, one below the other."""
    if isinstance(content, Group):
        for part in content.renderables:
            yield from pieces(part)
    else:
        yield content


def print_visibly(console: Console, page: RenderableType) -> None:
    """Print a page, with escapes for what its names hold that no terminal should see."""
    shown = [Segment(visible(part.text), part.style) for part in console.render(page)]
    console.print(Segments(shown), end="")


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


def span(interval: Sequence[float], digits: int = 4) -> str:
    """Format an interval: "1.2 to 3.4", an infinite end as "open"; "-" if there is none."""
    if any(math.isnan(end) for end in interval):
        return "-"
    return " to ".join("open" if math.isinf(end) else number(float(end), digits) for end in interval)


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
