"""A law with a random intercept: rows of a group (run or shape) share an effect, whose size is estimated too.

On the scale t of the objective (ln loss, or the loss itself), with weights w,

    t(loss_i) = t(L(x_i; theta)) + b_g(i) + e_i,    e_i ~ N(0, sigma^2 / w_i),    b_g ~ N(0, tau^2).        (1)

Given rho = (tau / sigma)^2 the estimate is that of generalised least squares; rho maximises the restricted likelihood
of the law linearised there (Patterson & Thompson 1971), and the two are repeated until they agree. Errors and degrees
of freedom are those of Kenward & Roger (1997): with Phi = (X' V^-1 X)^-1, V_1 = I and V_2 = Z Z' the derivatives of V
by sigma^2 and tau^2, and W the inverse of the information of the two,

    Phi_A = Phi + 2 Phi [ sum_ij W_ij (Q_ij - P_i Phi P_j) ] Phi,
    P_i = -X' V^-1 V_i V^-1 X,    Q_ij = X' V^-1 V_i V^-1 V_j V^-1 X,                                       (2)
    nu = 2 (l' Phi l)^2 / sum_ij W_ij (l' Phi P_i Phi l) (l' Phi P_j Phi l)        for a contrast l.

It is narrower than what `fit` prints where groups are few, and it moves the estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, minimize_scalar

from scalefit.errors import FitError, OptionError
from scalefit.fitting.centred import CentredLaw
from scalefit.fitting.covariance import t_interval
from scalefit.fitting.problem import jacobian, predict
from scalefit.laws.law import Law

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["Mixed", "VarianceComponents", "fit_mixed", "variance_components"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

LOG_RHO = (-12.0, 12.0)
"""Where ln rho is sought: below, nothing is shared; above, the rows of a group are one measurement."""

ROUNDS = 50
SAME_LOG_RHO = 1e-6


@dataclass(frozen=True)
class VarianceComponents:
    """Standard deviations of equation (1).

    Attributes
    ----------
    row : float
        sigma.
    shared : float
        tau; 0 where rows of a group resemble each other no more than chance has it.
    """

    row: float
    shared: float


class Grouped:
    """Products with V_0^-1 = (I + rho Z Z')^-1 of whitened rows, whose groups never form an n x n matrix."""

    def __init__(self, roots: Array, labels: Labels) -> None:
        self.roots, self.labels, self.n_groups = roots, labels, int(labels.max()) + 1
        self.loads = np.bincount(labels, roots**2)

    def sums(self, rows: Array) -> Array:
        """Z' A of (n, k) rows."""
        return np.stack([np.bincount(self.labels, self.roots * column, self.n_groups) for column in rows.T], axis=1)

    def spread(self, sums: Array) -> Array:
        """Z B of (G, k) sums."""
        return np.asarray(self.roots[:, None] * sums[self.labels])

    def solve(self, rows: Array, rho: float) -> Array:
        """V_0^-1 A, by the matrix inversion lemma."""
        return np.asarray(rows - self.spread(self.sums(rows) * (rho / (1 + rho * self.loads))[:, None]))

    def root(self, rows: Array, rho: float) -> Array:
        """V_0^(-1/2) A."""
        share = (1 - 1 / np.sqrt(1 + rho * self.loads)) / self.loads
        return np.asarray(rows - self.spread(self.sums(rows) * share[:, None]))


def restricted(rho: float, x: Array, y: Array, grouped: Grouped) -> float:
    """Minus twice the restricted likelihood of y = X beta + noise, profiled over beta and sigma."""
    white = grouped.root(np.column_stack([x, y]), rho)
    triangle = np.linalg.qr(white)[1]
    p = x.shape[1]
    rest = float(triangle[p, p] ** 2)
    determinants = np.log1p(rho * grouped.loads).sum() + 2 * np.log(np.abs(np.diag(triangle)[:p])).sum()
    return float((len(y) - p) * math.log(max(rest, 1e-300)) + determinants)


def _ratio(x: Array, y: Array, grouped: Grouped) -> float:
    """rho of the largest restricted likelihood."""
    found = minimize_scalar(
        lambda log_rho: restricted(math.exp(log_rho), x, y, grouped), bounds=LOG_RHO, options={"xatol": 1e-8}
    )
    return math.exp(found.x) if found.fun < restricted(0.0, x, y, grouped) else 0.0


def variance_components(fit: Fit, labels: Labels) -> VarianceComponents:
    """Standard deviations of a fit's noise, by restricted likelihood of the law linearised at its estimate.

    Parameters
    ----------
    fit : Fit
    labels : (n_rows,) int array
        Group of each row.
    """
    optimum = fit.optimum
    roots = np.sqrt(optimum.weights)
    x, y = np.linalg.qr(optimum.matrix[:, optimum.inside] * roots[:, None])[0], optimum.residuals * roots
    grouped = Grouped(roots, labels)
    return components_at(_ratio(x, y, grouped), x, y, grouped)


def components_at(rho: float, x: Array, y: Array, grouped: Grouped) -> VarianceComponents:
    white = grouped.root(np.column_stack([x, y]), rho)
    triangle = np.linalg.qr(white)[1]
    sigma = abs(float(triangle[-1, -1])) / math.sqrt(len(y) - x.shape[1])
    return VarianceComponents(sigma, sigma * math.sqrt(rho))


@dataclass(frozen=True, eq=False)
class Mixed:
    """A law fitted with a random intercept.

    Attributes
    ----------
    law : Law
    params : mapping of str to float
        In plain units.
    standard_errors : mapping of str to float
        Of ln c for a coefficient; nan for what is fixed or at a bound.
    degrees : mapping of str to float
        Of Student's t.
    components : VarianceComponents
    """

    law: Law
    params: Mapping[str, float]
    standard_errors: Mapping[str, float]
    degrees: Mapping[str, float]
    components: VarianceComponents

    def interval(self, name: str, level: float = 0.95) -> tuple[float, float]:
        """Student's t interval in plain units, formed for ln c of a coefficient."""
        error, degrees = self.standard_errors[name], self.degrees[name]
        return t_interval(self.law.parameter(name), self.params[name], error, degrees, level)


def fit_mixed(fit: Fit, labels: Labels) -> Mixed:
    """Fit a law with an effect that the rows of a group share.

    Parameters
    ----------
    fit : Fit
        With a squared objective; where the iterations begin.
    labels : (n_rows,) int array
        Group of each row.

    Raises
    ------
    OptionError
        If the objective is robust, or no group has two rows.
    FitError
        If estimate and components do not come to agree.
    """
    if fit.objective.delta is not None:
        raise OptionError(f"a random intercept is estimated for squared objectives, not {fit.objective.name}")
    if len(np.unique(labels)) == len(labels):
        raise OptionError("no two rows belong to one group, so that there is nothing that they could share")
    centred, free = fit.optimum.centred, fit.optimum.free
    roots = np.sqrt(fit.optimum.weights)
    grouped, problem = Grouped(roots, labels), centred.problem

    def residuals(point: Array) -> Array:
        return np.asarray((problem.objective.transform(predict(problem, point[None])[0]) - problem.target) * roots)

    def estimate(free: Array, rho: float) -> Array:
        """Generalised least squares given rho."""

        def white(point: Array) -> Array:
            return grouped.root(residuals(point)[:, None], rho)[:, 0]

        def white_slopes(point: Array) -> Array:
            return grouped.root(jacobian(problem, point) * roots[:, None], rho)

        found = least_squares(
            white,
            np.clip(free, np.nextafter(problem.lower, np.inf), np.nextafter(problem.upper, -np.inf)),
            jac=white_slopes,
            bounds=(problem.lower, problem.upper),
            x_scale="jac",
            xtol=1e-12,
            ftol=1e-14,
            gtol=1e-12,
        )
        # The method stays inside by a hair: what it calls active is at the bound.
        active = found.active_mask
        return np.asarray(np.where(active < 0, problem.lower, np.where(active > 0, problem.upper, found.x)))

    log_rho = math.nan
    for _ in range(ROUNDS):
        x = np.linalg.qr((jacobian(problem, free) * roots[:, None])[:, ~centred.at_bound(free)])[0]
        rho = _ratio(x, residuals(free), grouped)
        last, log_rho = log_rho, math.log(max(rho, math.exp(LOG_RHO[0])))
        if abs(log_rho - last) < SAME_LOG_RHO:
            return with_errors(centred, free, rho, grouped, residuals(free))
        free = estimate(free, rho)
    raise FitError("estimate and variance components of the random intercept did not come to agree", partial=fit)


def with_errors(centred: CentredLaw, free: Array, rho: float, grouped: Grouped, residuals: Array) -> Mixed:
    """Equation (2) at the estimate."""
    law, inside = centred.law, ~centred.at_bound(free)
    x, triangle = np.linalg.qr((jacobian(centred.problem, free) * grouped.roots[:, None])[:, inside])
    lengths = np.abs(np.diag(triangle))
    if lengths.min() <= 1e-10 * lengths.max():
        raise FitError("the data do not determine every parameter of the law with a random intercept")
    components = components_at(rho, x, residuals, grouped)
    variances, degrees = kenward_roger(x, rho, components.row**2, grouped)
    with np.errstate(invalid="ignore", divide="ignore"):
        # l' theta = (l' R^-1) (R theta), and Q has orthonormal columns whatever the units.
        contrasts = np.linalg.solve(triangle.T, centred.reporting_jacobian(free)[:, inside].T).T
    errors, nu = {}, {}
    for name, contrast in zip(law.parameter_names, contrasts, strict=True):
        j = centred.free_index(name)
        known = j is not None and bool(inside[j])
        errors[name] = math.sqrt(contrast @ variances @ contrast) if known else math.nan
        nu[name] = degrees(contrast) if known else math.nan
    return Mixed(
        law, MappingProxyType(centred.params(free)), MappingProxyType(errors), MappingProxyType(nu), components
    )


def kenward_roger(x: Array, rho: float, variance: float, grouped: Grouped) -> tuple[Array, Callable[[Array], float]]:
    """Phi_A of equation (2), and nu of a contrast."""
    n, p = x.shape
    if rho == 0:  # one component: the classical interval
        return np.asarray(variance * np.linalg.inv(x.T @ x)), lambda _: float(n - p)
    a = grouped.solve(x, rho)
    b, shrunk = grouped.sums(a), 1 / (1 + rho * grouped.loads)
    inverse = np.linalg.inv(x.T @ a)
    phi, own = variance * inverse, grouped.loads * shrunk
    products = [-(a.T @ a) / variance**2, -(b.T @ b) / variance**2]
    cross = (b * shrunk[:, None]).T @ b / variance**3
    thirds = [[a.T @ grouped.solve(a, rho) / variance**3, cross], [cross, (b * own[:, None]).T @ b / variance**3]]
    # Traces of P V_i P V_j with P = (V_0^-1 - a (X' a)^-1 a') / sigma^2, in p x p matrices.
    aa, bb = inverse @ (a.T @ a), inverse @ (b.T @ b)
    traces = np.array(
        [
            [n - grouped.n_groups + np.sum(shrunk**2), np.sum(own * shrunk)],
            [np.sum(own * shrunk), np.sum(own**2)],
        ]
    )
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        first, second = (aa, bb)[i], (aa, bb)[j]
        traces[i, j] += np.trace(first @ second) - 2 * variance**3 * np.trace(inverse @ thirds[i][j])
    weights = np.linalg.inv(traces / (2 * variance**2))
    pairs = [(i, j) for i in (0, 1) for j in (0, 1)]
    middle = sum(weights[i, j] * (thirds[i][j] - products[i] @ phi @ products[j]) for i, j in pairs)

    def degrees(contrast: Array) -> float:
        pulls = np.array([contrast @ phi @ product @ phi @ contrast for product in products])
        return float(2 * (contrast @ phi @ contrast) ** 2 / (pulls @ weights @ pulls))

    return np.asarray(phi + 2 * phi @ middle @ phi), degrees
