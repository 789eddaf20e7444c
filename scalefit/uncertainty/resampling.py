"""Fitting a law again, many times, to its own table resampled.

Rows or clusters are drawn with replacement, residuals redrawn, or their signs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scalefit.fitting.centred import CentredLaw
from scalefit.fitting.problem import Problem, jacobian
from scalefit.fitting.solver import solve
from scalefit.fitting.starts import draw_starts

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = [
    "METHODS",
    "Refits",
    "Replicates",
    "Resampling",
    "chunk_sizes",
    "draw_chunk",
    "jackknife_problem",
    "plan_resampling",
    "refit",
]

Array = NDArray[np.float64]

METHODS = ("pairs", "cluster", "residual", "wild", "wild-cluster")

MANY_LEVELS = 64
"""A column with more distinct values keeps enough of them in any resample."""

JACKKNIFE_GROUPS = 500
"""With more units than this the jackknife leaves out groups of them."""

TOLERANCE = 1e-8
"""Promised relative decrease at which a replicate's last step is taken; what is left then is far smaller, since
Newton's steps converge quadratically."""

CHUNK = 512
CHUNK_ELEMENTS = 4_000_000
"""Replicates, and replicates x rows, in one piece of work: fixed, so that workers do not change results."""

RESTARTS = 8


@dataclass(frozen=True)
class Refits:
    """What is fitted again.

    Attributes
    ----------
    centred : CentredLaw
    point : (P,) float array
        The fit's own optimum, from which every replicate starts.
    """

    centred: CentredLaw
    point: Array

    @classmethod
    def of(cls, fit: Fit) -> Refits:
        """Take a fit's problem and optimum."""
        centred = CentredLaw.of(fit)
        return cls(centred, centred.free(fit.params))


@dataclass(frozen=True)
class Replicates:
    """Optima of B replicates.

    Attributes
    ----------
    free : (B, P) float array
    value : (B,) float array
    converged : (B,) bool array
    degenerate : (B,) bool array
        Resamples that cannot determine the law; their numbers mean nothing.
    """

    free: Array
    value: Array
    converged: NDArray[np.bool_]
    degenerate: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.value)

    @property
    def usable(self) -> NDArray[np.bool_]:
        """(B,) which replicates count."""
        return self.converged & ~self.degenerate

    @classmethod
    def joined(cls, parts: Sequence[Replicates]) -> Replicates:
        """One after the other."""
        return cls(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)))

    def at_bound(self, refits: Refits) -> Array:
        """(P,) share of the usable replicates with each free parameter at a bound."""
        hits = refits.centred.at_bound(self.free[self.usable])
        return hits.mean(axis=0) if len(hits) else np.zeros(self.free.shape[1])


def refit(refits: Refits, problem: Problem, seed: int = 0) -> Replicates:
    """Solve problems from the fit's optimum; one that does not arrive is tried again from random starts.

    Parameters
    ----------
    refits : Refits
    problem : Problem
        The fit's own with (B, n) targets or weights.
    seed : int
        Of the random starts.
    """
    arrays = [a for a in (problem.target, problem.weights) if a is not None and a.ndim == 2]
    starts = np.broadcast_to(refits.point, (len(arrays[0]), len(refits.point)))
    solution = solve(problem, starts, tolerance=TOLERANCE, exact=False)
    free, value, converged = solution.state.free, solution.state.value, solution.converged
    rng = np.random.default_rng(seed)
    for i in np.flatnonzero(~converged).tolist():
        one = replace(problem, target=_only(problem.target, i), weights=_only(problem.weights, i))
        again = solve(one, draw_starts(one, RESTARTS, rng), tolerance=TOLERANCE)
        best = int(np.argmin(np.where(again.converged, again.state.value, np.inf)))
        if again.converged[best]:
            free[i], value[i], converged[i] = again.state.free[best], again.state.value[best], True
    return Replicates(free, value, converged, np.zeros(len(value), dtype=bool))


def _only(values: Any, i: int) -> Any:
    return values[i] if values is not None and values.ndim == 2 else values


def chunk_sizes(n_replicates: int, n_rows: int) -> list[int]:
    """Split replicates into pieces of work that depend on the table only."""
    size = max(1, min(CHUNK, CHUNK_ELEMENTS // n_rows))
    return [min(size, n_replicates - first) for first in range(0, n_replicates, size)]


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

    def degenerate(self, counts: Array) -> NDArray[np.bool_]:
        """Which resamples cannot determine the law: too few distinct rows, or levels of a column."""
        present = counts[:, self.labels] > 0
        problem = self.problem
        found: NDArray[np.bool_] = present.sum(axis=1) <= len(self.refits.point)
        for k, logs in enumerate(problem.logs):
            levels, codes = np.unique(logs, return_inverse=True)
            owner = problem.owners[k]
            alone = np.count_nonzero(problem.owners == owner) == 1  # a product varies with its other columns too
            needed = 1 + int(alone and problem.expand[owner].any()) + int(problem.expand[problem.n_terms + 1 + k].any())
            if len(levels) < MANY_LEVELS:
                kept = (present @ (codes[:, None] == np.arange(len(levels)))) > 0
                found |= kept.sum(axis=1) < min(needed, len(levels))
        return found

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
        degenerate = resampling.degenerate(counts)
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


def jackknife_problem(resampling: Resampling) -> Problem:
    """The problems that leave out one unit each, or one of `JACKKNIFE_GROUPS` groups of units."""
    n_units = resampling.n_units
    groups = min(n_units, JACKKNIFE_GROUPS)
    counts = np.ones((groups, n_units))
    counts[np.arange(n_units) * groups // n_units, np.arange(n_units)] = 0.0
    return resampling.reweighted(counts)
