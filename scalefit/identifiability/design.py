"""What the columns of a table alone tell of a law, before any fit: levels, spread, and columns that move together.

The rules and their words are the same for `check`, which looks at every column, and for `fit`, which looks at those
of its law and knows which parameters are free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import ScalefitWarning
from scalefit.laws.law import Law
from scalefit.laws.terms import PowerTerm

__all__ = [
    "ColumnDesign",
    "Correlation",
    "collinear_columns",
    "column_design",
    "correlate",
    "design_verdicts",
    "few_levels",
    "plane",
]

Array = NDArray[np.float64]

LEVELS = 3
"""Distinct values that a coefficient and an exponent beside a constant need."""

SAME_DIRECTION = 1 - 1e-9
"""Two ln columns that correlate more than this are one column; they are said to correlate by exactly one."""

SAME_PLANE = 1e-3
"""A ln column of which the others leave less than this share of its variance is a product of their powers."""

COLLINEAR = 0.9
"""Two ln columns that correlate more than this share most of what they say; the exponents trade off."""


@dataclass(frozen=True)
class ColumnDesign:
    """Spread of one column: distinct values, range, decades between its ends, rows in which it is missing."""

    name: str
    levels: int
    minimum: float
    maximum: float
    decades: float
    missing: int


@dataclass(frozen=True)
class Correlation:
    """Correlation of the logarithms of two columns."""

    first: str
    second: str
    value: float


def column_design(name: str, values: Array, levels: int) -> ColumnDesign:
    """Describe one column; missing cells do not count."""
    missing = int(np.isnan(values).sum())
    if levels == 0:
        return ColumnDesign(name, 0, math.nan, math.nan, math.nan, missing)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    decades = float(np.log10(high / low)) if low > 0 else float("nan")
    return ColumnDesign(name, levels, low, high, decades, missing)


def correlate(columns: Mapping[str, Array]) -> tuple[Correlation, ...]:
    """Correlate the logarithms of every pair of columns that vary, over rows where both are known."""
    logs = {name: np.log(x, out=np.full(len(x), np.nan), where=x > 0) for name, x in columns.items()}
    found = []
    units = {name: _unit(x) for name, x in logs.items() if not np.isnan(x).any()}
    for a, b in combinations(columns, 2):
        if a in units and b in units:
            x, y = units[a], units[b]
        else:
            known = ~np.isnan(logs[a] + logs[b])
            x, y = _unit(logs[a][known]), _unit(logs[b][known])
        if x is not None and y is not None:
            value = float(x @ y)
            exact = abs(value) > SAME_DIRECTION
            found.append(Correlation(a, b, float(np.sign(value)) if exact else value))
    return tuple(found)


def _unit(x: Array) -> Array | None:
    """Return x less its mean, at length one; None where it does not vary beyond rounding."""
    if len(x) < 2:
        return None
    centred = x - x.mean()
    square = float(centred @ centred)
    return None if square < 1e-24 * len(x) * max(1.0, float(x[0]) ** 2) else centred / np.sqrt(square)


def design_verdicts(
    law: Law,
    levels: Mapping[str, int],
    correlations: Sequence[Correlation],
    free: Collection[str],
    estimates: Callable[[str, str], float] | None = None,
) -> tuple[dict[str, str], list[ScalefitWarning]]:
    """Parameters that no losses on a design could determine, with a reason, and remarks on the design.

    Parameters
    ----------
    law : Law
    levels : mapping of str to int
        Distinct values of each column of the law; more than 3 may be given as 3.
    correlations : sequence of Correlation
        Of the terms' arguments.
    free : collection of str
        Parameters that are estimated.
    estimates : callable, optional
        Correlation of the estimates of two parameters, by name.
    """
    open_names: dict[str, str] = {}
    remarks: list[ScalefitWarning] = []
    constant_elsewhere = "L0" in free or len(law.terms) > 1  # a constant may move from a term to there
    for factor in law.factors:
        term = law.term_of(factor)
        alone = len(term.factors) == 1
        estimated = [name for name in (term.coefficient, factor.exponent) if name in free]
        # In a product the other columns vary the term too: two values of this one tell its exponent.
        n, needed = levels[factor.column], 1 + len(estimated) if alone else 2
        if estimated and n < needed and (n == 1 or constant_elsewhere):
            absorbed = ["L0"] if n == 1 and "L0" in free and alone else []
            values = "value" if n == 1 else "values"
            reason = f"{n} distinct {values} of {factor.column}, {needed} are needed"
            open_names |= dict.fromkeys([*estimated, *absorbed], reason)
            remarks.append(few_levels(factor.column, n, needed, estimated, bool(absorbed)))
    factors = {factor.column: factor for factor in law.factors}
    for pair in correlations:
        a, b = factors[pair.first], factors[pair.second]
        pairs = (name for f in (a, b) for name in (law.term_of(f).coefficient, f.exponent))
        both = [name for name in dict.fromkeys(pairs) if name in free]
        if abs(pair.value) == 1.0 and len(both) > 2:
            open_names |= dict.fromkeys(both, f"{b.column} is a power of {a.column} in every row")
            remarks.append(_tied_columns(a, b, both, law))
        elif abs(pair.value) > COLLINEAR and a.exponent in free and b.exponent in free:
            found = estimates(a.exponent, b.exponent) if estimates else math.nan
            remarks.append(collinear_columns(pair, f"{a.exponent} and {b.exponent}", found))
    return open_names, remarks


def plane(law: Law, logs: Array, free: Collection[str]) -> tuple[PowerTerm, ScalefitWarning] | None:
    """A column that is a product of powers of the others in every row, such as tokens at a constant ratio.

    Only the curvature of the law tells such a term from the others, so that it is weak at best.

    Parameters
    ----------
    law : Law
    logs : (M, n) float array
        ln of the factors' arguments.
    free : collection of str
        Parameters that are estimated.
    """
    terms = law.factors
    if len(terms) < 3:
        return None
    logs = logs - logs.mean(axis=1, keepdims=True)
    squares = logs @ logs.T
    if np.any(np.diag(squares) == 0):
        return None
    scale = 1 / np.sqrt(np.diag(squares))
    # 1 / (R^-1)_kk is the share of a column's variance that the others leave.
    left = 1 / np.diag(np.linalg.inv(squares * scale * scale[:, None] + 1e-9 * np.eye(len(terms))))
    k = int(np.argmin(left))
    if left[k] >= SAME_PLANE or terms[k].exponent not in free:
        return None
    # Of several, the last named is the one a user would leave out.
    term = terms[max(j for j in range(len(terms)) if left[j] < SAME_PLANE)]
    others = [t.column for t in terms if t is not term]
    return term, ScalefitWarning(
        "constant-ratio",
        f"{term.column} is a product of powers of {' and '.join(others)} in (almost) every row, as at a constant "
        f"number of tokens per parameter; only the curvature of the law tells {term.exponent} from the others.",
        f"Runs of one shape at several {term.column} separate them.",
        {"column": term.column, "others": others},
    )


def few_levels(
    column: str, levels: int, needed: int, parameters: Sequence[str] = (), absorbed: bool = False
) -> ScalefitWarning:
    """A column has too few distinct values for a term, with the parameters of a fit that stay open."""
    values = "value" if levels == 1 else "values"
    rescue, numbers = "", {"column": column, "levels": levels}
    if parameters:
        ending = f"the term {'is absorbed by L0' if absorbed else 'shifts between the parameters'}"
        message = f", which cannot determine {' and '.join(parameters)}; {ending}."
        exponent = parameters[-1]
        rescue = f"fix {exponent} with --fix {exponent}=1, " if levels > 1 else ""
        numbers |= {"parameters": list(parameters)}
    else:
        message = f"; a law with a term of it needs {needed}."
    return ScalefitWarning(
        "constant-column" if levels == 1 else "few-levels",
        f"{column} has {levels} distinct {values}{message}",
        f"Train at {needed} or more values of {column}, {rescue}or leave it out of the law.",
        numbers,
    )


def _tied_columns(a: PowerTerm, b: PowerTerm, names: list[str], law: Law) -> ScalefitWarning:
    rest = law.without(b)
    return ScalefitWarning(
        "tied-columns",
        f"{b.column} is a power of {a.column} in every row (their logarithms are perfectly correlated), so that "
        f"{', '.join(names)} cannot be separated.",
        f"Fit the law that is identified, --law {rest}, or train shapes off this line.",
        {"columns": [a.column, b.column], "parameters": names, "identified_law": str(rest)},
    )


def collinear_columns(
    pair: Correlation, exponents: str = "their exponents", estimates: float = math.nan
) -> ScalefitWarning:
    """Two columns move together, so that their exponents trade off."""
    a, b = pair.first, pair.second
    numbers: dict[str, object] = {"columns": [a, b], "correlation": pair.value}
    estimated = ""
    if math.isfinite(estimates):
        estimated = f" (their estimates correlate {estimates:+.2f})"
        numbers["estimates_correlation"] = estimates
    return ScalefitWarning(
        "collinear-columns",
        f"ln {a} and ln {b} correlate {pair.value:+.2f} in this table, so that {exponents} trade off{estimated}.",
        f"Runs with {a} and {b} off the common line separate them.",
        numbers,
    )
