"""What a fit says of each of its parameters: the verdicts, how it ended, and everything there is to remark."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import ScalefitWarning
from scalefit.fitting.covariance import DUPLICATES_UP_TO, ROWS
from scalefit.fitting.intervals import HIGHEST_FLOOR, reaches
from scalefit.fitting.optimum import Optimum
from scalefit.identifiability import Evidence, Identification, identify
from scalefit.ingest.duplicates import duplicate_warning, exact_duplicates

if TYPE_CHECKING:
    from scalefit.fitting.fit import Certificate, Fit

__all__ = ["FitStatus", "judge", "remarks"]

Array = NDArray[np.float64]


class FitStatus(StrEnum):
    """How a fit ended; each member carries its sentence."""

    CONVERGED = "converged"
    AT_BOUND = "at-bound"
    NOT_IDENTIFIED = "not-identified"
    FAILED = "failed"

    @property
    def sentence(self) -> str:
        """What the status means, for people."""
        return _SENTENCES[self]


_SENTENCES = {
    FitStatus.CONVERGED: "The optimum was reached, inside all bounds.",
    FitStatus.AT_BOUND: "The optimum was reached with a parameter at its bound, which is legitimate and named below.",
    FitStatus.NOT_IDENTIFIED: "An optimum was reached, but the data do not determine every parameter.",
    FitStatus.FAILED: "No start reached an optimum; the parameters are the best point seen.",
}


def judge(fit: Fit) -> Identification:
    """Draw a verdict for every parameter of a fit that was estimated."""
    optimum, law = fit.optimum, fit.law
    centred = optimum.centred
    index = {name: centred.free_index(name) for name in law.parameter_names}
    centers, _ = optimum.log_sizes()
    with np.errstate(invalid="ignore"):
        halves = np.abs(fit.intervals_of(Optimum.log_sizes) - centers[:, None]).max(axis=1)
    halves = np.where(np.isfinite(centers), halves, np.inf)
    sizes = dict(zip((term.coefficient for term in law.terms), halves.tolist(), strict=True))
    evidence = Evidence(
        law=law,
        arguments={factor.column: factor.argument(fit.runs) for factor in law.factors},
        params=fit.params,
        free=tuple(name for name, j in index.items() if j is not None),
        standard_errors=fit.standard_errors,
        covariance=optimum.reported(optimum.gauss_newton),
        intervals=_profiled(fit),
        sizes=sizes,
        null=frozenset(name for name, j in index.items() if j in optimum.null[0]),
        at_bound=fit.at_bound,
        limits=fit.limits,
        smallest_loss=centred.smallest_loss,
        noise=float(np.sqrt(np.mean((fit.predict(fit.runs) - fit.runs["loss"]) ** 2))),
        shares=law.shares(fit.runs, fit.params),
    )
    return identify(evidence)


def _profiled(fit: Fit) -> dict[str, tuple[float, float]]:
    """The intervals, with each end of an exponent or the floor moved on to where the profile reaches.

    Asked is only what changes a verdict, of ends that come near: half of the value to either side, then what is
    possible at all.
    """
    found = dict(fit.intervals())
    for parameter in fit.law.parameters:
        name = parameter.name
        if not (parameter.is_exponent or parameter.is_floor) or not fit.standard_errors[name] > 0 or name in fit.limits:
            continue
        ends, value = list(found[name]), fit.params[name]
        possible = fit.constraints.limits(parameter)
        if parameter.is_floor:
            possible = possible[0], min(possible[1], HIGHEST_FLOOR * fit.optimum.centred.smallest_loss)
        for i, sign in enumerate((-1, 1)):
            # A fit of its own answers each question: it is asked early of the floor, whose profile bends most.
            nearly, half = (value * (1 + share * sign) for share in (0.25 if parameter.is_floor else 0.45, 0.5))
            for near, far in ((nearly, half), (half, possible[i])):
                close = sign * (ends[i] - near) >= 0 and sign * (far - ends[i]) > 0 and math.isfinite(far)
                if close and reaches(fit, name, far):
                    ends[i] = far
        found[name] = (ends[0], ends[1])
    return found


def remarks(fit: Fit) -> tuple[ScalefitWarning, ...]:
    """Everything there is to remark: of the table, of the parameters, of the search."""
    runs, certificate = fit.runs, fit.certificate
    found = [*runs.warnings, *fit.identification.warnings]
    if len(runs) <= DUPLICATES_UP_TO:
        later = exact_duplicates(runs.table)
        found += [duplicate_warning(runs.table, later)] if len(later) else []
    withheld = [name for name, degrees in fit.degrees.items() if fit.standard_errors[name] > 0 and np.isnan(degrees)]
    if withheld:
        errors = fit.errors
        found.append(
            ScalefitWarning(
                "too-few-groups",
                f"rows of one {errors.by} share its luck, and the {errors.groups} {errors.by}s of the table are too "
                f"few for an interval of {', '.join(withheld)}.",
                f"Train at more {errors.by}s; --errors rows takes every row for independent, which is too narrow.",
                {"by": errors.by, "groups": errors.groups, "parameters": withheld},
            )
        )
    if fit.errors_by == ROWS and runs.n_runs < len(runs):
        found.append(
            ScalefitWarning(
                "rows-share-runs",
                f"the {len(runs)} rows belong to {runs.n_runs} runs, and rows of one run share its luck; the standard "
                "errors take every row for independent.",
                "They are too narrow for what varies between runs only, such as width and depth.",
                {"n_rows": len(runs), "n_runs": runs.n_runs},
            )
        )
    if certificate.starts_at_best < certificate.starts:
        found.append(_starts_disagree(certificate))
    return tuple(found)


def _starts_disagree(certificate: Certificate) -> ScalefitWarning:
    """What can be claimed where some starts ended elsewhere: no more than was searched."""
    best, starts = certificate.starts_at_best, certificate.starts
    elsewhere = "; ".join(f"{count} at an objective {excess:.2g} times higher" for count, excess in certificate.others)
    others = f"of the others {elsewhere}" if elsewhere else "the others stopped short of any optimum"
    ranges = (
        "Exponents were started between 0.15 and 1.5, and in half of the starts one of them between 0.002 and 0.05 or "
        "3 and 9.9; what lies in basins beyond was not looked at."
    )
    if 2 * best >= starts:
        claim, action = (
            f"{best} of {starts} random starts ended at the best optimum, {others}.",
            "The best is reported.",
        )
    else:
        claim = (
            f"only {best} of {starts} random starts ended at the best optimum, {others}: that it is the lowest is not "
            "claimed."
        )
        action = "Run again with --starts 256 and another --seed, or fit a smaller law."
    numbers = {"starts": starts, "starts_at_best": best, "others": [list(other) for other in certificate.others]}
    return ScalefitWarning("starts-disagree", claim, f"{action} {ranges}", numbers)
