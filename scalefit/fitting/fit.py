"""fit(): from a table of runs to the law at its optimum, with a certificate and an honest status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError, FitError, OptionError, ScalefitWarning
from scalefit.fitting.centred import centre
from scalefit.fitting.derivatives import predict
from scalefit.fitting.estimates import Estimates, estimate
from scalefit.fitting.objective import Objective
from scalefit.fitting.problem import Problem
from scalefit.fitting.solver import Solution, solve
from scalefit.fitting.starts import check_seed, draw_starts
from scalefit.identifiability import Verdict
from scalefit.identifiability.repetitions import exact_duplicates
from scalefit.identifiability.warn import duplicate_warnings
from scalefit.laws.constraints import Constraints
from scalefit.laws.law import DEFAULT_LAW, Law
from scalefit.runs import Runs

__all__ = ["Certificate", "Fit", "FitStatus", "fit"]

Array = NDArray[np.float64]

ROWS_FOR_STARTS = 4096
"""Larger tables are searched on a random sample of so many rows; the best point is polished on all of them."""

DUPLICATES_UP_TO = 20_000
"""Rows among which a fit looks for repeated ones, for the cost; `inspect_runs` looks among any number."""

MOST_STARTS = 100_000

SAME_PREDICTION = 1e-7
"""Starts agree when all their predictions of ln loss do to this."""

_START_TOLERANCE = 1e-10

_SAME_VALUE = 1e-6


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
        Random starts made.
    starts_at_best : int
        Starts whose predictions agree with the best one's within 1e-7 in ln loss on every row.
    gradient : float
        Largest cosine between the residuals and a column of the Jacobian; zero at an optimum.
    condition : float
        Condition number of the column-scaled Jacobian at the optimum.
    start_rows : int
        Rows on which the starts were made; the best was then polished on all rows.
    """

    starts: int
    starts_at_best: int
    gradient: float
    condition: float
    start_rows: int


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted law with everything needed to judge it or to fit it again.

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
    standard_errors : mapping of str to float
        Gauss-Newton standard errors; of ln c for a coefficient, nan for a fixed parameter and one at its bound.
    covariance : (n_parameters, n_parameters) float array
        Of ln c, alpha and L0, in the same order.
    limits : mapping of str to float
        One-sided 95 % limit of each parameter that ended at a bound.
    verdicts : mapping of str to Verdict
        What the data say of each estimated parameter.
    objective_value : float
        Mean penalty over rows.
    status : FitStatus
    certificate : Certificate
    warnings : tuple of ScalefitWarning
    n_starts, seed : int
    """

    law: Law
    runs: Runs
    objective: Objective
    constraints: Constraints
    weights: str | None
    params: Mapping[str, float]
    standard_errors: Mapping[str, float]
    covariance: Array
    limits: Mapping[str, float]
    verdicts: Mapping[str, Verdict]
    objective_value: float
    status: FitStatus
    certificate: Certificate
    warnings: tuple[ScalefitWarning, ...]
    n_starts: int = 32
    seed: int = 0

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
    _require_rows(runs, len(centred.free_names))
    best, at_best, start_rows = _search(centred.problem, n_starts, seed)
    estimates = estimate(centred, best.state, runs)
    certificate = Certificate(n_starts, at_best, estimates.gradient, estimates.condition, start_rows)
    status = _status(bool(best.converged[0]), estimates)
    return Fit(
        law=law,
        runs=runs,
        objective=objective,
        constraints=constraints,
        weights=weights,
        params=estimates.params,
        standard_errors=estimates.standard_errors,
        covariance=estimates.covariance,
        limits=estimates.limits,
        verdicts=estimates.identification.verdicts,
        objective_value=float(best.state.value[0]),
        status=status,
        certificate=certificate,
        warnings=(*runs.warnings, *estimates.identification.warnings, *_remarks(runs, certificate, estimates)),
        n_starts=n_starts,
        seed=seed,
    )


def _require_rows(runs: Runs, n_free: int) -> None:
    if n_free == 0:
        raise OptionError("every parameter is fixed, which leaves nothing to fit; free one")
    if len(runs) < n_free + 1:
        raise DataError(
            f"{runs.origin.name}: {n_free} parameters need at least {n_free + 1} rows, {len(runs)} given; "
            "add runs, fix parameters with --fix, or fit a smaller law"
        )


def _search(problem: Problem, n_starts: int, seed: int) -> tuple[Solution, int, int]:
    """Solve from random starts and polish the best; also the starts that agree with it and the rows searched.

    For a robust objective half of the starts first go to the optimum of its squared form, which has no flat regions.
    """
    rng = np.random.default_rng(seed)
    n = problem.logs.shape[1]
    searched = problem
    if n > ROWS_FOR_STARTS:
        searched = problem.subsample(np.sort(rng.choice(n, ROWS_FOR_STARTS, replace=False)))
    points = draw_starts(searched, n_starts, rng)
    if problem.objective.delta is not None:
        squared = replace(searched, objective=Objective(problem.objective.log))
        half = (n_starts + 1) // 2
        points[:half] = solve(squared, points[:half], tolerance=_START_TOLERANCE, exact=False).state.free
    solution = solve(searched, points, tolerance=_START_TOLERANCE, exact=False)
    points = solution.state.free
    if not np.isfinite(solution.state.value).any():
        raise FitError("no start gave a finite objective; check the columns' values and the constraints")
    best = _best(solution)
    with np.errstate(invalid="ignore", divide="ignore"):
        log_losses = np.log(predict(searched, points))
        agree = np.abs(log_losses - log_losses[best]).max(axis=1) <= SAME_PREDICTION
    polished = solve(problem, points[best : best + 1], exact=False)
    return polished, int(agree.sum()), searched.logs.shape[1]


def _best(solution: Solution) -> int:
    """The start of lowest objective: a solved one, unless one that is not solved got lower than all of them."""
    value = solution.state.value
    solved = np.where(solution.converged, value, np.inf)
    return int(np.argmin(solved if solved.min() <= value.min() * (1 + _SAME_VALUE) else value))


def _status(converged: bool, estimates: Estimates) -> FitStatus:
    if not converged:
        return FitStatus.FAILED
    if estimates.identification.having(Verdict.NOT_DETERMINED):
        return FitStatus.NOT_IDENTIFIED
    return FitStatus.AT_BOUND if estimates.at_bound else FitStatus.CONVERGED


def _remarks(runs: Runs, certificate: Certificate, estimates: Estimates) -> list[ScalefitWarning]:
    remarks = list(estimates.warnings)
    if len(runs) <= DUPLICATES_UP_TO:
        remarks += duplicate_warnings(runs, exact_duplicates(runs))
    if runs.n_runs < len(runs):
        remarks.append(
            ScalefitWarning(
                "rows-share-runs",
                f"the {len(runs)} rows belong to {runs.n_runs} runs, and rows of one run share its luck; the standard "
                "errors take every row for independent.",
                "They are too narrow for what varies between runs only, such as width and depth.",
                {"n_rows": len(runs), "n_runs": runs.n_runs},
            )
        )
    if certificate.starts_at_best < certificate.starts:
        remarks.append(
            ScalefitWarning(
                "starts-disagree",
                f"{certificate.starts_at_best} of {certificate.starts} random starts ended at the best optimum; "
                "the others ended in worse ones or short of any.",
                "The best is reported. Where few agree, run again with --starts 256.",
                {"starts": certificate.starts, "starts_at_best": certificate.starts_at_best},
            )
        )
    return remarks
