"""N* and D* for a budget read off the runs: Chinchilla's three approaches (Hoffmann et al. 2022, section 3).

1. The lower envelope: at each compute the run whose loss curve is lowest, and N ~ C^a through those runs.
2. Valleys: the runs of one budget, their loss a cubic in x = ln N less its mean,

       L = b_0 + b_1 x + b_2 x^2 + b_3 x^3 + g ln(C / C_budget),                                 (1)

   whose minimum x* = -b_1 / (b_2 + r), r^2 = b_2^2 - 3 b_1 b_3, has curvature 2 r and moves with the coefficients by

       dx* = -(db_1 + 2 x* db_2 + 3 x*^2 db_3) / (2 r);                                          (2)

   the last term of (1) is there where the runs of a budget differ in compute. N ~ C^a goes through the valleys.
3. A law in parameters and tokens, `scalefit.optimal.allocation`.

A valley counts where the runs bracket it: its minimum lies between the smallest and the largest of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from scalefit.errors import DataError, OptionError, ScalefitWarning
from scalefit.numbers import show_number
from scalefit.optimal.approaches import Approach, Points, Valley, envelope, through
from scalefit.optimal.compute import best_sizes, cost_of_runs
from scalefit.optimal.sweep import central_interval
from scalefit.runs import Runs
from scalefit.uncertainty.samples import Samples, check_level

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["IsoFlop", "isoflop"]

Array = NDArray[np.float64]
Interval = tuple[float, float]

NEAR = 0.15
"""Runs within this share of a budget are at it."""

WIDEST = 0.35
"""In ln: a group of runs that spreads further in compute is no budget."""

GAP = 0.10
"""In ln: a gap in compute between neighbours that parts two budgets."""

FEWEST_FOR_CUBIC, FEWEST = 6, 4


@dataclass(frozen=True)
class IsoFlop:
    """Valleys by budget and the approaches side by side.

    Attributes
    ----------
    flops : float
        The budget at which approaches are compared.
    valleys : tuple of Valley
    approaches : tuple of Approach
    level : float
    warnings : tuple of ScalefitWarning
    """

    flops: float
    valleys: tuple[Valley, ...]
    approaches: tuple[Approach, ...]
    level: float
    warnings: tuple[ScalefitWarning, ...]


def isoflop(
    runs: Runs,
    budgets: Sequence[float] = (),
    flops: float | None = None,
    draws: Samples | None = None,
    *,
    fit: Fit | None = None,
    level: float = 0.95,
) -> IsoFlop:
    """Find the best N at each compute budget of a table, and N* ~ C^a through them.

    Parameters
    ----------
    runs : Runs
        With params, loss, and flops or tokens; the compute is 6 N D where the table holds none.
    budgets : sequence of float
        Computes of the groups; by default groups are told apart by the gaps between them.
    flops : float, optional
        Where the approaches are compared; the largest budget by default.
    fit : Fit, optional
        A law in params and tokens, for the third approach.
    draws : Samples, optional
        Of that law, for its intervals.
    level : float

    Raises
    ------
    DataError
        If the table lacks a column, or budgets cannot be told apart.
    OptionError
        If a budget is no positive number.
    """
    check_level(level)
    for value in (*budgets, *([] if flops is None else [flops])):
        if not (math.isfinite(value) and value > 0):
            raise OptionError(f"the compute budget is {value:g} and must be a positive number")
    points = _points(runs)
    centres = np.log(sorted(budgets)) if len(budgets) else _groups(points.flops)
    valleys = tuple(_valley(points, centre, level) for centre in centres)
    target = float(np.exp(centres[-1])) if flops is None else flops
    approaches = [envelope(points, target, level), through(valleys, target, level)]
    if fit is not None:
        best, none = best_sizes(fit.law, fit.params, target, cost_of_runs()), (math.nan, math.nan)
        own = None if draws is None else best_sizes(fit.law, draws, target, cost_of_runs())
        low, high = none if own is None else central_interval(own.log_params, level)
        approaches.append(
            Approach(
                name=str(fit.law),
                exponent=float(best.exponent[0]),
                interval=none if own is None else central_interval(own.exponent, level),
                params=math.exp(best.log_params[0]),
                tokens=math.exp(best.log_tokens[0]),
                params_interval=(math.exp(low), math.exp(high)),
                basis="",
            )
        )
    return IsoFlop(target, valleys, tuple(a for a in approaches if a is not None), level, _remarks(valleys, approaches))


def _points(runs: Runs) -> Points:
    for name in ("params", "loss"):
        if name not in runs:
            raise DataError(f"isoFLOP valleys need the column {name!r}; the table has {', '.join(runs.columns)}")
    if "flops" not in runs and "tokens" not in runs:
        raise DataError("isoFLOP valleys need the column 'flops' or 'tokens'; define one with --column flops=EXPR")
    flops = runs["flops"] if "flops" in runs else 6.0 * runs["params"] * runs["tokens"]
    columns = (runs["params"], flops, runs["loss"])
    good = np.all([np.isfinite(x) & (x > 0) for x in columns], axis=0)
    if not good.any():
        raise DataError("no row has a positive number of parameters, compute and loss")
    n, c, loss = (x[good] for x in columns)
    return Points(np.log(n), np.log(c), loss, runs.run_ids[good])


def _groups(log_flops: Array) -> Array:
    """ln of the budgets: means of the groups that gaps part."""
    ordered = np.sort(log_flops)
    groups = np.split(ordered, np.flatnonzero(np.diff(ordered) > GAP) + 1)
    for group in groups:
        if group[-1] - group[0] > WIDEST:
            low, high = (f"{np.exp(end):.3g}" for end in (group[0], group[-1]))
            raise DataError(
                f"the runs from {low} to {high} operations do not fall into budgets: no gap parts them. Name the "
                "budgets, as in --budgets 6e18,1e19,3e19"
            )
    kept = [float(group.mean()) for group in groups if len(group) >= FEWEST]
    if not kept:
        raise DataError(f"no budget has {FEWEST} runs of about the same compute, which a valley needs")
    return np.array(kept)


def _valley(points: Points, centre: float, level: float) -> Valley:
    """Equations (1) and (2) at one budget; of a run's curve the row nearest to it."""
    off = np.abs(points.flops - centre)
    order = np.lexsort((off, points.run))
    nearest = order[np.unique(points.run[order], return_index=True)[1]]
    chosen = nearest[off[nearest] <= math.log1p(NEAR)]
    log_n, loss, excess = points.params[chosen], points.loss[chosen], points.flops[chosen] - centre

    def without(remark: str) -> Valley:
        nan = math.nan
        return Valley(math.exp(centre), len(chosen), nan, nan, nan, (nan, nan), remark)

    sizes = len(np.unique(log_n.round(9)))
    if sizes < FEWEST:
        return without(f"{sizes} sizes, at least {FEWEST} are needed")
    x = log_n - log_n.mean()
    degree = 3 if sizes >= FEWEST_FOR_CUBIC else 2
    columns = [x**k for k in range(degree + 1)] + ([excess] if np.ptp(excess) > 1e-3 and sizes > degree + 2 else [])
    design = np.stack(columns, axis=1)
    freedom = len(x) - design.shape[1]
    if freedom < 1:
        return without(f"{len(x)} runs leave no degree of freedom")
    coefficients = np.linalg.lstsq(design, loss, rcond=None)[0]
    b0, b1, b2 = coefficients[:3]
    b3 = coefficients[3] if degree == 3 else 0.0
    square = b2**2 - 3 * b1 * b3
    if square <= 0 or b2 + math.sqrt(square) <= 0:
        return without("the losses have no minimum")
    root = math.sqrt(square)
    at = -b1 / (b2 + root)
    if not x.min() < at < x.max():
        return without(f"not bracketed: the loss falls towards the {'smallest' if at <= x.min() else 'largest'} model")
    residuals = loss - design @ coefficients
    covariance = np.linalg.inv(design.T @ design) * (residuals @ residuals / freedom)
    moves = np.zeros(len(coefficients))
    moves[1 : degree + 1] = -np.array([1.0, 2 * at, 3 * at**2])[:degree] / (2 * root)
    half = float(stdtrit(freedom, (1 + level) / 2)) * math.sqrt(moves @ covariance @ moves)
    best = float(log_n.mean() + at)
    return Valley(
        flops=math.exp(centre),
        n_runs=len(chosen),
        params=math.exp(best),
        tokens=math.exp(centre - best) / 6,
        loss=float(b0 + at * (b1 + at * (b2 + at * b3))),
        interval=(math.exp(best - half), math.exp(best + half)),
        remark="",
    )


def _remarks(valleys: Sequence[Valley], approaches: Sequence[Approach | None]) -> tuple[ScalefitWarning, ...]:
    remarks = []
    open_valleys = [valley for valley in valleys if valley.remark]
    if open_valleys:
        named = "; ".join(f"{show_number(v.flops)}: {v.remark}" for v in open_valleys)
        remarks.append(
            ScalefitWarning(
                "valley-open",
                f"{len(open_valleys)} of {len(valleys)} budgets have no minimum between their runs ({named}).",
                "Train sizes on both sides of the best one at these budgets.",
                {"flops": [v.flops for v in open_valleys]},
            )
        )
    if approaches[1] is None:
        remarks.append(
            ScalefitWarning(
                "too-few-valleys",
                "fewer than three budgets have a minimum, so that no power law goes through them.",
                "Add budgets, or sizes at those that are there.",
            )
        )
    return tuple(remarks)
