"""The best width, depth and tokens for a budget, and how sure the data are of them."""

from scalefit.optimal.budget import Budget, Serving, Space, parse_budgets, parse_serving
from scalefit.optimal.counts import BLOCKS, PRESETS, Count, Transformer, count_blocks, parse_count
from scalefit.optimal.neighbours import FeasibleShape, Flatness, Rounding
from scalefit.optimal.shape import OptimalShape, ShapeIntervals, optimal_shape
from scalefit.optimal.sweep import ShapeSweep, sweep_shapes

__all__ = [
    "BLOCKS",
    "PRESETS",
    "Budget",
    "Count",
    "FeasibleShape",
    "Flatness",
    "OptimalShape",
    "Rounding",
    "Serving",
    "ShapeIntervals",
    "ShapeSweep",
    "Space",
    "Transformer",
    "count_blocks",
    "optimal_shape",
    "parse_budgets",
    "parse_count",
    "parse_serving",
    "sweep_shapes",
]
