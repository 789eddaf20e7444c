"""The bound for one setting: claimed for every block, checked by theory, recursion and simulation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scalefit.errors import OptionError
from scalefit.theory.blocks import BlockStatistics
from scalefit.theory.bounds import ROUNDING, compare
from scalefit.theory.checks.registry import Finding, Sampling, TheoremCheck
from scalefit.theory.norms import Norm, validate_depth
from scalefit.theory.recursion import norm_path, variance_path
from scalefit.theory.simulate import StackSetting, simulate_stack
from scalefit.theory.verdict import MIN_SEEDS, Judgement, Verdict, judge_sampled_margin

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
        return _findings(chosen, sampling)

    claim = f"m < 1/l in each of {chosen.depth} blocks and the residual variance below LNS after each"
    return TheoremCheck("bhyt-bound", claim, findings)


def _findings(setting: BoundSetting, sampling: Sampling) -> Iterator[Finding]:
    name, blocks = setting.norm, f"blocks 1..{setting.depth}"
    power = "1/l" if setting.lns_power == 1 else f"l^-{setting.lns_power:g}"
    exact = compare(*bound_streams(setting), ratio=setting.bounded.ratio)
    yield Finding(f"m_{name} < {power} in {blocks}, exact", exact.increments, exact.assumptions)
    yield Finding(f"residual variance smaller in {blocks}, recursion", exact.variances, exact.assumptions)
    streams = simulate_bound(setting, sampling)
    yield Finding(f"simulated m_lns = {power} in {blocks}", _lns_moment(streams["lns"], setting.lns_power))
    for bounded in dict.fromkeys((name, "control")):
        measured = compare(streams[bounded], streams["lns"], ratio=setting.bounded.ratio)
        strict = bounded != "control"
        increments = measured.increments if strict else _control_moment(streams["control"], streams["lns"])
        relation = "<" if strict else "<="
        yield Finding(f"simulated m_{bounded} {relation} m_lns in {blocks}", increments, measured.assumptions)
        yield Finding(f"simulated variance of {bounded} < lns in {blocks}", measured.variances, measured.assumptions)


def _control_moment(control: BlockStatistics, lns: BlockStatistics) -> Judgement:
    """Judge a^2 <= 1/l: not strict at a = 1/sqrt(L), and both outputs carry rounding errors only."""
    return judge_sampled_margin((1 + ROUNDING) * lns.second_moment, control.second_moment, lns.block)


def _lns_moment(lns: BlockStatistics, power: float) -> Judgement:
    """Judge that LNS's measured output is l^-power in every block; each token has it exactly, so no noise enters."""
    claimed, measured = lns.block.astype(float) ** -power, lns.second_moment.mean(axis=0)
    broken = np.abs(measured - claimed) > ROUNDING * claimed
    at = int(np.argmax(broken))
    verdict, layer = (Verdict.VIOLATED, int(lns.block[at])) if broken.any() else (Verdict.HOLDS, None)
    if lns.n_seeds < MIN_SEEDS:
        verdict, layer = Verdict.INCONCLUSIVE, 1
    return Judgement(verdict, float(claimed[at]), float(measured[at]), layer=layer, n_samples=lns.n_seeds)
