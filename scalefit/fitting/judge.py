"""What a fit says of each of its parameters: the verdicts, and everything there is to remark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scalefit.errors import ScalefitWarning
from scalefit.identifiability import Evidence, Identification, identify
from scalefit.ingest.duplicates import duplicate_warning, exact_duplicates

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["judge", "remarks"]

DUPLICATES_UP_TO = 20_000
"""Rows among which a fit looks for repeated ones, for the cost; `inspect_runs` looks among any number."""


def judge(fit: Fit) -> Identification:
    """Draw a verdict for every parameter of a fit that was estimated."""
    optimum, law = fit.optimum, fit.law
    centred = optimum.centred
    index = {name: centred.free_index(name) for name in law.parameter_names}
    covariance, sizes = optimum.gauss_newton, {}
    for j in range(len(centred.free_terms)):
        gradient = optimum.size_gradient(j)
        finite = np.isfinite(gradient[j])
        variance = float(gradient @ covariance @ gradient) if finite else np.inf
        sizes[centred.free_names[j]] = float(np.sqrt(max(0.0, variance)))
    evidence = Evidence(
        law=law,
        arguments={factor.column: factor.argument(fit.runs) for factor in law.factors},
        params=fit.params,
        free=tuple(name for name, j in index.items() if j is not None),
        standard_errors=fit.standard_errors,
        covariance=fit.covariance,
        relative_sizes=sizes,
        null=frozenset(name for name, j in index.items() if j in optimum.null[0]),
        at_bound=fit.at_bound,
        limits=fit.limits,
        smallest_loss=centred.smallest_loss,
        noise=float(np.sqrt(np.mean((fit.predict(fit.runs) - fit.runs["loss"]) ** 2))),
        shares=law.shares(fit.runs, fit.params),
    )
    return identify(evidence)


def remarks(fit: Fit) -> tuple[ScalefitWarning, ...]:
    """Everything there is to remark: of the table, of the parameters, of the search."""
    runs, certificate = fit.runs, fit.certificate
    found = [*runs.warnings, *fit.identification.warnings]
    if len(runs) <= DUPLICATES_UP_TO:
        later = exact_duplicates(runs.table)
        found += [duplicate_warning(runs.table, later)] if len(later) else []
    if runs.n_runs < len(runs):
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
        found.append(
            ScalefitWarning(
                "starts-disagree",
                f"{certificate.starts_at_best} of {certificate.starts} random starts ended at the best optimum; "
                "the others ended in worse ones or short of any.",
                "The best is reported. Where few agree, run again with --starts 256.",
                {"starts": certificate.starts, "starts_at_best": certificate.starts_at_best},
            )
        )
    return tuple(found)
