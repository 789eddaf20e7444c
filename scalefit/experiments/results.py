"""What is found of loss against depth, as frozen records, JSON and text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scalefit.errors import ScalefitWarning

__all__ = ["DepthExponent", "Estimate", "LocalSlope", "describe", "longest_horizons", "to_document"]


@dataclass(frozen=True)
class Estimate:
    """An exponent with its uncertainty between teachers.

    Attributes
    ----------
    alpha : float
        Mean over teachers.
    interval : (float, float)
        Student's t interval of the mean; NaN with one teacher.
    per_teacher : tuple of float
        Exponents in the order of `DepthExponent.seeds`; NaN where a fit does not determine one.
    """

    alpha: float
    interval: tuple[float, float]
    per_teacher: tuple[float, ...]


@dataclass(frozen=True)
class LocalSlope:
    """Exponent between two neighbouring depths."""

    depths: tuple[int, int]
    estimate: Estimate


@dataclass(frozen=True)
class DepthExponent:
    """How loss falls with depth, for one condition and training horizon.

    Attributes
    ----------
    condition : mapping of str to value
        The columns `CONDITION`.
    label : str
        The kind, and whatever else differs within the table.
    horizon : int
        Training steps.
    teacher_depth : int
    depths, seeds : tuple of int
    estimates : mapping of str to Estimate
        By variant: ``no-floor``, ``floor``, ``finite-teacher``.
    floor_share : float
        Fitted L0 over the smallest loss, the largest of the teachers: near 1 the exponent with floor says little.
    local_slopes : tuple of LocalSlope
    half : float
        Exponent (no floor) at the half horizon; NaN without one.
    converged : bool or None
        Whether the half horizon agrees; ``None`` if none was trained.
    warnings : tuple of ScalefitWarning
    """

    condition: Mapping[str, Any]
    label: str
    horizon: int
    teacher_depth: int
    depths: tuple[int, ...]
    seeds: tuple[int, ...]
    estimates: Mapping[str, Estimate]
    floor_share: float
    local_slopes: tuple[LocalSlope, ...]
    half: float
    converged: bool | None
    warnings: tuple[ScalefitWarning, ...]

    @property
    def alpha(self) -> float:
        """Exponent without floor, mean over teachers."""
        return self.estimates["no-floor"].alpha

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of `alpha`."""
        return self.estimates["no-floor"].interval


def longest_horizons(found: Sequence[DepthExponent]) -> list[DepthExponent]:
    """Keep each condition's longest horizon, in the order given."""
    best: dict[str, DepthExponent] = {}
    for item in found:
        if item.label not in best or item.horizon > best[item.label].horizon:
            best[item.label] = item
    return list(best.values())


def to_document(found: Sequence[DepthExponent]) -> dict[str, Any]:
    """Turn results into one JSON document: by label, the longest horizon with the others under ``horizons``."""
    document: dict[str, Any] = {}
    for item in found:
        if item.label not in document:
            document[item.label] = {**_entry(item), "horizons": []}
        document[item.label]["horizons"].append(
            {"horizon": item.horizon, "alpha": _number(item.alpha), "interval": _interval(item.interval)}
        )
    return document


def _entry(item: DepthExponent) -> dict[str, Any]:
    return {
        "alpha": _number(item.alpha),
        "interval": _interval(item.interval),
        "converged": item.converged,
        "n_teachers": len(item.seeds),
        "horizon": item.horizon,
        "half": _number(item.half),
        "variants": {
            name: {"alpha": _number(estimate.alpha), "interval": _interval(estimate.interval)}
            for name, estimate in item.estimates.items()
        },
        "floor_share": _number(item.floor_share),
        "local_slopes": [
            {"depths": list(slope.depths), "alpha": _number(slope.estimate.alpha)} for slope in item.local_slopes
        ],
        "warnings": [
            {"code": w.code, "message": w.message, "action": w.action, "numbers": dict(w.numbers)}
            for w in item.warnings
        ],
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _interval(interval: tuple[float, float]) -> list[float | None]:
    return [_number(value) for value in interval]


def describe(found: Sequence[DepthExponent]) -> str:
    """Write results for people: one block a condition, remarks on its longest horizon below it."""
    lines: list[str] = []
    label = None
    for item in found:
        if item.label != label:
            label = item.label
            lines += [""] if lines else []
            lines += [f"{label}: loss ~ 1 / depth^alpha, depths {_list(item.depths)}, {len(item.seeds)} teachers"]
            lines += [*_longest(item), *(f"  {warning}" for warning in item.warnings)]
        else:
            lines.append(f"  {item.horizon} steps: {_text(item.estimates['no-floor'])}")
    return "\n".join(lines)


def _longest(item: DepthExponent) -> list[str]:
    verdict = {True: "converged", False: "not converged", None: "convergence not tested"}[item.converged]
    if item.horizon == 0:
        verdict = "untrained"
    lines = [f"  {item.horizon} steps: {_text(item.estimates['no-floor'])}  {verdict}"]
    floor, finite = item.estimates["floor"], item.estimates["finite-teacher"]
    if math.isfinite(floor.alpha):
        lines.append(f"    with floor: {_text(floor)} (floor up to {item.floor_share:.0%} of the smallest loss)")
    if math.isfinite(finite.alpha):
        lines.append(f"    in 1/depth - 1/{item.teacher_depth}: {_text(finite)}")
    slopes = ", ".join(f"{s.depths[0]}-{s.depths[1]}: {s.estimate.alpha:.2f}" for s in item.local_slopes)
    return [*lines, f"    between depths: {slopes}"]


def _text(estimate: Estimate) -> str:
    low, high = estimate.interval
    interval = f" [{low:.2f}, {high:.2f}]" if math.isfinite(low) else ""
    known, n = sum(map(math.isfinite, estimate.per_teacher)), len(estimate.per_teacher)
    return f"alpha {estimate.alpha:.2f}{interval}" + (f" from {known} of {n} teachers" if known < n else "")


def _list(values: Sequence[int]) -> str:
    return ", ".join(str(value) for value in values)
