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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from scalefit.errors import OptionError
from scalefit.fitting.centred import CentredLaw
from scalefit.fitting.fit import Fit
from scalefit.fitting.solver import solve
from scalefit.uncertainty.asymptotic import Asymptotic, asymptotic
from scalefit.uncertainty.held import Held
from scalefit.uncertainty.samples import check_level

__all__ = ["Profile", "profile", "profile_quantity"]

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
    curve = _parameter_curve(fit, target, theory or asymptotic(fit, simulations=0))
    calibration = "F" if fit.objective.delta is None else "sandwich"
    return curve.profile(name, fit.params[name], level, calibration)


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
    curve = _Curve(held, held.estimate, step, bounds, held.degrees, lambda value: value)
    return curve.profile(name, held.estimate, level, "F")


def _parameter_curve(fit: Fit, name: str, theory: Asymptotic) -> _Curve:
    """The curve of one parameter; a coefficient moves in its logarithm."""
    log = name.startswith("c_")

    def inner(value: float) -> float:
        if not log:
            return value
        return math.log(value) if value > 0 else -math.inf

    degrees, scale = theory.degrees["gauss-newton"], float(theory.likelihood_scale[theory.names.index(name)])

    def squared(value: float, near: Any) -> tuple[float, Any]:
        fixed = {name: math.exp(value) if log else value}
        objective, params = refit_with(fit, fixed, fit.params if near is None else near)
        if fit.objective.delta is None:
            return degrees * (objective / fit.objective_value - 1), params
        return 2 * len(fit.runs) * (objective - fit.objective_value) / scale, params

    low, high = fit.constraints.limits(fit.law.parameter(name))
    estimate = inner(fit.params[name])
    step = _first_step(fit, name, estimate)
    outer = math.exp if log else _same
    return _Curve(squared, estimate, step, (inner(low), inner(high)), degrees, outer)


def _same(value: float) -> float:
    return value


def _first_step(fit: Fit, name: str, estimate: float) -> float:
    error = fit.standard_errors[name]
    if math.isfinite(error) and error > 0:
        return error
    if name in fit.limits:
        return abs(fit.limits[name] - estimate) / 1.645
    return 0.1 * max(abs(estimate), 1e-3)


class _Curve:
    """Evaluates z, each time from the nearest point known; lives only inside `profile`.

    Parameters
    ----------
    squared : callable
        From an inner value and what the nearest evaluation returned (None at first) to z^2 and something to go on from.
    estimate, step : float
        Inner estimate and a standard error.
    bounds : (float, float)
        Inner.
    degrees : int
        Of Student's t.
    outer : callable
        From inner to outer values.
    """

    def __init__(
        self,
        squared: Callable[[float, Any], tuple[float, Any]],
        estimate: float,
        step: float,
        bounds: tuple[float, float],
        degrees: int,
        outer: Callable[[float], float],
    ) -> None:
        self.squared, self.estimate, self.step, self.bounds = squared, estimate, step, bounds
        self.degrees, self.outer = degrees, outer
        self.known: dict[float, tuple[float, Any]] = {estimate: (0.0, None)}

    def profile(self, name: str, estimate: float, level: float, calibration: str) -> Profile:
        """Find both ends and draw the curve between them."""
        threshold = float(stdtrit(self.degrees, (1 + level) / 2))
        ends = self.end(-1, threshold), self.end(1, threshold)
        self.fill(ends)
        values = sorted(self.known)
        return Profile(
            name=name,
            estimate=estimate,
            level=level,
            interval=(self._shown(ends[0]), self._shown(ends[1])),
            values=np.array([self.outer(v) for v in values]),
            z=np.array([self.known[v][0] for v in values]),
            calibration=calibration,
        )

    def _shown(self, end: float) -> float:
        return self.outer(end) if math.isfinite(end) else end

    def z(self, value: float) -> float:
        """Signed root at an inner value."""
        if value not in self.known:
            near = self.known[min(self.known, key=lambda v: abs(v - value))][1]
            squared, state = self.squared(value, near)
            self.known[value] = math.copysign(math.sqrt(max(squared, 0.0)), value - self.estimate), state
        return self.known[value][0]

    def end(self, side: int, threshold: float) -> float:
        """The inner value at which |z| meets the threshold; infinite if it never does."""
        bound = self.bounds[0] if side < 0 else self.bounds[1]
        inner, outer = self.estimate, self.estimate + side * threshold * self.step
        while True:
            outer = max(outer, bound) if side < 0 else min(outer, bound)
            if outer == self.estimate:
                return side * math.inf
            if abs(self.z(outer)) >= threshold:
                return self._between(inner, outer, threshold)
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

    def fill(self, ends: tuple[float, float]) -> None:
        """Add points across the interval; an open side is drawn three standard errors far."""
        for share in GRID:
            end = ends[0] if share < 0 else ends[1]
            end = end if math.isfinite(end) else self.estimate + 3 * self.step * math.copysign(1, share)
            value = float(self.estimate + abs(share) * (end - self.estimate))
            if self.bounds[0] < value < self.bounds[1]:
                self.z(value)


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
    centred = CentredLaw.of(fit, held)
    solution = solve(centred.problem, centred.free(near)[None], tolerance=1e-10)
    return float(solution.state.value[0]), centred.params(solution.state.free[0])
