"""What an uncertainty method is asked, and what it answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from scalefit.errors import OptionError, ScalefitWarning
from scalefit.execute import Progress
from scalefit.fitting.starts import check_seed
from scalefit.laws.parameter import Kind
from scalefit.uncertainty.asymptotic import Asymptotic, asymptotic
from scalefit.uncertainty.bootstrap import check_resamples
from scalefit.uncertainty.groups import FEWEST_CLUSTERS, Grouping
from scalefit.uncertainty.profile import Profile
from scalefit.uncertainty.samples import Samples, check_level

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["Answer", "Failure", "Interval", "Settings", "Task", "run_analytic"]

Interval = tuple[float, float]
Intervals = Mapping[str, Interval]


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


@dataclass(frozen=True)
class Task:
    """What methods are asked.

    Attributes
    ----------
    fit : Fit
    settings : Settings
    grouping : Grouping
        Which rows depend on each other: as found, or as asked.
    progress : callable, optional
        Given the name of a method it returns what that method reports its progress to.
    """

    fit: Fit
    settings: Settings
    grouping: Grouping
    progress: Callable[[str], Progress | None] | None = None

    def report(self, method: str) -> Progress | None:
        """What a method reports its progress to."""
        return self.progress(method) if self.progress else None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Parameters that have an interval: those asked for and not fixed."""
        constraints, wanted = self.fit.constraints, self.settings.names or tuple(self.fit.params)
        return tuple(n for n in wanted if constraints.ties.get(n, n) not in constraints.fixed)

    @cached_property
    def theory(self) -> Asymptotic:
        """Covariances by every theory, which several methods read."""
        settings = self.settings
        return asymptotic(self.fit, by=self.grouping.by, seed=settings.seed, simulations=settings.simulations)

    def clusters(self) -> str:
        """What clusters are.

        Raises
        ------
        OptionError
            If there are fewer than 15, or rows share nothing.
        """
        by, count, asked = self.grouping.by, self.grouping.n_groups, self.settings.by
        if by == "row":
            nothing = f"there are no {FEWEST_CLUSTERS} runs or shapes that rows share"
            raise OptionError("rows are taken one by one, as asked" if asked == "row" else nothing)
        if count < FEWEST_CLUSTERS:
            few = f"{count} {by}s are too few to resample ({FEWEST_CLUSTERS} needed)"
            raise OptionError(few if asked is None else f"there are fewer than {FEWEST_CLUSTERS} clusters by {by}")
        return by


@dataclass(frozen=True, eq=False)
class Answer:
    """What a method gives.

    Attributes
    ----------
    intervals : mapping of str to mapping of str to (float, float)
        Method -> parameter -> interval in plain units; an open end is infinite. ``"pairs-bca"`` and
        ``"cluster-bca"`` stand beside the percentile intervals of their bootstraps.
    samples : Samples or None
    profiles : mapping of str to Profile
    details : mapping
        What else the method found, JSON-ready.
    warnings : tuple of ScalefitWarning
    """

    intervals: Mapping[str, Intervals]
    samples: Samples | None = None
    profiles: Mapping[str, Profile] = field(default_factory=lambda: MappingProxyType({}))
    details: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    warnings: tuple[ScalefitWarning, ...] = ()


@dataclass(frozen=True)
class Failure:
    """A claim that simulations refuted.

    Attributes
    ----------
    kind : Kind
        The parameters concerned.
    by : str
        Rows were grouped so.
    level : float
        At which it was measured.
    says : str
        What is so at any level.
    measured : str
        The figures, which belong to this level alone.
    """

    kind: Kind
    by: str
    level: float
    says: str
    measured: str


def run_analytic(task: Task, method: str) -> Answer:
    """What `fit` prints, by the clusters asked for."""
    asked = task.settings.by
    fit = task.fit if asked is None else replace(task.fit, errors_by=asked)
    found = fit.intervals(task.settings.level)
    known = {name: found[name] for name in task.names if not math.isnan(found[name][0])}
    if not known:
        few = f"{fit.errors.groups} {fit.errors.by}s are too few for an interval"
        raise OptionError(few if fit.errors.too_few else "the data determine no parameter")
    errors = fit.errors
    details = {"by": errors.by, "groups": errors.groups, "method": errors.method, "degrees": dict(fit.degrees)}
    return Answer({method: known}, details=details)
