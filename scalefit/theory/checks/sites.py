"""Checks of one site: what a norm does to a token, and what attention adds to the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import differentiate
from scipy.optimize.elementwise import find_root

from scalefit.theory.checks.registry import Finding, Sampling, theorem_check
from scalefit.theory.moments import (
    attention_factor,
    ideal_break_even,
    ideal_moment_bound,
    ideal_second_moment,
    participation,
    tanh_second_moment,
    uniform_weights,
    value_output_product,
)
from scalefit.theory.norms import Norm, coverage_of_kappa, kappa_of_coverage
from scalefit.theory.simulate import INPUT_LAWS, seed_generators, three_point_law
from scalefit.theory.simulate_blocks import BlockSetting, measured_over_published, second_site_ratios
from scalefit.theory.streams import harmonic
from scalefit.theory.verdict import (
    judge_above,
    judge_equality,
    judge_every_sample,
    judge_margin,
    judge_sampled_above,
    judge_sampled_equality,
)

__all__: list[str] = []

FloatArray = NDArray[np.float64]


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
        root = _crossing(partial(ideal_moment_bound, 1, kappa), kappa**-2, 10 * kappa)
        found = judge_equality(ideal_break_even(kappa), root, rtol=1e-9)
        yield Finding(f"kappa {kappa:g}: its bound crosses a^2 at t = {found.predicted:.4g}", found)
    early, late = (_crossing(partial(ideal_second_moment, lam, 10), (lam / 10) ** 2, 5.0) for lam in (0.01, 1.0))
    found = judge_equality(ideal_break_even(10), early, rtol=1e-3)
    yield Finding("kappa 10, lambda 0.01: the second moment itself crosses a^2 there", found)
    # at lambda = 1 the curvature of tanh delays it
    found = judge_above(ideal_break_even(10), late, [1])
    yield Finding(f"kappa 10, lambda 1: it crosses a^2 later, at t = {late:.3f}", found)
    for mean in (0.5, 10.0):
        found = judge_above(0.1**2, ideal_second_moment(1, 10, mean), [1])
        yield Finding(f"kappa 10, lambda 1: second moment > a^2 at t = {mean:g}", found)
    t = np.linspace(0, 100, 2001)[1:]
    found = judge_margin(np.ones_like(t), ideal_moment_bound(1, 1, t), np.arange(t.size))
    yield Finding("kappa 1: no mean exceeds a^2", found)


def _crossing(moment: Callable[[FloatArray], FloatArray], level: float, last: float) -> float:
    """Return the mean t at which a second moment crosses a level; it starts below at t = 0.05."""
    return float(find_root(lambda t: moment(t) - level, (0.05, last)).x)


@theorem_check("jacobian", "the Jacobian of BHyT has norm at most a times RMSNorm's bound 1/rms(x)")
def jacobian(sampling: Sampling) -> Iterator[Finding]:
    a, d = 0.2, 48
    norm = Norm("bhyt-exact", lam=a, kappa=1)
    for law in (INPUT_LAWS[name] for name in ("normal", "cauchy")):
        sizes = []
        for rng in seed_generators(sampling.seed, sampling.count(64)):
            # at x / rms(x) the Jacobian is rms(x) times that at x: tanh(a x / rms x) knows no scale
            x = law.sample(rng, (d,))
            found = differentiate.jacobian(lambda u: norm.apply(u.T, 1).T, x / np.sqrt(np.mean(x**2)))
            sizes.append(np.linalg.norm(found.df, 2))
        judged = judge_every_sample(a * (1 + 1e-9), np.array(sizes))  # differences are exact to about 1e-10
        yield Finding(f"{law.name} tokens, a = {a:g}: norm times rms(x) <= a in {len(sizes)} tokens", judged)


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


@theorem_check("attention-variance", "attention adds m |W_V W_O|^2 / d times r + (1 - r) P: 1/T, H_T/T, or correlated")
def attention_variance(sampling: Sampling) -> Iterator[Finding]:
    cases = [(256, False, 0.0), (16, True, 0.0), (64, True, 0.0), (256, True, 0.0), (64, False, 0.1), (64, True, 0.3)]
    for tokens, causal, r in cases:
        predicted = tokens * float(attention_factor(participation(uniform_weights(tokens, causal=causal)), r))
        n_seeds = sampling.count(256)
        found = measured_over_published(tokens, causal=causal, correlation=r, n_seeds=n_seeds, seed=sampling.seed)
        mask = "causal" if causal else "bidirectional"
        claim = f"{mask}, T = {tokens}, r = {r:g}: measured over published = {predicted:.4g}"
        yield Finding(claim, judge_sampled_equality(predicted, found, largest_error=0.015 * predicted))


@theorem_check("causal-participation", "uniform causal attention has P = H_T / T")
def causal_participation(_: Sampling) -> Iterator[Finding]:
    for tokens in (1, 16, 256):
        P = float(participation(uniform_weights(tokens, causal=True)))
        yield Finding(f"T = {tokens}", judge_equality(float(harmonic(tokens)) / tokens, P, rtol=1e-12))


@theorem_check("grouped-queries", "key-value heads are expanded before W_V W_O: equal to a loop over query heads")
def grouped_queries(sampling: Sampling) -> Iterator[Finding]:
    rng = seed_generators(sampling.seed, 1)[0]
    for heads, kv_heads, head in ((4, 4, 8), (8, 2, 4), (6, 1, 4)):
        value, output = rng.standard_normal((32, kv_heads * head)), rng.standard_normal((heads * head, 32))
        loop = np.zeros((32, 32))
        for h in range(heads):
            shared = h // (heads // kv_heads)
            loop += value[:, shared * head : (shared + 1) * head] @ output[h * head : (h + 1) * head]
        expanded = float(np.sum(value_output_product(value, output, heads) ** 2))
        yield Finding(f"{heads} heads on {kv_heads}", judge_equality(float(np.sum(loop**2)), expanded, rtol=1e-12))


@theorem_check("second-site-ratio", "under a causal mask the second site's true variance exceeds the approximated one")
def second_site_ratio(sampling: Sampling) -> Iterator[Finding]:
    for start, what in ((1.0, "unit embeddings"), (4e-4, "embeddings of deviation .02")):
        setting = BlockSetting(1, tokens=64, start=start)
        q = second_site_ratios(Norm("bhyt", lam=2), setting, n_seeds=sampling.count(64), seed=sampling.seed)
        found = judge_sampled_above(1.0, q.mean(axis=1, keepdims=True), [1])
        yield Finding(f"{what}, T = 64: mean q > 1", found)
