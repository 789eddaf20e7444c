"""The table of uncertainty methods: what each assumes, how it is run, and where its claims are known to fail.

A new method is a function in a file of its own and a row of `METHODS`: the command line, `compare_intervals`,
`simulate` and the intervals of optima read the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from scalefit.errors import OptionError
from scalefit.laws.parameter import Kind
from scalefit.uncertainty.bootstrap import bootstrap
from scalefit.uncertainty.groups import FEWEST_CLUSTERS, Grouping, group_labels
from scalefit.uncertainty.mixed import fit_mixed
from scalefit.uncertainty.posterior.importance import importance_sample
from scalefit.uncertainty.posterior.posterior import sample_posterior
from scalefit.uncertainty.profile import profile
from scalefit.uncertainty.samples import Samples
from scalefit.uncertainty.task import Answer, Failure, Task, run_analytic

if TYPE_CHECKING:
    pass

__all__ = ["ALL_METHODS", "FAST_METHODS", "METHODS", "Failure", "Method"]


@dataclass(frozen=True)
class Method:
    """A row of the table.

    Attributes
    ----------
    name : str
    assumes : str
        In words, for the documentation.
    run : callable
        From a `Task` and the method's name to an `Answer`; `FitError` and `OptionError` say why there is none.
    independent : str
        Largest unit within which rows may depend on each other: ``"row"`` (they may not), ``"run"`` or ``"any"``.
    resamples : str
        What is redrawn: ``"rows"``, ``"clusters"``, ``"residuals"``, ``"signs"``, or nothing.
    draws : bool
        Whether it gives `Samples`.
    fast : bool
        Whether it belongs to the fast set.
    withheld_in_runs : bool
        Whether nothing sensible remains of it where rows share runs.
    conditional : bool
        Whether its errors hold for the values of parameters at a bound alone.
    failures : tuple of Failure
    """

    name: str
    assumes: str
    run: Callable[[Task, str], Answer]
    independent: str = "row"
    resamples: str = ""
    draws: bool = False
    fast: bool = False
    withheld_in_runs: bool = False
    conditional: bool = False
    failures: tuple[Failure, ...] = ()

    def answer(self, task: Task) -> Answer:
        """Run the method.

        Raises
        ------
        FitError, OptionError
            If it gives nothing on this table; the message says why.
        """
        if self.withheld_in_runs and task.fit.runs.n_runs < len(task.fit.runs):
            raise OptionError("it takes every row for independent, and here rows share runs")
        return self.run(task, self.name)

    def reservations(self, task: Task, found: Grouping, label: str, answer: Answer) -> dict[str, str]:
        """Parameter -> why its interval is not claimed to hold its level on this table.

        Parameters
        ----------
        task : Task
        found : Grouping
            What the table itself says, whatever was asked.
        label : str
            Of the intervals: the method's name, or that of its corrected form, which failures do not concern.
        answer : Answer
            Of the method: draws may carry doubts of their own.
        """
        samples = answer.samples
        by = task.grouping.by if task.grouping.by != "row" else found.by
        doubts: dict[str, list[str]] = {name: [] for name in task.names}
        independent = "row" if answer.details.get("by") == "row" else self.independent
        if by != "row" and independent != "any" and not (independent == by == "run"):
            likely = by == "run" or (by in found.tests and found.tests[by].dependent)
            are = "are not" if likely else "may not be"
            for reasons in doubts.values():
                reasons.append(f"it takes rows of one {by} for independent, which they {are}")
        if self.conditional and task.fit.at_bound:
            held = ", ".join(task.fit.at_bound)
            for reasons in doubts.values():
                reasons.append(f"it takes {held} for known, which only came to a bound")
        for name, reason in (samples.reservations if samples is not None else {}).items():
            if name in doubts:
                doubts[name].append(reason)
        resampled = samples.diagnostics.get("by", by) if samples is not None else by
        for failure in self.failures if label == self.name else ():
            said = f"{failure.says} ({failure.measured})" if failure.level == task.settings.level else failure.says
            for name in doubts:
                if failure.by == resampled and task.fit.law.parameter(name).kind is failure.kind:
                    doubts[name].append(said)
        return {name: "; ".join(dict.fromkeys(reasons)) for name, reasons in doubts.items() if reasons}


def _drawn(task: Task, method: str, samples: Samples) -> Answer:
    intervals = {method: {name: samples.interval(name, task.settings.level) for name in task.names}}
    return Answer(intervals, samples, warnings=samples.warnings)


def run_bootstrap(task: Task, method: str) -> Answer:
    settings = task.settings
    draws = bootstrap(
        task.fit,
        settings.n_resamples,
        method=method,
        by=task.clusters() if METHODS[method].independent == "any" else None,
        seed=settings.seed,
        level=settings.level,
        workers=settings.workers,
        progress=task.report(method),
    )
    answer = _drawn(task, method, draws)
    corrected = {n: draws.interval(n, settings.level, "bca") for n in task.names if n in draws.corrections}
    return (
        Answer({**answer.intervals, f"{method}-bca": corrected}, draws, warnings=draws.warnings)
        if corrected
        else answer
    )


def run_profile(task: Task, method: str) -> Answer:
    report, profiles = task.report(method), {}
    for i, name in enumerate(task.names):
        profiles[name] = profile(task.fit, name, task.settings.level)
        if report is not None:
            report(i + 1, len(task.names))
    intervals = {name: found.interval for name, found in profiles.items()}
    return Answer({method: intervals}, profiles=profiles, warnings=task.theory.warnings)


def by_theory(kind: str) -> Callable[[Task, str], Answer]:
    def run(task: Task, method: str) -> Answer:
        if kind not in task.theory.covariances:
            task.clusters()
            raise OptionError(f"there are no {FEWEST_CLUSTERS} runs or shapes that rows share")
        found = {name: task.theory.interval(name, kind, task.settings.level) for name in task.names}
        known = {name: ends for name, ends in found.items() if not math.isnan(ends[0])}
        return Answer({method: known}, warnings=task.theory.warnings)

    return run


def run_mixed(task: Task, method: str) -> Answer:
    by = task.grouping.by
    if by == "row":
        raise OptionError("no two rows share a run or a shape")
    found = fit_mixed(task.fit, group_labels(task.fit, by))
    limits = {name: task.fit.constraints.limits(task.fit.law.parameter(name)) for name in task.names}
    ends = {name: found.interval(name, task.settings.level) for name in task.names}
    inside = {n: (max(low, limits[n][0]), min(high, limits[n][1])) for n, (low, high) in ends.items() if low == low}
    details = {
        "by": by,
        "deviations": {by: found.components.shared, "row": found.components.row},
        "estimates": dict(found.params),
        "degrees": dict(found.degrees),
    }
    return Answer({method: inside}, details=details)


def run_posterior(task: Task, method: str) -> Answer:
    return _drawn(task, method, sample_posterior(task.fit, seed=task.settings.seed, progress=task.report(method)))


def run_importance(task: Task, method: str) -> Answer:
    return _drawn(task, method, importance_sample(task.fit, seed=task.settings.seed))


def run_importance_cluster(task: Task, method: str) -> Answer:
    by = task.grouping.by
    if by in ("row", "run"):
        raise OptionError("it is for rows that depend within a shape")
    return _drawn(task, method, importance_sample(task.fit, seed=task.settings.seed, by=by))


_FLOOR_BY_SHAPE = Failure(
    Kind.FLOOR,
    "shape",
    0.95,
    "percentile intervals of L0 by shape are too narrow, where BCa ones are less so",
    "they held the truth in 89 % of simulated tables, BCa ones in 94 %",
)
"""On the rows of the Chinchilla table, 400 tables (the guide to intervals)."""

_WILD_FLOOR_BY_SHAPE = Failure(
    Kind.FLOOR,
    "shape",
    0.95,
    "intervals of L0 by shape are too narrow",
    "they held the truth in 86 % of simulated tables",
)

FEWEST_ROWS = 10
"""Rows a parameter from which replicates scatter enough: below, quantiles know no Student's t."""


def preferred_methods(task: Task) -> tuple[str, ...]:
    """The methods to trust on a table, the first that is claimed for a parameter first.

    A bootstrap where it is as good as what `fit` prints: clusters from 15 up, rows that share nothing and are many.
    """
    if task.grouping.by != "row":
        return ("cluster", "analytic") if task.grouping.n_groups >= FEWEST_CLUSTERS else ("analytic",)
    many = len(task.fit.runs) >= FEWEST_ROWS * len(task.fit.optimum.free)
    return ("pairs", "analytic") if many else ("analytic",)


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        method.name: method
        for method in (
            Method("pairs", "rows are independent", run_bootstrap, "row", "rows", draws=True, fast=True),
            Method("analytic", "runs, shapes or rows are independent: what fit prints", run_analytic, "any", fast=True),
            Method(
                "cluster",
                "runs (or shapes) are independent, at least 15 of them",
                run_bootstrap,
                "any",
                "clusters",
                draws=True,
                fast=True,
                failures=(_FLOOR_BY_SHAPE,),
            ),
            Method("residual", "the law holds, rows are equally noisy", run_bootstrap, "row", "residuals", draws=True),
            Method("wild", "the law holds, rows are independent", run_bootstrap, "row", "signs", draws=True),
            Method(
                "wild-cluster",
                "the law holds, clusters are independent",
                run_bootstrap,
                "any",
                "signs",
                draws=True,
                failures=(_WILD_FLOOR_BY_SHAPE,),
            ),
            Method(
                "profile",
                "the law holds, noise is normal and rows are independent; a robust penalty is calibrated",
                run_profile,
                fast=True,
                withheld_in_runs=True,
            ),
            Method(
                "wald",
                "as profile, and a parabola",
                by_theory("gauss-newton"),
                fast=True,
                withheld_in_runs=True,
                conditional=True,
            ),
            Method(
                "observed", "as profile, and a parabola", by_theory("observed"), withheld_in_runs=True, conditional=True
            ),
            Method(
                "robust", "rows are independent, and many", by_theory("robust"), withheld_in_runs=True, conditional=True
            ),
            Method(
                "cluster-robust", "clusters are independent, and many", by_theory("cluster"), "any", conditional=True
            ),
            Method(
                "mixed",
                "normal noise, an effect that rows of a run or shape share",
                run_mixed,
                "any",
                fast=True,
                conditional=True,
            ),
            Method("posterior", "normal noise, a run effect, priors", run_posterior, "run", draws=True),
            Method("importance", "as posterior", run_importance, "run", draws=True, fast=True),
            Method("importance-cluster", "as posterior, by shape", run_importance_cluster, "any", draws=True),
        )
    }
)

ALL_METHODS = tuple(METHODS)
FAST_METHODS = tuple(name for name, method in METHODS.items() if method.fast)
