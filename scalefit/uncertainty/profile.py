"""Profile likelihood: how much worse the best fit gets when one quantity is held at another value.

For squared penalties with unknown noise the signed root

    z(v) = sign(v - estimate) sqrt((n - p) (F(v) / F - 1)),                                        (1)

F(v) the least objective with the quantity held at v, is compared with Student's t of n - p degrees of freedom (the
F-test of lmfit). A robust penalty is no likelihood: there

    z(v) = sign(v - estimate) sqrt(2 n (F(v) - F) / lambda),                                       (2)

with lambda the robust over the inverse-Hessian variance of the quantity (Kent 1982). An end that is not reached
before the quantity's bound, or for as long as anybody cares, is open.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from scalefit.centred import centre
from scalefit.constraints import default_bounds
from scalefit.errors import OptionError
from scalefit.fitting import Fit
from scalefit.solver import solve
from scalefit.uncertainty.asymptotic import Asymptotic, asymptotic
from scalefit.uncertainty.samples import check_level

__all__ = ["Profile", "profile"]

Array = NDArray[np.float64]

FARTHEST = 40.0
"""An end farther away than this many standard errors is open."""

CLOSE = 1e-4
"""z at an end is met to this."""

GRID = np.array([-1.25, -1.0, -0.75, -0.5, -0.25, 0.25, 0.5, 0.75, 1.0, 1.25])
"""Where the curve is drawn, in units of the interval's half widths."""


@dataclass(frozen=True, eq=False)
class Profile:
    """The profile of one parameter.

    Attributes
    ----------
    name : str
    estimate : float
    level : float
    interval : (float, float)
        An open end is -inf or inf.
    values, z : (n_points,) float arrays
        The curve, equation (1) or (2), in the order of the values.
    calibration : str
        ``"F"`` or ``"sandwich"``.
    """

    name: str
    estimate: float
    level: float
    interval: tuple[float, float]
    values: Array
    z: Array
    calibration: str


def profile(fit: Fit, name: str, level: float = 0.95, *, theory: Asymptotic | None = None) -> Profile:
    """Profile one parameter of a fitted law.

    Parameters
    ----------
    fit : Fit
    name : str
        A free parameter of the law; of tied exponents any.
    level : float
    theory : Asymptotic, optional
        Of this fit, where it is known already.

    Raises
    ------
    OptionError
        If the parameter is unknown or fixed.
    """
    check_level(level)
    if name not in fit.params:
        raise OptionError(f"the law {fit.law} has no parameter {name!r}; it has {', '.join(fit.params)}")
    target = fit.constraints.ties.get(name, name)
    if target in fit.constraints.fixed:
        raise OptionError(f"{name} is fixed at {fit.params[name]:g}; there is nothing to profile")
    curve = _Curve(fit, target, theory or asymptotic(fit, simulations=0))
    threshold = float(stdtrit(curve.degrees, (1 + level) / 2))
    low, high = curve.end(-1, threshold), curve.end(1, threshold)
    curve.fill(low, high)
    values, z = curve.points()
    calibration = "F" if fit.objective.delta is None else "sandwich"
    return Profile(name, fit.params[name], level, (low, high), values, z, calibration)


class _Curve:
    """Evaluates z, starting each fit from the nearest one made before. Coefficients are moved in their logarithm."""

    def __init__(self, fit: Fit, name: str, theory: Asymptotic) -> None:
        self.fit, self.name = fit, name
        self.log = name.startswith("c_")
        self.degrees = theory.degrees["gauss-newton"]
        i = theory.names.index(name)
        self.scale = float(theory.likelihood_scale[i])
        self.estimate = self._inner(fit.params[name])
        low, high = fit.constraints.bounds.get(name, default_bounds(name))
        self.bounds = self._inner(low), self._inner(high)
        self.step = self._first_step(theory)
        self.known: dict[float, tuple[float, Mapping[str, float]]] = {self.estimate: (0.0, fit.params)}

    def _inner(self, value: float) -> float:
        if not self.log:
            return value
        return math.log(value) if value > 0 else -math.inf

    def _outer(self, value: float) -> float:
        return math.exp(value) if self.log else value

    def _first_step(self, theory: Asymptotic) -> float:
        error = theory.standard_error(self.name)
        if math.isfinite(error) and error > 0:
            return error
        if self.name in self.fit.limits:
            return abs(self.fit.limits[self.name] - self.estimate) / 1.645
        return 0.1 * max(abs(self.estimate), 1e-3)

    def z(self, value: float) -> float:
        """Signed root at an inner value."""
        if value not in self.known:
            near = self.known[min(self.known, key=lambda v: abs(v - value))][1]
            objective, params = refit_with(self.fit, {self.name: self._outer(value)}, near)
            best = self.fit.objective_value
            if self.fit.objective.delta is None:
                squared = self.degrees * (objective / best - 1)
            else:
                squared = 2 * len(self.fit.runs) * (objective - best) / self.scale
            self.known[value] = math.copysign(math.sqrt(max(squared, 0.0)), value - self.estimate), params
        return self.known[value][0]

    def end(self, side: int, threshold: float) -> float:
        """The value at which |z| meets the threshold, in outer units; infinite if it never does."""
        bound = self.bounds[0] if side < 0 else self.bounds[1]
        inner, outer = self.estimate, self.estimate + side * threshold * self.step
        while True:
            outer = max(outer, bound) if side < 0 else min(outer, bound)
            if outer == self.estimate:
                return side * math.inf
            if abs(self.z(outer)) >= threshold:
                return self._outer(self._between(inner, outer, threshold))
            if outer == bound or abs(outer - self.estimate) >= FARTHEST * self.step:
                return side * math.inf
            inner, outer = outer, self.estimate + 1.7 * (outer - self.estimate)

    def _between(self, inner: float, outer: float, threshold: float) -> float:
        """Root of |z| - threshold by the Illinois form of false position: z is nearly linear."""
        f_inner, f_outer = abs(self.z(inner)) - threshold, abs(self.z(outer)) - threshold
        for _ in range(40):
            value = outer - f_outer * (outer - inner) / (f_outer - f_inner)
            f = abs(self.z(value)) - threshold
            if abs(f) < CLOSE:
                return value
            if f * f_outer < 0:
                inner, f_inner = outer, f_outer
            else:
                f_inner /= 2
            outer, f_outer = value, f
        return outer

    def fill(self, low: float, high: float) -> None:
        """Add points across the interval; an open side is drawn three standard errors far."""
        ends = [
            self._inner(v) if math.isfinite(v) else self.estimate + s * 3 * self.step for v, s in ((low, -1), (high, 1))
        ]
        for share in GRID:
            value = self.estimate + abs(share) * ((ends[0] if share < 0 else ends[1]) - self.estimate)
            if self.bounds[0] < value < self.bounds[1]:
                self.z(float(value))

    def points(self) -> tuple[Array, Array]:
        """The curve so far, in outer units."""
        values = sorted(self.known)
        return np.array([self._outer(v) for v in values]), np.array([self.known[v][0] for v in values])


def refit_with(fit: Fit, fixed: Mapping[str, float], near: Mapping[str, float]) -> tuple[float, Mapping[str, float]]:
    """Fit again with parameters held at values, starting from known parameters; objective and parameters.

    Parameters
    ----------
    fit : Fit
    fixed : mapping of str to float
        In plain units; in addition to what the fit holds fixed.
    near : mapping of str to float
        A nearby optimum.
    """
    constraints = fit.constraints
    bounds = {name: limits for name, limits in constraints.bounds.items() if name not in fixed}
    held = replace(
        constraints,
        fixed=MappingProxyType({**constraints.fixed, **fixed}),
        bounds=MappingProxyType(bounds),
    )
    weights = None if fit.weights is None else fit.runs[fit.weights]
    centred = centre(fit.law, fit.runs, fit.objective, held, weights)
    values = dict(near)
    for term, log_reference in zip(fit.law.terms, centred.log_references, strict=True):
        values[term.coefficient] /= math.exp(values[term.exponent] * log_reference)
    start = np.array([[values[name] for name in centred.free_names]])
    solution = solve(centred.problem, start, tolerance=1e-10)
    return float(solution.state.value[0]), centred.plain(solution.state.free[0])
