"""One model of the noise under every error that a fit reports.

Rows of one group g (run, or shape where several runs share one, or row where nothing is shared) may depend on each
other in any way. With A the Hessian of the penalties' total at the optimum (the observed one: under a law that misses
its table J' W J is wrong), whitened J and scores psi, and P = I - J (J' J)^-1 J', the covariance is

    V = A^-1 [ sum_g J_g' M_g psi_g psi_g' M_g J_g ] A^-1,    M_g = (I - J_g (J' J)^-1 J_g')^(-1/2)          (1)

with the symmetric root of the pseudo-inverse (Bell & McCaffrey 2002; Pustejovsky & Tipton 2018): unbiased where rows
are independent. The variance of a contrast l' theta is estimated with few degrees of freedom of its own: with
c_g = l' A^-1 J_g' M_g and B_gh = (c_g P_g.) (c_h P_h.)',

    nu = (tr B)^2 / tr(B B),    l' theta +- t_nu sqrt(l' V l).                                              (2)

In coordinates in which the columns of J are orthonormal, M_g J_g = J_g (I - E_g)^(-1/2) with E_g = J_g' J_g, so that
everything is p x p whatever the size of the groups:

    d_g = c_g c_g',   q_g = J_g' c_g',    tr B = sum_g d_g - |q_g|^2,
    tr(B B) = sum_g d_g^2 - 2 d_g |q_g|^2 + |sum_g q_g q_g'|^2.                                             (3)

Shapes of which there are too few for that (nu below 2, or fewer than p + 2) have the variance of a random intercept,
by restricted maximum likelihood (`scalefit.fitting.groups`), with the degrees of freedom of its components:

    l' V l = sigma_e^2 |a|^2 + sigma_b^2 |Z' a|^2,    a = J A^-1 l m.                                       (4)

Runs too few have no interval. Where rows are few and share nothing, nu falls to 2 or 3, and the classical interval,
v (J' W J)^-1 with t on n - p degrees, is as safe and half as wide.

To use it: `Fit.errors` is the `ErrorModel` of a fit. `errors.contrast(gradients)` takes the derivatives of any
quantities by the free parameters of the centred law, (m, P), and gives their variances and degrees of freedom.
`Fit.intervals_of(quantities)` takes a function from an `Optimum` to values and gradients, and gives intervals that hold
at a floor's bound too: `Optimum.reporting` are the gradients of ln c, alpha and L0, and `CentredLaw.at(points)` with
`scalefit.fitting.problem.jacobian` gives those of t(loss) anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scalefit.fitting.groups import Components, Labels, estimate_components, group_labels, shared_unit
from scalefit.fitting.optimum import Optimum
from scalefit.fitting.student import t_quantile, t_quantiles
from scalefit.ingest.duplicates import exact_duplicates, hash_rows
from scalefit.laws.law import Law
from scalefit.laws.parameter import Bounds, Parameter
from scalefit.runs import Runs

__all__ = ["AUTO", "ROWS", "Contrast", "ErrorModel", "error_model", "t_interval"]

Array = NDArray[np.float64]

AUTO, ROWS = "auto", "rows"
"""Errors by what rows share, and those of version 0.1, which take every row for independent."""

DUPLICATES_UP_TO = 20_000
"""Rows among which a fit looks for repeated ones, for the cost; `inspect_runs` looks among any number."""

FEW_ROWS = 20
"""Rows that share nothing have the classical interval below this number."""

FEWEST_DEGREES = 2.0
"""An estimated variance with fewer degrees of freedom supports no interval."""

_LEFT = 1e-10
"""A direction that a group alone determines, but for this share, has no residuals to learn from."""


def t_interval(parameter: Parameter, value: float, error: float, degrees: float, level: float) -> Bounds:
    """Student's t interval of a parameter in plain units, formed on the scale on which its error lives."""
    if parameter.in_logs and value <= 0:
        return float("nan"), float("nan")
    half = t_quantile(degrees, (1 + level) / 2) * error
    inner = float(parameter.inner(value))
    with np.errstate(over="ignore"):
        return float(parameter.outer(inner - half)), float(parameter.outer(inner + half))


@dataclass(frozen=True, eq=False)
class Contrast:
    """Errors of m quantities.

    Attributes
    ----------
    variance : (m,) float array
    degrees : (m,) float array
        Of Student's t, equation (2); nan where groups are too few for an interval.
    """

    variance: Array
    degrees: Array

    def half_width(self, level: float) -> Array:
        """(m,) half widths of the intervals; nan where groups are too few."""
        return np.asarray(t_quantiles(self.degrees, (1 + level) / 2) * np.sqrt(self.variance))


@dataclass(frozen=True, eq=False)
class ErrorModel:
    """Errors of any quantity of a fit.

    Attributes
    ----------
    optimum : Optimum
    method : str
        ``"cluster"``: equation (1), groups of several rows; ``"robust"``: equation (1), single rows;
        ``"gauss-newton"``: the classical form.
    by : str
        What the groups are.
    labels : (n,) int array
        Group of each row.
    """

    optimum: Optimum
    method: str
    by: str
    labels: Labels

    @cached_property
    def groups(self) -> int:
        """How many groups there are."""
        return int(self.labels.max()) + 1

    @property
    def too_few(self) -> bool:
        """Whether groups of several rows are too few for any interval."""
        return self.method == "cluster" and self.by != "row" and self.groups < int(self.optimum.inside.sum()) + 2

    @property
    def degrees(self) -> int:
        """Rows less parameters, or distinct rows where some repeat others; at least one."""
        rows = self.groups if self.by == "row" else len(self.labels)
        return max(1, rows - int(self.optimum.inside.sum()))

    @property
    def _classical(self) -> Array:
        """v (J' W J)^-1 of distinct rows."""
        return self.optimum.gauss_newton * (self.optimum.degrees / self.degrees)

    @np.errstate(over="ignore")
    def contrast(self, gradients: Array) -> Contrast:
        """Variances and degrees of freedom of quantities.

        Parameters
        ----------
        gradients : (m, P) float array
            Derivatives by the free parameters of the centred law; those of parameters at a bound do not count.
        """
        optimum = self.optimum
        inside = np.where(optimum.inside, gradients, 0.0)
        classical = np.einsum("mi,ij,mj->m", inside, self._classical, inside)
        every = np.full(len(inside), float(self.degrees))
        if self.method == "gauss-newton":
            return Contrast(classical, every)
        basis, null = optimum.orthonormal
        weights = inside @ basis @ self._bread
        pull, size, meat = self._pieces
        variance = np.einsum("mi,ij,mj->m", weights, meat, weights)
        # Of directions that no data tell of only the classical form knows anything: that their variance is huge.
        open_ended = optimum.scores.variance * ((inside @ null) ** 2).sum(axis=1)
        variance += open_ended
        # Degrees do not depend on a contrast's size, whose fourth power may be no number.
        sized = weights / np.maximum(np.abs(weights).max(axis=1, initial=0.0), 1e-300)[:, None]
        if self.method == "robust":
            # Single rows: E_g has one direction, J_i itself, and (I - E_g)^(-1/2) stretches it by (1 - h_i)^(-1/2).
            d = (sized @ (pull * size[:, None]).T) ** 2
            own = d * np.einsum("ni,ni->n", pull, pull)
            together = np.stack([(pull * row[:, None]).T @ pull for row in d])
        else:
            c = np.einsum("gij,mj->mgi", pull, sized)
            q = np.einsum("gij,mgj->mgi", size, c)
            d, own = np.einsum("mgi,mgi->mg", c, q), np.einsum("mgi,mgi->mg", q, q)
            together = np.einsum("mgi,mgj->mij", q, q)
        square = (d * d - 2 * d * own).sum(axis=1) + np.einsum("mij,mij->m", together, together)
        with np.errstate(invalid="ignore", divide="ignore"):
            degrees = np.minimum((d - own).sum(axis=1) ** 2 / square, every)
        few = ~(degrees >= FEWEST_DEGREES)
        if self.by == "row":
            # What one or two rows determine alone has no residuals of its own: the others' stand in.
            return Contrast(np.where(few, classical, variance), np.where(few, every, degrees))
        few |= self.too_few
        if self.by == "run" or not few.any():
            return Contrast(variance, np.where(few, np.nan, degrees))
        mixed = self._mixed(weights * optimum.scores.slope)
        return Contrast(np.where(few, mixed.variance + open_ended, variance), np.where(few, mixed.degrees, degrees))

    def _mixed(self, weights: Array) -> Contrast:
        """Errors by the variance components, equation (4), of contrasts in orthonormal coordinates."""
        rows = self._rows
        row = np.einsum("mi,mi->m", weights, weights)
        sums = np.stack([np.bincount(self.labels, column, self.groups) for column in rows.T], axis=1)
        group = np.einsum("mg,mg->m", weights @ sums.T, weights @ sums.T)
        gradient = np.stack([row, group], axis=1)
        components = self.components
        degrees = np.minimum(components.degrees(gradient), self.degrees)
        return Contrast(gradient @ [components.row, components.group], np.where(degrees < 1, np.nan, degrees))

    @cached_property
    def components(self) -> Components:
        """Variances of what rows of a group share and of the rows, on the objective's scale."""
        scores = self.optimum.scores
        whitened = scores.first * np.sqrt(self.optimum.weights)
        # Scores in units of residuals: their mean square is the variance that the fit reports.
        unit = np.sqrt(scores.variance * self.optimum.degrees / max(float(whitened @ whitened), 1e-300))
        return estimate_components(self._rows, whitened * unit, self.labels)

    def covariance(self, gradients: Array) -> Array:
        """(m, m) covariance of quantities."""
        inside = np.where(self.optimum.inside, gradients, 0.0)
        if self.method == "gauss-newton":
            return np.asarray(inside @ self._classical @ inside.T)
        basis, null = self.optimum.orthonormal
        weights, open_ended = inside @ basis @ self._bread, inside @ null
        noise = self.optimum.scores.variance
        return np.asarray(weights @ self._pieces[2] @ weights.T + noise * open_ended @ open_ended.T)

    def limits(self, level: float) -> dict[str, float]:
        """One-sided limits of parameters at a bound, by their errors as though they were free, within the bounds.

        A coefficient with no bounds of the user's is that of a term that vanished, and has none.
        """
        optimum, centred = self.optimum, self.optimum.centred
        limits = {}
        for j in np.flatnonzero(~optimum.inside):
            parameter, low, high = centred.free_parameters[j], centred.problem.lower[j], centred.problem.upper[j]
            if parameter.is_coefficient and (low, high) == parameter.natural_bounds:
                continue
            unit = np.eye(len(optimum.free))[j]
            free = Optimum.of(centred, optimum.free, optimum.inside | (unit > 0))
            found = replace(self, optimum=free).contrast(unit[None])
            step = float(t_quantiles(found.degrees, level)[0] * np.sqrt(found.variance[0]))
            limit = float(optimum.free[j]) + (step if optimum.free[j] <= low else -step)
            highest = min(high, centred.smallest_loss if parameter.is_floor else np.inf)
            limit = float(min(max(limit, low), highest)) if np.isfinite(limit) else float(highest)
            # q is 1 / p of the solver's p.
            limits[parameter.name] = 1.0 / limit if parameter.is_coupling else limit
        return limits

    @cached_property
    def _rows(self) -> Array:
        """(n, p) W^1/2 J in orthonormal coordinates."""
        optimum = self.optimum
        return np.asarray((optimum.matrix * np.sqrt(optimum.weights)[:, None]) @ optimum.orthonormal[0])

    @cached_property
    def _bread(self) -> Array:
        """A^-1 in orthonormal coordinates, with m J' W J for A where that is not positive definite."""
        optimum = self.optimum
        basis, _ = optimum.orthonormal
        hessian = basis.T @ optimum.hessian @ basis
        values, vectors = np.linalg.eigh(hessian)
        slope = optimum.scores.slope
        if not values.min(initial=1.0) > 1e-6 * slope:
            return np.eye(len(values)) / slope
        return np.asarray((vectors / values) @ vectors.T)

    @cached_property
    def _pieces(self) -> tuple[Array, Array, Array]:
        """What the contrasts are made of: for groups (I - E_g)^(-1/2), E_g and the sum of (1); for rows J, stretches.

        The sum of (1) is a (p, p) matrix.
        """
        rows = self._rows
        scores = rows * (self.optimum.scores.first * np.sqrt(self.optimum.weights))[:, None]
        if self.method == "robust":
            left = 1.0 - np.einsum("ni,ni->n", rows, rows)
            stretch = np.where(left > _LEFT, 1 / np.sqrt(np.maximum(left, _LEFT)), 0.0)
            stretched = scores * stretch[:, None]
            return rows, stretch, stretched.T @ stretched
        columns, count = range(rows.shape[1]), self.groups
        own = np.empty((count, len(columns), len(columns)))
        for k in columns:
            for j in columns[: k + 1]:
                own[:, k, j] = own[:, j, k] = np.bincount(self.labels, rows[:, k] * rows[:, j], count)
        sums = np.stack([np.bincount(self.labels, column, count) for column in scores.T], axis=1)
        values, vectors = np.linalg.eigh(own)
        left = 1.0 - values
        stretch = np.where(left > _LEFT, 1 / np.sqrt(np.maximum(left, _LEFT)), 0.0)
        roots = np.einsum("gij,gj,gkj->gik", vectors, stretch, vectors)
        stretched = np.einsum("gij,gj->gi", roots, sums)
        return roots, own, stretched.T @ stretched


def error_model(optimum: Optimum, runs: Runs, law: Law, errors: str = AUTO) -> ErrorModel:
    """Choose the model of the noise for a fit.

    A row that repeats another in every column counts as the same measurement.

    Parameters
    ----------
    optimum : Optimum
    runs : Runs
        The rows of the fit.
    law : Law
    errors : str
        ``"auto"`` for what rows share, ``"rows"`` for independent rows of even noise, or what groups them:
        ``"row"``, ``"run"``, ``"shape"`` or a column.
    """
    n = len(runs)
    if errors == ROWS:
        return ErrorModel(optimum, "gauss-newton", "row", np.arange(n, dtype=np.int64))
    later = exact_duplicates(runs.table) if n <= DUPLICATES_UP_TO else np.empty(0, dtype=np.int64)
    distinct = runs.take(np.delete(np.arange(n), later), "distinct rows") if len(later) else runs
    by = shared_unit(distinct, law) if errors == AUTO else errors
    labels = group_labels(runs, law, by)
    if by == "row" and len(later):
        labels = np.unique(hash_rows([runs[name] for name in runs.columns]), return_inverse=True)[1].astype(np.int64)
    n_groups = int(labels.max()) + 1
    if by == "row" and errors == AUTO and n_groups < FEW_ROWS:
        return ErrorModel(optimum, "gauss-newton", by, labels)
    return ErrorModel(optimum, "robust" if n_groups == n else "cluster", by, labels)
