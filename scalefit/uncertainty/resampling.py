"""How replicates are drawn: rows or clusters with replacement, residuals redrawn, or residuals with random signs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scalefit.fitting.derivatives import jacobian
from scalefit.fitting.fit import Fit
from scalefit.fitting.problem import Problem
from scalefit.uncertainty.refits import Refits, Replicates, refit

__all__ = ["METHODS", "Resampling", "draw_chunk", "jackknife_problem", "plan_resampling"]

Array = NDArray[np.float64]

METHODS = ("pairs", "cluster", "residual", "wild", "wild-cluster")

MANY_LEVELS = 64
"""A column with more distinct values keeps enough of them in any resample."""

JACKKNIFE_GROUPS = 500
"""With more units than this the jackknife leaves out groups of them."""


@dataclass(frozen=True, eq=False)
class Resampling:
    """What a piece of work needs to draw its replicates and fit them.

    Attributes
    ----------
    refits : Refits
    method : str
        One of `METHODS`.
    labels : (n,) int array
        Resampling unit of each row, codes from 0.
    fitted : (n,) float array
        The objective's transform of the fitted losses.
    errors : (n,) float array
        Observed less fitted, inflated for the degrees of freedom that the fit took; for ``"residual"`` also times
        the root of the row's weight.
    """

    refits: Refits
    method: str
    labels: NDArray[np.int64]
    fitted: Array
    errors: Array

    @property
    def problem(self) -> Problem:
        """The fit's own problem."""
        return self.refits.centred.problem

    @cached_property
    def n_units(self) -> int:
        """How many units are resampled."""
        return int(self.labels.max()) + 1

    def reweighted(self, counts: Array) -> Problem:
        """The problems in which unit j counts `counts[b, j]` times, (B, n_units)."""
        weights = counts[:, self.labels]
        if self.problem.weights is not None:
            weights = weights * self.problem.weights
        return replace(self.problem, weights=weights / weights.mean(axis=1, keepdims=True))

    def redrawn(self, errors: Array) -> Problem:
        """The problems with (B, n) new errors about the fitted law."""
        return replace(self.problem, target=self.fitted + errors)


def plan_resampling(fit: Fit, refits: Refits, method: str, labels: NDArray[np.int64]) -> Resampling:
    """Prepare a resampling of a fit.

    Residuals e are inflated by sqrt(n / (n - p)) and centred for ``"residual"``, by 1 / sqrt(1 - h_i) with the
    leverages h for ``"wild"`` (MacKinnon 2006), and by sqrt(G / (G - 1) (n - 1) / (n - p)) for ``"wild-cluster"``.
    """
    problem = refits.centred.problem
    n, p = problem.logs.shape[1], len(refits.point)
    errors = -fit.residuals
    roots = np.ones(n) if problem.weights is None else np.sqrt(problem.weights)
    if method == "residual":
        errors = errors * roots * np.sqrt(n / (n - p))
        errors -= errors.mean()
    elif method == "wild":
        q = np.linalg.qr(jacobian(problem, refits.point) * roots[:, None])[0]
        errors = errors / np.sqrt(1 - np.minimum(np.sum(q * q, axis=1), 1 - 1e-6))
    elif method == "wild-cluster":
        n_groups = int(labels.max()) + 1
        errors = errors * np.sqrt(n_groups / (n_groups - 1) * (n - 1) / (n - p))
    return Resampling(refits, method, labels, problem.target + fit.residuals, errors)


def draw_chunk(job: tuple[Resampling, np.random.SeedSequence, int]) -> Replicates:
    """Draw and fit some replicates, from random numbers of their own."""
    resampling, sequence, size = job
    rng = np.random.default_rng(sequence)
    n, n_units = len(resampling.labels), resampling.n_units
    if resampling.method in ("pairs", "cluster"):
        counts = rng.multinomial(n_units, np.full(n_units, 1 / n_units), size=size).astype(np.float64)
        degenerate = _degenerate(resampling, counts)
        # A degenerate resample is replaced by the table itself: its answer is thrown away.
        problem = resampling.reweighted(np.where(degenerate[:, None], 1.0, counts))
        replicates = refit(resampling.refits, problem, int(rng.integers(2**63)))
        return replace(replicates, degenerate=degenerate)
    if resampling.method == "residual":
        errors = rng.choice(resampling.errors, size=(size, n))
        if resampling.problem.weights is not None:
            errors /= np.sqrt(resampling.problem.weights)
    else:
        signs = rng.choice([-1.0, 1.0], size=(size, n_units))
        errors = resampling.errors * signs[:, resampling.labels]
    return refit(resampling.refits, resampling.redrawn(errors), int(rng.integers(2**63)))


def _degenerate(resampling: Resampling, counts: Array) -> NDArray[np.bool_]:
    """Which resamples cannot determine the law: too few distinct rows, or levels of a column."""
    present = counts[:, resampling.labels] > 0
    problem = resampling.problem
    n_terms, n_free = len(problem.logs), len(resampling.refits.point)
    degenerate: NDArray[np.bool_] = present.sum(axis=1) <= n_free
    for k, logs in enumerate(problem.logs):
        levels, codes = np.unique(logs, return_inverse=True)
        needed = 1 + int(problem.expand[k].any()) + int(problem.expand[n_terms + 1 + k].any())
        if len(levels) < MANY_LEVELS:
            kept = (present @ (codes[:, None] == np.arange(len(levels)))) > 0
            degenerate |= kept.sum(axis=1) < min(needed, len(levels))
    return degenerate


def jackknife_problem(resampling: Resampling) -> Problem:
    """The problems that leave out one unit each, or one of `JACKKNIFE_GROUPS` groups of units."""
    n_units = resampling.n_units
    groups = min(n_units, JACKKNIFE_GROUPS)
    counts = np.ones((groups, n_units))
    counts[np.arange(n_units) * groups // n_units, np.arange(n_units)] = 0.0
    return resampling.reweighted(counts)
