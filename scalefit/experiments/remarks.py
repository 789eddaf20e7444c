"""What a reader of an exponent has to be told about the losses it was fitted to."""

from __future__ import annotations

from scalefit.errors import ScalefitWarning
from scalefit.experiments.cells import Cell, finite_teacher_factor

__all__ = ["cell_warnings"]

MOST_FLOOR = 0.5
"""Share of the smallest loss above which a fitted floor stands in for the exponent."""


def cell_warnings(
    cell: Cell, converged: bool | None, half: float, alpha: float, share: float
) -> tuple[ScalefitWarning, ...]:
    """Collect the remarks on one condition at one horizon.

    Parameters
    ----------
    cell : Cell
    converged : bool or None
        Whether the half horizon agrees; ``None`` if none was trained.
    half, alpha : float
        Exponents without floor at the half horizon and at this one.
    share : float
        Fitted floor over the smallest loss, NaN without one.
    """
    remarks = (
        _convergence(cell, converged, half, alpha),
        _tail(cell),
        _floor(share),
        _teacher(cell),
        _diverged(cell),
        _one_teacher(cell),
    )
    return tuple(remark for remark in remarks if remark is not None)


def _convergence(cell: Cell, converged: bool | None, half: float, alpha: float) -> ScalefitWarning | None:
    if converged is False:
        return ScalefitWarning(
            "not-converged",
            f"half the steps give {half:.2f}, all of them {alpha:.2f}: the exponent still moves.",
            "Train longer; until then it is a lower or upper bound, not the exponent.",
            {"half": half, "alpha": alpha},
        )
    if converged is None and cell.horizon:
        return ScalefitWarning(
            "convergence-unknown",
            "no horizon of about half the steps was trained.",
            "Add 0.5 to the configuration's horizons.",
        )
    return None


def _tail(cell: Cell) -> ScalefitWarning | None:
    if not cell.rising:
        return None
    return ScalefitWarning(
        "tail-reversed",
        "a deeper student has the larger loss: deep students are unfinished.",
        "Train longer, or leave out the deepest; a floor fitted to such losses is not one.",
    )


def _floor(share: float) -> ScalefitWarning | None:
    if not share > MOST_FLOOR:
        return None
    return ScalefitWarning(
        "floor-takes-over",
        f"the fitted floor is up to {share:.0%} of the smallest loss.",
        "Do not read the exponent with floor: floor and exponent trade against each other.",
        {"floor_share": share},
    )


def _teacher(cell: Cell) -> ScalefitWarning | None:
    deepest, layers = max(cell.depths), cell.teacher_depth
    if not cell.finite or deepest <= layers / 4:
        return None
    if deepest >= layers:
        return ScalefitWarning(
            "students-near-teacher",
            f"depth {deepest} is no less than the teacher's {layers} layers: such a student can be the teacher.",
            "Leave out students of this depth, or use a deeper teacher.",
        )
    factor = finite_teacher_factor(cell.depths, layers)
    return ScalefitWarning(
        "students-near-teacher",
        f"depth {deepest} is more than a quarter of the teacher's {layers} layers: "
        f"the finite teacher alone makes exponents read {factor:.2f} times too steep.",
        "Compare the finite-teacher variant, or use a deeper teacher.",
        {"factor": factor},
    )


def _diverged(cell: Cell) -> ScalefitWarning | None:
    if not cell.n_diverged:
        return None
    return ScalefitWarning(
        "diverged-students",
        f"students diverged and are left out: {cell.n_diverged}.",
        "Lower the learning rate.",
        {"n_diverged": cell.n_diverged},
    )


def _one_teacher(cell: Cell) -> ScalefitWarning | None:
    if len(cell.seeds) > 1:
        return None
    return ScalefitWarning(
        "one-teacher",
        "with one teacher there is no interval.",
        "Add seeds: uncertainty lies between teachers.",
    )
