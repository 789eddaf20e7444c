"""The best width, depth and tokens for a budget, and how sure the data are of them."""

from scalefit.optimal.budget import Budget, Space, parse_budgets
from scalefit.optimal.counts import BLOCKS, PRESETS, Count, Transformer, count_blocks, parse_count
from scalefit.optimal.feasible import FeasibleShape, Rounding
from scalefit.optimal.flatness import Flatness
from scalefit.optimal.serving import Serving, parse_serving
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
