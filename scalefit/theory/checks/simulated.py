"""Checks by Monte Carlo: whole stacks and transformer blocks, the same seeds for every norm compared."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scalefit.theory.bounds import compare
from scalefit.theory.checks.registry import Finding, Sampling, theorem_check
from scalefit.theory.inputs import INPUT_LAWS
from scalefit.theory.limits import first_variance_violation
from scalefit.theory.moments import sphere_second_moment, swiglu_increment, tanh_second_moment
from scalefit.theory.norms import Norm
from scalefit.theory.recursion import norm_path
from scalefit.theory.simulate import StackSetting, seed_generators, simulate_stack
from scalefit.theory.simulate_blocks import BlockSetting, simulate_blocks, swiglu
from scalefit.theory.verdict import judge_sampled_above, judge_sampled_equality, judge_sampled_margin

__all__ = ["CHECKS"]


@theorem_check(
    "stack-simulation", "variance after 64 linear blocks: simulation within 4 standard errors of the recursion"
)
def stack_simulation(sampling: Sampling) -> Iterator[Finding]:
    norms = [Norm(name) for name in ("rmsnorm", "lns", "bhyt-exact", "control", "peri", "dyt")]
    setting = StackSetting(64, width=128, tokens=64)
    streams = simulate_stack(norms, setting, n_seeds=sampling.count(128), seed=sampling.seed)
    for norm in norms:
        predicted = float(norm_path(norm, 64).variance[-1])
        tolerance = 0.002 if norm.name in ("bhyt-exact", "control") else 0.005
        final = streams[norm.name].variance[:, -1]
        found = judge_sampled_equality(predicted, final, largest_error=tolerance * predicted)
        yield Finding(f"{norm.name}: {predicted:.6g}, standard error under {tolerance:.1%}", found)
    # 1.640 - 1.628 at infinite width; lighter tails at width 128 make it 1.5 % smaller
    predicted = 64 * (0.1**2 - sphere_second_moment(0.1, setting.width))
    paired = streams["control"].variance[:, -1] - streams["bhyt-exact"].variance[:, -1]
    found = judge_sampled_equality(predicted, paired, largest_error=0.02 * predicted)
    yield Finding(f"control - bhyt-exact, paired by seed: {predicted:.5f}", found)
    found = judge_sampled_above(0.0, paired[:, None], [64])
    yield Finding("bhyt-exact < control, paired by seed: 1.628 is told from 1.640", found)


@theorem_check("heavy-tails", "heavy tails, one outlier entry or a mean do not break the bound for BHyT-exact")
def heavy_tails(sampling: Sampling) -> Iterator[Finding]:
    norm, lns = Norm("bhyt-exact"), Norm("lns")
    for law in INPUT_LAWS:
        setting = StackSetting(48, width=64, tokens=16, law=law, mean=1.0)
        streams = simulate_stack([norm, lns], setting, n_seeds=sampling.count(64), seed=sampling.seed)
        comparison = compare(streams[norm.name], streams["lns"], ratio=norm.ratio)
        yield Finding(f"{law} entries, mean 1: increments", comparison.increments, comparison.assumptions)
        yield Finding(f"{law} entries, mean 1: residual variance", comparison.variances, comparison.assumptions)


@theorem_check("simulated-breaks", "unequal alignment and the ideal form with a mean break the bound in simulation too")
def simulated_breaks(sampling: Sampling) -> Iterator[Finding]:
    norm, lns, ideal = Norm("bhyt-exact"), Norm("lns"), Norm("bhyt-ideal")
    n_seeds = sampling.count(64)
    expected = first_variance_violation(float(tanh_second_moment(0.1)), alignment=(0.6, 0.0))
    depth = 24
    setting = StackSetting(depth, width=64, tokens=32, alignment={norm.name: 0.6})
    streams = simulate_stack([norm, lns], setting, n_seeds=n_seeds, seed=sampling.seed)
    found = judge_sampled_margin(streams[norm.name].variance[:, -1:], streams["lns"].variance[:, -1:], [depth])
    yield Finding(f"alignment .6 against 0: LNS < BHyT after {depth} blocks (recursion: from {expected})", found)
    # a start of 100 keeps the stream's mean three deviations large over all blocks
    setting = StackSetting(depth, width=64, tokens=32, mean=3.0, start=100.0)
    streams = simulate_stack([ideal, lns], setting, n_seeds=n_seeds, seed=sampling.seed)
    found = judge_sampled_margin(
        streams[ideal.name].second_moment[:, -1:], streams["lns"].second_moment[:, -1:], [depth]
    )
    yield Finding(f"ideal form, mean 3 deviations: LNS < BHyT-ideal in the increment of block {depth}", found)


@theorem_check("transformer-blocks", "attention + SwiGLU at random weights: bound and control obey at both sites")
def transformer_blocks(sampling: Sampling) -> Iterator[Finding]:
    norms = [Norm(name) for name in ("lns", "bhyt", "bhyt-exact", "control")]
    streams = simulate_blocks(norms, BlockSetting(16), n_seeds=sampling.count(32), seed=sampling.seed)
    for norm in norms[1:]:
        comparison = compare(streams[norm.name], streams["lns"], ratio=norm.ratio)
        yield Finding(f"{norm.name} < lns: norm outputs, 16 blocks", comparison.increments, comparison.assumptions)
        yield Finding(f"{norm.name} < lns: residual variance", comparison.variances, comparison.assumptions)


@theorem_check("swiglu-simulation", "SwiGLU increments follow V(m) = m E silu(sqrt(m) Z)^2, not g m")
def swiglu_simulation(sampling: Sampling) -> Iterator[Finding]:
    setting = BlockSetting(1, width=128, hidden=256)
    for m in (1.0, 0.1):
        estimates = []
        for rng in seed_generators(sampling.seed, sampling.count(128)):
            weights = setting.draw_weights(rng)
            u = rng.standard_normal((32, setting.width))
            u *= np.sqrt(m / np.mean(u**2, axis=-1, keepdims=True))
            estimates.append(np.mean(swiglu(u, weights) ** 2))
        predicted = float(swiglu_increment(m))
        found = judge_sampled_equality(predicted, np.array(estimates), largest_error=0.01 * predicted)
        yield Finding(f"m = {m:g}: V = {predicted:.5g}", found)


CHECKS = (stack_simulation, heavy_tails, simulated_breaks, transformer_blocks, swiglu_simulation)
