"""A law on a table in the coordinates the solver works in, and back to plain units.

The k-th term is written by its size at a reference value ref_k, the geometric mean of its column,

    c_k x^-alpha_k = C_k exp(-alpha_k ln(x / ref_k)),    ln c_k = ln C_k + alpha_k ln ref_k,         (1)

so that every C_k is of the order of the loss whatever the units, and hardly correlated with alpha_k. A term whose
coefficient is fixed or bounded by the user keeps ref_k = 1, where C_k = c_k.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scalefit.fitting.objective import Objective
from scalefit.fitting.problem import Problem
from scalefit.laws.constraints import Constraints
from scalefit.laws.law import Columns, Law
from scalefit.laws.parameter import Parameter

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

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
        Weights of the rows included.
    free_names : tuple of str
        Names of the problem's free parameters; a coefficient stands there as C_k.
    smallest_loss : float
        Of the table, nats per token.
    """

    law: Law
    log_references: Array
    problem: Problem
    free_names: tuple[str, ...]
    smallest_loss: float

    @classmethod
    def of(cls, fit: Fit, constraints: Constraints | None = None) -> CentredLaw:
        """Write the law of a fit on its rows with its weights; `constraints` stand in place of the fit's."""
        weights = None if fit.weights is None else fit.runs[fit.weights]
        return centre(fit.law, fit.runs, fit.objective, constraints or fit.constraints, weights)

    @cached_property
    def _rows(self) -> dict[str, int]:
        """Where each parameter stands among all parameters of the problem."""
        terms = self.law.terms
        return {name: i for i, name in enumerate([*(t.coefficient for t in terms), "L0", *(t.exponent for t in terms)])}

    def free_index(self, name: str) -> int | None:
        """Index of the free parameter that a parameter of the law is, or is tied to; None if it is fixed."""
        hits = np.flatnonzero(self.problem.expand[self._rows[name]])
        return int(hits[0]) if len(hits) else None

    @cached_property
    def free_parameters(self) -> tuple[Parameter, ...]:
        """What the free parameters are, in their order."""
        return tuple(self.law.parameter(name) for name in self.free_names)

    @cached_property
    def free_terms(self) -> list[int]:
        """Which term each free coefficient belongs to; coefficients are the first of the free parameters."""
        return [p.term for p in self.free_parameters if p.is_coefficient and p.term is not None]

    def at_bound(self, free: Array) -> NDArray[np.bool_]:
        """Which free parameters are on a bound, or coefficients of terms that vanished, at (P,) or (B, P) optima.

        At an optimum on a bound the objective does not fall inwards: the solver would have left the bound.
        """
        return np.asarray((free <= self.problem.lower) | (free >= self.problem.upper) | self.vanished(free))

    def vanished(self, free: Array) -> NDArray[np.bool_]:
        """Which free parameters are coefficients of terms that vanished, at (P,) or (B, P) points.

        A term that may be zero has vanished where, at its column's geometric mean, it is smaller than 1e-8 of the
        smallest loss.
        """
        problem, terms = self.problem, self.free_terms
        alphas = problem.all_parameters(np.atleast_2d(free))[:, len(self.law.terms) + 1 :]
        sizes = free[..., : len(terms)] * np.exp(-(alphas * problem.mean_logs)[:, terms]).reshape(*free.shape[:-1], -1)
        found = np.zeros(free.shape, dtype=np.bool_)
        found[..., : len(terms)] = (problem.lower[: len(terms)] == 0) & (sizes < VANISHED * self.smallest_loss)
        return found

    def plain(self, free: Array) -> Array:
        """Parameters of the law in plain units, in the order of its names: (P,) to (n,), or (B, P) to (B, n)."""
        n_terms = len(self.log_references)
        full = self.problem.all_parameters(np.atleast_2d(free)).copy()
        full[:, :n_terms] *= np.exp(full[:, n_terms + 1 :] * self.log_references)
        return full[:, [self._rows[name] for name in self.law.parameter_names]].reshape(*free.shape[:-1], -1)

    def params(self, free: Array) -> dict[str, float]:
        """`plain` of one point, by name."""
        return dict(zip(self.law.parameter_names, self.plain(free).tolist(), strict=True))

    def free(self, params: Mapping[str, float]) -> Array:
        """(P,) free parameters of one point, from plain units."""
        values = dict(params)
        for term, log_reference in zip(self.law.terms, self.log_references, strict=True):
            values[term.coefficient] /= np.exp(values[term.exponent] * log_reference)
        return np.array([values[name] for name in self.free_names])

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
        rows = self.problem.expand.copy()
        with np.errstate(divide="ignore", invalid="ignore"):
            rows[:n_terms] = np.where(rows[:n_terms] != 0, rows[:n_terms] / full[:n_terms, None], 0.0)
        rows[:n_terms] += self.log_references[:, None] * rows[n_terms + 1 :]
        return rows[[self._rows[name] for name in self.law.parameter_names]]


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
    lower, upper = np.array([constraints.limits(law.parameter(name)) for name in free_names]).reshape(-1, 2).T
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
    return CentredLaw(law, log_references, problem, free_names, float(np.min(columns["loss"])))
