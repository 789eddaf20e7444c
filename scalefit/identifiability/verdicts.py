"""A verdict for every parameter, from the design, the null directions and the standard errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import ScalefitWarning
from scalefit.identifiability.design import design_verdicts, planes
from scalefit.identifiability.evidence import Evidence, Identification, Verdict
from scalefit.identifiability.remarks import open_and_weak, term_below_noise
from scalefit.laws.law import Law
from scalefit.laws.parameter import EXPONENT_BOUNDS

__all__ = ["identify", "null_parameters"]

Array = NDArray[np.float64]

NULL_EIGENVALUE = 1e-12
"""Eigen-directions of the scaled information matrix below this share of the largest carry rounding errors only."""

Z95 = 1.959964


def identify(evidence: Evidence) -> Identification:
    """Draw the verdicts: the design first, then the null directions, then the standard errors.

    An exponent is weak when its 95 % Wald interval is wider than half of it to either side, and not determined
    when that interval reaches zero or its term's size does; one at the end of the default range, a logarithm or a
    step, is weak at best. L0, which can lie anywhere between zero and the
    smallest loss, is not determined when its interval is as wide as that range.
    """
    from_design, remarks = design_verdicts(evidence)
    verdicts = {name: _verdict(name, evidence) for name in evidence.free}
    for name in (*from_design, *evidence.null):
        if name in verdicts:
            verdicts[name] = Verdict.NOT_DETERMINED
    for term, remark in planes(evidence, explained=set(from_design)):
        remarks.append(remark)
        for name in evidence.free:
            if name in (term.coefficient, term.exponent) and verdicts[name] is Verdict.DETERMINED:
                verdicts[name] = Verdict.WEAK
    _share_between_term(evidence.law, verdicts)
    remarks += _small_terms(verdicts, evidence, explained=set(from_design))
    remarks += open_and_weak(verdicts, evidence, explained=set(from_design))
    return Identification(MappingProxyType(verdicts), tuple(remarks))


def null_parameters(jacobian: Array, labels: Sequence[int]) -> tuple[frozenset[int], float]:
    """Parameters in null directions of the information, and the condition number of the scaled Jacobian.

    Parameters
    ----------
    jacobian : (n, P) float array
        Weighted derivatives of the residuals by the free parameters, in comparable units.
    labels : sequence of int
        What to call the P columns.

    Returns
    -------
    labels : frozenset of int
    condition : float
        Largest over smallest singular value with every column scaled to length one; inf if one vanishes.
    """
    information = jacobian.T @ jacobian
    lengths = np.sqrt(np.diag(information))
    dead = lengths <= 1e-12 * lengths.max(initial=0.0)
    scale = np.where(dead, 1.0, lengths)
    values, vectors = np.linalg.eigh(information / scale / scale[:, None])
    null = vectors[:, values < NULL_EIGENVALUE * values[-1]] if len(values) else vectors
    involved = dead | (np.abs(null) > 0.1).any(axis=1)
    condition = float("inf") if involved.any() else float(np.sqrt(values[-1] / values[0])) if len(values) else 1.0
    return frozenset(label for label, hit in zip(labels, involved, strict=True) if hit), condition


def _verdict(name: str, evidence: Evidence) -> Verdict:
    error = evidence.standard_errors[name]
    if name.startswith("c_"):
        relative = evidence.relative_sizes[name]
        return Verdict.NOT_DETERMINED if Z95 * relative >= 1 else Verdict.DETERMINED
    width = Z95 * error
    possible = evidence.smallest_loss / 2 if name == "L0" else evidence.params[name]
    if name in evidence.limits:
        width, possible = abs(evidence.limits[name] - evidence.params[name]), 2 * possible
    at_end = name in evidence.limits and name != "L0" and evidence.params[name] in EXPONENT_BOUNDS
    if not width < possible or (at_end and evidence.limits[name] in EXPONENT_BOUNDS):
        return Verdict.NOT_DETERMINED
    return Verdict.WEAK if at_end or width > possible / 2 else Verdict.DETERMINED


def _share_between_term(law: Law, verdicts: dict[str, Verdict]) -> None:
    """Give a coefficient and its exponent the worse of their verdicts: neither has a meaning alone."""
    ranks = list(Verdict)
    for term in law.terms:
        pair = [name for name in (term.coefficient, term.exponent) if name in verdicts]
        for name in pair:
            verdicts[name] = max((verdicts[p] for p in pair), key=ranks.index)


def _small_terms(verdicts: Mapping[str, Verdict], evidence: Evidence, explained: set[str]) -> list[ScalefitWarning]:
    """Terms that are not determined because they change by less than the noise over the whole table."""
    remarks = []
    for term in evidence.law.terms:
        if verdicts.get(term.exponent) is not Verdict.NOT_DETERMINED or term.exponent in explained:
            continue
        x = evidence.arguments[term.column]
        c, alpha = evidence.params[term.coefficient], evidence.params[term.exponent]
        change = abs(c * float(x.min()) ** -alpha - c * float(x.max()) ** -alpha)
        if 0 < change < 2 * evidence.noise and x.min() < x.max():
            remarks.append(term_below_noise(term, change, evidence.noise))
    return remarks
