"""What the columns of a table alone tell of a law: levels, and columns that move together."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import ScalefitWarning
from scalefit.identifiability.evidence import Evidence
from scalefit.identifiability.remarks import collinear_columns, constant_ratio, few_levels, tied_columns
from scalefit.laws.law import PowerTerm

__all__ = ["design_verdicts", "planes"]

Array = NDArray[np.float64]

SAME_DIRECTION = 1 - 1e-9
"""Two ln columns that correlate more than this are one column."""

SAME_PLANE = 1e-3
"""A ln column of which the others leave less than this share of its variance is a product of their powers."""

COLLINEAR = 0.9
"""Two ln columns that correlate more than this share most of what they say; the exponents trade off."""


def design_verdicts(evidence: Evidence) -> tuple[dict[str, str], list[ScalefitWarning]]:
    """Parameters that no data on such a design could determine, and why."""
    open_names: dict[str, str] = {}
    remarks: list[ScalefitWarning] = []
    for term in evidence.law.terms:
        estimated = [name for name in (term.coefficient, term.exponent) if name in evidence.free]
        levels = _count_levels(evidence.arguments[term.column], 1 + len(estimated))
        if estimated and levels < 1 + len(estimated) and (levels == 1 or _has_free_constant(evidence)):
            absorbed = ["L0"] if levels == 1 and "L0" in evidence.free else []
            open_names |= dict.fromkeys([*estimated, *absorbed], term.column)
            remarks.append(few_levels(term, levels, estimated, bool(absorbed)))
    for a, b in combinations(evidence.law.terms, 2):
        correlation = _log_correlation(evidence.arguments[a.column], evidence.arguments[b.column])
        pair = [n for t in (a, b) for n in (t.coefficient, t.exponent) if n in evidence.free]
        if abs(correlation) > SAME_DIRECTION and len(pair) > 2:
            open_names |= dict.fromkeys(pair, f"{a.column}, {b.column}")
            remarks.append(tied_columns(a, b, pair, evidence.law))
        elif abs(correlation) > COLLINEAR and a.exponent in evidence.free and b.exponent in evidence.free:
            estimates = evidence.correlations.get((a.exponent, b.exponent), float("nan"))
            remarks.append(collinear_columns(a, b, correlation, estimates))
    return open_names, remarks


def planes(evidence: Evidence, explained: set[str]) -> list[tuple[PowerTerm, ScalefitWarning]]:
    """Columns that are a product of powers of the others in every row, such as tokens at a constant ratio.

    Only the curvature of the law tells such a term from the others, so that it is weak at best.
    """
    terms = evidence.law.terms
    found: list[tuple[PowerTerm, ScalefitWarning]] = []
    if len(terms) < 3 or explained:
        return found
    logs = np.stack([np.log(evidence.arguments[t.column]) for t in terms])
    logs -= logs.mean(axis=1, keepdims=True)
    squares = logs @ logs.T
    if np.any(np.diag(squares) == 0):
        return found
    scale = 1 / np.sqrt(np.diag(squares))
    # 1 / (R^-1)_kk is the share of a column's variance that the others leave.
    left = 1 / np.diag(np.linalg.inv(squares * scale * scale[:, None] + 1e-9 * np.eye(len(terms))))
    k = int(np.argmin(left))
    if left[k] < SAME_PLANE and terms[k].exponent in evidence.free:
        # Of several, the last named is the one a user would leave out.
        k = max(j for j in range(len(terms)) if left[j] < SAME_PLANE)
        found.append((terms[k], constant_ratio(terms[k], [t.column for t in terms if t is not terms[k]])))
    return found


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
