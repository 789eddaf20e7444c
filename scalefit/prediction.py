"""Losses of models not trained yet, with an interval for the law's mean and one for a new run.

On the scale t of the objective (ln loss, or the loss itself) the two differ by the scatter of the runs,

    mean:     t(L(x)) +- q sqrt(v),
    new run:  t(L(x)) +- q' sqrt(v + b^2 + s^2(x)),                                                      (1)

with v the variance of the predicted quantity by the fit's model of the noise (`scalefit.fitting.covariance`), b^2 what
rows of one run or shape share and s^2 what they do not, by restricted maximum likelihood. Each interval has its own
degrees of freedom: those of v, and by Satterthwaite (1946) those of the sum. The scatter of the rows follows their
size, s^2(x) = s^2 exp(g' u) with u the standardised ln columns and a normal prior of deviation one on g. A quantity
may be known well where the parameters are not: only a loss whose own interval is open is refused one. With draws of
the parameters, the mean's interval is that of their predictions, and a new run's adds a residual of the fit, drawn at
random and stretched by sqrt(n / (n - p)).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError, ScalefitWarning
from scalefit.fitting.covariance import FEW_ROWS
from scalefit.fitting.fit import Fit
from scalefit.fitting.optimum import Optimum
from scalefit.fitting.problem import jacobian, predict
from scalefit.fitting.student import t_quantile, t_quantiles
from scalefit.identifiability import Verdict
from scalefit.laws.terms import Columns
from scalefit.numbers import show_number
from scalefit.runs import Runs
from scalefit.uncertainty.samples import Samples, check_level

__all__ = ["Prediction", "prediction_interval"]

Array = NDArray[np.float64]

OPEN = 1.0
"""An interval of a loss wider than this in ln loss, a factor of e, is open; of absolute objectives than the smallest
loss."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predicted losses of points.

    Attributes
    ----------
    columns : mapping of str to (n,) float array
        The points, in the law's columns.
    loss : (n,) float array
        By the fitted law, nats per token.
    mean : (n, 2) float array
        Interval for the law's value, the mean of many runs; nan where it is open.
    new_run : (n, 2) float array
        Interval for one new run.
    level : float
    method : str
        ``"wald"``, or what made the draws.
    decades : mapping of str to (n,) float array
        By how many powers of ten each column lies beyond the table: positive above, negative below, 0 inside.
    warnings : tuple of ScalefitWarning
    observed : (n,) float array or None
        Losses that were measured at the points; nan where none was.
    """

    columns: Mapping[str, Array]
    loss: Array
    mean: Array
    new_run: Array
    level: float
    method: str
    decades: Mapping[str, Array]
    warnings: tuple[ScalefitWarning, ...] = ()
    observed: Array | None = None

    @property
    def error(self) -> Array:
        """Measured less predicted, in ln loss; nan where nothing was measured."""
        return np.full(len(self.loss), np.nan) if self.observed is None else np.log(self.observed / self.loss)

    @property
    def held(self) -> NDArray[np.bool_]:
        """Whether the interval of a new run holds the measured loss; false where either is missing."""
        seen = np.full(len(self.loss), np.nan) if self.observed is None else self.observed
        return np.asarray((self.new_run[:, 0] <= seen) & (seen <= self.new_run[:, 1]), dtype=np.bool_)

    @property
    def determined(self) -> bool:
        """Whether the data determine every predicted loss."""
        return not any(warning.code == "prediction-not-determined" for warning in self.warnings)


def prediction_interval(
    fit: Fit, points: Columns, draws: Samples | None = None, level: float = 0.95, *, seed: int = 0
) -> Prediction:
    """Predict losses with intervals, equation (1).

    Parameters
    ----------
    fit : Fit
    points : mapping, Runs or DataFrame
        Must hold the law's columns, in the units of the fitted table.
    draws : Samples, optional
        Of the same law; without them the errors of the fit are used.
    level : float
    seed : int
        Of the residuals added to the draws.

    Raises
    ------
    DataError
        If a column is missing or not positive.

    Examples
    --------
    >>> import scalefit as sf
    >>> chinchilla = sf.fit(sf.load_dataset("chinchilla").drop_worst(40))
    >>> new = prediction_interval(chinchilla, {"width": 4096, "depth": 40, "tokens": 1e12})
    >>> new.mean.round(2).tolist(), new.new_run.round(2).tolist()
    ([[2.02, 2.07]], [[2.01, 2.09]])
    """
    check_level(level)
    columns = _columns(fit, points)
    loss = fit.law.predict(columns, fit.params)
    warnings: tuple[ScalefitWarning, ...] = ()
    if draws is None:
        mean, new_run = intervals_by_errors(fit, columns, level)
        open_points = np.flatnonzero(~np.isfinite(mean).all(axis=1))
        loose = [n for n, v in fit.verdicts.items() if v is Verdict.NOT_DETERMINED]
        if len(open_points):
            warnings = (_not_determined(fit, open_points),)
        elif loose:
            warnings = (_loose_parameters(fit, loose),)
    else:
        rng = np.random.default_rng(seed)
        stretched = fit.residuals * (len(fit.runs) / max(1, fit.optimum.degrees)) ** 0.5
        mean, new_run = intervals_from_draws(fit, columns, draws, stretched, level, rng)
    method = "wald" if draws is None else draws.method
    beyond = MappingProxyType({name: fit.runs.decades_beyond(name, x) for name, x in columns.items()})
    return Prediction(MappingProxyType(columns), loss, mean, new_run, level, method, beyond, warnings)


def _not_determined(fit: Fit, points: NDArray[np.intp]) -> ScalefitWarning:
    named = ", ".join(str(i + 1) for i in points[:5]) + (" and more" if len(points) > 5 else "")
    return ScalefitWarning(
        "prediction-not-determined",
        f"the data do not determine the loss at point {named}: its interval by the law {fit.law} is open.",
        "Fit a smaller law, fix a parameter at a known value, or train the runs that `scalefit suggest` names.",
        {"points": (points + 1).tolist()},
    )


def _loose_parameters(fit: Fit, names: list[str]) -> ScalefitWarning:
    return ScalefitWarning(
        "parameters-not-determined",
        f"the data do not determine {', '.join(names)} of the law {fit.law}; they do determine these losses.",
        "Read the intervals of the losses, not the parameters; far beyond the table they widen.",
        {"parameters": names},
    )


def _columns(fit: Fit, points: Columns) -> dict[str, Array]:
    columns = {}
    for name in fit.law.columns:
        if name not in points:
            raise DataError(f"the points lack the column {name!r} of the law {fit.law}; give all its columns")
        columns[name] = np.atleast_1d(np.asarray(points[name], dtype=np.float64))
        wrong = np.flatnonzero(~(np.isfinite(columns[name]) & (columns[name] > 0)))
        if len(wrong):
            i = int(wrong[0])
            where = points.row_name(i) if isinstance(points, Runs) else f"point {i + 1}"
            value = "missing" if np.isnan(columns[name][i]) else show_number(columns[name][i])
            raise DataError(f"{where}: {name} is {value} and must be a positive number; correct it")
    return dict(zip(columns, np.broadcast_arrays(*columns.values()), strict=True))


def intervals_by_errors(fit: Fit, columns: dict[str, Array], level: float) -> tuple[Array, Array]:
    """Intervals of equation (1); nan where the mean's is open."""
    objective = fit.objective

    def losses(optimum: Optimum) -> tuple[Array, Array]:
        problem = optimum.centred.at(columns)
        return objective.transform(predict(problem, optimum.free[None])[0]), jacobian(problem, optimum.free)

    center, gradients = losses(fit.optimum)
    ends = fit.intervals_of(losses, level)
    found = fit.errors.contrast(gradients)
    scatter, freedom = _scatter(fit, columns)
    total = found.variance + scatter
    with np.errstate(invalid="ignore", divide="ignore"):
        degrees = total**2 / (found.variance**2 / found.degrees + scatter**2 / freedom)
        if fit.errors.method == "gauss-newton":
            degrees = found.degrees  # both parts are one estimate of the noise
        half = t_quantiles(degrees, (1 + level) / 2) * np.sqrt(total)
        reach = np.stack([half, half], axis=1)
        if fit.floor_profile is not None:
            # Ends of a profile are no normal errors: its half widths take the place of the first part.
            own = t_quantile(freedom, (1 + level) / 2) * np.sqrt(scatter)
            reach = np.hypot(ends - center[:, None], own[:, None])
    new_run = center[:, None] + reach * [-1, 1]
    unit = 1.0 if objective.log else float(fit.runs["loss"].min())
    is_open = ~(ends[:, 1] - ends[:, 0] < OPEN * unit)
    ends, new_run = (np.where(is_open[:, None], np.nan, x) for x in (ends, new_run))
    return (np.exp(ends), np.exp(new_run)) if objective.log else (ends, new_run)


def _scatter(fit: Fit, columns: dict[str, Array]) -> tuple[Array, float]:
    """Variance of a new run about the law at points, on the objective's scale, and its degrees of freedom."""
    errors, optimum = fit.errors, fit.optimum
    shared, row, freedom = 0.0, optimum.scores.variance, float(errors.degrees)
    if errors.method == "cluster":
        components = errors.components
        shared, row = components.group, components.row
        freedom = float(components.degrees(np.ones((1, 2)))[0])
    size = np.ones(len(next(iter(columns.values()))))
    if errors.method != "gauss-newton" and errors.groups >= FEW_ROWS:
        size = _relative_variance(fit, columns)
    return shared + row * size, freedom


def _relative_variance(fit: Fit, columns: dict[str, Array]) -> Array:
    """exp(g' u) of equation (1) at points, within the table's range, of mean one over the table.

    g maximises the likelihood of normal residuals with its prior, by Newton's steps.
    """
    logs = np.log(np.stack([fit.runs[name] for name in columns], axis=1))
    mean, spread = logs.mean(axis=0), logs.std(axis=0)
    varied = spread > 1e-9
    u = (logs - mean)[:, varied] / spread[varied]
    points = np.log(np.stack(list(columns.values()), axis=1)).clip(logs.min(axis=0), logs.max(axis=0))
    at = (points - mean)[:, varied] / spread[varied]
    squares = fit.residuals**2 / np.mean(fit.residuals**2)
    slope = np.zeros(u.shape[1])
    for _ in range(20):
        expected = np.exp(u @ slope)
        ratio = squares / (expected * np.mean(squares / expected))
        # The expected curvature of the likelihood, u'u / 2, and the prior's, 1.
        step = np.linalg.solve(u.T @ u / 2 + np.eye(len(slope)), u.T @ (ratio - 1) / 2 - slope)
        slope += step / max(1.0, float(np.abs(step).max(initial=0.0)))
        if np.abs(step).max(initial=0.0) < 1e-8:
            break
    return np.asarray(np.exp(at @ slope) * np.mean(squares / np.exp(u @ slope)))


def intervals_from_draws(
    fit: Fit, columns: dict[str, Array], draws: Samples, residuals: Array, level: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """By quantiles of draws."""
    predicted: Any = fit.objective.transform(draws.predict(columns))
    # residuals are predicted less observed, hence a new run is the prediction less one of them
    observed = predicted - rng.choice(residuals, size=predicted.shape)
    tails = [(1 - level) / 2, (1 + level) / 2]
    mean, new_run = (np.quantile(values, tails, axis=0).T for values in (predicted, observed))
    return (np.exp(mean), np.exp(new_run)) if fit.objective.log else (mean, new_run)
