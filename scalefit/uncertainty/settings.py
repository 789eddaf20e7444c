"""The methods that give intervals, and how they are run."""

from __future__ import annotations

from dataclasses import dataclass

from scalefit.fitting.starts import check_seed
from scalefit.uncertainty.bootstrap import check_resamples
from scalefit.uncertainty.samples import check_level

__all__ = [
    "ALL_METHODS",
    "BOOTSTRAPS",
    "FAST_METHODS",
    "POSTERIORS",
    "ROW_METHODS",
    "ROW_THEORIES",
    "THEORIES",
    "Settings",
]

BOOTSTRAPS = ("pairs", "cluster", "residual", "wild", "wild-cluster")
THEORIES = {"wald": "gauss-newton", "observed": "observed", "robust": "robust", "cluster-robust": "cluster"}
ALL_METHODS = (*BOOTSTRAPS, "profile", *THEORIES, "posterior", "importance", "importance-cluster")
FAST_METHODS = ("pairs", "cluster", "profile", "wald", "importance")

ROW_THEORIES = {"profile", "wald", "observed", "robust"}
"""Methods that take every row for independent, and say nothing sensible where rows share runs."""

ROW_METHODS = {*ROW_THEORIES, "pairs", "residual", "wild"}
"""Methods that take every row for independent."""

POSTERIORS = {"posterior", "importance"}
"""Methods with an effect that rows of a run share, where they do, but none of the shape."""


@dataclass(frozen=True)
class Settings:
    """How the methods are run.

    Attributes
    ----------
    level : float
    n_resamples : int
        Of each bootstrap.
    by : str or None
        Clusters; None chooses.
    seed : int
    workers : int
        Processes for the bootstraps; 0 works in this one.
    simulations : int
        Simulated tables behind the warning about the curvature; 0 leaves it out.
    names : tuple of str
        Parameters to give intervals of; all if empty.

    Raises
    ------
    OptionError
        If the level is not between 0 and 1, the replicates are fewer than 50, or the seed is negative.
    """

    level: float = 0.95
    n_resamples: int = 1000
    by: str | None = None
    seed: int = 0
    workers: int = 0
    simulations: int = 200
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_level(self.level)
        check_resamples(self.n_resamples)
        check_seed(self.seed)
