"""What a design lets each law determine, before any fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scalefit.identifiability.columns import Correlation
from scalefit.runs import Runs

__all__ = ["LAWS", "LEVELS", "LawOutlook", "law_outlook"]

LAWS = ("width+depth+tokens", "params+tokens", "width+tokens", "depth+tokens", "width+depth", "tokens", "flops")
"""Laws that people fit, from the most to the least telling."""

LEVELS = 3
"""Distinct values that a coefficient and an exponent beside a constant need."""


@dataclass(frozen=True)
class LawOutlook:
    """What a design says of one law, before any fit.

    Attributes
    ----------
    law : str
    n_parameters : int
    n_rows : int
        Rows that have all its columns: those that a fit would use.
    not_determined : tuple of str
        Parameters that no losses on this design can determine; empty when the design allows all.
    reason : str
        Why; empty when all is well.
    """

    law: str
    n_parameters: int
    n_rows: int
    not_determined: tuple[str, ...]
    reason: str


def law_outlook(law: str, runs: Runs, levels: Mapping[str, int], correlations: Sequence[Correlation]) -> LawOutlook:
    columns = law.split("+")
    parameters = [name for column in columns for name in (f"c_{column}", f"alpha_{column}")] + ["L0"]
    n = int(np.logical_and.reduce([np.isfinite(runs[column]) for column in columns]).sum())
    if n < len(parameters) + 1:
        reason = f"{len(parameters)} parameters need at least {len(parameters) + 1} rows, {n} given"
        return LawOutlook(law, len(parameters), n, tuple(parameters), reason)
    bad: list[str] = []
    reasons = []
    for column in columns:
        if levels[column] < LEVELS:
            bad += [f"c_{column}", f"alpha_{column}"]
            plural = "value" if levels[column] == 1 else "values"
            reasons.append(f"{levels[column]} distinct {plural} of {column}, {LEVELS} are needed")
    for pair in correlations:
        if abs(pair.value) == 1.0 and {pair.first, pair.second} <= set(columns):
            bad += [f"{kind}_{column}" for column in (pair.first, pair.second) for kind in ("c", "alpha")]
            reasons.append(f"{pair.second} is a power of {pair.first} in every row")
    return LawOutlook(law, len(parameters), n, tuple(dict.fromkeys(bad)), "; ".join(reasons))
