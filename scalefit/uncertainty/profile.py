"""Profile likelihood: how much worse the best fit gets when one quantity is held at another value.

For squared penalties with unknown noise the signed root

    z(v) = sign(v - estimate) sqrt((n - p) (F(v) / F - 1)),                                        (1)

F(v) the least objective with the quantity held at v, is compared with Student's t of n - p degrees of freedom (the
F-test of lmfit). A robust penalty is no likelihood: there

    z(v) = sign(v - estimate) sqrt(2 n (F(v) - F) / lambda),                                       (2)

with lambda the robust over the inverse-Hessian variance of the quantity (Kent 1982). An end that is not reached
before the quantity's bound is open; that of a floor which reaches 0, or of a parameter with bounds of the user's,
ends there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize.elementwise import find_root

from scalefit.errors import OptionError
from scalefit.fitting.centred import CentredLaw
from scalefit.fitting.optimum import Optimum
from scalefit.fitting.solver import solve
from scalefit.fitting.student import t_quantile
from scalefit.uncertainty.samples import check_level

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["Curve", "Profile", "profile"]

Array = NDArray[np.float64]

FARTHEST = 1e4
"""Where nothing bounds a quantity, an end farther away than this many standard errors is open."""

FLOORS = (0.3, 0.6)
"""Shares of the smallest loss at which a floor that came to its bound is tried again."""

LARGEST_LOG = 700.0
"""Logarithms of coefficients are tried so far, which numbers can still hold."""

CLOSE = 1e-5
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


def profile(fit: Fit, name: str, level: float = 0.95) -> Profile:
    """Profile one parameter of a fitted law.

    Parameters
    ----------
    fit : Fit
    name : str
        A free parameter of the law; of tied exponents any.
    level : float

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
    parameter, scale = fit.law.parameter(target), likelihood_scale(fit, target)
    # A parameter at its bound was estimated too: the profile lets it leave.
    degrees = len(fit.runs) - len(fit.optimum.free)

    def squared(value: float, near: Any) -> tuple[float, Any]:
        fixed = {target: float(parameter.outer(value))}
        objective, params = refit_with(fit, fixed, fit.params if near is None else near)
        if fit.objective.delta is None:
            return degrees * (objective / fit.objective_value - 1), params
        return 2 * len(fit.runs) * (objective - fit.objective_value) / scale, params

    low, high = fit.constraints.limits(parameter)
    estimate, step = float(parameter.inner(fit.params[target])), fit.standard_errors[target]
    if not (math.isfinite(step) and step > 0):
        known = fit.limits.get(target, math.nan)
        step = (
            abs(known - estimate) / 2 if known != estimate and math.isfinite(known) else 0.1 * max(abs(estimate), 1e-3)
        )
    farthest = LARGEST_LOG if parameter.in_logs else math.inf
    curve = Curve(
        squared,
        estimate,
        step,
        tuple(np.clip([parameter.inner(low), parameter.inner(high)], -farthest, farthest).tolist()),
        degrees,
        parameter.outer,
        # Bounds of the user's and the floor's 0 end an interval; an exponent at its natural bound can be anything.
        ends_at_bounds=not parameter.is_exponent or target in fit.constraints.bounds,
    )
    return curve.profile(name, fit.params[name], level, "F" if fit.objective.delta is None else "sandwich")


def likelihood_scale(fit: Fit, name: str) -> float:
    """lambda of equation (2), of a parameter at a bound as though it were free."""
    free, centred = fit.optimum.free, fit.optimum.centred
    unbound = Optimum.of(centred, free, ~centred.vanished(free))
    i = fit.law.parameter_names.index(name)
    with np.errstate(invalid="ignore", divide="ignore"):
        robust, bread = (unbound.reported(m, known_only=True)[i, i] for m in (unbound.robust, unbound.bread))
        return float(robust / bread)


class Curve:
    """Evaluates z, each time from the nearest point known; lives only inside `profile` and `profile_quantity`.

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
    ends_at_bounds : bool
        Whether an interval that reaches a bound ends there, or is open.
    """

    def __init__(
        self,
        squared: Callable[[float, Any], tuple[float, Any]],
        estimate: float,
        step: float,
        bounds: tuple[float, float],
        degrees: int,
        outer: Callable[[float], float] = float,
        ends_at_bounds: bool = False,
    ) -> None:
        self.squared, self.estimate, self.step, self.bounds = squared, estimate, step, bounds
        self.degrees, self.outer, self.ends_at_bounds = degrees, outer, ends_at_bounds
        self.known: dict[float, tuple[float, Any]] = {estimate: (0.0, None)}

    def profile(self, name: str, estimate: float, level: float, calibration: str) -> Profile:
        """Find both ends and draw the curve between them."""
        threshold = t_quantile(self.degrees, (1 + level) / 2)
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
        return float(self.outer(end)) if math.isfinite(end) else end

    def z(self, value: float) -> float:
        """Signed root at an inner value."""
        if value not in self.known:
            near = self.known[min(self.known, key=lambda v: abs(v - value))][1]
            squared, state = self.squared(value, near)
            self.known[value] = math.copysign(math.sqrt(max(squared, 0.0)), value - self.estimate), state
        return self.known[value][0]

    def end(self, side: int, threshold: float) -> float:
        """The inner value at which |z| meets the threshold; the bound, or infinite, where it never does.

        The search goes on to the bound: conditional errors say nothing of how far an interval reaches.
        """
        bound = self.bounds[0] if side < 0 else self.bounds[1]
        inner = outer = self.estimate
        step = threshold * self.step
        while outer != bound and abs(outer - self.estimate) < FARTHEST * self.step:
            inner, outer = outer, max(bound, outer - step) if side < 0 else min(bound, outer + step)
            step *= 1.7
            if abs(self.z(outer)) >= threshold:
                excess = np.vectorize(lambda value: abs(self.z(float(value))) - threshold, otypes=[float])
                return float(find_root(excess, (inner, outer), tolerances={"fatol": CLOSE}).x)
        return bound if self.ends_at_bounds and outer == bound else side * math.inf

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
    starts = centred.free(near)[None]
    if "L0" in centred.free_names and near["L0"] <= constraints.limits(fit.law.parameter("L0"))[0]:
        # With the floor at its bound there may be a second valley, of larger floors and steeper exponents.
        starts = np.repeat(starts, 1 + len(FLOORS), axis=0)
        starts[1:, centred.free_names.index("L0")] = np.array(FLOORS) * centred.smallest_loss
        exponents = [p.is_exponent for p in centred.free_parameters]
        starts[1:, exponents] /= 1 - np.array(FLOORS)[:, None]
        starts = np.clip(starts, centred.problem.lower, centred.problem.upper)
    solution = solve(centred.problem, starts, tolerance=1e-10)
    best = int(np.argmin(solution.state.value))
    return float(solution.state.value[best]), centred.params(solution.state.free[best])
