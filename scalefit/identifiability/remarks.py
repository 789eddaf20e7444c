"""What there is to say about parameters that the data leave open, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from scalefit.errors import ScalefitWarning
from scalefit.laws.terms import PowerTerm

if TYPE_CHECKING:
    from scalefit.identifiability.verdicts import Evidence

__all__ = ["bound_remarks", "coupling_remarks", "open_and_weak", "term_below_noise"]


MOST_ROWS, ONE_TERM = 0.95, 0.99
"""A law is its largest term where that is nearly everything in nearly every row."""


def term_below_noise(term: PowerTerm, change: float, noise: float) -> ScalefitWarning:
    """A term that can hardly be seen."""
    return ScalefitWarning(
        "term-below-noise",
        f"the term of {term.column} changes by {change:.2g} nats over the whole table, and the residuals have a root "
        f"mean square of {noise:.2g}: it can hardly be seen, and {term.exponent} cannot be told.",
        f"Widen the range of {term.column}, reduce the noise by longer evaluation, or leave {term.column} out.",
        {"column": term.column, "change": change, "noise": noise},
    )


def open_and_weak(open_names: Sequence[str], weak: Sequence[str], evidence: Evidence) -> list[ScalefitWarning]:
    """What is not determined for reasons that no remark on the design has named yet, and what is weak."""
    errors, remarks = evidence.standard_errors, []
    if open_names:
        remarks.append(
            ScalefitWarning(
                "not-determined",
                f"the data do not determine {', '.join(open_names)}: the 95 % intervals reach "
                "the end of what is possible, or a change along some direction leaves every prediction the same."
                + _least_sure_direction(evidence, open_names),
                "Add runs that vary the columns concerned more widely, fix a parameter, or fit a smaller law.",
                {"parameters": list(open_names), "standard_errors": {n: errors[n] for n in open_names}},
            )
        )
    if weak:
        remarks.append(
            ScalefitWarning(
                "weakly-determined",
                f"the data determine {', '.join(weak)} only weakly: the 95 % interval reaches half of the value "
                "to either side or further." + _least_sure_direction(evidence, weak),
                "Read the interval, not the digits.",
                {"parameters": list(weak), "standard_errors": {n: errors[n] for n in weak}},
            )
        )
    return remarks


def _least_sure_direction(evidence: Evidence, named: Sequence[str]) -> str:
    """The direction along which the estimates are least sure, as a sentence; empty for fewer than two parameters.

    It is the first principal axis of the estimates in units of their standard errors, two deviations long.
    """
    parameters = evidence.law.parameters
    chosen = [i for i, p in enumerate(parameters) if not p.is_coefficient and evidence.standard_errors[p.name] > 0]
    if len(chosen) < 2 or not any(parameters[i].name in named for i in chosen):
        return ""
    covariance = evidence.covariance[np.ix_(chosen, chosen)]
    errors = np.sqrt(np.diag(covariance))
    if not np.isfinite(covariance).all() or errors.min() <= 0:
        return ""
    values, vectors = np.linalg.eigh(covariance / errors / errors[:, None])
    step = 2 * np.sqrt(values[-1]) * vectors[:, -1] * errors
    step *= np.sign(step[np.argmax(np.abs(vectors[:, -1]))])
    parts = [
        f"{parameters[i].name} {change:+.2g}"
        for i, change, share in zip(chosen, step, vectors[:, -1], strict=True)
        if abs(share) > 0.3
    ]
    return f" Least sure is the direction {', '.join(parts)}, together." if len(parts) > 1 else ""


def coupling_remarks(evidence: Evidence) -> list[ScalefitWarning]:
    """What the coupling exponent says at its ends: one term alone decides, or the terms add up.

    Whether a term alone decides is told by the shares of the terms rather than by q, which may be large where every
    term has its rows and small where one term has them all.
    """
    if "q" not in evidence.free:
        return []
    q, error = evidence.params["q"], evidence.standard_errors["q"]
    leading = evidence.shares.max(axis=0)
    if np.quantile(leading, 1 - MOST_ROWS) > ONE_TERM:
        terms = [str(term) for k, term in enumerate(evidence.law.terms) if (evidence.shares.argmax(axis=0) == k).any()]
        several = "another one in different rows" if len(terms) > 1 else f"{terms[0]} in every row"
        return [
            ScalefitWarning(
                "bottleneck",
                f"in {MOST_ROWS:.0%} of the rows one term makes up more than {ONE_TERM:.0%} of the reducible loss "
                f"({several}): the law is its largest term, and any larger q fits as well.",
                "Read q as a lower limit; runs in which two terms are of one size would tell it.",
                {"q": q, "terms": terms},
            )
        ]
    if abs(np.log(q)) < 2 * error:
        return [
            ScalefitWarning(
                "additive-is-enough",
                f"q is {q:.3g} with a standard error of a factor {np.exp(error):.3g}: a sum of the terms, q = 1, fits "
                "as well.",
                "Fit the law without ^q.",
                {"q": q, "standard_error": error},
            )
        ]
    return []


def bound_remarks(evidence: Evidence, explained: set[str]) -> list[ScalefitWarning]:
    """Parameters at bounds, but for terms that the design explains and exponents of terms that vanished."""
    parameters = [evidence.law.parameter(name) for name in evidence.at_bound]
    vanished = {p.term for p in parameters if p.is_coefficient and p.name not in evidence.limits}
    remarks = []
    for parameter in parameters:
        name, limit = parameter.name, evidence.limits.get(parameter.name)
        if name in explained or (parameter.is_exponent and parameter.term in vanished):
            continue
        if limit is None:
            remark = ScalefitWarning(
                "vanished-term",
                f"{name} went to zero: the data show no trace of this term.",
                f"Leave {parameter.column} out of the law, or add runs that vary it more.",
                {"parameter": name},
            )
        else:
            value = evidence.params[name]
            side = "below" if limit > value else "above"
            open_ended = parameter.is_exponent and limit < 0
            known = "the data set it no limit" if open_ended else f"at 95 % it is {side} {limit:.2g}"
            remark = ScalefitWarning(
                "at-bound",
                f"{name} is at its bound {value:g}; {known}.",
                "Read the one-sided limit; the other standard errors hold for this value of the parameter.",
                {"parameter": name, "bound": value, "limit": limit},
            )
        remarks.append(remark)
    return remarks
