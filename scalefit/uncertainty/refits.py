"""Fitting a law again, many times, to reweighted or redrawn rows of its own table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.fitting.centred import CentredLaw
from scalefit.fitting.fit import Fit
from scalefit.fitting.problem import Problem
from scalefit.fitting.solver import solve
from scalefit.fitting.starts import draw_starts

__all__ = ["Refits", "Replicates", "chunk_sizes", "refit"]

Array = NDArray[np.float64]

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
