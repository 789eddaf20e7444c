"""What there is to say about parameters that the data leave open, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from scalefit.errors import ScalefitWarning
from scalefit.identifiability.evidence import Evidence, Verdict
from scalefit.laws.law import Law, PowerTerm

__all__ = [
    "collinear_columns",
    "constant_ratio",
    "few_levels",
    "least_sure_direction",
    "open_and_weak",
    "term_below_noise",
    "tied_columns",
]


def few_levels(term: PowerTerm, levels: int, estimated: list[str], absorbed: bool) -> ScalefitWarning:
    plural = "value" if levels == 1 else "values"
    ending = f"; the term {'is absorbed by L0' if absorbed else 'shifts between the parameters'}"
    rescue = f"fix {term.exponent} with --fix {term.exponent}=1, " if levels > 1 else ""
    return ScalefitWarning(
        "constant-column" if levels == 1 else "few-levels",
        f"{term.column} has {levels} distinct {plural}, which cannot determine {' and '.join(estimated)}{ending}.",
        f"Train at {1 + len(estimated)} or more values of {term.column}, {rescue}or leave it out of the law.",
        {"column": term.column, "levels": levels, "parameters": estimated},
    )


def tied_columns(a: PowerTerm, b: PowerTerm, names: list[str], law: Law) -> ScalefitWarning:
    rest = Law(tuple(t for t in law.terms if t != b), law.irreducible)
    return ScalefitWarning(
        "tied-columns",
        f"{b.column} is a power of {a.column} in every row (their logarithms are perfectly correlated), so that "
        f"{', '.join(names)} cannot be separated.",
        f"Fit the law that is identified, --law {rest}, or train shapes off this line.",
        {"columns": [a.column, b.column], "parameters": names, "identified_law": str(rest)},
    )


def collinear_columns(a: PowerTerm, b: PowerTerm, correlation: float, estimates: float) -> ScalefitWarning:
    estimated = f" (their estimates correlate {estimates:+.2f})" if math.isfinite(estimates) else ""
    return ScalefitWarning(
        "collinear-columns",
        f"ln {a.column} and ln {b.column} correlate {correlation:+.2f} in this table, so that {a.exponent} and "
        f"{b.exponent} trade off{estimated}.",
        f"Runs with {a.column} and {b.column} off the common line separate them.",
        {"columns": [a.column, b.column], "correlation": correlation, "estimates_correlation": estimates},
    )


def constant_ratio(term: PowerTerm, others: list[str]) -> ScalefitWarning:
    return ScalefitWarning(
        "constant-ratio",
        f"{term.column} is a product of powers of {' and '.join(others)} in (almost) every row, as at a constant "
        f"number of tokens per parameter; only the curvature of the law tells {term.exponent} from the others.",
        f"Runs of one shape at several {term.column} separate them.",
        {"column": term.column, "others": others},
    )


def term_below_noise(term: PowerTerm, change: float, noise: float) -> ScalefitWarning:
    return ScalefitWarning(
        "term-below-noise",
        f"the term of {term.column} changes by {change:.2g} nats over the whole table, and the residuals have a root "
        f"mean square of {noise:.2g}: it can hardly be seen, and {term.exponent} cannot be told.",
        f"Widen the range of {term.column}, reduce the noise by longer evaluation, or leave {term.column} out.",
        {"column": term.column, "change": change, "noise": noise},
    )


def open_and_weak(verdicts: Mapping[str, Verdict], evidence: Evidence, explained: set[str]) -> list[ScalefitWarning]:
    """What is not determined or weak for reasons that no remark on the design has named yet."""
    remarks = []
    named = [n for n, v in verdicts.items() if v is Verdict.NOT_DETERMINED and n not in explained]
    if named:
        remarks.append(
            ScalefitWarning(
                "not-determined",
                f"the data do not determine {', '.join(named)}: the 95 % intervals reach "
                "the end of what is possible, or a change along some direction leaves every prediction the same."
                + least_sure_direction(evidence, named),
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
                "to either side or further." + least_sure_direction(evidence, weak),
                "Read the interval, not the digits.",
                {"parameters": weak, "standard_errors": {n: evidence.standard_errors[n] for n in weak}},
            )
        )
    return remarks


def least_sure_direction(evidence: Evidence, named: Sequence[str]) -> str:
    """The direction along which the estimates are least sure, as a sentence; empty for fewer than two parameters.

    It is the first principal axis of the estimates in units of their standard errors, two deviations long.
    """
    names = evidence.law.parameter_names
    chosen = [i for i, n in enumerate(names) if not n.startswith("c_") and evidence.standard_errors[n] > 0]
    if len(chosen) < 2 or not any(names[i] in named for i in chosen):
        return ""
    covariance = evidence.covariance[np.ix_(chosen, chosen)]
    errors = np.sqrt(np.diag(covariance))
    if not np.isfinite(covariance).all() or errors.min() <= 0:
        return ""
    values, vectors = np.linalg.eigh(covariance / errors / errors[:, None])
    step = 2 * np.sqrt(values[-1]) * vectors[:, -1] * errors
    step *= np.sign(step[np.argmax(np.abs(vectors[:, -1]))])
    parts = [
        f"{names[i]} {change:+.2g}"
        for i, change, share in zip(chosen, step, vectors[:, -1], strict=True)
        if abs(share) > 0.3
    ]
    return f" Least sure is the direction {', '.join(parts)}, together." if len(parts) > 1 else ""
