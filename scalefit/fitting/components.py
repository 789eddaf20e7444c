"""How much of the noise rows of one group share: a random intercept by restricted maximum likelihood.

The residuals of a law linearised at its optimum are e = (I - H) (Z b + epsilon), with H = J (J' J)^-1 J', Z the groups,
b ~ N(0, sigma_b^2) one effect a group and epsilon ~ N(0, sigma_e^2). With lambda_k and v_k the eigenpairs of
Z' (I - H) Z and u_k = v_k' Z' e / sqrt(lambda_k), the likelihood is that of independent normal numbers,

    u_k ~ N(0, sigma_e^2 + sigma_b^2 lambda_k),    |e|^2 - |u|^2 ~ sigma_e^2 chi^2_{n - p - K}             (1)

(Patterson & Thompson 1971). ln(sigma_b / sigma_e) is added to it, which keeps the estimate off zero, where few groups
would put it half of the time (Chung et al. 2013). Fewer than two u_k tell nothing of groups, and sigma_b is zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Components", "estimate_components"]

Array = NDArray[np.float64]

_LEFT = 0.02

_LOG_RATIOS = (-14.0, 9.0)
"""Between which ln(sigma_b^2 / sigma_e^2) is looked for."""


@dataclass(frozen=True)
class Components:
    """Variances of the effects of groups and of rows, with their covariance.

    Attributes
    ----------
    row, group : float
        sigma_e^2 and sigma_b^2, in squared units of the residuals.
    covariance : (2, 2) float array
        Of (row, group), from the expected information.
    """

    row: float
    group: float
    covariance: Array

    def degrees(self, gradient: Array) -> Array:
        """Degrees of freedom of variances linear in (row, group), by (m, 2) derivatives (Satterthwaite 1946)."""
        variance = gradient @ np.array([self.row, self.group])
        spread = np.einsum("mi,ij,mj->m", gradient, self.covariance, gradient)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(2 * variance**2 / spread)


def estimate_components(rows: Array, errors: Array, labels: NDArray[np.int64]) -> Components:
    """Split the variance of residuals into that of groups and that of rows.

    Parameters
    ----------
    rows : (n, p) float array
        Whitened derivatives with orthonormal columns.
    errors : (n,) float array
        Whitened residuals, orthogonal to them.
    labels : (n,) int array
        Group of each row, from 0.
    """
    scale = float(np.sqrt(np.mean(errors**2))) or 1.0
    errors = errors / scale
    counts = np.bincount(labels)
    n_groups, degrees = len(counts), len(errors) - rows.shape[1]
    sums = np.stack([np.bincount(labels, column, n_groups) for column in rows.T], axis=1)
    values, vectors = np.linalg.eigh(np.diag(counts.astype(np.float64)) - sums @ sums.T)
    # Directions that the law leaves next to nothing of tell of its misfit, not of groups: they count as rows.
    kept = values > _LEFT * counts.max()
    sizes = values[kept]
    u2 = (vectors[:, kept].T @ np.bincount(labels, errors, n_groups)) ** 2 / sizes
    rest, rest_degrees = max(1e-12, float(errors @ errors - u2.sum())), degrees - len(sizes)

    if len(sizes) < 2:
        row = float(errors @ errors) / degrees * scale**2
        return Components(row, 0.0, np.diag([2 * row**2 / degrees, 0.0]))

    def row_variances(ratios: Array) -> Array:
        return np.asarray(((u2 / (1 + ratios[:, None] * sizes)).sum(axis=1) + rest) / degrees)

    # The likelihood may have two modes: the better of a coarse search is followed, ever finer.
    low, high = _LOG_RATIOS
    for _ in range(7):
        grid = np.linspace(low, high, 24)
        ratios = np.exp(grid)
        loss = np.log1p(ratios[:, None] * sizes).sum(axis=1) + degrees * np.log(row_variances(ratios)) - grid
        best = int(np.argmin(loss))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    ratio, row = float(ratios[best]), float(row_variances(ratios)[best])
    each = row * (1 + ratio * sizes)
    cross = float((sizes / each**2).sum())
    information = 0.5 * np.array(
        [
            [float((1 / each**2).sum()) + rest_degrees / row**2, cross],
            [cross, float((sizes**2 / each**2).sum()) + 1 / (ratio * row) ** 2],
        ]
    )
    covariance = np.asarray(np.linalg.inv(information), dtype=np.float64)
    return Components(row * scale**2, ratio * row * scale**2, covariance * scale**4)
