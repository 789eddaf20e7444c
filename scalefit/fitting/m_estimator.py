"""What residuals say about the size of the noise: one definition for every covariance of a fit.

With psi the derivative of the penalty, p free parameters and J the derivatives of the residuals by them, the covariance
is v (J' W J)^-1 (Huber 1981, section 7.6) with

    v = K^2 [sum_i w_i psi_i^2 / (n - p)] / m^2,    K = 1 + (p / n) (1 - s) / s,                    (1)

m the mean of w psi' and s the share of rows in the quadratic zone |r| <= delta. For the squared penalty K = 1 and v is
sum_i w_i r_i^2 / (n - p). Where the zone is narrow few rows but those the law passes through lie in it: psi' is then
averaged over a window whose half width h is that of a density estimate,

    psi'_i = (delta / h) [|r_i| <= h],    h = max(delta, 1.84 scale n^(-1/5)),                      (2)

so that s is the share within h and m = s delta / h, as for the median (Powell 1991).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalefit.fitting.objective import Objective

__all__ = ["Scores", "row_scores"]

Array = NDArray[np.float64]

NORMAL_MEDIAN = 0.6745
"""Median size of a standard normal number."""


@dataclass(frozen=True)
class Scores:
    """First and second derivatives of the rows' penalties, and the noise they imply.

    Attributes
    ----------
    first : (n,) float array
        psi_i.
    second : (n,) float array
        psi'_i, by equation (2) for the Huber penalty.
    slope : float
        m, the weighted mean of psi'_i; that of one row where no row has any.
    variance : float
        v of equation (1), in squared units of the residuals.
    """

    first: Array
    second: Array
    slope: float
    variance: float


def row_scores(objective: Objective, residuals: Array, weights: Array, n_free: int) -> Scores:
    """Derivatives of the penalties of n rows, and equation (1).

    Parameters
    ----------
    objective : Objective
    residuals : (n,) float array
        On the objective's scale.
    weights : (n,) float array
        Of mean one.
    n_free : int
        p, the parameters that the residuals were fitted with.
    """
    n = len(residuals)
    first = objective.score(residuals)
    if objective.delta is None:
        second, correction = np.full(n, float(objective.curvature(residuals))), 1.0
        slope = float(np.mean(weights * second))
    else:
        sizes = np.abs(residuals)
        window = max(objective.delta, _bandwidth(sizes, n_free))
        share = max(float(np.mean(weights * (sizes <= window))), 1.0 / n)
        second, slope = (sizes <= window) * (objective.delta / window), share * objective.delta / window
        correction = 1.0 + n_free / n * max(0.0, 1.0 - share) / share
    variance = float(np.sum(weights * first**2)) / (n - n_free) * (correction / slope) ** 2
    return Scores(first, second, slope, variance)


def _bandwidth(sizes: Array, n_free: int) -> float:
    """Half width of a window for the residuals' density at zero (Silverman 1986, section 3.4, uniform kernel).

    The law passes through about `n_free` rows whatever the noise; the scale is the median size of the others.
    """
    scale = float(np.median(np.partition(sizes, n_free)[n_free:])) / NORMAL_MEDIAN
    return 1.84 * scale / float(len(sizes) ** 0.2)
