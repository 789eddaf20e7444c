"""A law on a table in the coordinates the solver works in, and back to plain units.

A factor is written with a reference value ref_j, the geometric mean of its column, and the k-th term by its size there,

    c_k prod_j x_j^-alpha_j = C_k exp(-sum_j alpha_j ln(x_j / ref_j)),    ln c_k = ln C_k + sum_j alpha_j ln ref_j,  (1)

so that every C_k is of the order of the loss whatever the units, and hardly correlated with alpha_j. A term whose
coefficient is fixed or bounded by the user keeps ref_j = 1, where C_k = c_k. In coupled laws p = 1/q stands for q and
D_k = (C_k / unit)^q for C_k (`scalefit.fitting.problem`), but for coefficients that the user fixed or bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scalefit.fitting.objective import Objective
from scalefit.fitting.problem import Problem
from scalefit.laws.constraints import Constraints
from scalefit.laws.law import Law
from scalefit.laws.parameter import Parameter
from scalefit.laws.terms import Columns

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["CentredLaw", "centre"]

Array = NDArray[np.float64]

LARGEST = 1e20
"""Largest size of a start, in units of the loss."""

VANISHED = 1e-8
"""A term smaller than this share of the smallest loss, at its column's geometric mean, has vanished."""


@dataclass(frozen=True)
class CentredLaw:
    """A law, its reference values, and the solver's problem.

    Attributes
    ----------
    law : Law
    log_references : (M,) float array
        ln ref_j of equation (1).
    problem : Problem
        Weights of the rows included.
    free_names : tuple of str
        Names of the problem's free parameters; a coefficient stands there as C_k or D_k, q as p.
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
        return {name: i for i, name in enumerate(_solver_names(self.law))}

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
        alphas = problem.exponents(problem.all_parameters(np.atleast_2d(free)))
        falls = problem.per_term(alphas * problem.mean_logs)[:, terms]
        sizes = free[..., : len(terms)] * np.exp(-falls).reshape(*free.shape[:-1], -1)
        smallest = VANISHED * (1.0 if problem.coupled else self.smallest_loss)
        found = np.zeros(free.shape, dtype=np.bool_)
        found[..., : len(terms)] = (problem.lower[: len(terms)] == 0) & (sizes < smallest)
        return found

    def plain(self, free: Array) -> Array:
        """Parameters of the law in plain units, in the order of its names: (P,) to (n,), or (B, P) to (B, n)."""
        problem, n_terms = self.problem, len(self.law.terms)
        full = problem.all_parameters(np.atleast_2d(free)).copy()
        if problem.coupled:
            sizes, p = full[:, :n_terms], full[:, -1:]
            full[:, :n_terms] = np.where(problem.plain_terms, sizes, problem.unit * sizes**p)
            full[:, -1:] = 1.0 / p
        full[:, :n_terms] *= np.exp(problem.per_term(problem.exponents(full) * self.log_references))
        return full[:, [self._rows[name] for name in self.law.parameter_names]].reshape(*free.shape[:-1], -1)

    def params(self, free: Array) -> dict[str, float]:
        """`plain` of one point, by name."""
        return dict(zip(self.law.parameter_names, self.plain(free).tolist(), strict=True))

    def free(self, params: Mapping[str, float]) -> Array:
        """(P,) free parameters of one point, from plain units."""
        problem, values = self.problem, dict(params)
        exponents = np.array([values[factor.exponent] for factor in self.law.factors])
        shifts = np.exp(problem.per_term(exponents * self.log_references))
        for k, term in enumerate(self.law.terms):
            values[term.coefficient] /= shifts[k]
            if problem.coupled and not problem.plain_terms[k]:
                # Where q is held far up, a size may lie beyond what floats hold: a start there would be none.
                with np.errstate(over="ignore"):
                    power = np.float64(values[term.coefficient] / problem.unit) ** self.law.q(params)
                values[term.coefficient] = min(float(power), LARGEST)
        if "q" in self.law.parameter_names:
            values["q"] = 1.0 / values["q"]
        return np.array([values[name] for name in self.free_names])

    def at(self, columns: Columns) -> Problem:
        """The problem's law at other points in place of the table's rows, without losses."""
        logs = np.log(np.stack(np.broadcast_arrays(*(factor.argument(columns) for factor in self.law.factors))))
        logs -= self.log_references[:, None]
        return replace(self.problem, logs=logs, target=np.zeros(logs.shape[1]), weights=None)

    def reporting_jacobian(self, free: Array) -> Array:
        """Derivatives of the reported quantities by the free parameters.

        The reported quantities are ln c_k (so that errors are factors), alpha_j, ln q and L0, in the order of
        `law.parameter_names`; from equation (1) d ln c_k = dC_k / C_k + sum_j ln ref_j d alpha_j, where for coupled
        terms dC / C = p dD / D + ln D dp, and d ln q = -dp / p.

        Returns
        -------
        (n_parameters, P) float array
            Not finite in the row of a coefficient that is zero.
        """
        problem, n_terms = self.problem, len(self.law.terms)
        full = problem.all_parameters(free[None])[0]
        expand, rows = problem.expand, problem.expand.copy()
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(rows[:n_terms] != 0, rows[:n_terms] / full[:n_terms, None], 0.0)
            if problem.coupled:
                raised = full[-1] * relative + np.log(full[:n_terms, None]) * expand[-1]
                plain = np.asarray(problem.plain_terms)
                relative = np.where(plain[:, None], relative, raised)
                rows[-1] = -expand[-1] / full[-1]
        exponents = expand[n_terms + 1 : n_terms + 1 + len(self.log_references)]
        rows[:n_terms] = relative + problem.per_term(self.log_references[:, None] * exponents, axis=0)
        return rows[[self._rows[name] for name in self.law.parameter_names]]


def _solver_names(law: Law) -> list[str]:
    """The parameters of a law in the order of `scalefit.fitting.problem`."""
    names = [*(term.coefficient for term in law.terms), "L0", *(factor.exponent for factor in law.factors)]
    return names if law.coupling is None else [*names, "q"]


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
    logs = np.log(np.stack(np.broadcast_arrays(*(factor.argument(columns) for factor in law.factors))))
    known = {*constraints.fixed, *constraints.bounds}
    plain_terms = np.array([term.coefficient in known for term in law.terms])
    log_references = np.where(plain_terms[list(law.owners)], 0.0, logs.mean(axis=1))
    names = _solver_names(law)
    fixed = dict(constraints.fixed) if law.irreducible else {**constraints.fixed, "L0": 0.0}
    ties = dict(constraints.ties)
    if law.coupling == "q":
        fixed |= {"q": 1.0 / fixed["q"]} if "q" in fixed else {}
    elif law.coupling is not None:
        ties["q"] = ties.get(law.coupling, law.coupling)
    free_names = tuple(name for name in names if name not in fixed and name not in ties)
    expand = np.zeros((len(names), len(free_names)))
    offset = np.zeros(len(names))
    for i, name in enumerate(names):
        target = ties.get(name, name)
        if target in fixed:
            offset[i] = fixed[target]
        else:
            expand[i, free_names.index(target)] = 1.0
    limits = {name: constraints.limits(law.parameter(name)) for name in free_names}
    if "q" in limits:
        lowest, highest = limits["q"]
        limits["q"] = (1.0 / highest, 1.0 / lowest)
    lower, upper = np.array(list(limits.values())).reshape(-1, 2).T
    loss = np.asarray(columns["loss"], dtype=np.float64)
    problem = Problem(
        logs=logs - log_references[:, None],
        owners=np.array(law.owners),
        target=objective.transform(loss),
        objective=objective,
        expand=expand,
        offset=offset,
        lower=lower,
        upper=upper,
        weights=None if weights is None else weights / weights.mean(),
        coupled=law.coupling is not None,
        unit=float(np.exp(np.log(loss).mean())),
        plain_terms=plain_terms,
    )
    return CentredLaw(law, log_references, problem, free_names, float(np.min(columns["loss"])))
