"""Which runs to train next."""

from scalefit.design.candidates import Candidates, candidate_grid, parse_levels
from scalefit.design.quantity import Quantity, parse_quantity
from scalefit.design.suggest import SuggestedRun, Suggestion, suggest_runs

__all__ = [
    "Candidates",
    "Quantity",
    "SuggestedRun",
    "Suggestion",
    "candidate_grid",
    "parse_levels",
    "parse_quantity",
    "suggest_runs",
]
