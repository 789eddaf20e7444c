"""Which columns of a grid are used and for what, decided from their names and the user's options."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError, OptionError, ScalefitWarning
from scalefit.expressions import did_you_mean, names_in, reference
from scalefit.ingest.grid import Grid
from scalefit.ingest.names import DISGUISED_LOSS, ROLES, SYNONYMS, loss_candidates, normal_name, role_candidates
from scalefit.ingest.options import ReadOptions

__all__ = ["Roles", "find_roles"]

_SIZES = ("width", "depth", "params")
_MUST_BE_CLEAR = ("width", "depth", "tokens")


@dataclass(frozen=True)
class Roles:
    """The parts that columns play.

    Attributes
    ----------
    grid : Grid
        Without nameless, index and empty columns.
    by_column : dict of str to str
        Column of the file -> name it gets.
    numeric : tuple of str
        Columns of the file that must hold numbers because a role or a definition uses them.
    derived : dict of str to str
        Name -> expression, for what is computed.
    warnings : tuple of ScalefitWarning
    """

    grid: Grid
    by_column: dict[str, str]
    numeric: tuple[str, ...]
    derived: dict[str, str]
    warnings: tuple[ScalefitWarning, ...]


def find_roles(grid: Grid, options: ReadOptions) -> Roles:
    """Decide which column is which.

    Raises
    ------
    DataError
        If two columns share a name, several may be the width, depth, tokens or loss, or none is the loss.
    """
    grid = _without_idle_columns(grid)
    grid.refuse_duplicates()
    definitions = dict(options.columns)
    if options.loss is not None:
        if "loss" in definitions:
            raise OptionError("--loss and --column loss=... both define the loss; give one")
        definitions["loss"] = _loss_named(options.loss, grid, definitions)
    renames = {text: name for name, text in definitions.items() if text in grid.names}
    derived = {name: text for name, text in definitions.items() if renames.get(text) != name}
    by_column, warnings = dict(renames), []
    if grid.own:
        by_column.update({name: name for name in grid.names if name not in by_column and name not in definitions})
    else:
        for role in SYNONYMS:
            found = [grid.names[i] for i in role_candidates(grid.names, role) if grid.names[i] not in renames]
            if role == "run" or role not in definitions:
                sizes = [name for name, played in by_column.items() if played in _SIZES]
                told = next((name for name, played in renames.items() if played == "run"), None)
                chosen, warning = _run_of(found, told, sizes, grid) if role == "run" else _one_of(found, role, grid)
                by_column.update({chosen: role} if chosen else {})
                warnings += [warning] if warning else []
        if "loss" not in definitions:
            by_column[_loss_column(grid, set(by_column))] = "loss"
    grid = _without_replaced(grid, by_column, definitions)
    needed = [name for name, role in by_column.items() if (grid.own or role in ROLES) and role != "run"]
    inputs = [name for text in derived.values() if text not in grid.names for name in names_in(text)]
    numeric = tuple(dict.fromkeys([*needed, *(name for name in inputs if name in grid.names)]))
    return Roles(grid, by_column, numeric, derived, tuple(warnings))


def _without_idle_columns(grid: Grid) -> Grid:
    """Leave out columns without a name or an entry, and row counters."""
    nameless = {i for i, name in enumerate(grid.names) if not name}
    grid = grid.without(nameless, "no name")
    counters = {
        i
        for i, name in enumerate(grid.names)
        if (name.startswith("Unnamed:") or normal_name(name) in {"index", "level_0"}) and not grid.own
    }
    grid = grid.without(counters, "row counter")
    empty = {i for i, c in enumerate(grid.columns) if not grid.own and c.dtype == object and not c.any()}
    names = tuple(grid.names[i] for i in sorted(empty))
    return replace(grid.without(empty, "empty"), empty=names)


def _loss_named(name: str, grid: Grid, definitions: Mapping[str, str]) -> str:
    """Return the column that --loss names, which must not be the only one for another role."""
    alike = [name] if name in grid.names else [n for n in grid.names if normal_name(n) == normal_name(name)]
    if len(alike) != 1:
        known = f"{did_you_mean(name, grid.names)}; its columns are {', '.join(grid.names)}"
        raise DataError(f"{grid.name} has no column {name!r}{known}")
    column = alike[0]
    for role in SYNONYMS:
        found = [] if grid.own or role in definitions else role_candidates(grid.names, role)
        if [grid.names[i] for i in found] == [column]:
            raise OptionError(
                f"--loss {shlex.quote(name)} names the {role} of {grid.name}; name the column that holds the loss"
            )
    return column


def _one_of(found: list[str], role: str, grid: Grid) -> tuple[str | None, ScalefitWarning | None]:
    """Return the column for a role; columns with the same cells are one."""
    if len(found) <= 1:
        return (found[0] if found else None), None
    first = grid.column(found[0])
    if all(_equal(first, grid.column(name)) for name in found[1:]):
        return found[0], None
    listed, remedy = ", ".join(found), f"choose one with --column {shlex.quote(f'{role}={found[0]}')}"
    if role in _MUST_BE_CLEAR:
        raise DataError(f"{grid.name}: {listed} may each be the {role}; {remedy}")
    message = f"{listed} of {grid.name} may each be the column {role}; none was taken."
    return None, ScalefitWarning(
        "ambiguous-column", message, f"{remedy[0].upper()}{remedy[1:]}.", {"role": role, "columns": found}
    )


def _run_of(
    found: list[str], told: str | None, sizes: list[str], grid: Grid
) -> tuple[str | None, ScalefitWarning | None]:
    """Return the column that names the run: the one told, else one whose labels have one width, depth and params."""
    first = None
    for name in [told] if told else found:
        mixed = _with_two_sizes(name, sizes, grid)
        if mixed is None:
            return (None if told else name), None
        first = first or (name, *mixed)
    if first is None:
        return None, None
    name, label, size, a, b = first
    seen = f"{name} of {grid.name} is {label!r} in rows with {size} {a} and {b}"
    numbers = {"column": name, "label": label, "size": size}
    if told:
        message = f"{seen}; a run has one size, but the column was named as the run."
        return None, ScalefitWarning(
            "run-of-several-sizes", message, "Name another column if it names no run.", numbers
        )
    message = f"{seen}: it names no run, and each row stands alone."
    action = f"If a run did change its size, say --column {shlex.quote(f'run={reference(name)}')}."
    return None, ScalefitWarning("no-run-column", message, action, numbers)


def _with_two_sizes(name: str, sizes: list[str], grid: Grid) -> tuple[str, str, str, str] | None:
    """Return a label that stands beside two sizes: label, column of the size, both cells."""
    labels = grid.column(name).tolist()
    for size in sizes:
        cells = [None if cell in ("", None) or cell != cell else cell for cell in grid.column(size).tolist()]
        known = {label: cell for label, cell in zip(labels, cells, strict=True) if cell is not None and label != ""}
        for label, cell in zip(labels, cells, strict=True):
            if cell is not None and label != "" and known[label] != cell:
                a, b = (f"{c:g}" if isinstance(c, float) else str(c) for c in (cell, known[label]))
                return str(label), size, a, b
    return None


def _loss_column(grid: Grid, taken: set[str]) -> str:
    if grid.loss is not None:
        return grid.loss
    found = [grid.names[i] for i in loss_candidates(grid.names) if grid.names[i] not in taken]
    if found and all(_equal(grid.column(found[0]), grid.column(name)) for name in found[1:]):
        return found[0]
    if found:
        best = next((name for name in found if {"val", "eval"} & set(normal_name(name).split("_"))), found[0])
        raise DataError(
            f"{grid.name} has {len(found)} columns that may be the loss: {', '.join(found)}; "
            f"choose one with --loss, for example --loss {shlex.quote(best)}"
        )
    known = f"its columns are {', '.join(grid.names)}"
    empty = [name for name in grid.empty if loss_candidates((name,))]
    if empty:
        raise DataError(f"{grid.name}: the column {empty[0]} is empty; {known}; choose another with --loss COLUMN")
    for name in grid.names:
        last = normal_name(name.replace("/", ".").split(".")[-1])
        if last in {"log_loss", "logloss"}:
            raise DataError(
                f"{grid.name}: {name} may be the log loss, a loss in nats, or the logarithm of a loss; say "
                f"--loss {shlex.quote(name)} or --column {shlex.quote(f'loss=exp({reference(name)})')}"
            )
        unit = next((unit for word, unit in DISGUISED_LOSS.items() if last == word or last.endswith(f"_{word}")), None)
        if unit is not None:
            raise DataError(
                f"{grid.name} has no loss column, but {name} looks like a loss in {unit}; "
                f"if it is, say --loss {shlex.quote(name)} --loss-unit {unit}"
                + (f" or --column {shlex.quote(f'loss=log({reference(name)})')}" if unit == "perplexity" else "")
            )
    near = [name for name in grid.names if name in {"L", "l"} or "los" in name.lower()]
    if near:
        option = f"--loss {shlex.quote(near[0])}"
        raise DataError(f"{grid.name} has no loss column; {known}; if {near[0]} is the loss, say {option}")
    raise DataError(f"{grid.name} has no loss column; {known}; choose one with --loss COLUMN")


def _equal(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return bool(np.array_equal(a, b, equal_nan=a.dtype == b.dtype == np.float64))


def _without_replaced(grid: Grid, by_column: dict[str, str], definitions: dict[str, str]) -> Grid:
    """Leave out a column whose name another one takes, unless a definition uses it."""
    targets = {role for name, role in by_column.items() if name != role}
    used = {name for text in definitions.values() for name in ([text] if text in grid.names else names_in(text))}
    gone = {i for i, n in enumerate(grid.names) if n in targets and n not in by_column and n not in used}
    return grid.without(gone, "its name is taken by another column")
