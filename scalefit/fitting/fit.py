"""fit(): from a table of runs to the law at its optimum, with a certificate and an honest status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError, OptionError, ScalefitWarning
from scalefit.fitting.centred import CentredLaw, centre
from scalefit.fitting.covariance import Optimum, t_interval
from scalefit.fitting.judge import judge, remarks
from scalefit.fitting.objective import Objective
from scalefit.fitting.search import search
from scalefit.fitting.starts import check_seed
from scalefit.identifiability import Identification, Verdict
from scalefit.laws.constraints import Constraints
from scalefit.laws.law import Law
from scalefit.laws.terms import DEFAULT_LAW
from scalefit.runs import Runs

__all__ = ["Certificate", "Fit", "FitStatus", "fit"]

Array = NDArray[np.float64]

MOST_STARTS = 100_000


class FitStatus(StrEnum):
    """How a fit ended; each member carries its sentence."""

    CONVERGED = "converged"
    AT_BOUND = "at-bound"
    NOT_IDENTIFIED = "not-identified"
    FAILED = "failed"

    @property
    def sentence(self) -> str:
        """What the status means, for people."""
        return _SENTENCES[self]


_SENTENCES = {
    FitStatus.CONVERGED: "The optimum was reached, inside all bounds.",
    FitStatus.AT_BOUND: "The optimum was reached with a parameter at its bound, which is legitimate and named below.",
    FitStatus.NOT_IDENTIFIED: "An optimum was reached, but the data do not determine every parameter.",
    FitStatus.FAILED: "No start reached an optimum; the parameters are the best point seen.",
}


@dataclass(frozen=True)
class Certificate:
    """Why to believe that the optimum was reached.

    Attributes
    ----------
    starts : int
        Random starts made: those asked for, and more where fewer than half of them agreed. Exponents of half of
        them come from 0.15 to 1.5; in the others one at a time comes from 0.002 to 0.05 or from 3 to 9.9.
    starts_at_best : int
        Starts whose predictions agree with the best one's within 1e-7 in ln loss on every row.
    gradient : float
        Largest cosine between the residuals and a column of the Jacobian; zero at an optimum.
    condition : float
        Condition number of the column-scaled Jacobian at the optimum.
    start_rows : int
        Rows on which the starts were made; the best was then polished on all rows.
    others : tuple of (int, float)
        Other points that starts ended at: how many did, and the objective there over the best, less one.
    """

    starts: int
    starts_at_best: int
    gradient: float
    condition: float
    start_rows: int
    others: tuple[tuple[int, float], ...] = ()


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

    @cached_property
    def optimum(self) -> Optimum:
        """The fit to second order, from which errors of any quantity follow."""
        centred = CentredLaw.of(self)
        return Optimum.of(centred, centred.free(self.params))

    @cached_property
    def covariance(self) -> Array:
        """(n_parameters, n_parameters) covariance of ln c, alpha and L0, in the order of `law.parameter_names`."""
        return self.optimum.reported(self.optimum.gauss_newton)

    @cached_property
    def standard_errors(self) -> Mapping[str, float]:
        """Gauss-Newton standard errors; of ln c for a coefficient, nan for what is fixed, at a bound or open."""
        centred, (null, _) = self.optimum.centred, self.optimum.null
        with np.errstate(invalid="ignore"):
            errors = np.sqrt(np.diag(self.covariance)).tolist()
        found = {}
        for name, error in zip(self.law.parameter_names, errors, strict=True):
            j = centred.free_index(name)
            known = j is not None and self.optimum.inside[j] and j not in null
            found[name] = error if known else float("nan")
        return MappingProxyType(found)

    @property
    def at_bound(self) -> tuple[str, ...]:
        """Free parameters that ended at a bound, or as coefficients of terms that vanished."""
        optimum = self.optimum
        return tuple(n for n, inside in zip(optimum.centred.free_names, optimum.inside, strict=True) if not inside)

    @cached_property
    def limits(self) -> Mapping[str, float]:
        """One-sided 95 % limit of each parameter that ended at a bound."""
        return MappingProxyType(self.optimum.limits(0.95))

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

    def interval(self, name: str, level: float = 0.95) -> tuple[float, float]:
        """Interval of a parameter in plain units; nan where its error is not known.

        Student's t on n - p degrees of freedom, formed for ln c of a coefficient.
        """
        parameter = self.law.parameter(name)
        return t_interval(parameter, self.params[name], self.standard_errors[name], self.optimum.degrees, level)

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
    )
