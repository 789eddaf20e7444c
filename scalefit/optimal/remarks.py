"""What has to be said beside a best shape or size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalefit.errors import ScalefitWarning
from scalefit.optimal.neighbours import Rounding

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit
    from scalefit.optimal.allocation import Allocation
    from scalefit.optimal.shape import OptimalShape

__all__ = ["explain", "extrapolates", "not_determined"]

WORTH_SAYING = 0.05
"""Decades beyond the table from which extrapolation is named."""

FEW_AT_EDGE = 0.01
"""Share of draws at an edge from which it is named."""


def explain(shape: OptimalShape, fit: Fit, rounding: Rounding) -> tuple[ScalefitWarning, ...]:
    """Everything that limits what the best shape means."""
    remarks = []
    for name in shape.at_edge:
        value = getattr(shape, name)
        factors = [f for f in fit.law.factors if f.column == name]
        missing = all(fit.params[fit.law.term_of(factor).coefficient] == 0 for factor in factors)
        why = f"the law has no term in {name} that would stop it" if missing else "the loss still falls towards it"
        remarks.append(
            ScalefitWarning(
                "optimum-at-edge",
                f"the best {name} is the end of its range, {value:.6g}: {why}. This is no optimum of the law.",
                f"Widen the range with --range {name}=LOW:HIGH, or add runs that vary {name} more.",
                {"column": name, "value": value},
            )
        )
    advice = "Nothing in the table checks the law there; the interval assumes that it holds."
    remarks += extrapolates("the shape", shape, advice)
    remarks += [
        ScalefitWarning(
            "draws-at-edge",
            f"{found.at_edge:.1%} of the {found.method} draws have their best shape at the end of a range.",
            "Where this is more than the tail of the interval, read its end as open.",
            {"method": found.method, "share": found.at_edge},
        )
        for found in shape.by_method
        if found.at_edge > FEW_AT_EDGE and not shape.at_edge
    ]
    if "tokens" in fit.law.columns and shape.tokens != shape.tokens:
        remarks.append(
            ScalefitWarning(
                "unlimited-tokens",
                "no tokens are given, so that the loss is the one that unlimited tokens would reach.",
                "Give --tokens for the loss of a training run; width and depth stay the same.",
            )
        )
    if not shape.feasible:
        remarks.append(
            ScalefitWarning(
                "no-feasible-shape",
                f"no width that is a multiple of {rounding.width} with whole groups of heads, and depth that is a "
                f"multiple of {rounding.layers}, fits the budget {shape.budget}.",
                "Lower --multiple, --head-size or --layers, widen the ranges, or raise the budget.",
                {"multiple": rounding.width, "layers": rounding.layers},
            )
        )
    return tuple(remarks)


def not_determined(what: str, names: tuple[str, ...]) -> ScalefitWarning:
    """The answer follows from parameters that the data leave open."""
    return ScalefitWarning(
        f"{what}-not-determined",
        f"the best {what} follows from {', '.join(names)}, which the data do not determine, so that none is given.",
        "Train the runs that `scalefit suggest` names, fix the parameters at known values, or fit a smaller law.",
        {"parameters": list(names)},
    )


def extrapolates(what: str, found: OptimalShape | Allocation, advice: str) -> list[ScalefitWarning]:
    """Which numbers of an answer lie beyond the table, by how many decades."""
    far = {name: d for name, d in found.decades.items() if abs(d) >= WORTH_SAYING}
    if not far:
        return []
    parts = [
        f"{name} {getattr(found, name):.4g} lies {abs(d):.1f} decades {'above' if d > 0 else 'below'}"
        for name, d in far.items()
    ]
    return [
        ScalefitWarning(
            "extrapolates",
            f"{what} extrapolates: {', '.join(parts)} the runs of the table.",
            advice,
            {"decades": {name: round(d, 4) for name, d in far.items()}},
        )
    ]
