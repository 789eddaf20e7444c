"""Large-sample covariances of a fit: side by side, since they disagree where the law does not hold.

The theories are those of equation (1) of `scalefit.fitting.optimum`. Intervals use Student's t with n - p degrees
of freedom, and with G - 1 for clusters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError, ScalefitWarning
from scalefit.fitting.covariance import t_interval
from scalefit.fitting.derivatives import evaluate, gauss_newton
from scalefit.fitting.optimum import Optimum
from scalefit.fitting.starts import check_seed
from scalefit.uncertainty.groups import FEWEST_CLUSTERS, choose_grouping, group_labels
from scalefit.uncertainty.resampling import Refits, refit
from scalefit.uncertainty.samples import check_level

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["Asymptotic", "asymptotic"]

Array = NDArray[np.float64]

SIMULATIONS = 200
IMPROBABLE = 0.01


@dataclass(frozen=True, eq=False)
class Asymptotic:
    """Covariances of ln c, alpha and L0 by several theories.

    Attributes
    ----------
    fit : Fit
    covariances : mapping of str to (n_names, n_names) float array
        By theory: ``"gauss-newton"``, ``"observed"``, ``"robust"`` and, where there are at least 15 clusters,
        ``"cluster"``.
        nan for fixed parameters and those at a bound.
    degrees : mapping of str to int
        Degrees of freedom of Student's t, by theory.
    clusters : str
        What the clusters are, or an empty text.
    hessian_ratio : float
        Exact Hessian over Gauss-Newton's along the direction that the data determine worst.
    hessian_p : float
        Share of simulated tables of the fitted law with a ratio so far from one; nan for robust objectives
        and without simulations.
    warnings : tuple of ScalefitWarning
    """

    fit: Fit
    covariances: Mapping[str, Array]
    degrees: Mapping[str, int]
    clusters: str
    hessian_ratio: float
    hessian_p: float
    warnings: tuple[ScalefitWarning, ...]

    def standard_error(self, name: str, theory: str = "gauss-newton") -> float:
        """Standard error of a parameter; of ln c for a coefficient."""
        if theory not in self.covariances:
            raise OptionError(f"there is no covariance {theory!r}; there are {', '.join(self.covariances)}")
        i = self.fit.law.parameter_names.index(name)
        return float(np.sqrt(self.covariances[theory][i, i]))

    def interval(self, name: str, theory: str = "gauss-newton", level: float = 0.95) -> tuple[float, float]:
        """Wald interval in plain units; a coefficient's is symmetric in ln c."""
        parameter, error = self.fit.law.parameter(name), self.standard_error(name, theory)
        return t_interval(parameter, self.fit.params[name], error, self.degrees[theory], check_level(level))


def asymptotic(fit: Fit, *, by: str | None = None, seed: int = 0, simulations: int = SIMULATIONS) -> Asymptotic:
    """Compute the covariances of a fit by every theory that applies.

    Parameters
    ----------
    fit : Fit
    by : str, optional
        Clusters: ``"run"``, ``"shape"`` or a column; by default what `choose_grouping` finds.
    seed : int
        Of the simulations behind `hessian_p`.
    simulations : int
        How many; 0 leaves `hessian_p` unknown.
    """
    check_seed(seed)
    clusters = by or choose_grouping(fit).by
    optimum = fit.optimum
    free = {"gauss-newton": optimum.gauss_newton, "observed": optimum.observed, "robust": optimum.robust}
    degrees = dict.fromkeys(free, optimum.degrees)
    labels = group_labels(fit, clusters)
    n_groups = int(labels.max()) + 1
    if clusters != "row" and n_groups >= FEWEST_CLUSTERS:
        free["cluster"], degrees["cluster"] = optimum.clustered(labels), n_groups - 1
    normal = optimum.scores.slope * optimum.information
    ratio = float(_ratios(optimum.inside, optimum.hessian[None], normal[None])[0])
    probability = math.nan
    if fit.objective.delta is None and simulations:
        probability = ratio_probability(fit, optimum, ratio, (seed, simulations))
    return Asymptotic(
        fit=fit,
        covariances=MappingProxyType({name: optimum.reported(m, known_only=True) for name, m in free.items()}),
        degrees=MappingProxyType(degrees),
        clusters=clusters if "cluster" in free else "",
        hessian_ratio=ratio,
        hessian_p=probability,
        warnings=_warnings(ratio, probability, simulations),
    )


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


def ratio_probability(fit: Fit, optimum: Optimum, ratio: float, seed_and_count: tuple[int, int]) -> float:
    """Share of tables simulated from the fit, normal noise of the residuals' size, with a ratio so far from one."""
    problem, n = optimum.centred.problem, len(fit.runs)
    sigma = math.sqrt(fit.objective_value * n / (n - len(optimum.free)))
    seed, count = seed_and_count
    noise = np.random.default_rng(seed).standard_normal((count, n)) * sigma / np.sqrt(optimum.weights)
    simulated = replace(problem, target=problem.target + fit.residuals + noise)
    found = refit(Refits(optimum.centred, optimum.free), simulated, seed)
    every = np.arange(count)
    exact = evaluate(simulated, found.free, every).hessian
    ratios = _ratios(optimum.inside, exact, gauss_newton(simulated, found.free, every))
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
