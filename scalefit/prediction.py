"""Losses of models not trained yet, with an interval for the law's mean and one for a new run.

On the scale t of the objective (ln loss, or the loss itself) the two differ by the scatter of the runs,

    mean:     t(L(x)) +- q sqrt(g' V g),
    new run:  t(L(x)) +- q sqrt(g' V g + s^2),    s^2 = sum_i r_i^2 / (n - p),                   (1)

with V the covariance of the parameters, g the derivatives of t(L) by them and q the t quantile at n - p degrees of
freedom (Seber & Wild 1989, section 5.1). With draws of the parameters, the mean's interval is that of their
predictions, and a new run's adds a residual of the fit, drawn at random and stretched by sqrt(n / (n - p)).
The formula takes rows for independent, also those of one run or shape, and needs a fit whose parameters are all
determined: elsewhere V does not exist, and the loss off the table's own rows is anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefit.errors import DataError, ScalefitWarning
from scalefit.fitting.fit import Fit
from scalefit.fitting.student import t_quantile
from scalefit.identifiability import Verdict
from scalefit.laws.terms import Columns
from scalefit.numbers import show_number
from scalefit.runs import Runs
from scalefit.uncertainty.samples import Samples, check_level

__all__ = ["Prediction", "decades_beyond", "prediction_interval"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predicted losses of points.

    Attributes
    ----------
    columns : mapping of str to (n,) float array
        The points, in the law's columns.
    loss : (n,) float array
        By the fitted law, nats per token; nan, as the intervals are, where `determined` is false.
    mean : (n, 2) float array
        Interval for the law's value, the mean of many runs.
    new_run : (n, 2) float array
        Interval for one new run.
    level : float
    method : str
        ``"wald"``, or what made the draws.
    decades : mapping of str to (n,) float array
        By how many powers of ten each column lies beyond the table: positive above, negative below, 0 inside.
    warnings : tuple of ScalefitWarning
    """

    columns: Mapping[str, Array]
    loss: Array
    mean: Array
    new_run: Array
    level: float
    method: str
    decades: Mapping[str, Array]
    warnings: tuple[ScalefitWarning, ...] = ()

    @property
    def determined(self) -> bool:
        """Whether the data determine the law that predicts."""
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
        Of the same law; without them the covariance of the fit is used, if its parameters are determined.
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
    ([[2.03, 2.06]], [[2.02, 2.07]])
    """
    check_level(level)
    columns = _columns(fit, points)
    loss = fit.law.predict(columns, fit.params)
    residuals = fit.residuals
    freedom = max(1, fit.optimum.degrees)
    warnings: tuple[ScalefitWarning, ...] = ()
    if draws is None and (names := [n for n, v in fit.verdicts.items() if v is Verdict.NOT_DETERMINED]):
        warnings = (_not_determined(fit, names),)
        loss, mean, new_run = (np.full((len(loss), *ends), np.nan) for ends in ((), (2,), (2,)))
    elif draws is None:
        mean, new_run = _wald(fit, columns, loss, float(residuals @ residuals) / freedom, level, freedom)
    else:
        rng = np.random.default_rng(seed)
        mean, new_run = _from_draws(fit, columns, draws, residuals * (len(residuals) / freedom) ** 0.5, level, rng)
    method = "wald" if draws is None else draws.method
    beyond = MappingProxyType({name: decades_beyond(x, fit.runs[name]) for name, x in columns.items()})
    return Prediction(MappingProxyType(columns), loss, mean, new_run, level, method, beyond, warnings)


def decades_beyond(values: ArrayLike, column: Array) -> Array:
    """Powers of ten by which values lie above a column's largest (positive) or below its smallest (negative)."""
    above, below = (np.log10(np.asarray(values) / end) for end in (column.max(), column.min()))
    return np.asarray(np.maximum(0.0, above) + np.minimum(0.0, below))


def _not_determined(fit: Fit, names: list[str]) -> ScalefitWarning:
    return ScalefitWarning(
        "prediction-not-determined",
        f"the data do not determine {', '.join(names)} of the law {fit.law}, so that it predicts nothing.",
        "Fit a smaller law, fix a parameter at a known value, or train the runs that `scalefit suggest` names.",
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


def _wald(
    fit: Fit, columns: dict[str, Array], loss: Array, variance: float, level: float, freedom: int
) -> tuple[Array, Array]:
    gradient = fit.law.jacobian(columns, fit.params)
    # the covariance is that of ln c, alpha and L0: d L / d ln c = c d L / d c
    scale = np.array([fit.params[each.name] if each.in_logs else 1.0 for each in fit.law.parameters])
    gradient = gradient * scale / (loss[:, None] if fit.objective.log else 1.0)
    spread = np.einsum("np,pq,nq->n", gradient, fit.covariance, gradient)
    quantile = t_quantile(freedom, (1 + level) / 2)

    def around(total: Array) -> Array:
        half = quantile * np.sqrt(total)
        ends = np.stack([fit.objective.transform(loss) - half, fit.objective.transform(loss) + half], axis=1)
        return np.exp(ends) if fit.objective.log else ends

    return around(spread), around(spread + variance)


def _from_draws(
    fit: Fit, columns: dict[str, Array], draws: Samples, residuals: Array, level: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    predicted: Any = fit.objective.transform(draws.predict(columns))
    # residuals are predicted less observed, hence a new run is the prediction less one of them
    observed = predicted - rng.choice(residuals, size=predicted.shape)
    tails = [(1 - level) / 2, (1 + level) / 2]
    mean, new_run = (np.quantile(values, tails, axis=0).T for values in (predicted, observed))
    return (np.exp(mean), np.exp(new_run)) if fit.objective.log else (mean, new_run)
