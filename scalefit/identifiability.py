"""Which parameters of a fitted law the data determine, and which they leave open.

A smooth objective makes all starts agree even where the data say nothing, so agreement is no evidence. Looked at
are the design (distinct values of each column, columns that move together), the null directions of the information
matrix at the optimum, and each standard error against the range the parameter could have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import ScalefitWarning
from scalefit.laws import Law, PowerTerm

__all__ = ["Evidence", "Identification", "Verdict", "identify", "null_parameters"]

Array = NDArray[np.float64]

NULL_EIGENVALUE = 1e-12
"""Eigen-directions of the scaled information matrix below this share of the largest carry rounding errors only."""

SAME_DIRECTION = 1 - 1e-9
"""Two ln columns that correlate more than this are one column."""

COLLINEAR = 0.9
"""Two ln columns that correlate more than this share most of what they say; the exponents trade off."""

Z95 = 1.959964


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
        Each term's column less its shift.
    params : mapping of str to float
        The estimates.
    free : tuple of str
        Parameters that were estimated rather than fixed, ties included.
    standard_errors : mapping of str to float
        Of ln c, alpha and L0; nan where there is none.
    relative_sizes : mapping of str to float
        By coefficient name: standard error of the term's size over that size, at the column's geometric mean.
    null : frozenset of str
        Parameters with a share in a null direction of the information matrix.
    limits : mapping of str to float
        One-sided limits of parameters at a bound.
    smallest_loss : float
    correlations : mapping of (str, str) to float
        Correlations of the estimates of the exponents.
    """

    law: Law
    arguments: Mapping[str, Array]
    params: Mapping[str, float]
    free: tuple[str, ...]
    standard_errors: Mapping[str, float]
    relative_sizes: Mapping[str, float]
    null: frozenset[str]
    limits: Mapping[str, float]
    smallest_loss: float
    correlations: Mapping[tuple[str, str], float]


@dataclass(frozen=True)
class Identification:
    """A verdict for every estimated parameter, and the remarks that explain them."""

    verdicts: Mapping[str, Verdict]
    warnings: tuple[ScalefitWarning, ...]

    def having(self, verdict: Verdict) -> tuple[str, ...]:
        """Names of the parameters with this verdict."""
        return tuple(name for name, given in self.verdicts.items() if given is verdict)


def identify(evidence: Evidence) -> Identification:
    """Draw the verdicts: the design first, then the null directions, then the standard errors.

    An exponent is weak when its 95 % Wald interval is wider than half of it to either side, and not determined
    when that interval reaches zero or its term's size does. L0, which can lie anywhere between zero and the
    smallest loss, is not determined when its interval is as wide as that range.
    """
    from_design, remarks = _design_verdicts(evidence)
    verdicts = {name: _verdict(name, evidence) for name in evidence.free}
    for name in (*from_design, *evidence.null):
        if name in verdicts:
            verdicts[name] = Verdict.NOT_DETERMINED
    _share_between_term(evidence.law, verdicts)
    remarks += _remarks(verdicts, evidence, explained=set(from_design))
    return Identification(MappingProxyType(verdicts), tuple(remarks))


def null_parameters(jacobian: Array, labels: Sequence[int]) -> tuple[frozenset[int], float]:
    """Parameters in null directions of the information, and the condition number of the scaled Jacobian.

    Parameters
    ----------
    jacobian : (n, P) float array
        Weighted derivatives of the residuals by the free parameters.
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
    if width >= possible:
        return Verdict.NOT_DETERMINED
    return Verdict.WEAK if width > possible / 2 else Verdict.DETERMINED


def _share_between_term(law: Law, verdicts: dict[str, Verdict]) -> None:
    """Give a coefficient and its exponent the worse of their verdicts: neither has a meaning alone."""
    ranks = list(Verdict)
    for term in law.terms:
        pair = [name for name in (term.coefficient, term.exponent) if name in verdicts]
        for name in pair:
            verdicts[name] = max((verdicts[p] for p in pair), key=ranks.index)


def _design_verdicts(evidence: Evidence) -> tuple[dict[str, str], list[ScalefitWarning]]:
    """Parameters that no data on such a design could determine, and why."""
    open_names: dict[str, str] = {}
    remarks: list[ScalefitWarning] = []
    for term in evidence.law.terms:
        estimated = [name for name in (term.coefficient, term.exponent) if name in evidence.free]
        levels = _count_levels(evidence.arguments[term.column], 1 + len(estimated))
        if estimated and levels < 1 + len(estimated) and (levels == 1 or _has_free_constant(evidence)):
            absorbed = ["L0"] if levels == 1 and "L0" in evidence.free else []
            open_names |= dict.fromkeys([*estimated, *absorbed], term.column)
            remarks.append(_few_levels(term, levels, estimated, bool(absorbed)))
    for a, b in combinations(evidence.law.terms, 2):
        correlation = _log_correlation(evidence.arguments[a.column], evidence.arguments[b.column])
        pair = [n for t in (a, b) for n in (t.coefficient, t.exponent) if n in evidence.free]
        if abs(correlation) > SAME_DIRECTION and len(pair) > 2:
            open_names |= dict.fromkeys(pair, f"{a.column}, {b.column}")
            remarks.append(_tied_columns(a, b, pair, evidence.law))
        elif abs(correlation) > COLLINEAR and a.exponent in evidence.free and b.exponent in evidence.free:
            estimates = evidence.correlations.get((a.exponent, b.exponent), float("nan"))
            remarks.append(_collinear_columns(a, b, correlation, estimates))
    return open_names, remarks


def _has_free_constant(evidence: Evidence) -> bool:
    """Whether a constant may move from a term to elsewhere in the law."""
    return "L0" in evidence.free or len(evidence.law.terms) > 1


def _count_levels(x: Array, enough: int) -> int:
    """Distinct values of x, counted no further than `enough`; one pass over most tables."""
    found = np.unique(x[:1000])
    if len(found) < enough and len(x) > 1000:
        found = np.unique(x)
    return min(len(found), enough)


def _log_correlation(x: Array, y: Array) -> float:
    u, v = np.log(x), np.log(y)
    u, v = u - u.mean(), v - v.mean()
    norm = np.sqrt((u @ u) * (v @ v))
    return float(u @ v / norm) if norm > 0 else 0.0


def _few_levels(term: PowerTerm, levels: int, estimated: list[str], absorbed: bool) -> ScalefitWarning:
    plural = "value" if levels == 1 else "values"
    ending = f"; the term {'is absorbed by L0' if absorbed else 'shifts between the parameters'}"
    return ScalefitWarning(
        "constant-column" if levels == 1 else "few-levels",
        f"{term.column} has {levels} distinct {plural}, which cannot determine {' and '.join(estimated)}{ending}.",
        f"Train at {1 + len(estimated)} or more values of {term.column}, fix {term.exponent} with "
        f"--fix {term.exponent}=1, or leave {term.column} out of the law.",
        {"column": term.column, "levels": levels, "parameters": estimated},
    )


def _tied_columns(a: PowerTerm, b: PowerTerm, names: list[str], law: Law) -> ScalefitWarning:
    rest = Law(tuple(t for t in law.terms if t != b), law.irreducible)
    return ScalefitWarning(
        "tied-columns",
        f"{b.column} is a power of {a.column} in every row (their logarithms are perfectly correlated), so that "
        f"{', '.join(names)} cannot be separated.",
        f"Fit the law that is identified, --law {rest}, or train shapes off this line.",
        {"columns": [a.column, b.column], "parameters": names, "identified_law": str(rest)},
    )


def _collinear_columns(a: PowerTerm, b: PowerTerm, correlation: float, estimates: float) -> ScalefitWarning:
    estimated = f" (their estimates correlate {estimates:+.2f})" if math.isfinite(estimates) else ""
    return ScalefitWarning(
        "collinear-columns",
        f"ln {a.column} and ln {b.column} correlate {correlation:+.2f} in this table, so that {a.exponent} and "
        f"{b.exponent} trade off{estimated}.",
        f"Runs with {a.column} and {b.column} off the common line separate them.",
        {"columns": [a.column, b.column], "correlation": correlation, "estimates_correlation": estimates},
    )


def _remarks(verdicts: Mapping[str, Verdict], evidence: Evidence, explained: set[str]) -> list[ScalefitWarning]:
    """What is not determined or weak for reasons that no remark on the design has named yet."""
    remarks = []
    named = [n for n, v in verdicts.items() if v is Verdict.NOT_DETERMINED and n not in explained]
    if named:
        remarks.append(
            ScalefitWarning(
                "not-determined",
                f"the data do not determine {', '.join(named)}: the 95 % intervals reach "
                "the end of what is possible, or a change along some direction leaves every prediction the same.",
                "Add runs that vary the columns concerned more widely, fix a parameter, or fit a smaller law.",
                {"parameters": named, "standard_errors": {n: evidence.standard_errors[n] for n in named}},
            )
        )
    weak = [n for n, v in verdicts.items() if v is Verdict.WEAK]
    if weak:
        remarks.append(
            ScalefitWarning(
                "weakly-determined",
                f"the data determine {', '.join(weak)} only weakly: the 95 % interval reaches half of the value "
                "to either side or further.",
                "Read the interval, not the digits.",
                {"parameters": weak, "standard_errors": {n: evidence.standard_errors[n] for n in weak}},
            )
        )
    return remarks
