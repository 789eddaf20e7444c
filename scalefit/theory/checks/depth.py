"""Checks of the variance recursion: closed forms, growth, depth limits, and where the bound is tight or breaks.

A check that shows a break claims the break, and the block at which it appears.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scalefit.theory.bounds import compare, condition_holds
from scalefit.theory.checks.registry import Finding, Sampling, theorem_check
from scalefit.theory.limits import (
    DROPPABLE,
    PUBLIC_SETTINGS,
    Criterion,
    critical_ratio,
    depth_limit,
    first_variance_violation,
    search_counterexamples,
    second_site_tolerance,
)
from scalefit.theory.moments import swiglu_increment, tanh_second_moment
from scalefit.theory.norms import Norm
from scalefit.theory.streams import closed_form, curse_of_depth_path, harmonic, log_slope, norm_path
from scalefit.theory.verdict import Judgement, judge_above, judge_equality, judge_margin

__all__: list[str] = []


@theorem_check(
    "closed-forms", "independent linear updates: v_1 + g L, v_1 + g H_L, v_1 + g m L, v_1 + g a^2 L, v_1 + L"
)
def closed_forms(_: Sampling) -> Iterator[Finding]:
    for name in ("rmsnorm", "lns", "bhyt-exact", "control", "peri"):
        for start, gain in ((1.0, 1.0), (0.5, 2.0)):
            norm = Norm(name)
            path = norm_path(norm, 64, start=start, gain=gain).variance[-1]
            found = judge_equality(float(closed_form(norm, 64, start=start, gain=gain)), path, rtol=1e-12)
            yield Finding(f"{name} after 64 blocks, a = 0.1, v_1 = {start:g}, g = {gain:g}", found)


@theorem_check("bounded-streams", "Dynamic Tanh puts out more as the stream grows; BHyT does not")
def bounded_streams(_: Sampling) -> Iterator[Finding]:
    dyt, bhyt = (norm_path(Norm(name), 64).second_moment for name in ("dyt", "bhyt-exact"))
    yield Finding("DyT: m_l < m_{l+1} in 64 blocks", judge_margin(dyt[1:], dyt[:-1], np.arange(1, 64)))
    yield Finding("BHyT: m_64 = m_1", judge_equality(float(bhyt[0]), float(bhyt[-1]), rtol=1e-12))


@theorem_check("first-violations", "beyond which depth BHyT exceeds LNS: closed form = recursion, exactly")
def first_violations(_: Sampling) -> Iterator[Finding]:
    for a in (0.1, 0.2, 0.3, 0.5):
        m = float(tanh_second_moment(a))
        lns = 1 / np.arange(1, 1001)
        by_recursion = {
            Criterion.INCREMENTS: int(np.argmax(m > lns)) + 1,
            Criterion.VARIANCE: first_variance_violation(m),
            Criterion.ALIGNED: first_variance_violation(m, alignment=(1.0, 1.0)),
        }
        what = {
            Criterion.INCREMENTS: "first block with m > 1/l",
            Criterion.VARIANCE: "completed blocks until the residual variance is larger, independent updates",
            Criterion.ALIGNED: "the same for fully aligned updates",
        }
        for criterion, found in by_recursion.items():
            limit = depth_limit(a, criterion) + 1
            judged = judge_equality(limit, float("nan") if found is None else found, rtol=0)
            yield Finding(f"a = {a:g}: {what[criterion]}: {limit}", judged)


@theorem_check("equality-case", "at a = 1/sqrt(L) exactly, the bound is still strict in all L blocks")
def equality_case(_: Sampling) -> Iterator[Finding]:
    for depth in (4, 16, 64, 100, 256):
        norm = Norm("bhyt-exact", lam=1, kappa=np.sqrt(depth))
        comparison = compare(norm_path(norm, depth), norm_path(Norm("lns"), depth), ratio=norm.ratio)
        for what, judged in (("increments", comparison.increments), ("residual variance", comparison.variances)):
            yield Finding(f"L = {depth}: {what} strictly smaller", judged, comparison.assumptions)


@theorem_check("tightness", "the condition is tight for increments at large depth, and not needed for the variance")
def tightness(_: Sampling) -> Iterator[Finding]:
    for depth in (100, 10_000):
        excess = critical_ratio(depth, Criterion.INCREMENTS) * depth**0.5 - 1
        # a^2 - 2 a^4 = 1/L gives a sqrt(L) = 1 + 1/L + ...
        yield Finding(
            f"L = {depth}: critical a sqrt(L) - 1 = 1/L to leading order", judge_equality(1 / depth, excess, rtol=0.05)
        )
    for depth in (64, 151 - 1):
        m = float(tanh_second_moment(0.2))
        judged = judge_margin(float(harmonic(depth)) / depth, m, [depth])
        yield Finding(f"a = 0.2, L = {depth}: condition broken, yet m < H_L / L keeps the variance smaller", judged)


@theorem_check(
    "public-settings", "lambda 2, kappa 10 meets the condition for 16 blocks and breaks it for 28; lambda 3 from 13"
)
def public_settings(_: Sampling) -> Iterator[Finding]:
    broken_blocks = {(2, 16): [], (2, 28): [27, 28], (3, 28): list(range(13, 29))}
    for setting in PUBLIC_SETTINGS:
        norm = Norm("bhyt-exact", lam=setting.lam, kappa=setting.kappa)
        bhyt, lns = norm_path(norm, setting.depth), norm_path(Norm("lns"), setting.depth)
        comparison = compare(bhyt, lns, ratio=norm.ratio)
        broken = bhyt.block[bhyt.second_moment > lns.second_moment]
        expected = broken_blocks[int(setting.lam), setting.depth]
        where = f"lambda {setting.lam:g}, kappa {setting.kappa:g}, {setting.depth} blocks"
        judged = judge_equality(len(expected), float(broken.size if list(broken) == expected else -1), rtol=0)
        blocks = f"blocks {expected[0]} to {expected[-1]}" if expected else "no block"
        yield Finding(f"{where}: m > 1/l in {blocks}", judged, comparison.assumptions)
        yield Finding(f"{where}: the residual variance stays smaller", comparison.variances, comparison.assumptions)
        state = "met" if not expected else "broken"
        holds = condition_holds(norm.ratio, setting.depth)
        yield Finding(f"{where}: condition {state}", judge_equality(float(not expected), float(holds), rtol=0))


@theorem_check("growth", "LNS grows like log L and BHyT like L; v' = v + c sqrt(v) like L^2 (Pre-LN) and L (LNS)")
def growth(_: Sampling) -> Iterator[Finding]:
    lns, bhyt = (norm_path(Norm(name), 8192).variance for name in ("lns", "bhyt-exact"))
    yield Finding("LNS gains ln 2 per doubling", judge_equality(np.log(2), float(lns[8192] - lns[4096]), rtol=1e-3))
    doubling = float((bhyt[8192] - bhyt[4096]) / (bhyt[4096] - bhyt[2048]))
    yield Finding("BHyT gains twice as much per doubling", judge_equality(2, doubling, rtol=1e-9))
    for name, exponent, power in (("Pre-LN", 2.0, 0.0), ("LNS", 1.0, 0.5)):
        slope = log_slope(curse_of_depth_path(power, 200_000), 20_000, 200_000)
        yield Finding(f"{name}: d log v / d log l over 2e4 .. 2e5", judge_equality(exponent, slope, rtol=1e-4))


@theorem_check(
    "swiglu-power", "SwiGLU increments go as the fourth power of the scale at small amplitude, not the second"
)
def swiglu_power(_: Sampling) -> Iterator[Finding]:
    for m, rtol in ((1e-4, 1e-3), (1e-2, 0.02)):
        slope = float(np.log(swiglu_increment(1.01 * m) / swiglu_increment(m / 1.01)) / np.log(1.01**2))
        yield Finding(f"d log V / d log m = 2 at m = {m:g}", judge_equality(2, slope, rtol=rtol))
    V = swiglu_increment(np.geomspace(1e-6, 1, 200))
    yield Finding("V(m) rises strictly up to m = 1, so part B applies", judge_margin(V[1:], V[:-1], np.arange(1, 200)))


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
