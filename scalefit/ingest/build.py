"""From a `Grid` to a `Table`: roles, numbers in one locale, computed columns, the loss in nats, rows without a loss."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError, OptionError, ScalefitWarning
from scalefit.expressions import evaluate, names_in
from scalefit.ingest.columns import Roles, find_roles
from scalefit.ingest.grid import Grid, frozen
from scalefit.ingest.names import ROLES, groups_of, normal_name
from scalefit.ingest.numbers import (
    MISSING,
    Locale,
    gather,
    looks_numeric,
    parse_column,
    plain_numbers,
    tells_marks,
)
from scalefit.ingest.options import ReadOptions, to_nats
from scalefit.ingest.rows import blank_cells, complete_rows, fill_down, read_marked
from scalefit.ingest.table import Origin, Table

__all__ = ["build_table"]

_ORDER = ("width", "depth", "tokens", "params", "flops", "loss")
_SIZES = ("width", "depth")
_TYPED = frozenset(["memory", "parquet", "json", "jsonl", "trainer-state"])
"""Formats whose numbers have no marks that could be misread."""
_PLAIN_COUNT = re.compile(r"0|[1-9][0-9]{0,14}", re.ASCII)
"""Whole numbers in their one plain form, below 2^53."""


@dataclass(frozen=True, eq=False)
class _Column:
    """A column, and where it comes from.

    Attributes
    ----------
    values : (n,) float64 array, finite or NaN; or object array of text
    definition : str
        Name in the file, expression, or pattern.
    inputs : tuple of str
        Columns of the file whose cells it depends on.
    cells : (n,) object array or None
        The cells of numbers that came as text, for messages.
    unreadable : (n,) bool array or None
        Where a cell is neither a number nor a sign for a missing one.
    """

    values: NDArray[Any]
    definition: str
    inputs: tuple[str, ...] = ()
    cells: NDArray[np.object_] | None = None
    unreadable: NDArray[np.bool_] | None = None

    @property
    def is_text(self) -> bool:
        """Whether the column holds text."""
        return self.values.dtype == object


def build_table(grid: Grid, options: ReadOptions, sha256: str = "") -> Table:
    """Understand a grid.

    The order is fixed: columns get roles, cells become numbers, the pattern and the derived columns are
    computed, the loss becomes nats, rows that hold no loss leave.

    Raises
    ------
    DataError
        If anything would have to be guessed; the message names the option that decides.
    """
    roles = find_roles(fill_down(grid, options.fill_down), options)
    grid = roles.grid if roles.grid.own else complete_rows(roles.grid, roles.by_column)
    locale, raw, marked = _parsed(grid, options, roles)
    _require_numbers(grid, raw, roles, locale)
    columns = _assembled(grid, options, raw, roles)
    loss = columns.get("loss")
    if loss is None or loss.is_text:
        state = "is missing" if loss is None else "holds no numbers"
        raise DataError(f"{grid.name}: the column loss {state}; choose one with --loss COLUMN")
    logs = [name for name in loss.inputs if re.match(r"log|ln_", normal_name(re.split(r"[./]", name)[-1]))]
    if logs and (re.search(r"\blog\d*\(", loss.definition) or options.loss_unit in {"perplexity", "ppl"}):
        raise OptionError(
            f"{grid.name}: the loss would be the logarithm of {logs[0]}, which is one already; take it as it is with "
            f"--loss {shlex.quote(logs[0])}"
        )
    unit = grid.loss_unit or "nats per token"
    if options.loss_unit is not None:
        values, unit = to_nats(loss.values, options.loss_unit)
        columns["loss"] = replace(loss, values=_finite(values))
    require_whole_sizes(grid, options, raw, columns)
    numbers = [n for n, column in columns.items() if not column.is_text]
    ordered = [*(n for n in _ORDER if n in numbers), *(n for n in numbers if n not in _ORDER)]
    texts = {name: frozen(column.values) for name, column in columns.items() if column.is_text}
    origin = Origin(
        grid.name,
        grid.format,
        sha256,
        {name: columns[name].definition for name in [*ordered, *texts]},
        {"loss": unit},
        grid.ignored,
        str(locale),
    )
    blanks = () if grid.own else blank_cells(grid, roles.by_column)
    warnings = (*grid.warnings, *roles.warnings, *blanks, *marked, *unread_cells(grid, raw, set(roles.numeric)))
    values_by_name = {name: frozen(columns[name].values) for name in ordered}
    table = Table(values_by_name, texts, grid.places, grid.dropped, origin, (), warnings)
    return _without_unreadable(table, raw, columns, roles)


def _parsed(
    grid: Grid, options: ReadOptions, roles: Roles
) -> tuple[Locale, dict[str, _Column], tuple[ScalefitWarning, ...]]:
    """Turn columns into numbers where at least half of their filled cells are numbers, or a role needs them.

    Columns that name things become numbers only when every filled cell is a whole number in its one plain
    form, so that two labels are never the same number ("1" and "01", "10m" and "10M").
    """
    labels = {name for name, role in roles.by_column.items() if role == "run"}
    text_columns = {n: c for n, c in zip(grid.names, grid.columns, strict=True) if c.dtype == object}
    numeric = {
        n: c
        for n, c in text_columns.items()
        if n in roles.numeric or (numbers_in_labels(grid, n, c) if n in labels else _are_numbers(c, 0.5))
    }
    locale = locale_of(grid, options, numeric)
    parsed: dict[str, _Column] = {}
    marked: dict[str, ScalefitWarning] = {}
    for name, column in zip(grid.names, grid.columns, strict=True):
        if name in numeric:
            values, unreadable = parse_column(column, locale)
            marked |= (
                {} if grid.own or name not in roles.numeric else read_marked(grid, name, values, unreadable, locale)
            )
            parsed[name] = _Column(values, name, (name,), column, unreadable if unreadable.any() else None)
        else:
            parsed[name] = _Column(column if column.dtype == object else _finite(column), name, (name,))
    return locale, parsed, tuple(marked.values())


def _are_numbers(column: NDArray[np.object_], share: float) -> bool:
    """Whether this share of the distinct filled cells (or more) has the form of numbers."""
    distinct = list(dict.fromkeys(column.tolist()))
    plain = plain_numbers(distinct)[1]
    rest = [distinct[i] for i in np.flatnonzero(~plain) if distinct[i].lower() not in MISSING]
    found, filled = int(plain.sum()) + sum(map(looks_numeric, rest)), int(plain.sum()) + len(rest)
    return filled > 0 and found >= share * filled


def numbers_in_labels(grid: Grid, name: str, column: NDArray[np.object_]) -> bool:
    if grid.own:  # it writes labels of text first and a numbered run among the numbers
        return name != grid.names[0] and _are_numbers(column, 1.0)
    distinct = [cell for cell in dict.fromkeys(column.tolist()) if cell.lower() not in MISSING]
    return bool(distinct) and all(map(_PLAIN_COUNT.fullmatch, distinct))


def locale_of(grid: Grid, options: ReadOptions, numeric: Mapping[str, NDArray[np.object_]]) -> Locale:
    """Return the marks that the user gives, or those on which the cells agree."""
    other = {".": ",", ",": "."}
    if options.decimal is not None:
        return Locale(options.decimal, options.thousands or other[options.decimal])
    if options.thousands is not None:
        return Locale(other.get(options.thousands, "."), options.thousands)
    cells = [] if grid.own else [column.tolist() for column in numeric.values()]
    if not any(map(tells_marks, cells)):
        return Locale()
    return gather(dict.fromkeys(chain.from_iterable(cells))).locale(grid.name)


def _assembled(grid: Grid, options: ReadOptions, raw: Mapping[str, _Column], roles: Roles) -> dict[str, _Column]:
    """Return every column under its final name: those of the file, then pattern groups, then derived ones."""
    columns = {roles.by_column.get(name, name): column for name, column in raw.items()}
    made: dict[str, _Column] = {}
    if options.pattern is not None:
        run = columns.get("run")
        labels = [grid.name] * len(grid) if run is None or not run.is_text else run.values.tolist()
        others = {n: c.values.tolist() for n, c in columns.items() if c.is_text and n != "run"}
        for group, texts in groups_of(options.pattern, labels, grid.name, others).items():
            cells = np.array(texts, dtype=object)
            values, unreadable = parse_column(cells, Locale())
            made[group] = _Column(cells if unreadable.any() else values, f"pattern {options.pattern}")
    for name, definition in roles.derived.items():
        if definition in raw:
            made[name] = raw[definition]
            continue
        known = {**columns, **raw, **made}
        inputs = tuple(dict.fromkeys(i for n in names_in(definition) if n in known for i in known[n].inputs))
        values = _finite(evaluate(definition, {n: column.values for n, column in known.items()}))
        if np.isnan(values).all():
            raise DataError(f"{grid.name}: {name} = {definition} is a finite number in no row; correct the expression")
        made[name] = _Column(values, definition, inputs)
    return {**columns, **made}


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values with NaN in place of infinities."""
    finite = np.isfinite(values)
    return values if finite.all() else np.where(finite, values, np.nan)


def _require_numbers(grid: Grid, raw: Mapping[str, _Column], roles: Roles, locale: Locale) -> None:
    """Refuse a column that must hold numbers and mostly holds something else."""
    for name in roles.numeric:
        column = raw[name]
        if column.unreadable is None:
            continue
        wrong, right = int(column.unreadable.sum()), int((~np.isnan(column.values)).sum())
        if wrong > right:
            i = int(np.flatnonzero(column.unreadable)[0])
            raise DataError(
                f"{grid.places.name(i)}: {name} is {_shown(column, i)}, and {wrong} of its {len(grid)} cells are no "
                f"numbers where the file has a {locale}; correct them, or name another column"
            )


def require_whole_sizes(
    grid: Grid, options: ReadOptions, raw: Mapping[str, _Column], columns: Mapping[str, _Column]
) -> None:
    """Refuse a width or depth read as text that is no whole number: often a thousands mark was misread."""
    if options.decimal is not None or grid.own:
        return
    for name in _SIZES:
        column = columns.get(name)
        if column is None or column.is_text or column.definition not in raw:
            continue
        if column.cells is None and grid.format in _TYPED:
            continue
        wrong = np.flatnonzero(np.floor(column.values) < column.values)
        if len(wrong):
            i = int(wrong[0])
            raise DataError(
                f"{grid.places.name(i)}: {name} is {_shown(column, i)} and must be a whole number; if its mark stands "
                "between thousands say --thousands with that mark, if it is a decimal mark say --decimal with it"
            )


def unread_cells(grid: Grid, raw: Mapping[str, _Column], used: set[str]) -> tuple[ScalefitWarning, ...]:
    """Return a warning about unreadable cells in columns that no role uses; they count as missing."""
    odd = {n: c.unreadable for n, c in raw.items() if n not in used and c.unreadable is not None}
    if not odd:
        return ()
    counts = {name: int(bad.sum()) for name, bad in odd.items()}
    name = next(iter(odd))
    i = int(np.flatnonzero(odd[name])[0])
    message = (
        f"{sum(counts.values())} cells in {', '.join(counts)} are no numbers and count as missing, the first "
        f"{_shown(raw[name], i, None)} in {grid.places.name(i)}."
    )
    return (ScalefitWarning("unreadable-cells", message, "Correct them if a law is to use these columns.", counts),)


def _without_unreadable(table: Table, raw: Mapping[str, _Column], columns: dict[str, _Column], roles: Roles) -> Table:
    """Drop the rows without a loss, and those with an unreadable cell in a column that is used."""
    bad: dict[str, NDArray[np.bool_]] = {}
    for name in dict.fromkeys([*ROLES, *roles.by_column.values()]):
        for column in columns[name].inputs if name in table.columns else ():
            unreadable = raw[column].unreadable if column in roles.numeric else None
            if unreadable is not None:
                bad[name] = bad.get(name, np.zeros(len(table), dtype=np.bool_)) | unreadable
    bad["loss"] = bad.get("loss", np.zeros(len(table), dtype=np.bool_)) | np.isnan(table.columns["loss"])
    keep = ~np.logical_or.reduce(list(bad.values()))
    if keep.all():
        return table

    def reason(i: int) -> str:
        """Why row i cannot be used, with the cell."""
        name = next(name for name, mask in bad.items() if mask[i])
        for origin in columns[name].inputs:
            column = raw[origin]
            if column.cells is not None and column.cells[i] and np.isnan(column.values[i]):
                label = name if origin == name else f"{name} ({origin})"
                return f"{label} is {_shown(column, i)}, not a finite number"
        definition = columns[name].definition
        return f"{name if definition == name else f'{name} ({definition})'} is missing"

    if not keep.any():
        raise DataError(f"{table.origin.name}: no row is left of {len(keep)}; in {table.places.name(0)} {reason(0)}")
    return table.keep(keep, [reason(int(i)) for i in np.flatnonzero(~keep)])


def _shown(column: _Column, i: int, limit: int | None = 40) -> str:
    """Return a cell for a message, shortened."""
    text = repr(float(column.values[i])) if column.cells is None else str(column.cells[i])
    short = text if limit is None or len(text) <= limit else text[: limit - 3] + "..."
    return short if column.cells is None else repr(short)
