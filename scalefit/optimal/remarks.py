"""What has to be said beside a best shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalefit.errors import ScalefitWarning
from scalefit.fitting.fit import Fit
from scalefit.optimal.neighbours import Rounding

if TYPE_CHECKING:
    from scalefit.optimal.shape import OptimalShape, ShapeIntervals

__all__ = ["explain", "shape_not_determined"]

WORTH_SAYING = 0.05
"""Decades beyond the table from which extrapolation is named."""

FEW_AT_EDGE = 0.01
"""Share of draws at an edge from which it is named."""


def shape_not_determined(names: tuple[str, ...]) -> ScalefitWarning:
    """The shape follows from parameters that the data leave open."""
    return ScalefitWarning(
        "shape-not-determined",
        f"the best shape follows from {', '.join(names)}, which the data do not determine, so that no shape is given.",
        "Train the runs that `scalefit suggest` names, fix the parameters at known values, or fit a smaller law.",
        {"parameters": list(names)},
    )


def explain(shape: OptimalShape, fit: Fit, rounding: Rounding) -> tuple[ScalefitWarning, ...]:
    """Everything that limits what the best shape means."""
    remarks = [_at_edge(shape, name, fit) for name in shape.at_edge]
    remarks += [_extrapolates(shape)] if any(abs(d) >= WORTH_SAYING for d in shape.decades.values()) else []
    remarks += [_draws_at_edge(s) for s in shape.by_method if s.at_edge > FEW_AT_EDGE and not shape.at_edge]
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


def _at_edge(shape: OptimalShape, name: str, fit: Fit) -> ScalefitWarning:
    value = getattr(shape, name)
    missing = name not in fit.law.columns or fit.params[f"c_{name}"] == 0
    why = f"the law has no term in {name} that would stop it" if missing else "the loss still falls towards it"
    return ScalefitWarning(
        "optimum-at-edge",
        f"the best {name} is the end of its range, {value:.6g}: {why}. This is no optimum of the law.",
        f"Widen the range with --range {name}=LOW:HIGH, or add runs that vary {name} more.",
        {"column": name, "value": value},
    )


def _extrapolates(shape: OptimalShape) -> ScalefitWarning:
    far = {name: d for name, d in shape.decades.items() if abs(d) >= WORTH_SAYING}
    parts = [
        f"{name} {getattr(shape, name):.4g} lies {abs(d):.1f} decades {'above' if d > 0 else 'below'}"
        for name, d in far.items()
    ]
    return ScalefitWarning(
        "extrapolates",
        f"the shape extrapolates: {', '.join(parts)} the runs of the table.",
        "Nothing in the table checks the law there; the interval assumes that it holds.",
        {"decades": {name: round(d, 4) for name, d in far.items()}},
    )


def _draws_at_edge(found: ShapeIntervals) -> ScalefitWarning:
    return ScalefitWarning(
        "draws-at-edge",
        f"{found.at_edge:.1%} of the {found.method} draws have their best shape at the end of a range.",
        "Where this is more than the tail of the interval, read its end as open.",
        {"method": found.method, "share": found.at_edge},
    )
