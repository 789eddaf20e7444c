"""Checks of whole streams: the bound for one setting, and Monte Carlo of stacks and transformer blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scalefit.errors import OptionError
from scalefit.theory.bounds import ROUNDING, compare
from scalefit.theory.checks.registry import CHECKS, Finding, Sampling, TheoremCheck, theorem_check
from scalefit.theory.limits import first_variance_violation
from scalefit.theory.moments import ideal_second_moment, sphere_second_moment, swiglu_increment, tanh_second_moment
from scalefit.theory.norms import Norm, validate_depth
from scalefit.theory.simulate import INPUT_LAWS, StackSetting, seed_generators, simulate_stack
from scalefit.theory.simulate_blocks import BlockSetting, simulate_blocks, swiglu
from scalefit.theory.streams import BlockStatistics, norm_path, variance_path
from scalefit.theory.verdict import (
    MIN_SEEDS,
    Judgement,
    Outcome,
    judge_equality,
    judge_sampled_above,
    judge_sampled_equality,
    judge_sampled_margin,
)

__all__ = ["BoundSetting", "bound_streams", "check_bhyt_bound", "simulate_bound"]


@dataclass(frozen=True)
class BoundSetting:
    """A setting for which the bound is claimed.

    Attributes
    ----------
    lam, kappa, depth : float, float, int
        lambda, kappa and L.
    norm : str
        The bounded norm: bhyt-exact, bhyt-ideal or control.
    mean : float
        abs(mu) / s of the embedding.
    alignment : float
        rho of both streams.
    lns_power : float
        p in the claim that LayerNorm Scaling puts out l^-p; the truth is 1.
    width : int
        Features of the simulated tokens.
    """

    lam: float = 1.0
    kappa: float = 10.0
    depth: int = 64
    norm: str = "bhyt-exact"
    mean: float = 0.0
    alignment: float = 0.0
    lns_power: float = 1.0
    width: int = 128

    def __post_init__(self) -> None:
        validate_depth(self.depth)
        if self.norm not in ("bhyt-exact", "bhyt-ideal", "control"):
            raise OptionError(f"norm {self.norm!r} is not bounded by a; use bhyt-exact, bhyt-ideal or control")
        if not (np.isfinite(self.mean) and self.mean >= 0 and self.lns_power > 0 and abs(self.alignment) <= 1):
            raise OptionError(
                f"mean is {self.mean}, alignment {self.alignment}, lns-power {self.lns_power}: "
                "the mean must not be negative, the alignment lie in [-1, 1], the power be positive"
            )
        Norm(self.norm, lam=self.lam, kappa=self.kappa)  # validates lambda and kappa

    @property
    def bounded(self) -> Norm:
        """The bounded norm."""
        return Norm(self.norm, lam=self.lam, kappa=self.kappa)


def bound_streams(setting: BoundSetting) -> tuple[BlockStatistics, BlockStatistics]:
    """Return the bounded stream and LNS's as claimed, by recursion."""
    bhyt = norm_path(setting.bounded, setting.depth, alignment=setting.alignment, mean=setting.mean)
    claimed = bhyt.block.astype(float) ** -setting.lns_power
    lns = BlockStatistics(
        block=bhyt.block,
        variance=variance_path(claimed, 1.0, setting.alignment),
        second_moment=claimed,
        increment_variance=claimed,
        alignment=bhyt.alignment,
    )
    return bhyt, lns


def simulate_bound(setting: BoundSetting, sampling: Sampling) -> dict[str, BlockStatistics]:
    """Simulate the bounded norm, LNS and the control with the same seeds."""
    names = dict.fromkeys((setting.norm, "lns", "control"))
    stack = StackSetting(
        setting.depth,
        width=setting.width,
        alignment=dict.fromkeys(names, setting.alignment),
        mean=setting.mean,
    )
    norms = [Norm(name, lam=setting.lam, kappa=setting.kappa) for name in names]
    return simulate_stack(norms, stack, n_seeds=sampling.count(64), seed=sampling.seed)


def check_bhyt_bound(setting: BoundSetting | None = None) -> TheoremCheck:
    """Return the check that claims the bound for a setting, whether or not its condition is met.

    A setting outside the condition may be VIOLATED: the judgement names the first block, the assumptions what is
    broken. The control a RMSNorm stands beside it, since the bound is an effect of gain.
    """
    chosen = setting or BoundSetting()

    def findings(sampling: Sampling) -> Iterator[Finding]:
        name, blocks = chosen.norm, f"blocks 1..{chosen.depth}"
        power = "1/l" if chosen.lns_power == 1 else f"l^-{chosen.lns_power:g}"
        exact = compare(*bound_streams(chosen), ratio=chosen.bounded.ratio)
        yield Finding(f"m_{name} < {power} in {blocks}, exact", exact.increments, exact.assumptions)
        yield Finding(f"residual variance smaller in {blocks}, recursion", exact.variances, exact.assumptions)
        streams = simulate_bound(chosen, sampling)
        lns = streams["lns"]
        yield Finding(f"simulated m_lns = {power} in {blocks}", _lns_moment(lns, chosen.lns_power))
        for bounded in dict.fromkeys((name, "control")):
            measured = compare(streams[bounded], lns, ratio=chosen.bounded.ratio)
            relation, increments = "<", measured.increments
            if bounded == "control":
                # a^2 <= 1/l is not strict at a = 1/sqrt(L), and both outputs carry rounding errors only
                limit = (1 + ROUNDING) * lns.second_moment
                relation, increments = "<=", judge_sampled_margin(limit, streams[bounded].second_moment, lns.block)
            yield Finding(f"simulated m_{bounded} {relation} m_lns in {blocks}", increments, measured.assumptions)
            yield Finding(
                f"simulated variance of {bounded} < lns in {blocks}", measured.variances, measured.assumptions
            )

    claim = f"m < 1/l in each of {chosen.depth} blocks and the residual variance below LNS after each"
    return TheoremCheck("bhyt-bound", claim, findings)


CHECKS["bhyt-bound"] = check_bhyt_bound()


def _lns_moment(lns: BlockStatistics, power: float) -> Judgement:
    """Judge that LNS's measured output is l^-power in every block; each token has it exactly, so no noise enters."""
    claimed, measured = lns.block.astype(float) ** -power, lns.second_moment.mean(axis=0)
    broken = np.abs(measured - claimed) > ROUNDING * claimed
    at = int(np.argmax(broken))
    verdict, layer = (Outcome.VIOLATED, int(lns.block[at])) if broken.any() else (Outcome.HOLDS, None)
    if lns.n_seeds < MIN_SEEDS:
        verdict, layer = Outcome.INCONCLUSIVE, 1
    return Judgement(verdict, float(claimed[at]), float(measured[at]), layer=layer, n_samples=lns.n_seeds)


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


@theorem_check(
    "outputs", "what the norms put out, simulated: the ideal form with a mean, and Peri-LN whatever the gain"
)
def outputs(sampling: Sampling) -> Iterator[Finding]:
    ideal = Norm("bhyt-ideal", lam=2)
    for mean in (0.5, 3.0):
        # a wide token, so that its own mean and deviation are those of the law: their noise enters as 1/width
        rngs = seed_generators(sampling.seed, sampling.count(64))
        drawn = [np.mean(ideal.apply(rng.standard_normal((8, 4096)) + mean, 1) ** 2) for rng in rngs]
        predicted = float(ideal_second_moment(ideal.lam, ideal.kappa, mean))
        found = judge_sampled_equality(predicted, np.array(drawn), largest_error=0.002 * predicted)
        yield Finding(f"bhyt-ideal, mean {mean:g} deviations: m = {predicted:.6g}", found)
    setting = StackSetting(8, width=64, tokens=8, gain=7.0)
    streams = simulate_stack([Norm("peri"), Norm("rmsnorm")], setting, n_seeds=sampling.count(16), seed=sampling.seed)
    peri, rmsnorm = (streams[name].increment_variance for name in ("peri", "rmsnorm"))
    # normalised token by token: no noise enters, the farthest is off by rounding only
    farthest = float(peri.flat[np.argmax(np.abs(peri - 1))])
    yield Finding("peri, gain 7: every increment is 1", judge_equality(1.0, farthest, rtol=1e-12))
    found = judge_sampled_equality(7.0, rmsnorm.mean(axis=1), largest_error=0.35)
    yield Finding("rmsnorm, gain 7: the increments are 7", found)


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
