"""Large-sample covariances of a fit: side by side, since they disagree where the law does not hold.

With the penalties' total F_n = n F, its Hessian A at the optimum, and s_i the derivative of row i's penalty,

    Gauss-Newton       v (J' W J)^-1                                       (right if the law and its noise are)
    observed           v m A^-1 with the exact Hessian                     (Efron & Hinkley 1978)
    robust             n / (n - p)  A^-1 [sum_i s_i s_i'] A^-1              (rows of unequal noise, HC1)
    cluster            G / (G - 1) (n - 1) / (n - p)  A^-1 [sum_g s_g s_g'] A^-1    (rows that share a run or shape)

all of the M-estimator form, with v, m and the second derivatives psi' in A from `scalefit.fitting.m_estimator`.
Intervals use Student's t with n - p degrees of freedom, and with G - 1 for clusters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from scalefit.errors import OptionError, ScalefitWarning
from scalefit.fitting.derivatives import evaluate, gauss_newton, jacobian, predict
from scalefit.fitting.fit import Fit
from scalefit.fitting.m_estimator import Scores, row_scores
from scalefit.fitting.problem import Problem
from scalefit.fitting.starts import check_seed
from scalefit.uncertainty.groups import FEWEST_CLUSTERS, choose_method, group_labels
from scalefit.uncertainty.refits import Refits, refit
from scalefit.uncertainty.samples import check_level

__all__ = ["Asymptotic", "asymptotic"]

Array = NDArray[np.float64]

SIMULATIONS = 200
IMPROBABLE = 0.01


@dataclass(frozen=True, eq=False)
class Asymptotic:
    """Covariances of ln c, alpha and L0 by several theories.

    Attributes
    ----------
    names : tuple of str
        The law's parameters.
    estimate : mapping of str to float
        In plain units.
    covariances : mapping of str to (n_names, n_names) float array
        By theory: ``"gauss-newton"``, ``"observed"``, ``"robust"`` and, where there are at least 15 clusters,
        ``"cluster"``.
        nan for fixed parameters and those at a bound.
    degrees : mapping of str to int
        Degrees of freedom of Student's t, by theory.
    likelihood_scale : (n_names,) float array
        Robust variance over the inverse Hessian's, by which a penalty's profile is calibrated (Kent 1982).
    clusters : str
        What the clusters are, or an empty text.
    hessian_ratio : float
        Exact Hessian over Gauss-Newton's along the direction that the data determine worst.
    hessian_p : float
        Share of simulated tables of the fitted law with a ratio so far from one; nan for robust objectives
        and without simulations.
    warnings : tuple of ScalefitWarning
    """

    names: tuple[str, ...]
    estimate: Mapping[str, float]
    covariances: Mapping[str, Array]
    degrees: Mapping[str, int]
    likelihood_scale: Array
    clusters: str
    hessian_ratio: float
    hessian_p: float
    warnings: tuple[ScalefitWarning, ...]

    def standard_error(self, name: str, theory: str = "gauss-newton") -> float:
        """Standard error of a parameter; of ln c for a coefficient."""
        if theory not in self.covariances:
            raise OptionError(f"there is no covariance {theory!r}; there are {', '.join(self.covariances)}")
        i = self.names.index(name)
        return float(np.sqrt(self.covariances[theory][i, i]))

    def interval(self, name: str, theory: str = "gauss-newton", level: float = 0.95) -> tuple[float, float]:
        """Wald interval in plain units; a coefficient's is symmetric in ln c."""
        half = float(stdtrit(self.degrees[theory], (1 + check_level(level)) / 2)) * self.standard_error(name, theory)
        value = self.estimate[name]
        if name.startswith("c_"):
            return value * math.exp(-half), value * math.exp(half)
        return value - half, value + half


def asymptotic(fit: Fit, *, by: str | None = None, seed: int = 0, simulations: int = SIMULATIONS) -> Asymptotic:
    """Compute the covariances of a fit by every theory that applies.

    Parameters
    ----------
    fit : Fit
    by : str, optional
        Clusters: ``"run"``, ``"shape"`` or a column; by default what `choose_method` finds.
    seed : int
        Of the simulations behind `hessian_p`.
    simulations : int
        How many; 0 leaves `hessian_p` unknown.
    """
    refits = Refits.of(fit)
    check_seed(seed)
    clusters = by or choose_method(fit).by
    inside = ~refits.centred.at_bound(refits.point)
    pieces = _pieces(refits, inside)
    bread, rows, variance = pieces.bread, pieces.rows, pieces.scores.variance
    n, p = rows.shape
    free = {
        "gauss-newton": pieces.normal * variance,
        "observed": bread * (variance * pieces.scores.slope),
        "robust": pieces.robust,
    }
    degrees = dict.fromkeys(free, n - p)
    labels = group_labels(fit, clusters)
    n_groups = int(labels.max()) + 1
    if clusters != "row" and n_groups >= FEWEST_CLUSTERS:
        sums = np.stack([np.bincount(labels, column, n_groups) for column in rows.T], axis=1)
        free["cluster"] = bread @ (sums.T @ sums) @ bread * n_groups / (n_groups - 1) * (n - 1) / (n - p)
        degrees["cluster"] = n_groups - 1
    ratio, probability = _hessian_ratio(refits, inside), math.nan
    if fit.objective.delta is None and simulations:
        probability = _ratio_probability(fit, refits, inside, ratio, (seed, simulations))
    reported = {name: _reported(refits, inside, matrix) for name, matrix in free.items()}
    return Asymptotic(
        names=fit.law.parameter_names,
        estimate=fit.params,
        covariances=MappingProxyType(reported),
        degrees=MappingProxyType(degrees),
        likelihood_scale=_likelihood_scale(refits),
        clusters=clusters if "cluster" in free else "",
        hessian_ratio=ratio,
        hessian_p=probability,
        warnings=_warnings(ratio, probability, simulations),
    )


def _likelihood_scale(refits: Refits) -> Array:
    """Robust over inverse-Hessian variance of ln c, alpha and L0, those at a bound as though they were free."""
    inside = ~refits.centred.vanished(refits.point)
    pieces = _pieces(refits, inside)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.diag(_reported(refits, inside, pieces.robust)) / np.diag(_reported(refits, inside, pieces.bread))


@dataclass(frozen=True)
class _Pieces:
    """What covariances are made of, for the parameters inside.

    Attributes
    ----------
    bread : (P, P) float array
        A^-1.
    normal : (P, P) float array
        (J' W J)^-1.
    rows : (n, P) float array
        s_i.
    scores : Scores
    """

    bread: Array
    normal: Array
    rows: Array
    scores: Scores

    @property
    def robust(self) -> Array:
        """The sandwich of independent rows."""
        n, p = self.rows.shape
        sandwich: Array = self.bread @ (self.rows.T @ self.rows) @ self.bread * n / (n - p)
        return sandwich


def _pieces(refits: Refits, inside: NDArray[np.bool_]) -> _Pieces:
    problem, matrix = refits.centred.problem, jacobian(refits.centred.problem, refits.point)[:, inside]
    weights, scores = _weights(problem), _row_scores(refits, inside)
    return _Pieces(
        bread=_inverse(len(matrix) * _exact(refits, scores)[np.ix_(inside, inside)]),
        normal=_inverse((matrix.T * weights) @ matrix),
        rows=(weights * scores.first)[:, None] * matrix,
        scores=scores,
    )


def _row_scores(refits: Refits, inside: NDArray[np.bool_]) -> Scores:
    problem = refits.centred.problem
    return row_scores(problem.objective, _residuals(refits), _weights(problem), int(inside.sum()))


def _residuals(refits: Refits) -> Array:
    problem = refits.centred.problem
    return np.asarray(problem.objective.transform(predict(problem, refits.point[None])[0]) - problem.target)


def _weights(problem: Problem) -> Array:
    return np.ones(problem.logs.shape[1]) if problem.weights is None else problem.weights


def _exact(refits: Refits, scores: Scores) -> Array:
    """A / n of all free parameters, psi' averaged over the window of `scalefit.fitting.m_estimator`."""
    problem = refits.centred.problem
    hessian: Array = evaluate(problem, refits.point[None]).hessian[0]
    matrix = jacobian(problem, refits.point)
    excess = scores.second - problem.objective.curvature(_residuals(refits))
    return np.asarray(hessian + (matrix.T * (_weights(problem) * excess)) @ matrix / len(matrix))


def _inverse(matrix: Array) -> Array:
    """Inverse after scaling to a unit diagonal; pseudo-inverse where it is singular."""
    scale = 1 / np.sqrt(np.maximum(np.abs(np.diag(matrix)), 1e-300))
    return np.linalg.pinv(matrix * scale * scale[:, None], hermitian=True) * scale * scale[:, None]


def _reported(refits: Refits, inside: NDArray[np.bool_], covariance: Array) -> Array:
    """Covariance of ln c, alpha and L0 from that of the free parameters inside."""
    names = refits.centred.law.parameter_names
    with np.errstate(invalid="ignore", divide="ignore"):
        rows = refits.centred.reporting_jacobian(refits.point)[:, inside]
        matrix = rows @ covariance @ rows.T
    index = [refits.centred.free_index(name) for name in names]
    known = np.array([j is not None and bool(inside[j]) for j in index])
    matrix[~known] = np.nan
    matrix[:, ~known] = np.nan
    return matrix


def _ratios(inside: NDArray[np.bool_], exact: Array, normal: Array) -> Array:
    """(B,) exact over Gauss-Newton Hessian along the weakest direction of the latter."""
    select = np.ix_(np.arange(len(exact)), np.flatnonzero(inside), np.flatnonzero(inside))
    exact, normal = exact[select], normal[select]
    index = np.arange(normal.shape[1])
    scale = 1 / np.sqrt(np.maximum(normal[:, index, index], 1e-300))
    both = scale[:, :, None] * scale[:, None, :]
    values, vectors = np.linalg.eigh(normal * both)
    weakest = vectors[:, :, 0]
    return np.asarray(np.einsum("bi,bij,bj->b", weakest, exact * both, weakest) / np.maximum(values[:, 0], 1e-300))


def _hessian_ratio(refits: Refits, inside: NDArray[np.bool_]) -> float:
    problem, scores = refits.centred.problem, _row_scores(refits, inside)
    matrix = jacobian(problem, refits.point)
    normal = scores.slope * (matrix.T * _weights(problem)) @ matrix / len(matrix)
    return float(_ratios(inside, _exact(refits, scores)[None], normal[None])[0])


def _ratio_probability(
    fit: Fit, refits: Refits, inside: NDArray[np.bool_], ratio: float, seed_and_count: tuple[int, int]
) -> float:
    """Share of tables simulated from the fit, normal noise of the residuals' size, with a ratio so far from one."""
    problem = refits.centred.problem
    n = problem.logs.shape[1]
    sigma = math.sqrt(fit.objective_value * n / (n - len(refits.point)))
    seed, count = seed_and_count
    noise = np.random.default_rng(seed).standard_normal((count, n)) * sigma / np.sqrt(_weights(problem))
    simulated = replace(problem, target=problem.target + fit.residuals + noise)
    found = refit(refits, simulated, seed)
    every = np.arange(count)
    exact = evaluate(simulated, found.free, every).hessian
    ratios = _ratios(inside, exact, gauss_newton(simulated, found.free, every))
    return float((np.abs(ratios - 1) >= abs(ratio - 1)).mean())


def _warnings(ratio: float, probability: float, simulations: int) -> tuple[ScalefitWarning, ...]:
    if not probability < IMPROBABLE:
        return ()
    shown = f"{probability:.3f}" if probability else f"below {1 / simulations:.3f}"
    return (
        ScalefitWarning(
            "curvature-disagrees",
            f"along the direction that the data determine worst the exact curvature of the objective is {ratio:.2f} "
            f"times that of the linearised law; under the law so much has the probability {shown}.",
            "The law misses something in this table: trust the bootstrap, and look at the residuals.",
            {"ratio": ratio, "probability": probability},
        ),
    )
