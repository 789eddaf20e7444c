"""The control of fixed total units: depth times hidden units is the same for all students.

Depth then varies at constant size, so the table asks for no exponent. What it shows is how much the arrangement
matters: the ratio of the largest to the smallest loss, 1 where only the total number of units counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from scalefit.errors import DataError
from scalefit.experiments.table import by_condition, check_table, total_units

__all__ = ["UnitsControl", "describe_units", "units_controls", "units_document"]


@dataclass(frozen=True)
class UnitsControl:
    """Losses of one condition and training horizon at a fixed total number of hidden units.

    Attributes
    ----------
    label : str
        The kind, and whatever else differs within the table.
    horizon : int
        Training steps.
    units : int
        Depth times hidden units of a layer.
    depths, seeds : tuple of int
        Seeds are the teachers that have a loss at every depth.
    losses : tuple of float
        Mean over teachers, by depth.
    ratio : float
        Largest over smallest of `losses`.
    per_teacher : tuple of float
        The same ratio within each teacher, in the order of `seeds`.
    n_left_out : int
        Teachers left out because a student diverged.
    """

    label: str
    horizon: int
    units: int
    depths: tuple[int, ...]
    seeds: tuple[int, ...]
    losses: tuple[float, ...]
    ratio: float
    per_teacher: tuple[float, ...]
    n_left_out: int


def units_controls(table: pd.DataFrame, *, allow_unannealed: bool = False) -> tuple[UnitsControl, ...]:
    """Compare losses at a fixed total number of hidden units, by condition, the longest horizon first.

    Parameters
    ----------
    table : DataFrame
        As `read_sweep` gives it.
    allow_unannealed : bool
        Accept losses of students whose rate was never annealed.

    Raises
    ------
    DataError
        The table is empty or not annealed, its units are not fixed, or no teacher has a loss at every depth.
    """
    check_table(table, allow_unannealed=allow_unannealed)
    units = total_units(table)
    if units is None:
        raise DataError("depth times hidden units is not the same for all students; use depth_exponents")
    return tuple(
        _control(rows, label, units)
        for label, condition in by_condition(table)
        for _, rows in reversed(list(condition.groupby("horizon", sort=True)))
    )


def _control(rows: pd.DataFrame, label: str, units: int) -> UnitsControl:
    horizon = int(rows["horizon"].iloc[0])
    losses = rows.assign(loss=rows["loss"].where(rows["status"] == "ok")).pivot(
        index="seed", columns="depth", values="loss"
    )
    whole = losses.dropna()
    if whole.empty:
        raise DataError(
            f"{label}, horizon {horizon}: no teacher has a loss at each of the depths {list(losses.columns)}; "
            "lower the learning rate, or leave out the depths that diverge"
        )
    means, ratios = whole.mean(), whole.max(axis=1) / whole.min(axis=1)
    return UnitsControl(
        label=label,
        horizon=horizon,
        units=units,
        depths=tuple(int(depth) for depth in whole.columns),
        seeds=tuple(int(seed) for seed in whole.index),
        losses=tuple(means.tolist()),
        ratio=float(means.max() / means.min()),
        per_teacher=tuple(ratios.tolist()),
        n_left_out=len(losses) - len(whole),
    )


def units_document(found: Sequence[UnitsControl]) -> dict[str, Any]:
    """Turn results into one JSON document: by label, the longest horizon with the others under ``horizons``."""
    document: dict[str, Any] = {}
    for item in found:
        if item.label not in document:
            document[item.label] = {
                "ratio": item.ratio,
                "per_teacher": list(item.per_teacher),
                "total_units": item.units,
                "depths": list(item.depths),
                "losses": list(item.losses),
                "n_teachers": len(item.seeds),
                "n_left_out": item.n_left_out,
                "horizon": item.horizon,
                "horizons": [],
            }
        document[item.label]["horizons"].append({"horizon": item.horizon, "ratio": item.ratio})
    return document


def describe_units(found: Sequence[UnitsControl]) -> str:
    """Write results for people: one block a condition and horizon."""
    return "\n\n".join(_block(item) for item in found)


def _block(item: UnitsControl) -> str:
    depths = ", ".join(str(depth) for depth in item.depths)
    left_out = f", {item.n_left_out} left out for a diverged student" if item.n_left_out else ""
    losses = ", ".join(f"{depth}: {loss:.3g}" for depth, loss in zip(item.depths, item.losses, strict=True))
    return (
        f"{item.label}: depth x hidden units = {item.units}, depths {depths}, {len(item.seeds)} teachers{left_out}\n"
        f"  {item.horizon} steps: largest over smallest loss {item.ratio:.2f}, "
        f"by teacher {min(item.per_teacher):.2f} to {max(item.per_teacher):.2f}\n"
        f"    loss by depth: {losses}"
    )
