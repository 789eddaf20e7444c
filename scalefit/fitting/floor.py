"""The profile over the floor L0, from which intervals follow where the floor is at its bound.

There the errors of the other parameters at the floor's estimate say nothing of floors that fit almost as well. With
F(v) the least objective with the floor held at v, n F_min = n F(L0), and v_0 the variance of the noise,

    z^2(v) = 2 n (F(v) - F_min) / (v_0 m) / q^2                                                           (1)

(m of `scalefit.fitting.optimum`; for squared penalties (S(v) - S_min) / s^2), where q is the floor's error by the
fit's model of the noise over the classical one, so that rows that depend count for less. A quantity's interval is the
union over v of its conditional intervals,

    { x : z^2(v) + ((x - x(v)) / se(v))^2 <= t_nu^2  for a v inside the bounds },                         (2)

which is its profile to second order in the other parameters. A dozen fits serve all quantities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scalefit.fitting.centred import CentredLaw
from scalefit.fitting.optimum import Optimum
from scalefit.fitting.solver import solve
from scalefit.fitting.student import t_quantile, t_quantiles

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["FloorProfile", "Quantities", "profile_floor"]

Array = NDArray[np.float64]

Quantities = Callable[[Optimum], tuple[Array, Array]]
"""Quantities of a law at a point: their (m,) values and (m, P) derivatives by its free parameters."""

POINTS = 10
"""Floors at which the law is fitted between the estimate and the end."""

_TOP = 1 - 1e-9
"""The highest floor, in units of the smallest loss."""


@dataclass(frozen=True, eq=False)
class FloorProfile:
    """A law fitted at several floors.

    Attributes
    ----------
    fit : Fit
    values : (k,) float array
        Floors, rising; the estimate is one of them.
    z : (k,) float array
        Root of equation (1).
    optima : tuple of Optimum
        With the floor held at each.
    degrees : float
        Of the floor's own t.
    """

    fit: Fit
    values: Array
    z: Array
    optima: tuple[Optimum, ...]
    degrees: float

    def floor_interval(self, level: float, tails: int = 2) -> tuple[float, float]:
        """Floors with z within t; the end of the range where no floor is beyond it."""
        from scipy.interpolate import PchipInterpolator

        if np.isnan(self.degrees):  # groups are too few for an interval: the floor may be anything up to the losses
            return float(self.values[0]), self.fit.optimum.centred.smallest_loss
        threshold = t_quantile(self.degrees, 1 - (1 - level) / tails)
        fine = np.linspace(self.values[0], self.values[-1], 2001)
        inside = fine[np.abs(PchipInterpolator(self.values, self._signed)(fine)) <= threshold]
        smallest = self.fit.optimum.centred.smallest_loss
        high = smallest if inside[-1] >= _TOP * smallest else inside[-1]
        return float(inside[0]), float(high)

    @property
    def _signed(self) -> Array:
        return np.where(self.values < self.fit.params["L0"], -self.z, self.z)

    def intervals(self, quantities: Quantities, level: float) -> Array:
        """(m, 2) intervals of quantities, equation (2); nan where groups are too few."""
        from scipy.interpolate import PchipInterpolator

        found = [quantities(optimum) for optimum in self.optima]
        contrasts = [
            replace(self.fit.errors, optimum=optimum).contrast(gradients)
            for optimum, (_, gradients) in zip(self.optima, found, strict=True)
        ]
        variances = np.stack([contrast.variance for contrast in contrasts])
        degrees = contrasts[int(np.argmin(self.z))].degrees
        if self.fit.errors.method == "gauss-newton":
            # One variance of the noise at all floors, with the degrees of the law that has a floor.
            noise = _noise(self.fit) / np.array([optimum.scores.variance for optimum in self.optima])
            variances, degrees = variances * noise[:, None], np.full(len(degrees), self.degrees)
        threshold = t_quantiles(degrees, (1 + level) / 2)
        fine = np.linspace(self.values[0], self.values[-1], 201)
        estimates = np.stack([values for values, _ in found])
        # A quantity that does not exist at some of the floors, such as ln c of a term that vanished, has no interval.
        known = np.isfinite(threshold) & np.isfinite(estimates).all(axis=0) & np.isfinite(variances).all(axis=0)
        at = PchipInterpolator(self.values, np.where(known, estimates, 0.0))(fine)
        error = PchipInterpolator(self.values, np.sqrt(np.where(known, variances, 0.0)))(fine)
        z = PchipInterpolator(self.values, self.z)(fine)[:, None]
        room = np.sqrt(np.maximum(threshold**2 - z**2, 0.0)) * error
        outside = z > threshold
        low = np.where(outside, np.inf, at - room).min(axis=0)
        high = np.where(outside, -np.inf, at + room).max(axis=0)
        return np.where(known, np.stack([low, high]), np.nan).T


def profile_floor(fit: Fit, level: float) -> FloorProfile:
    """Fit a law at floors from its estimate to where none can be part of an interval at a level, or to the bounds."""
    centred, estimate = fit.optimum.centred, fit.params["L0"]
    free_floor = Optimum.of(centred, fit.optimum.free, fit.optimum.inside | (np.array(centred.free_names) == "L0"))
    row = centred.law.parameter_names.index("L0")
    gradient = free_floor.reporting[row : row + 1]
    own = replace(fit.errors, optimum=free_floor).contrast(gradient)
    classical = float(gradient[0] @ free_floor.gauss_newton @ gradient[0])
    ratio = float(own.variance[0]) / classical if fit.errors.method != "gauss-newton" else 1.0
    degrees = float(own.degrees[0]) if fit.errors.method != "gauss-newton" else len(fit.runs) - len(centred.free_names)
    fewest = np.nanmin([degrees, *(d for d in fit.degrees.values())])
    farthest = t_quantile(max(1.0, float(fewest)), (1 + level) / 2) if np.isfinite(fewest) else 3.0
    scale = 2 * len(fit.runs) / (_noise(fit) * fit.optimum.scores.slope) / max(ratio, 1e-6)
    low, high = fit.constraints.limits(centred.law.parameter("L0"))
    high = min(high, _TOP * centred.smallest_loss)
    found: dict[float, tuple[float, Optimum]] = {}

    def z(value: float) -> float:
        if value not in found:
            near = found[min(found, key=lambda v: abs(v - value))][1] if found else fit.optimum
            optimum, objective = _hold(fit, value, near)
            excess = scale * (objective - fit.objective_value)
            found[value] = float(np.sqrt(max(0.0, excess))), optimum
        return found[value][0]

    z(estimate)
    step = float(np.sqrt(classical * max(ratio, 1e-6)))
    for side, bound in ((-1, low), (1, high)):
        end = estimate
        while (bound - end) * side > 0 and z(end) < farthest:
            end = float(np.clip(end + side * step, low, high))
            step *= 1.5
        # The last step may have gone far beyond: come back to where z is a little more than `farthest`.
        inner = estimate
        for _ in range(6):
            if z(end) <= 1.3 * farthest:
                break
            middle = (inner + end) / 2
            inner, end = (middle, end) if z(middle) < farthest else (inner, middle)
        for value in estimate + (end - estimate) * (np.arange(1, POINTS) / POINTS) ** 1.5:
            z(float(value))
        step = float(np.sqrt(classical * max(ratio, 1e-6)))
        for value in [v for v in found if (v - end) * side > 0]:
            del found[value]
    values = sorted(found)
    z_values = np.array([found[v][0] for v in values])
    return FloorProfile(fit, np.array(values), z_values, tuple(found[v][1] for v in values), degrees)


def _noise(fit: Fit) -> float:
    """Variance of the noise on n less all estimated parameters, also those at a bound."""
    optimum = fit.optimum
    return optimum.scores.variance * optimum.degrees / (len(fit.runs) - len(optimum.free))


def _hold(fit: Fit, value: float, near: Optimum) -> tuple[Optimum, float]:
    """The optimum with the floor held at a value, and its objective, from a nearby optimum."""
    constraints = fit.constraints
    bounds = {name: limits for name, limits in constraints.bounds.items() if name != "L0"}
    fixed = MappingProxyType({**constraints.fixed, "L0": value})
    centred = CentredLaw.of(fit, replace(constraints, fixed=fixed, bounds=MappingProxyType(bounds)))
    start = centred.free(near.centred.params(near.free))
    solution = solve(centred.problem, start[None], tolerance=1e-10)
    return Optimum.of(centred, solution.state.free[0]), float(solution.state.value[0])
