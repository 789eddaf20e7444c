"""Checks of the variance recursion: closed forms, depth limits, growth, and where the bound is tight."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scalefit.theory.bounds import compare, condition_holds
from scalefit.theory.checks.registry import Finding, Sampling, theorem_check
from scalefit.theory.limits import PUBLIC_SETTINGS, Criterion, critical_ratio, depth_limit, first_variance_violation
from scalefit.theory.moments import swiglu_increment, tanh_second_moment
from scalefit.theory.norms import Norm
from scalefit.theory.recursion import closed_form, curse_of_depth_path, harmonic, log_slope, norm_path
from scalefit.theory.verdict import judge_equality, judge_margin

__all__ = ["CHECKS"]


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


CHECKS = (
    closed_forms,
    bounded_streams,
    first_violations,
    equality_case,
    tightness,
    public_settings,
    growth,
    swiglu_power,
)
