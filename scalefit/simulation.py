"""What a planned table would tell: coverage, bias and power, by fitting simulated tables of it.

The losses of a simulated table are those of a law with normal noise on the scale t of the objective (ln loss, or the
loss itself),

    t(loss_i) = t(L(x_i)) + b_g(i) + e_i,    e_i ~ N(0, noise^2),    b_g ~ N(0, group_noise^2),      (1)

where rows of one group (run or shape) share b. Shares of tables carry exact binomial errors (Clopper & Pearson 1934).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from scalefit.errors import FitError, OptionError
from scalefit.execute import Progress, run_jobs
from scalefit.fitting.fit import Fit, fit
from scalefit.fitting.groups import group_labels
from scalefit.fitting.objective import Objective
from scalefit.identifiability import Verdict
from scalefit.laws.law import Law
from scalefit.runs import Runs
from scalefit.uncertainty.comparison import ALL_METHODS, Settings, compare_intervals

__all__ = ["Scenario", "Share", "Simulation", "simulate"]

Array = NDArray[np.float64]

TABLES_A_PIECE = 10
"""Tables in one piece of work: fixed, so that workers do not change results."""

STARTS = 8


@dataclass(frozen=True)
class Share:
    """How many of n tables had a property.

    Attributes
    ----------
    hits, n : int
    """

    hits: int
    n: int

    @property
    def value(self) -> float:
        """hits / n; nan of no tables."""
        return self.hits / self.n if self.n else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """Exact 95 % binomial interval."""
        low = float(betaincinv(self.hits, self.n - self.hits + 1, 0.025)) if self.hits else 0.0
        high = float(betaincinv(self.hits + 1, self.n - self.hits, 0.975)) if self.hits < self.n else 1.0
        return low, high


@dataclass(frozen=True)
class Scenario:
    """The truth behind simulated tables.

    Attributes
    ----------
    design : Runs
        The planned rows; their losses are not used.
    law : Law
    params : mapping of str to float
        The law's parameters, in plain units.
    objective : Objective
        What the tables are fitted with; its scale is that of the noise.
    noise, group_noise : float
        Standard deviations of equation (1).
    by : str
        Groups that share noise: ``"run"``, ``"shape"`` or a column.
    """

    design: Runs
    law: Law
    params: Mapping[str, float]
    objective: Objective = field(default_factory=Objective)
    noise: float = 0.005
    group_noise: float = 0.0
    by: str = "shape"

    @classmethod
    def of(cls, fitted: Fit, design: Runs | None = None) -> Scenario:
        """The truth that a fit found, with the noise of its rows and what those of a run or shape share.

        Parameters
        ----------
        fitted : Fit
        design : Runs, optional
            The planned rows, in place of the fit's own.
        """
        errors, by = fitted.errors, fitted.errors.by
        row, group = errors.optimum.scores.variance, 0.0
        if errors.method == "cluster":
            row, group = errors.components.row, errors.components.group
        return cls(
            fitted.runs if design is None else design,
            fitted.law,
            fitted.params,
            fitted.objective,
            math.sqrt(row),
            math.sqrt(group),
            "run" if by == "row" else by,
        )

    def __post_init__(self) -> None:
        missing = [name for name in self.law.parameter_names if name not in self.params]
        if missing:
            raise OptionError(f"the truth lacks {', '.join(missing)}; the law {self.law} needs a value for each")
        if self.noise < 0 or self.group_noise < 0 or self.noise + self.group_noise == 0:
            raise OptionError(f"noise is {self.noise:g} and group noise {self.group_noise:g}; one must be positive")

    def table(self, rng: np.random.Generator) -> Runs:
        """Simulate one table by equation (1)."""
        truth = self.law.predict(self.design, self.params)
        errors = self.noise * rng.standard_normal(len(self.design))
        if self.group_noise:
            labels = group_labels(self.design, self.law, self.by)
            errors += self.group_noise * rng.standard_normal(int(labels.max()) + 1)[labels]
        loss = truth * np.exp(errors) if self.objective.log else truth + errors
        columns = {**self.design.table.columns, "loss": loss}
        return Runs(replace(self.design.table, columns=MappingProxyType(columns), warnings=()))


@dataclass(frozen=True)
class Simulation:
    """What the simulated tables showed.

    Attributes
    ----------
    scenario : Scenario
    level : float
    n_tables : int
        Tables that could be fitted.
    estimates : (n_tables, n_parameters) float array
    coverage : mapping of str to mapping of str to Share
        Method -> parameter -> tables whose interval held the truth.
    widths : mapping of str to mapping of str to float
        Method -> parameter -> median width (of ln c for a coefficient); infinite where half the intervals are open.
    power : mapping of str to mapping of str to Share
        Method -> parameter -> tables whose interval left out the value in `against`.
    against : mapping of str to float
    determined : mapping of str to Share
        Parameter -> tables whose fit calls it determined.
    """

    scenario: Scenario
    level: float
    n_tables: int
    estimates: Array
    coverage: Mapping[str, Mapping[str, Share]]
    widths: Mapping[str, Mapping[str, float]]
    power: Mapping[str, Mapping[str, Share]]
    against: Mapping[str, float]
    determined: Mapping[str, Share]

    def bias(self, name: str) -> tuple[float, float]:
        """Mean error of the estimates of a parameter and its standard error; of ln c for a coefficient."""
        values = self.estimates[:, self.scenario.law.parameter_names.index(name)]
        truth = self.scenario.params[name]
        parameter = self.scenario.law.parameter(name)
        errors = parameter.inner(values) - parameter.inner(truth)
        return float(errors.mean()), float(errors.std(ddof=1) / np.sqrt(len(errors)))

    def spread(self, name: str) -> float:
        """Standard deviation of the estimates of a parameter; of ln c for a coefficient."""
        values = self.estimates[:, self.scenario.law.parameter_names.index(name)]
        return float(np.std(self.scenario.law.parameter(name).inner(values), ddof=1))


@dataclass(frozen=True)
class _Table:
    """One simulated table's answers."""

    params: Mapping[str, float]
    verdicts: Mapping[str, Verdict]
    intervals: Mapping[str, Mapping[str, tuple[float, float]]]


def simulate(
    scenario: Scenario,
    n_tables: int = 200,
    *,
    methods: Sequence[str] = ("analytic", "profile", "pairs"),
    against: Mapping[str, float] | None = None,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Simulation:
    """Simulate a planned table many times and fit each.

    Parameters
    ----------
    scenario : Scenario
    n_tables : int
        200 know a coverage of 95 % to 1.5 %.
    methods : sequence of str
        As in `scalefit.uncertainty.comparison.ALL_METHODS`.
    against : mapping of str to float, optional
        Values whose exclusion by the interval counts as power, such as ``{"alpha_depth": 1.0}``.
    settings : Settings, optional
        Level, replicates, seed, workers and the parameters to look at.
    progress : callable, optional
        Called with the pieces of work done and their number.

    Raises
    ------
    OptionError
        If a method or a parameter is unknown.
    FitError
        If no table could be fitted.
    """
    settings = settings or Settings()
    against = dict(against or {})
    for name in (*against, *settings.names):
        if name not in scenario.law.parameter_names:
            raise OptionError(f"the law {scenario.law} has no parameter {name!r}")
    for method in methods:
        if method not in ALL_METHODS:
            raise OptionError(f"unknown method {method!r}; choose of {', '.join(ALL_METHODS)}")
    pieces = [min(TABLES_A_PIECE, n_tables - first) for first in range(0, n_tables, TABLES_A_PIECE)]
    sequences = np.random.SeedSequence(settings.seed).spawn(len(pieces))
    inner = replace(settings, workers=0, simulations=0)
    portable = _portable(scenario)
    jobs = [(portable, tuple(methods), inner, s, n) for s, n in zip(sequences, pieces, strict=True)]
    tables = [table for piece in run_jobs(_simulate_piece, jobs, settings.workers, progress) for table in piece]
    if not tables:
        raise FitError("no simulated table could be fitted; the design has too few rows or levels for this law")
    return _summarised(scenario, settings, tables, against)


def _portable(scenario: Scenario) -> Scenario:
    """The same scenario in what can be sent to another process: plain columns instead of a table's whole history."""
    design = scenario.design
    names = [*scenario.law.columns, *([scenario.by] if scenario.by in design else [])]
    columns = {name: design[name] for name in names if name != "run"}
    columns["loss"] = scenario.law.predict(design, scenario.params)
    if design.has_runs:
        columns["run"] = design.run_ids.astype(np.float64)
    return replace(scenario, design=Runs.from_columns(columns, design.origin.name), params=dict(scenario.params))


def _simulate_piece(job: tuple[Scenario, tuple[str, ...], Settings, np.random.SeedSequence, int]) -> list[_Table]:
    scenario, methods, settings, sequence, n_tables = job
    rng = np.random.default_rng(sequence)
    tables = []
    for _ in range(n_tables):
        seed = int(rng.integers(2**31))
        try:
            fitted = fit(scenario.table(rng), scenario.law, scenario.objective, n_starts=STARTS, seed=seed)
        except FitError:
            continue
        found = compare_intervals(fitted, methods, replace(settings, seed=seed))
        tables.append(
            _Table(dict(fitted.params), dict(fitted.verdicts), {m: dict(i) for m, i in found.intervals.items()})
        )
    return tables


def _summarised(scenario: Scenario, settings: Settings, tables: list[_Table], against: dict[str, float]) -> Simulation:
    names = scenario.law.parameter_names
    methods = list(dict.fromkeys(m for t in tables for m in t.intervals))
    coverage: dict[str, dict[str, Share]] = {}
    widths: dict[str, dict[str, float]] = {}
    power: dict[str, dict[str, Share]] = {}
    for method in methods:
        for name in settings.names or names:
            ends = np.array([t.intervals[method][name] for t in tables if name in t.intervals.get(method, {})])
            if not len(ends):
                continue
            truth = scenario.params[name]
            coverage.setdefault(method, {})[name] = Share(int(_holds(ends, truth).sum()), len(ends))
            widths.setdefault(method, {})[name] = _median_width(ends, scenario.law.parameter(name).in_logs)
            if name in against:
                power.setdefault(method, {})[name] = Share(int((~_holds(ends, against[name])).sum()), len(ends))
    verdicts = {
        name: Share(sum(t.verdicts.get(name) is Verdict.DETERMINED for t in tables), len(tables)) for name in names
    }
    estimates = np.array([[t.params[name] for name in names] for t in tables])
    return Simulation(scenario, settings.level, len(tables), estimates, coverage, widths, power, against, verdicts)


def _holds(ends: Array, value: float) -> NDArray[np.bool_]:
    return np.asarray((ends[:, 0] <= value) & (value <= ends[:, 1]))


def _median_width(ends: Array, log: bool) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        widths = np.diff(np.log(np.maximum(ends, 0)) if log else ends, axis=1)[:, 0]
    return float(np.median(np.where(np.isnan(widths), np.inf, widths)))
