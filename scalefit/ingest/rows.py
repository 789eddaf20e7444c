"""Cells in need of their neighbours or their marks: blank ones, settings that stand once for a run, "3.62*"."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError, ScalefitWarning
from scalefit.ingest.grid import Grid, IntArray
from scalefit.ingest.names import SYNONYMS, normal_name, role_candidates
from scalefit.ingest.numbers import MISSING, Locale, parse_number, without_marks

__all__ = ["blank_cells", "complete_rows", "fill_down", "read_marked"]

_SETTINGS = ("width", "depth", "tokens", "params", "flops")
_STEPS = frozenset(["step", "steps", "iter", "iteration", "global_step", "trainer_global_step"])


def blank(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a column of a grid holds nothing."""
    if column.dtype != object:
        return np.isnan(column.astype(np.float64))
    return np.array([cell.lower() in MISSING for cell in column.tolist()], dtype=np.bool_)


def fill_down(grid: Grid, names: Sequence[str]) -> Grid:
    """Return the grid with blank cells of some columns filled with the cell above.

    Parameters
    ----------
    names : sequence of str
        Columns by their names in the file, or roles such as "width".
    """
    columns = list(grid.columns)
    for name in names:
        at = [i for i, other in enumerate(grid.names) if normal_name(other) == normal_name(name)]
        at = at or (role_candidates(grid.names, name) if name in SYNONYMS else [])
        if len(at) != 1:
            raise DataError(
                f"{grid.name} has {len(at) or 'no'} column{'s' * (len(at) > 1)} {name} for --fill-down; its columns "
                f"are {', '.join(grid.names)}"
            )
        filled = ~blank(columns[at[0]])
        last = np.maximum.accumulate(np.where(filled, np.arange(len(grid)), -1))
        columns[at[0]] = np.where(last >= 0, columns[at[0]][np.maximum(last, 0)], columns[at[0]])
    return replace(grid, columns=tuple(columns))


def complete_rows(grid: Grid, by_column: Mapping[str, str]) -> Grid:
    """Fill the settings that a run, or a step of a run, states in another row than its loss.

    That is done only where each run (each step) states one value; rows that gave theirs and have no loss leave.
    """
    column_of = {role: name for name, role in by_column.items()}
    loss = column_of.get("loss")
    if loss is None or not (keys := _keys(grid, column_of)):
        return grid
    measured = ~blank(grid.column(loss))
    if measured.all():
        return grid
    columns, done = dict(zip(grid.names, grid.columns, strict=True)), {}
    given = np.zeros(len(grid), dtype=np.bool_)
    for role in _SETTINGS:
        name = column_of.get(role)
        if name is None:
            continue
        empty = blank(columns[name])
        if not (empty & measured).any() or not (~empty & ~measured).any():
            continue
        for key in keys:
            found = _one_each(key, empty)
            # how far training had come differs from row to row of a curve
            curve = role in ("tokens", "flops") and np.bincount(key[measured]).max() > 1
            if found is None or curve:
                continue
            source = found[key]
            take = empty & (source >= 0)
            columns[name] = np.where(take, columns[name][np.maximum(source, 0)], columns[name])
            given[source[take & measured]] = True
            done[name] = int((take & measured).sum())
            break
    if not done:
        return grid
    gone = given & ~measured
    listed = ", ".join(done)
    warning = ScalefitWarning(
        "rows-completed",
        f"{listed} of {grid.name} stand in other rows of a run than the loss; {max(done.values())} rows were completed "
        f"from {int(gone.sum())} rows without a loss.",
        "Check one run; if rows of a run do not belong together, name another column with --column run=COLUMN.",
        done,
    )
    grid = replace(grid, columns=tuple(columns.values()), warnings=(*grid.warnings, warning))
    return grid.keep(~gone, ["it completed another row of its run"] * int(gone.sum()))


def _keys(grid: Grid, column_of: Mapping[str, str]) -> list[IntArray]:
    """Return what rows may share: the run, then the step of the run."""
    run = column_of.get("run")
    step = next((name for name in grid.names if normal_name(name) in _STEPS), None)
    keys = []
    for names in ((run,), (run, step) if run else (step,)):
        if all(name is not None for name in names):
            code: dict[tuple[object, ...], int] = {}
            cells = zip(*(grid.column(name).tolist() for name in names if name), strict=True)
            keys.append(np.array([code.setdefault(cell, len(code)) for cell in cells], dtype=np.int64))
    return keys


def _one_each(key: IntArray, empty: NDArray[np.bool_]) -> IntArray | None:
    """Return for each group the only row that fills a cell (-1 for none), or None if a group has two such rows."""
    rows = np.flatnonzero(~empty)
    source = np.full(int(key.max()) + 1, -1, dtype=np.int64)
    source[key[rows]] = rows
    return source if len(np.unique(key[rows])) == len(rows) else None


def blank_cells(grid: Grid, by_column: Mapping[str, str]) -> tuple[ScalefitWarning, ...]:
    """Return a warning where blank cells may stand for "as above": filled now and then, first of all in row one."""
    found = {}
    for name, role in by_column.items():
        if role in ("width", "depth", "params", "tokens", "flops", "run"):
            empty = blank(grid.column(name))
            if len(empty) > 2 and not empty[0] and empty.any() and 3 * int(empty.sum()) >= len(empty):
                found[name] = empty
    if not found:
        return ()
    listed = ", ".join(found)
    rows = [i for i in range(len(grid)) if any(empty[i] for empty in found.values())]
    first = ", ".join(str(int(grid.places.rows[i])) for i in rows[:8]) + (", ..." if len(rows) > 8 else "")
    counts = {name: int(empty.sum()) for name, empty in found.items()}
    each = "; ".join(f"{name} is blank in {n} of {len(grid)} rows" for name, n in counts.items())
    return (
        ScalefitWarning(
            "blank-cells",
            f"{each} of {grid.name} (rows {first}), as where a cell stands for the rows below it.",
            f"If so, say --fill-down {shlex.quote(listed.replace(', ', ','))}.",
            counts,
        ),
    )


def read_marked(
    grid: Grid, name: str, values: NDArray[np.float64], unreadable: NDArray[np.bool_], locale: Locale
) -> dict[str, ScalefitWarning]:
    """Read numbers with marks beside them ("3.62*", "~3.16", "2.67 (best)") into the values, and say so."""
    read = {}
    for i in np.flatnonzero(unreadable).tolist():
        bare = without_marks(grid.column(name)[i])
        value = None if bare is None else parse_number(bare, locale)
        if value is not None:
            values[i], unreadable[i], read[i] = value, False, value
    if not read:
        return {}
    shown = [f"{grid.column(name)[i]!r} as {value:g} in {grid.places.name(i)}" for i, value in list(read.items())[:4]]
    more = f" and {len(read) - 4} more" if len(read) > 4 else ""
    message = f"{name} holds marks beside its numbers: {', '.join(shown)}{more}."
    action = "Check them; leave out what is no measurement with --where."
    numbers = {"column": name, "rows": len(read), "lines": [int(grid.places.lines[i]) for i in list(read)[:4]]}
    return {name: ScalefitWarning("marked-numbers", message, action, numbers)}
