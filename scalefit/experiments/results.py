"""What is found of loss against depth: frozen records, the remarks on them, JSON and text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from scalefit.errors import ScalefitWarning
from scalefit.experiments.sweeps import finite_teacher_factor
from scalefit.numbers import to_json

__all__ = [
    "Convergence",
    "DepthExponent",
    "Estimate",
    "LocalSlope",
    "describe",
    "longest_horizons",
    "to_document",
]

MOST_FLOOR = 0.5
"""Share of the smallest loss above which a fitted floor stands in for the exponent."""

MARGIN = 0.1
"""Part of the exponent within which the half horizon must lie for an exponent to be called converged."""


class Convergence(StrEnum):
    """What two horizons, each with its own anneal, say of an exponent: an equivalence test over teachers."""

    CONVERGED = "converged"
    MOVING = "moving"
    UNDECIDED = "undecided"


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

    def __str__(self) -> str:
        low, high = self.interval
        interval = f" [{low:.2f}, {high:.2f}]" if math.isfinite(low) else ""
        known, n = sum(map(math.isfinite, self.per_teacher)), len(self.per_teacher)
        return f"alpha {self.alpha:.2f}{interval}" + (f" from {known} of {n} teachers" if known < n else "")


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
        Training steps; 0 for students that are not trained.
    teacher_depth : int
    depths, seeds : tuple of int
    estimates : mapping of str to Estimate
        By variant: ``no-floor``, ``floor``, ``finite-teacher``; ``extrapolated`` is the exponent of unlimited
        training, from three horizons.
    floor_share : float
        Fitted L0 over the smallest loss, the largest of the teachers: near 1 the exponent with floor says little.
    local_slopes : tuple of LocalSlope
    half : float
        Exponent (no floor) at the half horizon; NaN without one.
    move : (float, float)
        90 % interval of the exponent's move from the half horizon to this one, over teachers; NaN where fewer than
        three have both.
    rising : bool
        Whether some teacher's deeper student has the larger loss.
    n_diverged : int
        Students that diverged and are left out.
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
    move: tuple[float, float]
    rising: bool
    n_diverged: int

    @property
    def alpha(self) -> float:
        """Exponent without floor, mean over teachers."""
        return self.estimates["no-floor"].alpha

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of `alpha`."""
        return self.estimates["no-floor"].interval

    @property
    def margin(self) -> float:
        """Largest move that still counts as converged."""
        return MARGIN * abs(self.alpha)

    @property
    def convergence(self) -> Convergence:
        """Converged where the interval of the move lies inside the margins, moving where it lies outside.

        The first is two one-sided t tests at 5 % each: an exponent that truly moves by the margin or more is called
        converged at most once in twenty times. A reversed tail shows unfinished students whatever the exponents say.
        """
        low, high = self.move
        if self.rising or low > self.margin or high < -self.margin:
            return Convergence.MOVING
        inside = low > -self.margin and high < self.margin
        return Convergence.CONVERGED if inside else Convergence.UNDECIDED

    @property
    def settled(self) -> bool:
        """Whether convergence was shown, or never put to the test for want of a half horizon."""
        return self.convergence is Convergence.CONVERGED or (not self.rising and math.isnan(self.half))

    @property
    def warnings(self) -> tuple[ScalefitWarning, ...]:
        """What a reader has to be told about the losses that the exponent was fitted to."""
        return tuple(ScalefitWarning(*remark) for remark in (*_on_convergence(self), *_on_losses(self)))


_Remark = tuple[str, str, str, Mapping[str, Any]]


def _on_convergence(item: DepthExponent) -> list[_Remark]:
    found: list[_Remark] = []
    if math.isnan(item.half):
        if item.horizon:
            text = "no horizon of about half the steps was trained."
            found.append(("convergence-unknown", text, "Add 0.5 to the configuration's horizons.", {}))
    else:
        what = f"half the steps give {item.half:.2f}, all of them {item.alpha:.2f}: "
        numbers = {"half": item.half, "alpha": item.alpha, "move": list(item.move), "margin": item.margin}
        low, high = item.move
        if item.convergence is Convergence.MOVING:
            advice = "Train longer; until then it is a lower or upper bound, not the exponent."
            found.append(("not-converged", f"{what}the exponent still moves.", advice, numbers))
        elif math.isnan(low):
            text = f"{what}fewer than three teachers have both, and nothing is concluded from so few."
            found.append(("convergence-undecided", text, "Add seeds.", numbers))
        elif item.convergence is Convergence.UNDECIDED:
            text = f"{what}the move lies between {low:.2f} and {high:.2f}, too wide for a margin of {item.margin:.2f}."
            found.append(("convergence-undecided", text, "Add seeds, or train longer.", numbers))
    if item.rising:
        text = "a deeper student has the larger loss: deep students are unfinished."
        advice = "Train longer, or leave out the deepest; a floor fitted to such losses is not one."
        found.append(("tail-reversed", text, advice, {}))
    return found


def _on_losses(item: DepthExponent) -> list[_Remark]:
    found: list[_Remark] = []
    if item.floor_share > MOST_FLOOR:
        text = f"the fitted floor is up to {item.floor_share:.0%} of the smallest loss."
        advice = "Do not read the exponent with floor: floor and exponent trade against each other."
        found.append(("floor-takes-over", text, advice, {"floor_share": item.floor_share}))
    deepest, layers = max(item.depths), item.teacher_depth
    finite = item.condition["target"] == "teacher"  # a flow has no layers to run out of
    if finite and deepest >= layers:
        text = f"depth {deepest} is no less than the teacher's {layers} layers: such a student can be the teacher."
        advice = "Leave out students of this depth, or use a deeper teacher."
        found.append(("students-near-teacher", text, advice, {}))
    elif finite and deepest > layers / 4:
        factor = finite_teacher_factor(item.depths, layers)
        text = (
            f"depth {deepest} is more than a quarter of the teacher's {layers} layers: "
            f"the finite teacher alone makes exponents read {factor:.2f} times too steep."
        )
        advice = "Compare the finite-teacher variant, or use a deeper teacher."
        found.append(("students-near-teacher", text, advice, {"factor": factor}))
    if item.n_diverged:
        text = f"students diverged and are left out: {item.n_diverged}."
        found.append(("diverged-students", text, "Lower the learning rate.", {"n_diverged": item.n_diverged}))
    floor = item.estimates["floor"]
    used = sum(map(math.isfinite, floor.per_teacher))
    if 0 < used < len(item.seeds):
        left = [seed for seed, alpha in zip(item.seeds, floor.per_teacher, strict=True) if not math.isfinite(alpha)]
        text = f"the exponent with floor leaves out the teachers of seeds {', '.join(map(str, left))}."
        advice = "Do not compare it with the exponent without floor, which has all of them."
        found.append(("floor-of-some", text, advice, {"seeds": left}))
    if len(item.seeds) == 1:
        advice = "Add seeds: uncertainty lies between teachers."
        found.append(("one-teacher", "with one teacher there is no interval.", advice, {}))
    return found


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
        entry = document.setdefault(item.label, {})
        if not entry:
            entry |= {
                "alpha": item.alpha,
                "interval": item.interval,
                "convergence": item.convergence if item.horizon else None,
                "margin": item.margin,
                "move": item.move,
                "n_teachers": len(item.seeds),
                "horizon": item.horizon,
                "half": item.half,
                "variants": {
                    name: {"alpha": each.alpha, "interval": each.interval} for name, each in item.estimates.items()
                },
                "floor_share": item.floor_share,
                "local_slopes": [{"depths": s.depths, "alpha": s.estimate.alpha} for s in item.local_slopes],
                "warnings": item.warnings,
                "horizons": [],
            }
        entry["horizons"].append({"horizon": item.horizon, "alpha": item.alpha, "interval": item.interval})
    plain: dict[str, Any] = to_json(document)
    return plain


def describe(found: Sequence[DepthExponent]) -> str:
    """Write results for people: one block a condition, remarks on its longest horizon below it."""
    lines: list[str] = []
    label = None
    for item in found:
        if item.label == label:
            lines.append(f"  {item.horizon} steps: {item.estimates['no-floor']}")
            continue
        label = item.label
        lines += [""] if lines else []
        depths = ", ".join(map(str, item.depths))
        lines += [f"{label}: loss ~ 1 / depth^alpha, depths {depths}, {len(item.seeds)} teachers"]
        lines += [*_longest(item), *(f"  {warning}" for warning in item.warnings)]
    return "\n".join(lines)


def _longest(item: DepthExponent) -> list[str]:
    words = {Convergence.CONVERGED: f"converged to {item.margin:.2f}", Convergence.MOVING: "still moving"}
    verdict = words.get(item.convergence, "undecided")
    if math.isnan(item.half) and not item.rising:
        verdict = "convergence not tested" if item.horizon else "untrained"
    lines = [f"  {item.horizon} steps: {item.estimates['no-floor']}  {verdict}"]
    remarks = {
        "extrapolated": "in the limit of training: {}",
        "floor": f"with floor: {{}} (floor up to {item.floor_share:.0%} of the smallest loss)",
        "finite-teacher": f"in 1/depth - 1/{item.teacher_depth}: {{}}",
    }
    for variant, text in remarks.items():
        if math.isfinite(item.estimates[variant].alpha):
            lines.append("    " + text.format(item.estimates[variant]))
    slopes = ", ".join(f"{s.depths[0]}-{s.depths[1]}: {s.estimate.alpha:.2f}" for s in item.local_slopes)
    return [*lines, f"    between depths: {slopes}"]
