"""The intervals of several methods side by side, with the one to trust and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import MappingProxyType

from scalefit.errors import FitError, OptionError, ScalefitWarning
from scalefit.execute import Progress
from scalefit.fitting.fit import Fit
from scalefit.uncertainty.asymptotic import Asymptotic, asymptotic
from scalefit.uncertainty.bootstrap import bootstrap
from scalefit.uncertainty.compared import Comparison, Interrupted, Interval
from scalefit.uncertainty.groups import FEWEST_CLUSTERS, Plan, choose_method, group_labels
from scalefit.uncertainty.posterior.importance import importance_sample
from scalefit.uncertainty.posterior.posterior import sample_posterior
from scalefit.uncertainty.profile import Profile, profile
from scalefit.uncertainty.samples import Samples
from scalefit.uncertainty.settings import (
    ALL_METHODS,
    BOOTSTRAPS,
    FAST_METHODS,
    POSTERIORS,
    ROW_METHODS,
    ROW_THEORIES,
    THEORIES,
    Settings,
)

__all__ = ["ALL_METHODS", "FAST_METHODS", "Comparison", "Interrupted", "Settings", "compare_intervals"]


def compare_intervals(
    fit: Fit,
    methods: Sequence[str] = ALL_METHODS,
    settings: Settings | None = None,
    progress: Callable[[str], Progress | None] | None = None,
) -> Comparison:
    """Compute the intervals of a fit by several methods.

    Parameters
    ----------
    fit : Fit
    methods : sequence of str
        Of `ALL_METHODS`. ``"cluster"``, ``"wild-cluster"`` and ``"cluster-robust"`` are withheld where there are too
        few clusters.
    settings : Settings, optional
    progress : callable, optional
        Given the name of a method it returns what that method reports its progress to.

    Raises
    ------
    OptionError
        If a method or the grouping is unknown.
    Interrupted
        On Ctrl-C; it carries what was finished.
    """
    settings = settings or Settings()
    for method in methods:
        if method not in ALL_METHODS:
            raise OptionError(f"unknown method {method!r}; choose of {', '.join(ALL_METHODS)}, or all")
    if settings.by is not None:
        group_labels(fit, settings.by)
    run = _Run(fit, settings, progress)
    waiting = list(dict.fromkeys(methods))
    try:
        while waiting and not run.cut_short:
            run.try_to_add(waiting[0])
            del waiting[0]
    except KeyboardInterrupt:
        run.withheld |= dict.fromkeys(waiting, "interrupted before it was finished")
        raise Interrupted(run.comparison()) from None
    if run.cut_short:
        run.withheld |= dict.fromkeys(waiting, "interrupted before it was begun")
        raise Interrupted(run.comparison())
    return run.comparison()


class _Run:
    """Collects what the methods give; lives only inside `compare_intervals`."""

    def __init__(self, fit: Fit, settings: Settings, progress: Callable[[str], Progress | None] | None) -> None:
        self.fit, self.settings, self.progress = fit, settings, progress
        self.found = choose_method(fit)
        self.plan = self.found if settings.by is None else _asked(settings.by, self.found)
        self.by = self.plan.by if self.plan.by != "row" else None
        self.theory: Asymptotic | None = None
        self.intervals: dict[str, dict[str, Interval]] = {}
        self.samples: dict[str, Samples] = {}
        self.profiles: dict[str, Profile] = {}
        self.withheld: dict[str, str] = {}
        self.reservations: dict[str, str] = {}
        self.warnings: list[ScalefitWarning] = []

    @property
    def free(self) -> list[str]:
        """Parameters that have an interval."""
        constraints = self.fit.constraints
        wanted = self.settings.names or tuple(self.fit.params)
        return [n for n in wanted if constraints.ties.get(n, n) not in constraints.fixed]

    @property
    def cut_short(self) -> bool:
        """Whether Ctrl-C ended a bootstrap before all of its replicates."""
        return any(warning.code == "interrupted" for warning in self.warnings)

    def try_to_add(self, method: str) -> None:
        """Run one method, or note why it gives nothing on this table."""
        try:
            self.add(method)
        except (FitError, OptionError) as error:
            self.withheld[method] = str(error)

    def add(self, method: str) -> None:
        """Run one method."""
        rows_share_runs = self.fit.runs.n_runs < len(self.fit.runs)
        if method in ROW_THEORIES and rows_share_runs:
            self.withheld[method] = "it takes every row for independent, and here rows share runs"
            return
        shared = self.by or self.found.by
        if (method in ROW_METHODS and shared != "row") or (method in POSTERIORS and shared == "shape"):
            self.reservations[method] = f"it takes rows of one {shared} for independent, which they are not"
        report = self.progress(method) if self.progress else None
        if method in BOOTSTRAPS:
            self._add_bootstrap(method, report)
        elif method == "profile":
            self._add_profile(report)
        elif method in THEORIES:
            self._add_theory(method)
        elif method == "posterior":
            self._add_samples(method, sample_posterior(self.fit, seed=self.settings.seed, progress=report))
        elif method == "importance":
            self._add_samples(method, importance_sample(self.fit, seed=self.settings.seed))
        elif self.by in (None, "run"):
            self.withheld[method] = "it is for rows that depend within a shape"
        else:
            self._add_samples(method, importance_sample(self.fit, seed=self.settings.seed, by=str(self.by)))

    def _add_bootstrap(self, method: str, report: Progress | None) -> None:
        clustered = method in ("cluster", "wild-cluster")
        settings = self.settings
        by = (self.by or ("shape" if self._has_shapes() else None)) if clustered else None
        if clustered and by is None:
            self.withheld[method] = self._no_clusters()
            return
        draws = bootstrap(
            self.fit,
            settings.n_resamples,
            method=method,
            by=by,
            seed=settings.seed,
            level=settings.level,
            workers=settings.workers,
            progress=report,
        )
        self._add_samples(method, draws)
        bca = {n: draws.interval(n, kind="bca") for n in self.free if n in draws.corrections}
        if bca:
            self.intervals[f"{method}-bca"] = bca

    def _no_clusters(self) -> str:
        if self.settings.by == "row":
            return "rows are taken one by one, as asked"
        if self.by is not None:
            return f"there are fewer than {FEWEST_CLUSTERS} clusters by {self.by}"
        if self.fit.runs.n_runs < len(self.fit.runs):
            return f"{self.fit.runs.n_runs} runs are too few to resample ({FEWEST_CLUSTERS} needed)"
        return f"there are no {FEWEST_CLUSTERS} runs or shapes that rows share"

    def _has_shapes(self) -> bool:
        if self.settings.by == "row":
            return False
        try:
            labels = group_labels(self.fit, "shape")
        except OptionError:
            return False
        return FEWEST_CLUSTERS <= int(labels.max()) + 1 < len(labels)

    def _add_samples(self, method: str, draws: Samples) -> None:
        self.samples[method] = draws
        self.intervals[method] = {n: draws.interval(n, self.settings.level) for n in self.free}
        if draws.reservations:
            reasons = [self.reservations[method]] if method in self.reservations else []
            self.reservations[method] = "; ".join(dict.fromkeys([*reasons, *draws.reservations.values()]))
        self.warnings += [w for w in draws.warnings if w not in self.warnings]

    def _add_profile(self, report: Progress | None) -> None:
        theory = self._theory()
        profiles = {}
        for i, name in enumerate(self.free):
            profiles[name] = profile(self.fit, name, self.settings.level, theory=theory)
            if report is not None:
                report(i + 1, len(self.free))
        self.profiles = profiles
        self.intervals["profile"] = {name: found.interval for name, found in self.profiles.items()}

    def _add_theory(self, method: str) -> None:
        theory = self._theory()
        kind = THEORIES[method]
        if kind not in theory.covariances:
            self.withheld[method] = self._no_clusters()
            return
        level = self.settings.level
        all_of_them = {n: theory.interval(n, kind, level) for n in self.free}
        self.intervals[method] = {n: ends for n, ends in all_of_them.items() if not math.isnan(ends[0])}

    def _theory(self) -> Asymptotic:
        if self.theory is None:
            self.theory = asymptotic(
                self.fit, by=self.plan.by, seed=self.settings.seed, simulations=self.settings.simulations
            )
            self.warnings += self.theory.warnings
        return self.theory

    def comparison(self) -> Comparison:
        """Everything collected."""
        return Comparison(
            fit=self.fit,
            settings=self.settings,
            plan=self.plan,
            default=self.plan.method,
            intervals=MappingProxyType(self.intervals),
            samples=MappingProxyType(self.samples),
            profiles=MappingProxyType(self.profiles),
            theory=self.theory,
            withheld=MappingProxyType(self.withheld),
            reservations=MappingProxyType(self.reservations),
            warnings=(*self.fit.warnings, *self.warnings),
        )


def _asked(by: str, found: Plan) -> Plan:
    """The plan for clusters that were asked for."""
    if by == "row":
        return Plan("pairs", by, "rows are taken one by one, as asked", found.tests)
    return Plan("cluster", by, f"rows are grouped by {by}, as asked", found.tests)
