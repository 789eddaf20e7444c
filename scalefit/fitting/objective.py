"""What a fit minimises: one definition for the solver, the covariance and every interval built on them.

An objective is the weighted mean over rows of a penalty of the residual,

    F = mean_i w_i rho(r_i),    r_i = t(L(x_i)) - t(loss_i),                                  (1)

with t = ln or the identity and rho one of `PENALTIES`: r^2, or the penalty of Huber (1964),

    rho(r) = r^2 / 2 for |r| <= delta,    delta (|r| - delta / 2) beyond.                       (2)

Of p parameters that minimise it the noise has the variance (Huber 1981, section 7.6)

    v = K^2 [sum_i w_i psi_i^2 / (n - p)] / m^2,    K = 1 + (p / n) Var(psi') / m^2,                (3)

psi = rho', m and Var the mean and variance of psi', weighted. For the squared penalty K = 1 and v is
sum_i w_i r_i^2 / (n - p); for Huber's Var(psi') / m^2 = (1 - s) / s, s the share of rows in the quadratic zone
|r| <= delta. Where that is narrow few rows but those the law passes through lie in it: psi' is then averaged over a
window whose half width h is that of a density estimate,

    psi'_i = (delta / h) [|r_i| <= h],    h = max(delta, 1.84 scale n^(-1/5)),                      (4)

so that s is the share within h and m = s delta / h, as for the median (Powell 1991).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError
from scalefit.numbers import show_number

__all__ = ["PENALTIES", "Objective", "Penalty", "Scores", "row_scores"]

Array = NDArray[np.float64]

NORMAL_MEDIAN = 0.6745
"""Median size of a standard normal number."""


@dataclass(frozen=True)
class Penalty:
    """rho of equation (1) and its derivatives, each a function of the residuals and of the penalty's width.

    All but the square, which is given 0, have a width and are written with it, as in `huber:DELTA`.

    Attributes
    ----------
    value, score, curvature : callable
        rho, rho' and rho'', the last as an array or as the constant it is.
    reweighting : callable
        psi(r) / r, the weight of iteratively reweighted least squares: never zero, unlike rho''.
    has_kink : bool
        Whether rho'' jumps, so that a covariance has to average it over a window.
    """

    value: Callable[[Array, float], Array]
    score: Callable[[Array, float], Array]
    curvature: Callable[[Array, float], Any]
    reweighting: Callable[[Array, float], Any]
    has_kink: bool = False


def _huber(r: Array, delta: float) -> Array:
    clipped = np.clip(r, -delta, delta)
    penalty: Array = clipped * (r - 0.5 * clipped)
    return penalty


PENALTIES: Mapping[str, Penalty] = MappingProxyType(
    {
        "mse": Penalty(
            value=lambda r, _: r * r,
            score=lambda r, _: 2.0 * r,
            curvature=lambda _r, _: 2.0,
            reweighting=lambda _r, _: 2.0,
        ),
        "huber": Penalty(
            value=_huber,
            score=lambda r, delta: np.clip(r, -delta, delta),
            curvature=lambda r, delta: (np.abs(r) <= delta).astype(np.float64),
            reweighting=lambda r, delta: delta / np.maximum(np.abs(r), delta),
            has_kink=True,
        ),
    }
)
"""Name -> penalty. A new one is a row here, with its equation above, and a name in the test of objectives."""


@dataclass(frozen=True)
class Objective:
    """Equation (1) with its two choices, written `log-mse`, `mse`, `log-huber:DELTA` or `huber:DELTA`.

    Parameters
    ----------
    log : bool
        Whether residuals are differences of ln loss (relative) or of the loss (nats per token).
    delta : float or None
        Width of the penalty in the units of the residual, for Huber's the half width of its quadratic zone;
        None for the squared penalty.
    penalty_name : str
        A key of `PENALTIES`; by default ``"mse"`` without a width and ``"huber"`` with one.

    Raises
    ------
    OptionError
        If `delta` is not a positive number.
    """

    log: bool = True
    delta: float | None = None
    penalty_name: str = ""

    def __post_init__(self) -> None:
        if not self.penalty_name:
            object.__setattr__(self, "penalty_name", "mse" if self.delta is None else "huber")
        if self.delta is not None and not (math.isfinite(self.delta) and self.delta > 0):
            name = self.penalty_name.capitalize()
            raise OptionError(f"the {name} delta is {self.delta} and must be a positive number, for example 1e-3")

    @classmethod
    def parse(cls, text: str | Objective) -> Objective:
        """Read an objective from its written name.

        Raises
        ------
        OptionError
            If the name is unknown or the delta of a Huber objective is missing or not a number.
        """
        if isinstance(text, Objective):
            return text
        name, _, delta = text.strip().partition(":")
        kind = name.removeprefix("log-")
        if kind not in PENALTIES or (kind == "mse" and delta):
            known = [f"{log}{name}{'' if name == 'mse' else ':DELTA'}" for log in ("log-", "") for name in PENALTIES]
            raise OptionError(f"unknown objective {text!r}; choose {', '.join(known[:-1])} or {known[-1]}")
        if kind == "mse":
            return cls(name != kind)
        try:
            return cls(name != kind, float(delta), kind)
        except ValueError:
            raise OptionError(
                f"objective {text!r} needs the width of its quadratic zone, for example {name}:1e-3"
            ) from None

    @property
    def name(self) -> str:
        """The written name, which `parse` reads back."""
        base = f"{'log-' if self.log else ''}{self.penalty_name}"
        return base if self.delta is None else f"{base}:{show_number(self.delta)}"

    @property
    def has_kink(self) -> bool:
        """Whether rho'' jumps."""
        return PENALTIES[self.penalty_name].has_kink

    @property
    def width(self) -> float:
        """What the penalty's functions are given."""
        return self.delta or 0.0

    def transform(self, loss: Array) -> Array:
        """t(loss): the scale in which residuals are taken."""
        return np.log(loss) if self.log else loss

    def residuals(self, predicted: Array, observed: Array) -> Array:
        """r = t(predicted) - t(observed), in ln loss or in nats per token."""
        return self.transform(predicted) - self.transform(observed)

    def penalty(self, r: Array) -> Array:
        """rho(r)."""
        return PENALTIES[self.penalty_name].value(r, self.width)

    def score(self, r: Array) -> Array:
        """psi(r) = rho'(r)."""
        return PENALTIES[self.penalty_name].score(r, self.width)

    def curvature(self, r: Array) -> Any:
        """rho''(r), as an array or as the constant it is."""
        return PENALTIES[self.penalty_name].curvature(r, self.width)

    def reweighting(self, r: Array) -> Any:
        """psi(r) / r, the weight of iteratively reweighted least squares: never zero, unlike rho''."""
        return PENALTIES[self.penalty_name].reweighting(r, self.width)

    def value(self, predicted: Array, observed: Array, weights: Array | None = None) -> float:
        """F of equation (1), a mean over rows.

        Parameters
        ----------
        predicted, observed : (n_rows,) float array
            Losses, nats per token.
        weights : (n_rows,) float array, optional
            Row weights of any scale; they are divided by their mean.
        """
        penalties = self.penalty(self.residuals(predicted, observed))
        return float(np.average(penalties, weights=weights))


@dataclass(frozen=True)
class Scores:
    """First and second derivatives of the rows' penalties, and the noise they imply.

    Attributes
    ----------
    first : (n,) float array
        psi_i.
    second : (n,) float array
        psi'_i, by equation (4) for the Huber penalty.
    slope : float
        m, the weighted mean of psi'_i; that of one row where no row has any.
    variance : float
        v of equation (3), in squared units of the residuals.
    """

    first: Array
    second: Array
    slope: float
    variance: float


def row_scores(objective: Objective, residuals: Array, weights: Array, n_free: int) -> Scores:
    """Derivatives of the penalties of n rows, and equation (3).

    Parameters
    ----------
    objective : Objective
    residuals : (n,) float array
        On the objective's scale.
    weights : (n,) float array
        Of mean one.
    n_free : int
        p, the parameters that the residuals were fitted with.
    """
    n = len(residuals)
    first = objective.score(residuals)
    if not objective.has_kink:
        second = np.broadcast_to(np.asarray(objective.curvature(residuals), dtype=np.float64), n)
        slope = float(np.mean(weights * second))
        correction = 1.0 + n_free / n * max(0.0, float(np.mean(weights * second**2)) / slope**2 - 1.0)
    else:
        sizes = np.abs(residuals)
        # Half width of a window for the residuals' density at zero (Silverman 1986, section 3.4, uniform kernel). The
        # law passes through about p rows whatever the noise; the scale is the median size of the others.
        scale = float(np.median(np.partition(sizes, n_free)[n_free:])) / NORMAL_MEDIAN
        window = max(objective.width, 1.84 * scale / n**0.2)
        share = max(float(np.mean(weights * (sizes <= window))), 1.0 / n)
        second, slope = (sizes <= window) * (objective.width / window), share * objective.width / window
        correction = 1.0 + n_free / n * max(0.0, 1.0 - share) / share
    variance = float(np.sum(weights * first**2)) / (n - n_free) * (correction / slope) ** 2
    return Scores(first, second, slope, variance)
