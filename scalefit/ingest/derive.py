"""The columns of a table in the making: as read, from the run name, computed, converted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError
from scalefit.expressions import evaluate, names_in
from scalefit.ingest.cells import Parsed
from scalefit.ingest.columns import Roles
from scalefit.ingest.grid import Grid
from scalefit.ingest.numbers import Locale, parse_column
from scalefit.ingest.options import ReadOptions
from scalefit.ingest.pattern import groups_of
from scalefit.ingest.units import to_nats

__all__ = ["Column", "assemble", "in_nats"]


@dataclass(frozen=True, eq=False)
class Column:
    """A column and where it comes from.

    Attributes
    ----------
    values : (n,) float64 array, finite or NaN; or object array of text
    definition : str
        Name in the file, expression, or pattern.
    inputs : tuple of str
        Columns of the file whose cells it depends on.
    """

    values: NDArray[Any]
    definition: str
    inputs: tuple[str, ...] = ()

    @property
    def is_text(self) -> bool:
        """Whether the column holds text."""
        return self.values.dtype == object


def assemble(grid: Grid, options: ReadOptions, parsed: Parsed, roles: Roles) -> dict[str, Column]:
    """Return every column under its final name: those of the file, then pattern groups, then derived ones."""
    raw = {**parsed.texts, **parsed.numbers}
    columns = {roles.by_column.get(name, name): Column(raw[name], name, (name,)) for name in grid.names}
    made = _from_pattern(grid, options.pattern, columns) if options.pattern is not None else {}
    for name, definition in roles.derived.items():
        if definition in raw:
            made[name] = Column(raw[definition], definition, (definition,))
            continue
        known = {n: c.values for n, c in columns.items()} | raw | {n: c.values for n, c in made.items()}
        origins = {n: c.inputs for n, c in columns.items()} | {n: (n,) for n in raw}
        origins |= {n: c.inputs for n, c in made.items()}
        inputs = tuple(dict.fromkeys(i for n in names_in(definition) for i in origins.get(n, ())))
        values = _finite(evaluate(definition, known))
        if np.isnan(values).all():
            raise DataError(f"{grid.name}: {name} = {definition} is a finite number in no row; correct the expression")
        made[name] = Column(values, definition, inputs)
    return {**columns, **made}


def _from_pattern(grid: Grid, pattern: str, columns: dict[str, Column]) -> dict[str, Column]:
    run = columns.get("run")
    labels = [grid.name] * len(grid) if run is None or not run.is_text else run.values.tolist()
    made = {}
    for group, texts in groups_of(pattern, labels, grid.name).items():
        cells = np.empty(len(texts), dtype=object)
        cells[:] = texts
        values, unreadable = parse_column(cells, Locale())
        made[group] = Column(cells if unreadable.any() else values, f"pattern {pattern}")
    return made


def in_nats(columns: dict[str, Column], options: ReadOptions, grid: Grid) -> tuple[dict[str, Column], str]:
    """Return the columns with the loss in nats, and the unit it has now."""
    loss = columns.get("loss")
    if loss is None or loss.is_text:
        state = "is missing" if loss is None else "holds no numbers"
        raise DataError(f"{grid.name}: the column loss {state}; choose one with --loss COLUMN")
    if options.loss_unit is None:
        return columns, grid.loss_unit or "nats per token"
    values, unit = to_nats(loss.values, options.loss_unit)
    return {**columns, "loss": replace(loss, values=_finite(values))}, unit


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values with NaN in place of infinities."""
    finite = np.isfinite(values)
    return values if finite.all() else np.where(finite, values, np.nan)
