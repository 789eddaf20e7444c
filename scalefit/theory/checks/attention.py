"""Checks of the attention-output variance and of the constant that BHyT's second site uses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scalefit.theory.attention import attention_factor, participation, uniform_weights, value_output_product
from scalefit.theory.checks.registry import Finding, Sampling, theorem_check
from scalefit.theory.norms import Norm
from scalefit.theory.recursion import harmonic
from scalefit.theory.simulate import seed_generators
from scalefit.theory.simulate_attention import measured_over_published, second_site_ratios
from scalefit.theory.simulate_blocks import BlockSetting
from scalefit.theory.verdict import judge_equality, judge_sampled_above, judge_sampled_equality

__all__ = ["CHECKS"]


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


CHECKS = (attention_variance, causal_participation, grouped_queries, second_site_ratio)
