"""fit(): from a table of runs to the law at its optimum, with a certificate and an honest status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError, OptionError, ScalefitWarning
from scalefit.fitting.centred import CentredLaw, centre
from scalefit.fitting.covariance import AUTO, ROWS, ErrorModel, error_model
from scalefit.fitting.groups import group_labels
from scalefit.fitting.intervals import FloorProfile, Quantities, limits, parameter_intervals, profile_floor
from scalefit.fitting.judge import FitStatus, judge, remarks
from scalefit.fitting.objective import Objective
from scalefit.fitting.optimum import Optimum
from scalefit.fitting.search import Certificate, search
from scalefit.fitting.starts import check_seed
from scalefit.identifiability import Identification, Verdict
from scalefit.laws.constraints import Constraints
from scalefit.laws.law import Law
from scalefit.laws.terms import DEFAULT_LAW
from scalefit.runs import Runs

__all__ = ["Certificate", "Fit", "FitStatus", "fit"]

Array = NDArray[np.float64]

MOST_STARTS = 100_000


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted law with everything needed to judge it or to fit it again.

    What follows from the optimum is computed when it is first asked for.

    Attributes
    ----------
    law, objective, constraints : Law, Objective, Constraints
        What was fitted.
    runs : Runs
        The rows used, complete in the law's columns.
    weights : str or None
        Column of row weights.
    params : mapping of str to float
        Estimates in plain units, in the order of `law.parameter_names`.
    objective_value : float
        Mean penalty over rows.
    converged : bool
        Whether an optimum was reached.
    certificate : Certificate
    n_starts, seed : int
    errors_by : str
        What rows share, as `fit` takes it in `errors`.
    """

    law: Law
    runs: Runs
    objective: Objective
    constraints: Constraints
    weights: str | None
    params: Mapping[str, float]
    objective_value: float
    converged: bool
    certificate: Certificate
    n_starts: int = 32
    seed: int = 0
    errors_by: str = AUTO

    @cached_property
    def optimum(self) -> Optimum:
        """The fit to second order, from which errors of any quantity follow."""
        centred = CentredLaw.of(self)
        return Optimum.of(centred, centred.free(self.params))

    @cached_property
    def errors(self) -> ErrorModel:
        """The model of the noise under every error: `method`, what rows are grouped `by`, how many `groups`."""
        return error_model(self.optimum, self.runs, self.law, self.errors_by)

    @cached_property
    def covariance(self) -> Array:
        """(n_parameters, n_parameters) covariance of ln c, alpha and L0, in the order of `law.parameter_names`."""
        with np.errstate(invalid="ignore"):
            return self.errors.covariance(self.optimum.reporting)

    @property
    def standard_errors(self) -> Mapping[str, float]:
        """Standard errors; of ln c for a coefficient, nan for what is fixed, at a bound or open."""
        return self._errors[0]

    @property
    def degrees(self) -> Mapping[str, float]:
        """Degrees of freedom of each standard error; nan also where groups are too few for an interval."""
        return self._errors[1]

    @cached_property
    def by_row(self) -> Fit:
        """The same fit with Gauss-Newton errors, which take rows for independent and their noise for even."""
        return self if self.errors_by == ROWS else replace(self, errors_by=ROWS)

    @cached_property
    def _errors(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        optimum = self.optimum
        with np.errstate(invalid="ignore", divide="ignore"):
            found = self.errors.contrast(optimum.reporting)
            errors, degrees = np.sqrt(found.variance), found.degrees
        index = [optimum.centred.free_index(name) for name in self.law.parameter_names]
        known = [j is not None and bool(optimum.inside[j]) and j not in optimum.null[0] for j in index]
        both = (
            dict(zip(self.law.parameter_names, np.where(known, x, np.nan).tolist(), strict=True))
            for x in (errors, degrees)
        )
        first, second = map(MappingProxyType, both)
        return first, second

    @property
    def at_bound(self) -> tuple[str, ...]:
        """Free parameters that ended at a bound, or as coefficients of terms that vanished."""
        optimum = self.optimum
        return tuple(n for n, inside in zip(optimum.centred.free_names, optimum.inside, strict=True) if not inside)

    @cached_property
    def limits(self) -> Mapping[str, float]:
        """One-sided 95 % limit of each parameter that ended at a bound."""
        return limits(self, 0.95)

    @cached_property
    def floor_profile(self) -> FloorProfile | None:
        """The law fitted at several floors, where its own is at the lower bound; None elsewhere."""
        if "L0" not in self.at_bound or self.params["L0"] > self.constraints.limits(self.law.parameter("L0"))[0]:
            return None
        return profile_floor(self, 0.95)

    def interval(self, name: str, level: float = 0.95) -> tuple[float, float]:
        """Interval of a parameter in plain units, inside its bounds.

        Student's t on `degrees`, formed for ln c of a coefficient; where the floor is at its bound, the union over
        the floors that fit almost as well. nan where the parameter is fixed or open, or groups are too few; of a
        parameter at its bound it ends at the one-sided limit.
        """
        return self.intervals(level)[name]

    def intervals(self, level: float = 0.95) -> Mapping[str, tuple[float, float]]:
        """`interval` of every parameter."""
        if not 0 < level < 1:
            raise OptionError(f"level is {level:g} and must lie between 0 and 1, for example 0.95")
        return self._intervals if level == 0.95 else parameter_intervals(self, level)

    @cached_property
    def _intervals(self) -> Mapping[str, tuple[float, float]]:
        return parameter_intervals(self, 0.95)

    def intervals_of(self, quantities: Quantities, level: float = 0.95) -> Array:
        """(m, 2) intervals of any quantities of the law, each with its own degrees of freedom.

        Parameters
        ----------
        quantities : callable
            From an `Optimum` to (m,) values, on a scale on which they are nearly normal, and their (m, P) derivatives
            by the free parameters of the centred law.
        level : float
        """
        if self.floor_profile is not None:
            profiled = self.floor_profile if level <= 0.95 else profile_floor(self, level)
            return profiled.intervals(quantities, level)
        values, gradients = quantities(self.optimum)
        with np.errstate(invalid="ignore", divide="ignore"):
            half = self.errors.contrast(gradients).half_width(level)
        return np.stack([values - half, values + half], axis=1)

    @cached_property
    def identification(self) -> Identification:
        """The verdicts and the remarks that explain them."""
        return judge(self)

    @property
    def verdicts(self) -> Mapping[str, Verdict]:
        """What the data say of each estimated parameter."""
        return self.identification.verdicts

    @cached_property
    def warnings(self) -> tuple[ScalefitWarning, ...]:
        """What there is to know before the numbers are used."""
        return remarks(self)

    @property
    def status(self) -> FitStatus:
        """How the fit ended."""
        if not self.converged:
            return FitStatus.FAILED
        if Verdict.NOT_DETERMINED in self.verdicts.values():
            return FitStatus.NOT_IDENTIFIED
        return FitStatus.AT_BOUND if self.at_bound else FitStatus.CONVERGED

    def predict(self, points: Any) -> Array:
        """Predict the loss at other points, nats per token.

        Parameters
        ----------
        points : mapping, Runs or DataFrame
            Must hold the law's columns, in the units of the table that was fitted.

        Examples
        --------
        >>> import scalefit as sf
        >>> law = sf.fit(sf.load_dataset("chinchilla").drop_worst(40))
        >>> law.predict({"width": 4096, "depth": 40, "tokens": 1e12}).round(2).tolist()
        2.05
        """
        return self.law.predict(points, self.params)

    @property
    def answered(self) -> bool:
        """Whether an optimum was reached and the data determine every parameter."""
        return self.status in (FitStatus.CONVERGED, FitStatus.AT_BOUND)

    @property
    def residuals(self) -> Array:
        """(n_rows,) residuals, predicted less observed, in ln loss or nats per token as the objective has them."""
        return self.objective.residuals(self.predict(self.runs), self.runs["loss"])

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value:.5g}" for name, value in self.params.items())
        return f"Fit({self.law} on {self.runs.origin.name}, {len(self.runs)} rows: {values}; {self.status.value})"


def fit(
    runs: Runs,
    law: str | Law = DEFAULT_LAW,
    objective: str | Objective = "log-mse",
    *,
    constraints: Constraints | None = None,
    weights: str | None = None,
    n_starts: int = 32,
    seed: int = 0,
    errors: str = AUTO,
) -> Fit:
    """Fit a law to a table of runs; no initial guess is needed.

    Parameters
    ----------
    runs : Runs
        Rows with a missing cell in a column of the law are left out and listed.
    law : str or Law
        Columns joined by `+`, such as ``"width+depth+tokens"``, ``"params+tokens"``, ``"width+(depth-2)+0"``.
    objective : str or Objective
        ``"log-mse"``, ``"log-huber:1e-3"``, ``"mse"`` or ``"huber:0.01"``.
    constraints : Constraints, optional
        Fixed values, ties and bounds.
    weights : str, optional
        A column of positive row weights; only their ratios matter.
    n_starts : int
        Random starts behind the certificate.
    seed : int
        Of the random starts.
    errors : str
        What the standard errors take for independent: ``"auto"`` what rows share (their run, or their shape where
        several runs have one, or nothing), ``"rows"`` every row, with even noise, or a grouping of your own:
        ``"row"``, ``"run"``, ``"shape"`` or a column.

    Returns
    -------
    Fit
        Also when the data do not determine every parameter; look at `status`, `verdicts` and `warnings`.

    Raises
    ------
    DataError
        If the table has too few rows, or a value of a needed column is not positive.
    OptionError
        If the law, the objective or a constraint is not understood.
    FitError
        If no start gave a finite objective.
    """
    if not isinstance(runs, Runs):
        raise OptionError(
            f"fit takes a Runs, not a {type(runs).__name__}; use Runs.from_csv, Runs.from_frame or load_dataset"
        )
    law, objective = Law.parse(law), Objective.parse(objective)
    constraints = (constraints or Constraints()).checked(law)
    if not 1 <= n_starts <= MOST_STARTS:
        raise OptionError(f"the number of starts is {n_starts} and must be at least 1 and at most {MOST_STARTS}")
    check_seed(seed)
    runs = runs.complete([*law.columns, *([weights] if weights else [])])
    if errors not in (AUTO, ROWS):
        group_labels(runs, law, errors)
    centred = centre(law, runs, objective, constraints, runs[weights] if weights else None)
    n_free = len(centred.free_names)
    if n_free == 0:
        raise OptionError("every parameter is fixed, which leaves nothing to fit; free one")
    if len(runs) < n_free + 1:
        raise DataError(
            f"{runs.origin.name}: {n_free} parameters need at least {n_free + 1} rows, {len(runs)} given; "
            "add runs, fix parameters with --fix, or fit a smaller law"
        )
    found = search(centred.problem, n_starts, seed)
    best, free = found.solution, found.solution.state.free[0]
    optimum = Optimum.of(centred, free)
    return Fit(
        law=law,
        runs=runs,
        objective=objective,
        constraints=constraints,
        weights=weights,
        params=MappingProxyType(centred.params(free)),
        objective_value=float(best.state.value[0]),
        converged=bool(best.converged[0]),
        certificate=Certificate(
            starts=found.starts,
            starts_at_best=found.starts_at_best,
            gradient=optimum.gradient,
            condition=optimum.null[1],
            start_rows=found.start_rows,
            others=found.others,
        ),
        n_starts=n_starts,
        seed=seed,
        errors_by=errors,
    )
