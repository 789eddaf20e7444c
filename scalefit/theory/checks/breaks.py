"""Checks that show where the bound breaks: each claims the break, and the block at which it appears."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scalefit.theory.bounds import compare
from scalefit.theory.checks.registry import Finding, Sampling, theorem_check
from scalefit.theory.limits import Criterion, critical_ratio, first_variance_violation, second_site_tolerance
from scalefit.theory.moments import tanh_second_moment
from scalefit.theory.norms import Norm
from scalefit.theory.recursion import norm_path
from scalefit.theory.search import DROPPABLE, search_counterexamples
from scalefit.theory.verdict import Judgement, judge_above, judge_equality, judge_margin

__all__ = ["CHECKS"]

BHYT, LNS = Norm("bhyt-exact"), Norm("lns")
M = float(tanh_second_moment(0.1))


def _count(expected: int, found: int | None) -> Judgement:
    return judge_equality(expected, float("nan") if found is None else found, rtol=0)


@theorem_check(
    "unequal-alignment", "alignment .6 under BHyT against 0 under LNS breaks the bound after 7, 19, 27 blocks"
)
def unequal_alignment(_: Sampling) -> Iterator[Finding]:
    for start, expected in ((10.0, 7), (1.0, 19), (0.1, 27)):
        found = first_variance_violation(M, start=(start, start), alignment=(0.6, 0.0))
        yield Finding(f"a = 0.1, v_1 / g = {start:g}: larger after {expected} blocks", _count(expected, found))
        lns = norm_path(LNS, expected, start=start)
        comparison = compare(norm_path(BHYT, expected, start=start, alignment=0.6), lns, ratio=0.1)
        named = [a.name for a in comparison.assumptions if a.holds is False]
        judged = judge_equality(1, float(named == ["alignment-order"]), rtol=0)
        yield Finding(
            f"v_1 / g = {start:g}: the checker names the alignment, and nothing else", judged, comparison.assumptions
        )


@theorem_check("negative-alignment", "common negative alignment breaks it where sqrt(V/v) < |rho|: after 16 blocks")
def negative_alignment(_: Sampling) -> Iterator[Finding]:
    start, rho = 10.0, -0.1
    found = first_variance_violation(M, start=(start, start), alignment=(rho, rho))
    yield Finding("a = 0.1, v_1 = 10, rho = -.1: larger after 16 blocks", _count(16, found))
    lns = norm_path(LNS, 64, start=start, alignment=rho)
    turning = np.sqrt(lns.increment_variance / lns.variance[:-1])
    yield Finding("sqrt(V/v) of LNS falls below |rho| before", judge_margin(-rho, turning[:16].min(), [16]))
    # v + V + 2 rho sqrt(vV) rises in V while sqrt(V/v) > |rho|: with a weaker alignment the induction stands
    mild = -0.9 * float(np.sqrt(M / norm_path(LNS, 64).variance[-1]))
    pair = (norm_path(norm, 64, alignment=mild) for norm in (BHYT, LNS))
    comparison = compare(*pair, ratio=0.1)
    yield Finding(
        f"v_1 = 1, rho = {mild:.4f} > -sqrt(g m / v): smaller in all 64 blocks",
        comparison.variances,
        comparison.assumptions,
    )


@theorem_check("start-and-gain", "a larger start or larger gains under BHyT break the bound")
def start_and_gain(_: Sampling) -> Iterator[Finding]:
    pairs = {
        "start": (norm_path(BHYT, 64, start=3.0), "v_1 = 3 against 1: larger after the first block"),
        "gain": (norm_path(BHYT, 64, gain=200.0), "g = 200 against 1 (a trained gamma): larger after the first block"),
    }
    for name, (bhyt, claim) in pairs.items():
        comparison = compare(bhyt, norm_path(LNS, 64), ratio=0.1)
        broken = [a.name for a in comparison.assumptions if a.holds is False]
        yield Finding(claim, _count(1, comparison.variances.layer), comparison.assumptions)
        yield Finding(f"the checker names the {name}", judge_equality(1, float(broken == [name]), rtol=0))


@theorem_check("second-site", "the approximated second site obeys up to q = kappa^2 / (lambda^2 L) and breaks above")
def second_site(_: Sampling) -> Iterator[Finding]:
    for lam, depth in ((1, 64), (2, 16)):
        norm, limit = Norm("bhyt", lam=lam), 1 / depth
        q = second_site_tolerance(lam, 10, depth)
        at = norm.second_moment(depth, 1.0, variance_ratio=q)
        yield Finding(f"lambda {lam}, L = {depth}: q = {q:.4g} keeps m < 1/L", judge_margin(limit, at, [depth]))
        exact = (critical_ratio(depth, Criterion.INCREMENTS) / norm.ratio) ** 2
        above = norm.second_moment(depth, 1.0, variance_ratio=1.001 * exact)
        yield Finding(
            f"lambda {lam}, L = {depth}: q = {1.001 * exact:.4g} breaks it", judge_above(limit, above, [depth])
        )


@theorem_check("counterexamples", "random search: none inside the assumptions, some as soon as one is dropped")
def counterexamples(sampling: Sampling) -> Iterator[Finding]:
    inside = search_counterexamples(seed=sampling.seed, n_draws=4000)
    judged = judge_above(0.0, inside.smallest_margin, [inside.earliest.layer if inside.earliest else 0])
    yield Finding(f"{inside.n_draws} stacks inside: smallest relative margin is positive", judged)
    for name in DROPPABLE:
        outside = search_counterexamples(name, seed=sampling.seed, n_draws=4000)
        layer = f", the earliest after {outside.earliest.layer} blocks" if outside.earliest else ""
        judged = judge_above(0.0, outside.n_violations, [0])
        yield Finding(f"{name} dropped: {outside.n_violations} of {outside.n_draws} violate{layer}", judged)


CHECKS = (unequal_alignment, negative_alignment, start_and_gain, second_site, counterexamples)
