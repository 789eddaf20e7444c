"""What a fit minimises: one definition for the solver, the covariance and every interval built on them.

An objective is the weighted mean over rows of a penalty of the residual,

    F = mean_i w_i rho(r_i),    r_i = t(L(x_i)) - t(loss_i),                                  (1)

with t = ln or the identity and rho(r) = r^2 or the Huber penalty of Huber (1964),

    rho(r) = r^2 / 2 for |r| <= delta,    delta (|r| - delta / 2) beyond.                       (2)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError
from scalefit.numbers import show_number

__all__ = ["Objective"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Objective:
    """Equation (1) with its two choices, written `log-mse`, `mse`, `log-huber:DELTA` or `huber:DELTA`.

    Parameters
    ----------
    log : bool
        Whether residuals are differences of ln loss (relative) or of the loss (nats per token).
    delta : float or None
        Half width of the quadratic zone of the Huber penalty, in the units of the residual;
        None for the squared penalty.

    Raises
    ------
    OptionError
        If `delta` is not a positive number.
    """

    log: bool = True
    delta: float | None = None

    def __post_init__(self) -> None:
        if self.delta is not None and not (math.isfinite(self.delta) and self.delta > 0):
            raise OptionError(f"the Huber delta is {self.delta} and must be a positive number, for example 1e-3")

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
        if name in ("log-mse", "mse") and not delta:
            return cls(log=name == "log-mse")
        if name in ("log-huber", "huber"):
            try:
                return cls(log=name == "log-huber", delta=float(delta))
            except ValueError:
                raise OptionError(
                    f"objective {text!r} needs the width of its quadratic zone, for example {name}:1e-3"
                ) from None
        raise OptionError(f"unknown objective {text!r}; choose log-mse, log-huber:DELTA, mse or huber:DELTA")

    @property
    def name(self) -> str:
        """The written name, which `parse` reads back."""
        base = "log-" if self.log else ""
        return f"{base}mse" if self.delta is None else f"{base}huber:{show_number(self.delta)}"

    def transform(self, loss: Array) -> Array:
        """t(loss): the scale in which residuals are taken."""
        return np.log(loss) if self.log else loss

    def residuals(self, predicted: Array, observed: Array) -> Array:
        """r = t(predicted) - t(observed), in ln loss or in nats per token."""
        return self.transform(predicted) - self.transform(observed)

    def penalty(self, r: Array) -> Array:
        """rho(r)."""
        if self.delta is None:
            return r * r
        clipped = np.clip(r, -self.delta, self.delta)
        penalty: Array = clipped * (r - 0.5 * clipped)
        return penalty

    def score(self, r: Array) -> Array:
        """psi(r) = rho'(r)."""
        return 2.0 * r if self.delta is None else np.clip(r, -self.delta, self.delta)

    def curvature(self, r: Array) -> Any:
        """rho''(r), as an array or as the constant it is."""
        return 2.0 if self.delta is None else (np.abs(r) <= self.delta).astype(np.float64)

    def reweighting(self, r: Array) -> Any:
        """psi(r) / r, the weight of iteratively reweighted least squares: never zero, unlike rho''."""
        return 2.0 if self.delta is None else self.delta / np.maximum(np.abs(r), self.delta)

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
