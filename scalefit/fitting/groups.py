"""Which rows of a table belong together, and how much of the noise they share.

What they share is a random intercept, by restricted maximum likelihood. The residuals of a law linearised at its
optimum are e = (I - H) (Z b + epsilon), with H = J (J' J)^-1 J', Z the groups, b ~ N(0, sigma_b^2) one effect a group
and epsilon ~ N(0, sigma_e^2). With lambda_k and v_k the eigenpairs of Z' (I - H) Z and
u_k = v_k' Z' e / sqrt(lambda_k), the likelihood is that of independent normal numbers,

    u_k ~ N(0, sigma_e^2 + sigma_b^2 lambda_k),    |e|^2 - |u|^2 ~ sigma_e^2 chi^2_{n - p - K}             (1)

(Patterson & Thompson 1971). ln(sigma_b / sigma_e) is added to it, which keeps the estimate off zero, where few groups
would put it half of the time (Chung et al. 2013). Fewer than two u_k tell nothing of groups, and sigma_b is zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError
from scalefit.ingest.duplicates import hash_rows
from scalefit.laws.law import Law
from scalefit.runs import Runs

__all__ = ["Components", "Labels", "estimate_components", "group_labels", "shared_unit"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

_LEFT = 0.02

_LOG_RATIOS = (-14.0, 9.0)
"""Between which ln(sigma_b^2 / sigma_e^2) is looked for."""


def group_labels(runs: Runs, law: Law, by: str) -> Labels:
    """(n_rows,) codes from 0 of the group of each row.

    Parameters
    ----------
    runs : Runs
    law : Law
    by : str
        ``"row"``: each alone; ``"run"``: the table's runs; ``"shape"``: rows that agree in all columns of the law
        but tokens; else a column of the table.

    Raises
    ------
    OptionError
        If the grouping is unknown or the law has no column but tokens.
    """
    if by == "row":
        return np.arange(len(runs), dtype=np.int64)
    if by == "run":
        return runs.run_ids
    if by == "shape":
        columns = [runs[name] for name in law.columns if name != "tokens"]
        if not columns:
            raise OptionError(f"the law {law} has no column but tokens, so that its rows have no shape")
        _, first, labels = np.unique(hash_rows(columns), return_index=True, return_inverse=True)
        # In the order of the columns' values, so that a grouping does not depend on the order of rows.
        order = np.lexsort([column[first] for column in columns[::-1]])
        return np.argsort(order)[labels].astype(np.int64)
    if by in runs:
        return np.unique(runs[by], return_inverse=True)[1].astype(np.int64)
    raise OptionError(f"unknown grouping {by!r}; choose row, run, shape or a column of the table")


def shared_unit(runs: Runs, law: Law) -> str:
    """What rows share: ``"shape"`` where several runs have one, ``"run"`` where one has several rows, else ``"row"``.

    A shape counts only where it holds whole runs; along a run of a law in flops, say, the shape changes.
    """
    n_runs = runs.n_runs
    if any(name != "tokens" for name in law.columns):
        shapes = group_labels(runs, law, "shape")
        n_shapes = int(shapes.max()) + 1
        whole = n_runs == len(runs) or len(np.unique(shapes + n_shapes * runs.run_ids)) == n_runs
        if n_shapes < n_runs and whole:
            return "shape"
    return "run" if n_runs < len(runs) else "row"


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
