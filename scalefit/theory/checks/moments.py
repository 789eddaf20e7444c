"""Checks of what a norm does to one token: second moments, Jacobian, coverage, gain."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.optimize import brentq

from scalefit.theory.chebyshev import coverage_of_kappa, kappa_of_coverage
from scalefit.theory.checks.registry import Finding, Sampling, theorem_check
from scalefit.theory.inputs import INPUT_LAWS, three_point_law
from scalefit.theory.moments import (
    ideal_break_even,
    ideal_moment_bound,
    ideal_second_moment,
    tanh_second_moment,
)
from scalefit.theory.norms import Norm
from scalefit.theory.simulate import seed_generators
from scalefit.theory.verdict import (
    judge_above,
    judge_equality,
    judge_every_sample,
    judge_margin,
    judge_sampled_equality,
)

__all__ = ["CHECKS"]


@theorem_check("moments", "m(a) = E tanh^2(aZ) is a^2 - 2a^4 + ..., by two independent quadratures")
def moments(_: Sampling) -> Iterator[Finding]:
    normal = INPUT_LAWS["normal"]
    for a in (0.05, 0.1, 0.2, 0.3, 0.5, 1.0):
        found = judge_equality(float(tanh_second_moment(a)), normal.tanh_second_moment(a), rtol=1e-6)
        yield Finding(f"m({a:g}): trapezoidal rule = adaptive quadrature to 1e-6", found)
    a = 0.05
    third = (float(tanh_second_moment(a)) - a**2 + 2 * a**4) / a**6
    # tanh^2 y = y^2 - 2/3 y^4 + 17/45 y^6 - ... and E Z^6 = 15
    yield Finding("m(a) - a^2 + 2a^4 = 17/3 a^6 to leading order", judge_equality(17 / 3, third, rtol=0.03))


@theorem_check("input-laws", "E tanh^2(aX) by quadrature and by simulation, for light and heavy tails")
def input_laws(sampling: Sampling) -> Iterator[Finding]:
    a = 0.5
    for law in (INPUT_LAWS[name] for name in ("normal", "laplace", "student-t3")):
        rngs = seed_generators(sampling.seed, sampling.count(64))
        estimates = np.array([np.mean(np.tanh(a * law.sample(rng, (8192,))) ** 2) for rng in rngs])
        exact = law.tanh_second_moment(a)
        found = judge_sampled_equality(exact, estimates, largest_error=0.004 * exact)
        yield Finding(f"{law.name} entries of variance 1, a = {a:g}", found)


@theorem_check("token-bound", "BHyT-exact puts out less than a^2 on every token, for any law and any mean")
def token_bound(sampling: Sampling) -> Iterator[Finding]:
    norm = Norm("bhyt-exact")
    for law in INPUT_LAWS.values():
        for mean in (0.0, 3.0):
            rngs = seed_generators(sampling.seed, sampling.count(32))
            tokens = np.stack([law.sample(rng, (64, 128)) + mean for rng in rngs])
            largest = np.mean(norm.apply(tokens, 1) ** 2, axis=-1).max(axis=1)
            found = judge_every_sample(norm.ratio**2, largest)
            yield Finding(f"{law.name} entries, mean {mean:g}: largest m of {largest.size} x 64 tokens < a^2", found)


@theorem_check(
    "ideal-form-mean", "the ideal form (mean in the divisor) exceeds a^2 once t > 2k/(k^2-1): 0.202 at kappa 10"
)
def ideal_form_mean(_: Sampling) -> Iterator[Finding]:
    for kappa in (2.0, 10.0):
        root = brentq(lambda t, k=kappa: float(ideal_moment_bound(1, k, t)) - k**-2, 1e-3, 10 * kappa, xtol=1e-13)
        found = judge_equality(ideal_break_even(kappa), root, rtol=1e-9)
        yield Finding(f"kappa {kappa:g}: its bound crosses a^2 at t = {found.predicted:.4g}", found)
    lam = 0.01
    root = brentq(lambda t: float(ideal_second_moment(lam, 10, t)) - (lam / 10) ** 2, 0.05, 5.0, xtol=1e-13)
    found = judge_equality(ideal_break_even(10), root, rtol=1e-3)
    yield Finding("kappa 10, lambda 0.01: the second moment itself crosses a^2 there", found)
    # at lambda = 1 the curvature of tanh delays it
    later = brentq(lambda t: float(ideal_second_moment(1, 10, t)) - 0.1**2, 0.05, 5.0)
    found = judge_above(ideal_break_even(10), later, [1])
    yield Finding(f"kappa 10, lambda 1: it crosses a^2 later, at t = {later:.3f}", found)
    for mean in (0.5, 10.0):
        found = judge_above(0.1**2, ideal_second_moment(1, 10, mean), [1])
        yield Finding(f"kappa 10, lambda 1: second moment > a^2 at t = {mean:g}", found)
    t = np.linspace(0, 100, 2001)[1:]
    found = judge_margin(np.ones_like(t), ideal_moment_bound(1, 1, t), np.arange(t.size))
    yield Finding("kappa 1: no mean exceeds a^2", found)


@theorem_check("jacobian", "the Jacobian of BHyT has norm at most a times RMSNorm's bound 1/rms(x)")
def jacobian(sampling: Sampling) -> Iterator[Finding]:
    a, d = 0.2, 48
    for law in (INPUT_LAWS[name] for name in ("normal", "cauchy")):
        rngs = seed_generators(sampling.seed, sampling.count(64))
        norms = np.array([_jacobian_norm(law.sample(rng, (d,)), a) for rng in rngs])
        found = judge_every_sample(a * (1 + 1e-9), norms)  # central differences are exact to about 1e-10
        yield Finding(f"{law.name} tokens, a = {a:g}: norm times rms(x) <= a in {norms.size} tokens", found)


def _jacobian_norm(x: np.ndarray, a: float) -> float:
    """Return rms(x) times the spectral norm of d tanh(a x / rms x) / dx, by central differences."""
    norm = Norm("bhyt-exact", lam=a, kappa=1)
    rms = np.sqrt(np.mean(x**2))
    step = 1e-5 * rms
    shifted = x + step * np.concatenate([np.eye(x.size), -np.eye(x.size)])
    plus, minus = np.split(norm.apply(shifted, 1), 2)
    return float(rms * np.linalg.norm((plus - minus) / (2 * step), 2))


@theorem_check("chebyshev", "kappa = 1/sqrt(1-p) covers the share p of any law, exactly p for the three-point law")
def chebyshev(_: Sampling) -> Iterator[Finding]:
    kappa = kappa_of_coverage(0.99)
    yield Finding("p = .99 gives kappa 10", judge_equality(10, kappa, rtol=1e-12))
    for law in (INPUT_LAWS[name] for name in ("normal", "laplace", "student-t3")):
        for k in (1.5, 3.0, kappa):
            covered = float(2 * law.distribution.cdf(k) - 1)
            found = judge_above(coverage_of_kappa(k), covered, [1])
            yield Finding(f"{law.name}: more than {coverage_of_kappa(k):.4g} lie within {k:.3g} deviations", found)
    values, probabilities = three_point_law(kappa)
    inside = float(probabilities[np.abs(values) < kappa].sum())
    yield Finding(
        "three-point law: exactly 1 - 1/kappa^2 inside", judge_equality(coverage_of_kappa(kappa), inside, rtol=1e-12)
    )


@theorem_check("gain-folding", "a gain folds into the next linear map: W (g u) = (W g) u")
def gain_folding(sampling: Sampling) -> Iterator[Finding]:
    rng = seed_generators(sampling.seed, 1)[0]
    u, gain, weights = rng.standard_normal(64), rng.uniform(0.1, 3, 64), rng.standard_normal((96, 64))
    difference = np.abs(weights @ (gain * u) - (weights * gain) @ u).max() / np.abs(weights @ (gain * u)).max()
    yield Finding("largest relative difference below 1e-12", judge_margin(1e-12, difference, [1]))


CHECKS = (moments, input_laws, token_bound, ideal_form_mean, jacobian, chebyshev, gain_folding)
