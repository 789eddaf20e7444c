"""The intervals of a fit: Student's t by its model of the noise, and the profile over the floor L0 at its bound.

At a floor that ended at its bound the errors of the other parameters say nothing of floors that fit almost as well.
With F(v) the least objective with the floor held at v, F_min that of the fit, and v_0 the variance of the noise,

    z^2(v) = 2 n (F(v) - F_min) / (v_0 m) / q^2                                                           (1)

(m of `scalefit.fitting.optimum`; for squared penalties (S(v) - S_min) / s^2), where q is the floor's error by the
fit's model of the noise over the classical one, so that rows that depend count for less. A quantity's interval is the
union over v of its conditional intervals,

    { x : z^2(v) + ((x - x(v)) / se(v))^2 <= t_nu^2  for a v inside the bounds },                         (2)

which is its profile to second order in the other parameters. A dozen fits serve all quantities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
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

__all__ = ["HIGHEST_FLOOR", "FloorProfile", "Quantities", "limits", "parameter_intervals", "profile_floor", "reaches"]

Array = NDArray[np.float64]

Quantities = Callable[[Optimum], tuple[Array, Array]]
"""Quantities of a law at a point: their (m,) values and (m, P) derivatives by its free parameters."""

POINTS = 10
"""Floors at which the law is fitted between the estimate and the end."""

HIGHEST_FLOOR = 1 - 1e-9
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
        if np.isnan(self.degrees):  # groups are too few for an interval: the floor may be anything up to the losses
            return float(self.values[0]), self.fit.optimum.centred.smallest_loss
        if not self.degrees > 0:
            return float(self.values[0]), self.fit.optimum.centred.smallest_loss
        threshold = t_quantile(self.degrees, 1 - (1 - level) / tails)
        fine = np.linspace(self.values[0], self.values[-1], 2001)
        inside = fine[np.abs(_between(self.values, self._signed, fine)) <= threshold]
        smallest = self.fit.optimum.centred.smallest_loss
        high = smallest if inside[-1] >= HIGHEST_FLOOR * smallest else inside[-1]
        return float(inside[0]), float(high)

    @property
    def _signed(self) -> Array:
        return np.where(self.values < self.fit.params["L0"], -self.z, self.z)

    def intervals(self, quantities: Quantities, level: float) -> Array:
        """(m, 2) intervals of quantities, equation (2); nan where groups are too few."""
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
        at = _between(self.values, np.where(known, estimates, 0.0), fine)
        error = _between(self.values, np.sqrt(np.where(known, variances, 0.0)), fine)
        z = _between(self.values, self.z, fine)[:, None]
        room = np.sqrt(np.maximum(threshold**2 - z**2, 0.0)) * error
        outside = z > threshold
        low = np.where(outside, np.inf, at - room).min(axis=0)
        high = np.where(outside, -np.inf, at + room).max(axis=0)
        return np.where(known, np.stack([low, high]), np.nan).T


def limits(fit: Fit, level: float) -> Mapping[str, float]:
    """One-sided limit of each parameter that ended at a bound."""
    found = fit.errors.limits(level)
    if fit.floor_profile is not None:
        found["L0"] = fit.floor_profile.floor_interval(level, tails=1)[1]
    return MappingProxyType(found)


def parameter_intervals(fit: Fit, level: float) -> Mapping[str, tuple[float, float]]:
    """Interval of every parameter in plain units, inside its bounds; of one at its bound up to the one-sided limit."""
    at_bound = fit.limits if level == 0.95 else limits(fit, level)
    found = {}
    for parameter, ends in zip(fit.law.parameters, fit.intervals_of(_parameters, level).tolist(), strict=True):
        name, (lowest, highest) = parameter.name, fit.constraints.limits(parameter)
        if name in at_bound:
            low, high = sorted((fit.params[name], at_bound[name]))
        elif math.isnan(fit.standard_errors[name]):
            low = high = math.nan
        else:
            highest = min(highest, fit.optimum.centred.smallest_loss) if parameter.is_floor else highest
            with np.errstate(over="ignore"):
                low, high = max(float(parameter.outer(ends[0])), lowest), min(float(parameter.outer(ends[1])), highest)
        found[name] = (low, high)
    return MappingProxyType(found)


def _parameters(optimum: Optimum) -> tuple[Array, Array]:
    """ln c, alpha and L0 at an optimum with their derivatives."""
    plain = optimum.centred.plain(optimum.free).tolist()
    parameters = optimum.centred.law.parameters
    return np.array([p.inner(x) for p, x in zip(parameters, plain, strict=True)]), optimum.reporting


def reaches(fit: Fit, name: str, value: float) -> bool:
    """Whether the profile of a parameter, which sees what its linear interval does not, reaches a value at 95 %."""
    held = Held(fit, name)
    return not held.degrees > 0 or held.z(value) < t_quantile(held.degrees, 0.975)


def _between(x: Array, y: Array, fine: Array) -> Array:
    """Cubics through (k,) or (k, m) values at rising x with the slopes of parabolas, at points between."""
    slopes = np.gradient(y, x, axis=0, edge_order=2)
    i = np.clip(np.searchsorted(x, fine) - 1, 0, len(x) - 2)
    width = x[i + 1] - x[i]
    t = (fine - x[i]) / width
    if y.ndim == 2:
        width, t = width[:, None], t[:, None]
    ends = (1 + 2 * t) * (1 - t) ** 2 * y[i] + t**2 * (3 - 2 * t) * y[i + 1]
    return np.asarray(ends + width * (t * (1 - t) ** 2 * slopes[i] - t**2 * (1 - t) * slopes[i + 1]))


def profile_floor(fit: Fit, level: float) -> FloorProfile:
    """Fit a law at floors from its estimate to where none can be part of an interval at a level, or to the bounds."""
    held = Held(fit, "L0")
    estimate, step = fit.params["L0"], held.error
    fewest = np.nanmin([held.degrees, *fit.degrees.values(), 1e6])
    farthest = t_quantile(max(1.0, float(fewest)), (1 + level) / 2)
    low, high = fit.constraints.limits(fit.law.parameter("L0"))
    high = min(high, HIGHEST_FLOOR * fit.optimum.centred.smallest_loss)
    held.z(estimate)
    for bound in (low, high):
        if bound == estimate:
            continue
        end = _end(held, estimate, bound, step, farthest)
        for share in np.arange(1, POINTS) / POINTS:
            # z rises like the square root of the distance where the floor is at its bound: closer points near it.
            held.z(float(estimate + (end - estimate) * share**1.5))
        held.forget_beyond(estimate, end)
    values = sorted(held.found)
    z = np.array([held.found[v][0] for v in values])
    return FloorProfile(fit, np.array(values), z, tuple(Optimum.of(*held.found[v][1:]) for v in values), held.degrees)


def _end(held: Held, estimate: float, bound: float, step: float, farthest: float) -> float:
    """A floor towards a bound at which z is `farthest` or a little more; the bound where it stays below."""
    end, inner = estimate, estimate
    while end != bound and held.z(end) < farthest:
        inner, end = end, bound if abs(bound - end) <= step else end + math.copysign(step, bound - estimate)
        step *= 1.5
    for _ in range(6):
        # The last step may have gone far beyond.
        if held.z(end) <= 1.3 * farthest:
            break
        middle = (inner + end) / 2
        inner, end = (middle, end) if held.z(middle) < farthest else (inner, middle)
    return end


class Held:
    """A law fitted with one parameter held at values, each time from the nearest one known.

    Attributes
    ----------
    found : dict of float to (float, CentredLaw, (P,) float array)
        Value -> z of equation (1), the law with the parameter held there, and its optimum.
    error, degrees : float
        Standard error of the parameter as though it were free, and its degrees of freedom.
    """

    def __init__(self, fit: Fit, name: str) -> None:
        self.fit, self.name = fit, name
        self.found: dict[float, tuple[float, CentredLaw, Array]] = {}
        optimum, by_row = fit.optimum, fit.errors.method == "gauss-newton"
        gradient = optimum.reporting[fit.law.parameter_names.index(name)]
        variance, degrees = fit.standard_errors[name] ** 2, fit.degrees[name]
        if name in fit.at_bound:
            optimum = Optimum.of(optimum.centred, optimum.free, optimum.inside | (gradient != 0))
            own = replace(fit.errors, optimum=optimum).contrast(gradient[None])
            variance, degrees = float(own.variance[0]), float(own.degrees[0])
        classical = float(gradient @ optimum.gauss_newton @ gradient)
        # Rows that depend count for less; a variance estimated as nothing is no reason to count them for more.
        self._ratio = 1.0 if by_row else max(variance / classical, 1e-6)
        self.error = float(np.sqrt(classical * self._ratio))
        self.degrees = float(len(fit.runs) - len(optimum.free)) if by_row else degrees

    def z(self, value: float) -> float:
        """Root of equation (1) with the parameter held at a value in plain units."""
        if value not in self.found:
            fit, constraints = self.fit, self.fit.constraints
            near = dict(fit.params)
            if self.found:
                _, centred, free = self.found[min(self.found, key=lambda v: abs(v - value))]
                near = centred.params(free)
            bounds = {name: limits for name, limits in constraints.bounds.items() if name != self.name}
            fixed = MappingProxyType({**constraints.fixed, self.name: value})
            centred = CentredLaw.of(fit, replace(constraints, fixed=fixed, bounds=MappingProxyType(bounds)))
            start = centred.free(near | {self.name: value})
            state = solve(centred.problem, start[None], tolerance=1e-10).state
            excess = 2 * len(fit.runs) * (float(state.value[0]) - fit.objective_value)
            squared = excess / (_noise(fit) * fit.optimum.scores.slope * self._ratio)
            self.found[value] = float(np.sqrt(max(0.0, squared))), centred, state.free[0]
        return self.found[value][0]

    def forget_beyond(self, estimate: float, end: float) -> None:
        """Forget values beyond an end."""
        for value in [v for v in self.found if (v - end) * (end - estimate) > 0]:
            del self.found[value]


def _noise(fit: Fit) -> float:
    """Variance of the noise on n less all estimated parameters, also those at a bound."""
    optimum = fit.optimum
    return optimum.scores.variance * optimum.degrees / (len(fit.runs) - len(optimum.free))
