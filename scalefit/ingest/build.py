"""From a `Grid` to a `Table`: roles, numbers, derived columns, the loss in nats, rows without a loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError
from scalefit.ingest.cells import Parsed, parse_grid, unreadable_warning
from scalefit.ingest.columns import Roles, find_roles
from scalefit.ingest.derive import Column, assemble, in_nats
from scalefit.ingest.grid import Grid
from scalefit.ingest.hints import missing_roles
from scalefit.ingest.names import ROLES
from scalefit.ingest.options import ReadOptions
from scalefit.ingest.suspect import suspicious
from scalefit.ingest.table import Origin, Table, frozen
from scalefit.ingest.trackers import drop_unfinished

__all__ = ["build_table"]

_ORDER = ("width", "depth", "tokens", "params", "flops", "loss")
_SIZES = ("width", "depth")
_TYPED = frozenset(["memory", "parquet", "json", "jsonl", "trainer-state"])
"""Formats whose numbers have no marks that could be misread."""


def build_table(grid: Grid, options: ReadOptions, sha256: str = "") -> Table:
    """Understand a grid.

    The order is fixed: unfinished runs leave, columns get roles, cells become numbers, the pattern and the
    derived columns are computed, the loss becomes nats, rows that hold no loss leave.

    Raises
    ------
    DataError
        If anything would have to be guessed; the message names the option that decides.
    """
    if not options.keep_unfinished:
        grid = drop_unfinished(grid)
    roles = find_roles(grid, options)
    grid = roles.grid
    labels = {name for name, role in roles.by_column.items() if role == "run"}
    parsed = parse_grid(grid, options, set(roles.numeric), labels)
    _require_numbers(grid, parsed, roles)
    columns, unit = in_nats(assemble(grid, options, parsed, roles), options, grid)
    _require_whole_sizes(grid, options, parsed, columns)
    numbers = {name: column for name, column in columns.items() if not column.is_text}
    ordered = [*(n for n in _ORDER if n in numbers), *(n for n in numbers if n not in _ORDER)]
    texts = {name: frozen(column.values) for name, column in columns.items() if column.is_text}
    origin = Origin(
        grid.name,
        grid.format,
        sha256,
        {name: columns[name].definition for name in [*ordered, *texts]},
        {"loss": unit},
        grid.ignored,
        str(parsed.locale),
    )
    unread = unreadable_warning(grid, parsed, set(roles.numeric))
    warnings = (*grid.warnings, *roles.warnings, *((unread,) if unread else ()))
    values = {name: frozen(numbers[name].values) for name in ordered}
    table = Table(values, texts, grid.places, grid.dropped, origin, (), warnings)
    table = _without_unreadable(table, parsed, numbers, roles)
    return replace(table, warnings=(*table.warnings, *missing_roles(table), *suspicious(table)))


def _require_numbers(grid: Grid, parsed: Parsed, roles: Roles) -> None:
    """Refuse a column that must hold numbers and mostly holds something else."""
    for name in roles.numeric:
        bad = parsed.unreadable.get(name)
        if bad is None:
            continue
        wrong, right = int(bad.sum()), int((~np.isnan(parsed.numbers[name])).sum())
        if wrong > right:
            i = int(np.flatnonzero(bad)[0])
            raise DataError(
                f"{grid.places.name(i)}: {name} is {_shown(parsed.cells[name][i])}, and {wrong} of its {len(bad)} "
                f"cells are no numbers where the file has a {parsed.locale}; correct them, or name another column"
            )


def _require_whole_sizes(grid: Grid, options: ReadOptions, parsed: Parsed, columns: Mapping[str, Column]) -> None:
    """Refuse a width or depth read as text that is no whole number: often a thousands mark was misread."""
    if options.decimal is not None or grid.own:
        return
    for name in _SIZES:
        column = columns.get(name)
        if column is None or column.is_text or column.definition not in parsed.numbers:
            continue
        cells = parsed.cells.get(column.definition)
        if cells is None and grid.format in _TYPED:
            continue
        wrong = np.flatnonzero(np.floor(column.values) < column.values)
        if len(wrong):
            i = int(wrong[0])
            shown = repr(float(column.values[i])) if cells is None else _shown(cells[i])
            raise DataError(
                f"{grid.places.name(i)}: {name} is {shown} and must be a whole number; if its mark stands between "
                "thousands say --thousands with that mark, if it is a decimal mark say --decimal with it"
            )


def _without_unreadable(table: Table, parsed: Parsed, numbers: Mapping[str, Column], roles: Roles) -> Table:
    """Drop the rows without a loss, and those with an unreadable cell in a column that is used."""
    bad: dict[str, NDArray[np.bool_]] = {}
    for name in dict.fromkeys([*(role for role in ROLES if role in numbers), *roles.by_column.values()]):
        for column in numbers[name].inputs if name in numbers else ():
            if column in parsed.unreadable and column in roles.numeric:
                bad[name] = bad.get(name, np.zeros(len(table), dtype=np.bool_)) | parsed.unreadable[column]
    bad["loss"] = bad.get("loss", np.zeros(len(table), dtype=np.bool_)) | np.isnan(table.columns["loss"])
    keep = ~np.logical_or.reduce(list(bad.values()))
    if keep.all():
        return table
    if not keep.any():
        raise DataError(
            f"{table.origin.name}: no row is left of {len(keep)}; in {table.places.name(0)} "
            f"{_reason(0, bad, parsed, numbers)}"
        )
    return table.keep(keep, [_reason(int(i), bad, parsed, numbers) for i in np.flatnonzero(~keep)])


def _reason(i: int, bad: Mapping[str, NDArray[np.bool_]], parsed: Parsed, numbers: Mapping[str, Column]) -> str:
    """Return why row i cannot be used, with the cell."""
    name = next(name for name, mask in bad.items() if mask[i])
    for column in numbers[name].inputs:
        cells = parsed.cells.get(column)
        if cells is not None and cells[i] and np.isnan(parsed.numbers[column][i]):
            label = name if column == name else f"{name} ({column})"
            return f"{label} is {_shown(cells[i])}, not a finite number"
    column = numbers[name].definition
    return f"{name if column == name else f'{name} ({column})'} is missing"


def _shown(cell: object) -> str:
    text = str(cell)
    return repr(text if len(text) <= 40 else text[:37] + "...")
