"""A verdict for every parameter, from the design, the null directions and the standard errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import ScalefitWarning
from scalefit.identifiability.design import correlate, design_verdicts, plane
from scalefit.identifiability.remarks import bound_remarks, coupling_remarks, open_and_weak, term_below_noise
from scalefit.laws.law import Law
from scalefit.laws.terms import power_term

__all__ = ["Evidence", "Identification", "Verdict", "identify"]

Array = NDArray[np.float64]

Z95 = 1.959964

DESIGN_CODES = ("constant-column", "few-levels", "tied-columns")


class Verdict(StrEnum):
    """What the data say of one parameter."""

    DETERMINED = "determined"
    WEAK = "weak"
    NOT_DETERMINED = "not-determined"


@dataclass(frozen=True)
class Evidence:
    """What a verdict is drawn from.

    Parameters
    ----------
    law : Law
    arguments : mapping of str to (n,) float array
        Each factor's column less its shift.
    params : mapping of str to float
        The estimates.
    free : tuple of str
        Parameters that were estimated rather than fixed, ties included.
    standard_errors : mapping of str to float
        Of ln c, alpha and L0; nan where there is none.
    covariance : (n_parameters, n_parameters) float array
        Of ln c, alpha and L0.
    relative_sizes : mapping of str to float
        By coefficient name: standard error of the term's size over that size, at the column's geometric mean.
    null : frozenset of str
        Parameters with a share in a null direction of the information matrix.
    at_bound : tuple of str
        Parameters that ended at a bound.
    limits : mapping of str to float
        One-sided limits of those, but for coefficients of terms that vanished.
    smallest_loss : float
    noise : float
        Root mean square of the residuals, nats per token.
    shares : (K, n) float array
        Share of each term in the reducible loss of each row.
    """

    law: Law
    arguments: Mapping[str, Array]
    params: Mapping[str, float]
    free: tuple[str, ...]
    standard_errors: Mapping[str, float]
    covariance: Array
    relative_sizes: Mapping[str, float]
    null: frozenset[str]
    at_bound: tuple[str, ...]
    limits: Mapping[str, float]
    smallest_loss: float
    noise: float
    shares: Array

    def correlation(self, first: str, second: str) -> float:
        """Correlation of two estimates; nan where one has no error."""
        i, j = map(self.law.parameter_names.index, (first, second))
        with np.errstate(invalid="ignore", divide="ignore"):
            return float(self.covariance[i, j] / np.sqrt(self.covariance[i, i] * self.covariance[j, j]))


@dataclass(frozen=True)
class Identification:
    """A verdict for every estimated parameter, and the remarks that explain them."""

    verdicts: Mapping[str, Verdict]
    warnings: tuple[ScalefitWarning, ...]


def identify(evidence: Evidence) -> Identification:
    """Draw the verdicts: the design first, then the null directions, then the standard errors.

    An exponent is weak when its 95 % Wald interval is wider than half of it to either side, and not determined
    when that interval reaches zero or its term's size does; one at the end of the default range, a logarithm or a
    step, is weak at best. L0, which can lie anywhere between zero and the
    smallest loss, is not determined when its interval is as wide as that range.
    """
    law, arguments = evidence.law, evidence.arguments
    levels = {name: _count_levels(x) for name, x in arguments.items()}
    explained, remarks = design_verdicts(law, levels, correlate(arguments), evidence.free, evidence.correlation)
    verdicts = {name: _verdict(name, evidence) for name in evidence.free}
    for name in (*explained, *evidence.null):
        if name in verdicts:
            verdicts[name] = Verdict.NOT_DETERMINED
    if not explained and (found := plane(law, np.log(np.stack(list(arguments.values()))), evidence.free)):
        factor, remark = found
        remarks.append(remark)
        for name in (law.term_of(factor).coefficient, factor.exponent):
            if verdicts.get(name) is Verdict.DETERMINED:
                verdicts[name] = Verdict.WEAK
    _share_between_term(law, verdicts)
    remarks += _small_terms(verdicts, evidence, set(explained))
    open_names = [n for n, v in verdicts.items() if v is Verdict.NOT_DETERMINED and n not in explained]
    weak = [n for n, v in verdicts.items() if v is Verdict.WEAK]
    remarks += open_and_weak(open_names, weak, evidence)
    remarks += coupling_remarks(evidence)
    remarks += bound_remarks(evidence, {n for w in remarks if w.code in DESIGN_CODES for n in w.numbers["parameters"]})
    return Identification(MappingProxyType(verdicts), tuple(remarks))


def _count_levels(x: Array) -> int:
    """Distinct values of x, counted to three; one pass over a piece of most tables."""
    found = np.unique(x[:1000])
    return len(found) if len(found) >= 3 or len(x) <= 1000 else len(np.unique(x))


def _verdict(name: str, evidence: Evidence) -> Verdict:
    parameter = evidence.law.parameter(name)
    error, value, limit = evidence.standard_errors[name], evidence.params[name], evidence.limits.get(name)
    if parameter.is_coefficient:
        return Verdict.NOT_DETERMINED if Z95 * evidence.relative_sizes[name] >= 1 else Verdict.DETERMINED
    width = Z95 * error
    possible = evidence.smallest_loss / 2 if parameter.is_floor else value
    if parameter.is_coupling:
        # Its error is that of ln q: known within a factor of e or not at all; at an end of its range not at all.
        possible = 1.0 if limit is None else 0.0
        limit = None
    if limit is not None:
        width, possible = abs(limit - value), 2 * possible
    at_end = limit is not None and parameter.is_exponent and value in parameter.natural_bounds
    if not width < possible or (at_end and limit in parameter.natural_bounds):
        return Verdict.NOT_DETERMINED
    return Verdict.WEAK if at_end or width > possible / 2 else Verdict.DETERMINED


def _share_between_term(law: Law, verdicts: dict[str, Verdict]) -> None:
    """Give a coefficient the worst verdict of its term, and its exponents the coefficient's own where that is worse.

    Neither has a meaning alone; of two exponents in a product one may be known without the other.
    """
    ranks = list(Verdict)
    for term in law.terms:
        exponents = [factor.exponent for factor in term.factors if factor.exponent in verdicts]
        own = verdicts.get(term.coefficient, Verdict.DETERMINED)
        if term.coefficient in verdicts:
            verdicts[term.coefficient] = max((own, *(verdicts[name] for name in exponents)), key=ranks.index)
        for name in exponents:
            verdicts[name] = max(own, verdicts[name], key=ranks.index)


def _small_terms(verdicts: Mapping[str, Verdict], evidence: Evidence, explained: set[str]) -> list[ScalefitWarning]:
    """Terms that are not determined because they change by less than the noise over the whole table."""
    remarks = []
    for term in evidence.law.factors:
        if verdicts.get(term.exponent) is not Verdict.NOT_DETERMINED or term.exponent in explained:
            continue
        if evidence.law.term_of(term) != term:
            continue  # what a factor of a product changes depends on the others
        x = evidence.arguments[term.column]
        ends = power_term([x.min(), x.max()], evidence.params[term.coefficient], evidence.params[term.exponent])
        change = abs(float(ends[0] - ends[1]))
        if 0 < change < 2 * evidence.noise and x.min() < x.max():
            remarks.append(term_below_noise(term, change, evidence.noise))
    return remarks
