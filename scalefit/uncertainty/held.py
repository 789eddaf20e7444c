"""The profile of any function of the parameters: the least objective with it held at a value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from scalefit.errors import OptionError
from scalefit.fitting.derivatives import evaluate, gauss_newton
from scalefit.uncertainty.profile import Curve, Profile
from scalefit.uncertainty.resampling import Refits
from scalefit.uncertainty.samples import check_level

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["Held", "profile_quantity"]

Array = NDArray[np.float64]

DIFFERENCE = 1e-4
"""Step of central differences, in standard errors."""


def profile_quantity(
    fit: Fit,
    quantity: Callable[[Mapping[str, float]], float],
    level: float = 0.95,
    *,
    name: str = "quantity",
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Profile:
    """Profile any smooth function of a law's parameters, such as a predicted loss or a best width.

    The objective is minimised with the quantity held (sequential quadratic programming), in coordinates in which the
    fit's curvature is the same in every direction.

    Parameters
    ----------
    fit : Fit
        With a squared objective.
    quantity : callable
        From parameters in plain units by name to a number.
    level : float
    name : str
        What to call it.
    bounds : (float, float)
        Between which the quantity can lie.

    Raises
    ------
    OptionError
        If the objective is robust, or the quantity does not depend on the parameters.

    Examples
    --------
    >>> import scalefit as sf
    >>> fitted = sf.fit(sf.load_dataset("chinchilla").drop_worst(40))
    >>> point = {"width": 8192, "depth": 80, "tokens": 1e12}
    >>> found = profile_quantity(fitted, lambda params: float(fitted.law.predict(point, params)))
    >>> [round(end, 2) for end in found.interval]
    [1.95, 1.98]
    """
    check_level(level)
    if fit.objective.delta is not None:
        raise OptionError(
            f"a derived quantity is profiled for squared objectives, not {fit.objective.name}; take bootstrap draws"
        )
    held = Held.of(fit, quantity)
    step = held.deviation
    if not step > 0:
        raise OptionError(f"{name} does not change with the parameters of the fit; there is nothing to profile")
    curve = Curve(held, held.estimate, step, bounds, held.degrees)
    return curve.profile(name, held.estimate, level, "F")


@dataclass(frozen=True, eq=False)
class Held:
    """Minimises z^2 = (n - p) (F / F_min - 1) over zeta with g(theta) = v, where theta = point + spread @ zeta.

    `spread` is an inverse root of the Gauss-Newton matrix, so that z^2 is |zeta|^2 to second order: a problem in which
    sequential quadratic programming arrives in a few steps.

    Attributes
    ----------
    refits : Refits
    quantity : callable
        g, of the parameters in plain units by name.
    spread : (P, P) float array
    value : float
        F_min.
    degrees : int
    """

    refits: Refits
    quantity: Callable[[Mapping[str, float]], float]
    spread: Array
    value: float
    degrees: int

    @classmethod
    def of(cls, fit: Fit, quantity: Callable[[Mapping[str, float]], float]) -> Held:
        """Prepare a fit with a squared objective."""
        refits = Refits.of(fit)
        problem = refits.centred.problem
        degrees = len(fit.runs) - len(refits.point)
        matrix = gauss_newton(problem, refits.point[None])[0]
        scale = 1 / np.sqrt(np.diag(matrix))
        values, vectors = np.linalg.eigh(matrix * scale * scale[:, None])
        root = (vectors / np.sqrt(np.maximum(values, 1e-14))) * scale[:, None]
        # F is about F_min + d' M d / 2, so that z^2 is |zeta|^2 when M = 2 F_min / (n - p) at unit zeta.
        return cls(refits, quantity, root * np.sqrt(2 * fit.objective_value / degrees), fit.objective_value, degrees)

    @property
    def estimate(self) -> float:
        """g at the fit."""
        return self._quantity(np.zeros(len(self.spread)))

    @property
    def deviation(self) -> float:
        """Standard error of g by the delta method."""
        return float(np.linalg.norm(self._slope(np.zeros(len(self.spread)))))

    def __call__(self, value: float, near: Any) -> tuple[float, Array]:
        """z^2 with g held at a value, and zeta there; `near` is a zeta to start from, or None."""
        start = np.zeros(len(self.spread)) if near is None else near
        slope = self._slope(start)
        start = start + (value - self._quantity(start)) * slope / (slope @ slope)
        unit = float(np.linalg.norm(slope))
        problem, point = self.refits.centred.problem, self.refits.point
        lower, upper = problem.lower - point, problem.upper - point
        rows = [
            sign * self.spread[j] for sign, ends in ((1, lower), (-1, upper)) for j in np.flatnonzero(np.isfinite(ends))
        ]
        ends = [sign * e[j] for sign, e in ((1, lower), (-1, upper)) for j in np.flatnonzero(np.isfinite(e))]
        matrix, limits = np.array(rows).reshape(-1, len(point)), np.array(ends)
        found: Any = minimize(  # type: ignore[call-overload]
            self.squared,
            start,
            jac=True,
            method="SLSQP",
            constraints=[
                {
                    "type": "eq",
                    "fun": lambda zeta: (self._quantity(zeta) - value) / unit,
                    "jac": lambda zeta: self._slope(zeta) / unit,
                },
                {"type": "ineq", "fun": lambda zeta: matrix @ zeta - limits, "jac": lambda _: matrix},
            ],
            options={"ftol": 1e-8, "maxiter": 100},
        )
        return float(found.fun), found.x

    def squared(self, zeta: Array) -> tuple[float, Array]:
        state = evaluate(self.refits.centred.problem, self._free(zeta)[None])
        factor = self.degrees / self.value
        if not np.isfinite(state.value[0]):
            return 1e10, np.zeros_like(zeta)
        return factor * float(state.value[0] - self.value), factor * state.gradient[0] @ self.spread

    def _free(self, zeta: Array) -> Array:
        """Free parameters, kept inside the bounds, which trial points may cross by a little."""
        problem, point = self.refits.centred.problem, self.refits.point
        margin = 1e-9 * np.abs(point)
        inside: Array = np.clip(point + self.spread @ zeta, problem.lower + margin, problem.upper - margin)
        return inside

    def _quantity(self, zeta: Array) -> float:
        return float(self.quantity(self.refits.centred.params(self._free(zeta))))

    def _slope(self, zeta: Array) -> Array:
        ahead, behind = ([self._quantity(zeta + sign * DIFFERENCE * e) for e in np.eye(len(zeta))] for sign in (1, -1))
        return np.asarray((np.array(ahead) - np.array(behind)) / (2 * DIFFERENCE))
