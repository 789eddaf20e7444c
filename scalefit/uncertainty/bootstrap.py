"""The bootstrap: a law fitted again to thousands of resamples of its own table.

Percentile intervals are the quantiles of the replicates; BCa intervals correct them for bias and skewness (Efron
1987) with

    z0 = Phi^-1(share of replicates below the estimate),                                           (1)
    a = sum d_j^3 / (6 (sum d_j^2)^(3/2)),    d_j = mean(theta_(.)) - theta_(j),                    (2)

theta_(j) the estimate without resampling unit j.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from scalefit.errors import FitError, OptionError, ScalefitWarning
from scalefit.execute import Progress, run_jobs
from scalefit.fitting.starts import check_seed
from scalefit.identifiability import Verdict
from scalefit.uncertainty.groups import FEWEST_CLUSTERS, Grouping, choose_grouping, group_labels
from scalefit.uncertainty.resampling import (
    METHODS,
    Refits,
    Replicates,
    Resampling,
    chunk_sizes,
    draw_chunk,
    jackknife_problem,
    plan_resampling,
    refit,
)
from scalefit.uncertainty.samples import Samples, check_level

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["bootstrap", "check_resamples"]

Array = NDArray[np.float64]

PILE_UP = 0.05
"""With more replicates than this at a bound, quantiles of replicates are no confidence limits (Andrews 2000)."""

FEWEST_ROWS = 10
"""With fewer rows a parameter, quantiles of replicates are too narrow: they know no Student's t."""

FEWEST = 50


@dataclass(frozen=True)
class _Drawn:
    resampling: Resampling
    by: str
    grouping: Grouping
    replicates: Replicates
    asked: int


def bootstrap(
    fit: Fit,
    n_resamples: int = 1000,
    *,
    method: str | None = None,
    by: str | None = None,
    seed: int = 0,
    level: float = 0.95,
    workers: int = 0,
    progress: Progress | None = None,
) -> Samples:
    """Fit a law to many resamples of its table.

    Parameters
    ----------
    fit : Fit
    n_resamples : int
        At least 50; 1,000 leave the ends of a 95 % interval uncertain by a few per cent of its width.
    method : str, optional
        ``"pairs"`` (rows), ``"cluster"`` (runs or shapes), ``"residual"``, ``"wild"`` or ``"wild-cluster"``. By
        default what suits the table: clusters where rows share runs or residuals correlate within shape, else pairs.
    by : str, optional
        Cluster: ``"run"``, ``"shape"`` or a column. By default runs where rows share them, else shapes.
    seed : int
    level : float
        Default level of the intervals.
    workers : int
        Processes to use; 0 works in this one. The result is the same for any number.
    progress : callable, optional
        Called with the pieces of work done and their number.

    Returns
    -------
    Samples
        ``diagnostics`` holds the method and its reason, the tests of dependence, the share of replicates that reached
        their optimum, how many were degenerate, the share at a bound by parameter, and the one-sided quantile of
        those that pile up there.

    Raises
    ------
    OptionError
        If an option is unknown, or there are fewer than 15 clusters.
    FitError
        If the data leave parameters undetermined, so that replicates would be arbitrary, or none converged.
    """
    check_level(level)
    check_resamples(n_resamples)
    check_seed(seed)
    require_determined(fit)
    grouping = choose_grouping(fit)
    method, by = choose_resampling(grouping, fit, method, by)
    labels = group_labels(fit, by)
    if by != "row" and (count := int(labels.max()) + 1) < FEWEST_CLUSTERS:
        raise OptionError(
            f"there are {count} clusters by {by} and at least {FEWEST_CLUSTERS} are needed: fewer give intervals that "
            "are far too narrow; choose another unit, or pairs and expect too narrow intervals"
        )
    refits = Refits.of(fit)
    resampling = plan_resampling(fit, refits, method, labels)
    sizes = chunk_sizes(n_resamples, len(fit.runs))
    sequences = np.random.SeedSequence(seed).spawn(len(sizes))
    jobs = [(resampling, sequence, size) for sequence, size in zip(sequences, sizes, strict=True)]
    replicates = Replicates.joined(run_jobs(draw_chunk, jobs, workers, progress))
    if not replicates.usable.any():
        raise FitError("no bootstrap replicate reached an optimum; fit a smaller law or fix a parameter", partial=fit)
    return _samples(fit, _Drawn(resampling, by, grouping, replicates, n_resamples), level)


def check_resamples(n_resamples: int) -> None:
    """Raise `OptionError` if there are fewer replicates than an interval can stand on."""
    if n_resamples < FEWEST:
        raise OptionError(f"the number of resamples is {n_resamples} and must be at least {FEWEST}; 1000 are usual")


def require_determined(fit: Fit) -> None:
    names = [name for name, verdict in fit.verdicts.items() if verdict is Verdict.NOT_DETERMINED]
    null = [name for name in names if not np.isfinite(fit.standard_errors[name]) and name not in fit.limits]
    vanished = [name for name in null if fit.law.parameter(name).is_coefficient and fit.params[name] == 0]
    if null and not vanished:
        raise FitError(
            f"the data do not determine {', '.join(null)}: replicates would be arbitrary numbers; "
            "fix a parameter, fit a smaller law, or add runs",
            partial=fit,
        )


def choose_resampling(grouping: Grouping, fit: Fit, method: str | None, by: str | None) -> tuple[str, str]:
    if method is None:
        method, by = ("cluster", by) if by not in (None, "row") else (grouping.bootstrap, grouping.by)
        by = by if method == "cluster" else "row"
    if method not in METHODS:
        raise OptionError(f"unknown bootstrap {method!r}; choose {', '.join(METHODS)}")
    if method not in ("cluster", "wild-cluster"):
        if by not in (None, "row"):
            raise OptionError(f"the {method} bootstrap resamples rows; choose cluster or wild-cluster to go by {by}")
        return method, "row"
    return method, by or ("run" if fit.runs.n_runs < len(fit.runs) else "shape")


def _samples(fit: Fit, drawn: _Drawn, level: float) -> Samples:
    refits, replicates = drawn.resampling.refits, drawn.replicates
    names = fit.law.parameter_names
    draws = refits.centred.plain(replicates.free[replicates.usable])
    shares = dict(zip(refits.centred.free_names, replicates.at_bound(refits).tolist(), strict=True))
    piled = {name: share for name, share in shares.items() if share > PILE_UP}
    limits = {}
    for values, parameter in zip(draws.T, fit.law.parameters, strict=True):
        if parameter.name in piled and not parameter.is_coefficient:
            # One-sided, on the side away from the bound, at which most of the extreme values sit.
            at_low = np.mean(values == values.min()) >= np.mean(values == values.max())
            limits[parameter.name] = float(np.quantile(values, level if at_low else 1 - level))
    doubts = [f"{share:.0%} of the replicates have {name} at a bound" for name, share in piled.items()]
    n_rows, n_free = len(drawn.resampling.labels), len(refits.point)
    if n_rows < FEWEST_ROWS * n_free:
        doubts.append(f"{n_rows} rows for {n_free} parameters are so few that replicates scatter too little")
    corrections = {}
    if not piled and drawn.resampling.method in ("pairs", "cluster"):
        corrections = bca_corrections(fit, drawn.resampling, draws)
    return Samples(
        law=fit.law,
        names=names,
        draws=draws,
        method=drawn.resampling.method,
        estimate=fit.params,
        level=level,
        corrections=MappingProxyType(corrections),
        # A pile-up at a bound bends the quantiles of all parameters.
        reservations=MappingProxyType({name: " and ".join(doubts) for name in names if doubts}),
        diagnostics=MappingProxyType(_diagnostics(drawn, shares, limits)),
        warnings=tuple(_warnings(drawn, piled, limits)),
    )


def bca_corrections(fit: Fit, resampling: Resampling, draws: Array) -> dict[str, tuple[float, float]]:
    """Equations (1) and (2) for every parameter that varies."""
    left_out = refit(resampling.refits, jackknife_problem(resampling))
    if not left_out.converged.all():
        return {}
    values = resampling.refits.centred.plain(left_out.free)
    deviations = values.mean(axis=0) - values
    found = {}
    for j, name in enumerate(fit.law.parameter_names):
        below = np.mean(draws[:, j] < fit.params[name]) + 0.5 * np.mean(draws[:, j] == fit.params[name])
        size = float(np.sum(deviations[:, j] ** 2))
        if np.ptp(draws[:, j]) > 0 and 0 < below < 1 and size > 0:
            found[name] = (float(ndtri(below)), float(np.sum(deviations[:, j] ** 3) / (6 * size**1.5)))
    return found


def _diagnostics(drawn: _Drawn, shares: dict[str, float], limits: dict[str, float]) -> dict[str, Any]:
    replicates, grouping = drawn.replicates, drawn.grouping
    return {
        "by": drawn.by,
        "n_units": drawn.resampling.n_units,
        "default": {"method": grouping.bootstrap, "by": grouping.by, "reason": grouping.reason},
        "dependence": {name: test.document() for name, test in grouping.tests.items()},
        "n_resamples": len(replicates),
        "degenerate": int(replicates.degenerate.sum()),
        "converged": float(replicates.converged[~replicates.degenerate].mean()),
        "at_bound": {name: share for name, share in shares.items() if share > 0},
        "one_sided": limits,
    }


def _warnings(drawn: _Drawn, piled: dict[str, float], limits: dict[str, float]) -> list[ScalefitWarning]:
    replicates, remarks = drawn.replicates, []
    if len(replicates) < drawn.asked:
        remarks.append(
            ScalefitWarning(
                "interrupted",
                f"interrupted after {len(replicates)} of {drawn.asked} replicates; the intervals stand on those.",
                "Run again to the end for steadier ends.",
                {"done": len(replicates), "asked": drawn.asked},
            )
        )
    lost = int((~replicates.usable).sum())
    if lost:
        degenerate = int(replicates.degenerate.sum())
        remarks.append(
            ScalefitWarning(
                "replicates-left-out",
                f"{lost} of {len(replicates)} replicates are left out: {degenerate} resamples could not determine the "
                f"law, {lost - degenerate} did not reach an optimum.",
                "More than a few per cent mean that the table barely determines the law.",
                {"left_out": lost, "degenerate": degenerate},
            )
        )
    for name, share in piled.items():
        limit = f"; on the other side {name} ends at {limits[name]:.3g} (one-sided)" if name in limits else ""
        remarks.append(
            ScalefitWarning(
                "replicates-at-bound",
                f"{share:.0%} of the replicates have {name} at its bound, so that their quantiles are no confidence "
                f"limits{limit}.",
                "Say that the data leave the bound open, and read the profile where rows are independent.",
                {"parameter": name, "share": share, "one_sided": limits.get(name)},
            )
        )
    return remarks
