"""A law on a table in the coordinates the solver works in, and back to plain units.

The k-th term is written by its size at a reference value ref_k, the geometric mean of its column,

    c_k x^-alpha_k = C_k exp(-alpha_k ln(x / ref_k)),    ln c_k = ln C_k + alpha_k ln ref_k,         (1)

so that every C_k is of the order of the loss whatever the units, and hardly correlated with alpha_k. A term whose
coefficient is fixed or bounded by the user keeps ref_k = 1, where C_k = c_k.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scalefit.fitting.objective import Objective
from scalefit.fitting.problem import Problem
from scalefit.laws.constraints import Constraints
from scalefit.laws.law import Columns, Law

__all__ = ["CentredLaw", "centre"]

Array = NDArray[np.float64]

VANISHED = 1e-8
"""A term smaller than this share of the smallest loss, at its column's geometric mean, has vanished."""


@dataclass(frozen=True)
class CentredLaw:
    """A law, its reference values, and the solver's problem.

    Attributes
    ----------
    law : Law
    log_references : (K,) float array
        ln ref_k of equation (1).
    problem : Problem
    free_names : tuple of str
        Names of the problem's free parameters; a coefficient stands there as C_k.
    bounded : frozenset of str
        Coefficients with bounds of the user's, which keep ref_k = 1.
    """

    law: Law
    log_references: Array
    problem: Problem
    free_names: tuple[str, ...]
    bounded: frozenset[str]

    def free_index(self, name: str) -> int | None:
        """Index of the free parameter that a parameter of the law is, or is tied to; None if it is fixed."""
        hits = np.flatnonzero(self.problem.expand[self._row(name)])
        return int(hits[0]) if len(hits) else None

    def _row(self, name: str) -> int:
        if name == "L0":
            return len(self.law.terms)
        k = [t.column for t in self.law.terms].index(name.partition("_")[2])
        return k if name.startswith("c_") else len(self.law.terms) + 1 + k

    @cached_property
    def free_terms(self) -> list[int]:
        """Which term each free coefficient belongs to; coefficients are the first of the free parameters."""
        names = [term.coefficient for term in self.law.terms]
        return [names.index(name) for name in self.free_names if name in names]

    def vanished(self, free: Array, smallest_loss: float) -> NDArray[np.bool_]:
        """(B, P) which of the free parameters are coefficients of terms that vanished, at (B, P) points.

        A term that may be zero has vanished where, at its column's geometric mean, it is smaller than 1e-8 of the
        smallest loss.
        """
        terms = self.free_terms
        alphas = self.problem.all_parameters(free)[:, len(self.law.terms) + 1 :]
        sizes = free[:, : len(terms)] * np.exp(-(alphas * self.problem.mean_logs)[:, terms])
        found = np.zeros(free.shape, dtype=np.bool_)
        found[:, : len(terms)] = (self.problem.lower[: len(terms)] == 0) & (sizes < VANISHED * smallest_loss)
        return found

    def plain(self, free: Array) -> dict[str, float]:
        """Parameters of the law in plain units, from the (P,) free parameters of one point."""
        n_terms = len(self.log_references)
        full = self.problem.all_parameters(free[None])[0]
        alphas = full[n_terms + 1 :]
        coefficients = full[:n_terms] * np.exp(alphas * self.log_references)
        named = dict(zip([t.coefficient for t in self.law.terms], coefficients, strict=True))
        named |= zip([t.exponent for t in self.law.terms], alphas, strict=True)
        named["L0"] = full[n_terms]
        return {name: float(named[name]) for name in self.law.parameter_names}

    def reporting_jacobian(self, free: Array) -> Array:
        """Derivatives of the reported quantities by the free parameters.

        The reported quantities are ln c_k (so that errors are factors), alpha_k and L0, in the order of
        `law.parameter_names`; from equation (1) d ln c = dC / C + ln ref d alpha.

        Returns
        -------
        (n_parameters, P) float array
            Not finite in the row of a coefficient that is zero.
        """
        n_terms = len(self.log_references)
        full = self.problem.all_parameters(free[None])[0]
        rows: dict[str, Array] = {}
        expand = self.problem.expand
        for k, term in enumerate(self.law.terms):
            with np.errstate(divide="ignore", invalid="ignore"):
                relative = np.where(expand[k] != 0, expand[k] / full[k], 0.0)
            rows[term.exponent] = expand[n_terms + 1 + k]
            rows[term.coefficient] = relative + self.log_references[k] * expand[n_terms + 1 + k]
        rows["L0"] = expand[n_terms]
        return np.stack([rows[name] for name in self.law.parameter_names])


def centre(
    law: Law,
    columns: Columns,
    objective: Objective,
    constraints: Constraints,
    weights: Array | None = None,
) -> CentredLaw:
    """Write a law on a table as a problem for the solver.

    Parameters
    ----------
    law : Law
    columns : Runs or mapping of str to (n_rows,) float array
        The law's columns and `loss`, complete and positive.
    objective : Objective
    constraints : Constraints
        Already checked against the law.
    weights : (n_rows,) float array, optional
        Row weights of any scale.
    """
    logs = np.log(np.stack([term.argument(columns) for term in law.terms]))
    in_plain_units = [t.coefficient in constraints.fixed or t.coefficient in constraints.bounds for t in law.terms]
    log_references = np.where(in_plain_units, 0.0, logs.mean(axis=1))
    names = [*(t.coefficient for t in law.terms), "L0", *(t.exponent for t in law.terms)]
    fixed = dict(constraints.fixed) if law.irreducible else {**constraints.fixed, "L0": 0.0}
    free_names = tuple(name for name in names if name not in fixed and name not in constraints.ties)
    expand = np.zeros((len(names), len(free_names)))
    offset = np.zeros(len(names))
    for i, name in enumerate(names):
        target = constraints.ties.get(name, name)
        if target in fixed:
            offset[i] = fixed[target]
        else:
            expand[i, free_names.index(target)] = 1.0
    lower, upper = np.array([constraints.limits(name) for name in free_names]).reshape(-1, 2).T
    problem = Problem(
        logs=logs - log_references[:, None],
        target=objective.transform(np.asarray(columns["loss"], dtype=np.float64)),
        objective=objective,
        expand=expand,
        offset=offset,
        lower=lower,
        upper=upper,
        weights=None if weights is None else weights / weights.mean(),
    )
    bounded = frozenset(name for name in constraints.bounds if name.startswith("c_"))
    return CentredLaw(law, log_references, problem, free_names, bounded)
