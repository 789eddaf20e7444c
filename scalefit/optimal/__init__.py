"""The best width, depth and tokens for a budget, and how sure the data are of them."""

from scalefit.optimal.allocation import Allocation, optimal_allocation
from scalefit.optimal.budget import Budget, Serving, Space, parse_budgets, parse_serving
from scalefit.optimal.counts import BLOCKS, PRESETS, Count, Transformer, count_blocks, parse_count
from scalefit.optimal.inverse import Requirement, needed_for_loss
from scalefit.optimal.isoflop import IsoFlop, isoflop
from scalefit.optimal.neighbours import FeasibleShape, Flatness, Rounding
from scalefit.optimal.shape import OptimalShape, optimal_shape
from scalefit.optimal.speed_up import SpeedUp, are_paired, shared_budgets, speed_up
from scalefit.optimal.sweep import ShapeIntervals, ShapeSweep, sweep_shapes

__all__ = [
    "BLOCKS",
    "PRESETS",
    "Allocation",
    "Budget",
    "Count",
    "FeasibleShape",
    "Flatness",
    "IsoFlop",
    "OptimalShape",
    "Requirement",
    "Rounding",
    "Serving",
    "ShapeIntervals",
    "ShapeSweep",
    "Space",
    "SpeedUp",
    "Transformer",
    "are_paired",
    "count_blocks",
    "isoflop",
    "needed_for_loss",
    "optimal_allocation",
    "optimal_shape",
    "parse_budgets",
    "parse_count",
    "parse_serving",
    "shared_budgets",
    "speed_up",
    "sweep_shapes",
]
