"""A verdict for every parameter, from the design, the null directions and what its interval can reach."""

from __future__ import annotations

import math
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

LN_2 = 0.6931472

DESIGN_CODES = ("constant-column", "few-levels", "tied-columns")


class Verdict(StrEnum):
    """What the data say of one parameter."""

    DETERMINED = "determined"
    AT_BOUND = "at-bound"
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
        Of ln c, alpha and L0 for independent rows: what the design alone makes estimates trade off.
    intervals : mapping of str to (float, float)
        At 95 %, in plain units, inside the bounds; nan where groups are too few.
    sizes : mapping of str to float
        By coefficient name: half width of the 95 % interval of ln of the term's size, at the column's geometric mean.
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
    intervals: Mapping[str, tuple[float, float]]
    sizes: Mapping[str, float]
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
    """Draw the verdicts: the design first, then the null directions, then what the 95 % interval can reach.

    An exponent or L0 is weak when its interval reaches half of the value to either side, and not determined when it
    reaches the end of what is possible: a logarithm, a step, a floor of zero or of the smallest loss. A coefficient is
    judged by the size of its term at the column's geometric mean: in plain units it is an extrapolation to one
    parameter or one token. A parameter at its bound is called that, unless its one-sided limit is open too.
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
    parameter, value = evidence.law.parameter(name), evidence.params[name]
    low, high = evidence.intervals[name]
    lowest, highest = parameter.natural_bounds
    if parameter.is_floor:
        highest = evidence.smallest_loss * (1 - 1e-8)
    if parameter.is_coupling:
        # Known within a factor of e, in its logarithm, or not at all; at an end of its range not at all.
        known = name not in evidence.limits and lowest < low and high < highest and high < math.e**2 * low
        return Verdict.DETERMINED if known else Verdict.NOT_DETERMINED
    if name in evidence.limits:
        if parameter.is_exponent and value in (lowest, highest):
            # A logarithm or a step is the end of the family, and no exponent: weak at best.
            return Verdict.WEAK if value / 2 < low and high < 2 * value else Verdict.NOT_DETERMINED
        return Verdict.NOT_DETERMINED if high >= highest or low <= lowest < value else Verdict.AT_BOUND
    if parameter.is_coefficient:
        size = evidence.sizes[name]
        # A size that reaches zero by the linear form of its error is open, half or double by the logarithmic one weak.
        return Verdict.DETERMINED if size < LN_2 else Verdict.WEAK if size < 1 else Verdict.NOT_DETERMINED
    if not (lowest < low and high < highest):
        return Verdict.NOT_DETERMINED
    return Verdict.DETERMINED if value / 2 < low and high < 1.5 * value else Verdict.WEAK


def _share_between_term(law: Law, verdicts: dict[str, Verdict]) -> None:
    """Leave open a coefficient with an open exponent, and the exponents of an open coefficient.

    Neither has a meaning alone; of two exponents in a product one may be known without the other.
    """
    for term in law.terms:
        exponents = [factor.exponent for factor in term.factors if factor.exponent in verdicts]
        own = verdicts.get(term.coefficient)
        if own is Verdict.NOT_DETERMINED:
            verdicts |= dict.fromkeys(exponents, own)
        elif own is not None and any(verdicts[name] is Verdict.NOT_DETERMINED for name in exponents):
            verdicts[term.coefficient] = Verdict.NOT_DETERMINED


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
