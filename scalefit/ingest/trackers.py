"""Tables that experiment trackers export: recognised by their columns and brought into rows of points."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError, OptionError, ScalefitWarning
from scalefit.ingest.grid import Dropped, Grid
from scalefit.ingest.names import loss_candidates, normal_name, role_candidates
from scalefit.ingest.numbers import MISSING, looks_numeric
from scalefit.ingest.options import CHART_SEPARATOR
from scalefit.numbers import show_number

__all__ = ["SHAPERS", "drop_unfinished", "recognise_tracker", "shape_as"]

_AXES = frozenset(["step", "steps", "global_step", "iteration", "iter", "train_step"])
_ENVELOPE = ("__MIN", "__MAX")
_GROUP = re.compile(r"[\w ./-]+: \S")
_FINISHED = frozenset(["finished", "completed", "complete", "succeeded", "success", "done"])
_UNFINISHED = frozenset(
    ["crashed", "failed", "killed", "running", "preempted", "preempting", "pending", "queued", "canceled", "cancelled"]
)


def recognise_tracker(grid: Grid) -> str:
    """Return the name of the tracker format a delimited table has, or its own format."""
    if grid.own:
        return grid.format
    names = [normal_name(name) for name in grid.names]
    if set(names) == {"wall_time", "step", "value"}:
        return "tensorboard"
    # a chart has one axis and one column a run
    others = sum(not n.endswith(_ENVELOPE) and bool(n) and not n.endswith("_step") for n in grid.names)
    if _chart_columns(grid) and len(_chart_columns(grid)) + 1 >= others:
        return "wandb-chart"
    if _state_column(grid) is not None and "name" in names:
        return "wandb-runs"
    if "step" in names and "epoch" in names and any(n.startswith(("train_", "val_", "test_")) for n in names):
        return "lightning"
    return grid.format


def _chart_columns(grid: Grid) -> list[int]:
    return [i for i, name in enumerate(grid.names) if CHART_SEPARATOR in name and not name.endswith(_ENVELOPE)]


def chart_points(grid: Grid) -> Grid:
    """Bring a W&B chart export, one column a run and metric, into one row a point; blank cells are no points."""
    grid.refuse_duplicates()
    chart = [grid.names[i].rpartition(CHART_SEPARATOR) for i in _chart_columns(grid)]
    if not chart:
        raise DataError(f"{grid.name} is no W&B chart export: no column is named 'run - metric'")
    runs = tuple(dict.fromkeys(run for run, _, _ in chart))
    metrics = tuple(dict.fromkeys(metric for _, _, metric in chart))
    others = [i for i in range(len(grid.names)) if CHART_SEPARATOR not in grid.names[i]]
    parts = [points_of_run(grid, run, metrics) for run in runs]
    index = np.concatenate([points for points, _ in parts])
    labels = np.repeat(np.array(runs, dtype=object), [len(points) for points, _ in parts])
    values = [np.concatenate([columns[j] for _, columns in parts]) for j in range(len(metrics))]
    blank = np.setdiff1d(np.arange(len(grid)), index)
    envelope = sum(name.endswith(_ENVELOPE) for name in grid.names)
    if all(_GROUP.match(run) for run in runs):
        message = f"the columns of {grid.name} are named after groups ({runs[0]}): a mean over several runs is no run."
        action = "Export the chart without grouping, or read each group for one run if it holds one."
        grid = replace(
            grid, warnings=(*grid.warnings, ScalefitWarning("grouped-chart", message, action, {"groups": len(runs)}))
        )
    return replace(
        grid,
        names=("run", *(grid.names[i] for i in others), *metrics),
        columns=(labels, *(grid.columns[i][index] for i in others), *values),
        places=grid.places.take(index),
        dropped=grid.dropped + Dropped.of(grid.places.take(blank), ["no value of any run"] * len(blank)),
        ignored=(*grid.ignored, *([f"{envelope} columns __MIN and __MAX (envelopes)"] if envelope else [])),
    )


def points_of_run(
    grid: Grid, run: str, metrics: tuple[str, ...]
) -> tuple[NDArray[np.int64], list[NDArray[np.object_]]]:
    """Return the rows in which a run has a value of some metric, and these values."""
    empty = np.full(len(grid), "", dtype=object)
    names = [f"{run}{CHART_SEPARATOR}{metric}" for metric in metrics]
    columns = [grid.column(name) if name in grid.names else empty for name in names]
    points = np.flatnonzero([any(cell.lower() not in MISSING for cell in row) for row in zip(*columns, strict=True)])
    return points, [column[points] for column in columns]


def tensorboard_scalar(grid: Grid) -> Grid:
    """Name the value of a TensorBoard scalar download; the whole file is one run."""
    value = [name for name in grid.names if normal_name(name) == "value"]
    if not value:
        raise DataError(f"{grid.name} is no TensorBoard download: it has no column Value")
    return replace(grid, loss=value[0])


def lightning_metrics(grid: Grid) -> Grid:
    """Choose the validation loss of a Lightning metrics.csv; rows of other metrics have an empty cell there."""
    losses = [n for n in grid.names if "loss" in normal_name(n).split("_")]
    for wanted in ("val_loss", "val_loss_epoch", "valid_loss", "validation_loss"):
        if wanted in losses:
            return replace(grid, loss=wanted)
    return grid


def wide_columns(grid: Grid) -> tuple[int, list[int]] | None:
    """Return the column of steps or tokens and those that may be one run each, or None: no name says loss."""
    axis = [i for i, name in enumerate(grid.names) if normal_name(name) in _AXES or role_candidates((name,), "tokens")]
    others = [i for i in range(len(grid.names)) if i not in axis and grid.names[i]]
    plain = all(grid.columns[i].dtype != object or _mostly_numbers(grid.columns[i]) for i in others)
    named = loss_candidates(grid.names) or any(
        role_candidates(grid.names, role) for role in ("width", "depth", "params")
    )
    return (axis[0], others) if len(axis) == 1 and len(others) > 1 and plain and not named else None


def _mostly_numbers(column: NDArray[np.object_]) -> bool:
    filled = [cell for cell in column.tolist() if cell.lower() not in MISSING]
    return 2 * sum(map(looks_numeric, filled)) > len(filled)


def wide_runs(grid: Grid) -> Grid:
    """Bring a table with one column a run into one row a point, the values being the loss."""
    found = wide_columns(grid)
    if found is None:
        raise DataError(
            f"{grid.name} is no table with one column a run: give one column of steps or tokens beside them"
        )
    axis, runs = found
    grid.refuse_duplicates()
    n, k = len(grid), len(runs)
    index = np.tile(np.arange(n), k)
    labels = np.repeat(np.array([grid.names[i] for i in runs], dtype=object), n)
    texts = [c.astype(object) if c.dtype == object else np.array([show_number(v) for v in c], dtype=object)
             for c in (grid.columns[i] for i in runs)]  # fmt: skip
    loss = np.concatenate(texts)
    filled = np.array([cell.lower() not in MISSING for cell in loss.tolist()], dtype=np.bool_)
    return replace(
        grid,
        names=("run", grid.names[axis], "loss"),
        columns=(labels[filled], grid.columns[axis][index][filled], loss[filled]),
        places=grid.places.take(index[filled]),
        loss="loss",
    )


def _state_column(grid: Grid) -> int | None:
    """Return the column that says whether a run finished."""
    for i, (name, column) in enumerate(zip(grid.names, grid.columns, strict=True)):
        if normal_name(name) in {"state", "status"} and column.dtype == object:
            states = {cell.lower() for cell in set(column.tolist())}
            if states & (_FINISHED | _UNFINISHED) and not any(looks_numeric(state) for state in states):
                return i
    return None


def drop_unfinished(grid: Grid) -> Grid:
    """Drop the runs that the tracker marks as crashed, failed, killed or still running."""
    i = _state_column(grid)
    if i is None:
        return grid
    states = grid.columns[i]
    mask = np.array([state.lower() in _FINISHED for state in states.tolist()], dtype=np.bool_)
    if not mask.any():
        raise DataError(
            f"{grid.name}: no run is finished ({', '.join(sorted(set(states.tolist())))}); "
            "wait for them, or read them as they are with --keep-unfinished"
        )
    return grid.keep(mask, [f"{grid.names[i]} is {state or 'empty'}, not finished" for state in states[~mask]])


SHAPERS: Mapping[str, Callable[[Grid], Grid]] = {
    "wandb-chart": chart_points,
    "wandb-runs": lambda grid: grid,
    "tensorboard": tensorboard_scalar,
    "lightning": lightning_metrics,
    "wide": wide_runs,
    "csv": lambda grid: grid,
}
"""Format of a delimited table -> what brings it into rows of points."""


def shape_as(grid: Grid, form: str) -> Grid:
    """Bring a delimited table into rows of points, taking it for the given format."""
    if form not in SHAPERS and not grid.own:
        raise OptionError(f"{grid.name} is delimited text and cannot be read as {form}")
    return replace(SHAPERS[form](grid), format=form) if form in SHAPERS else grid
