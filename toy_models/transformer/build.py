"""Norms by name: what an experiment compares and what a model can be converted to."""

from __future__ import annotations

from dataclasses import dataclass

from scalefit.errors import OptionError
from toy_models.transformer.norms import (
    BoundedTanh,
    DynamicTanh,
    LayerNormScaling,
    NormModule,
    PeriNorm,
    RMSNorm,
    ScaledRMSNorm,
    require_positive,
)
from toy_models.transformer.second_site import ApproximateBoundedTanh, AttentionMaps

__all__ = ["NORMS", "NormConfig", "block_norms"]

NORMS = {
    "rmsnorm": "RMSNorm, the usual Pre-LN",
    "lns": "LayerNorm Scaling, RMSNorm / sqrt(block)",
    "peri": "Peri-LN, RMSNorm of the sublayer's input and of its output",
    "dyt": "Dynamic Tanh",
    "bhyt": "BHyT as released: the second site's statistic is approximated",
    "bhyt-exact": "BHyT with its own statistic at each site",
    "bhyt-ideal": "BHyT with centred statistics, kappa * std + |mean|",
    "control": "RMSNorm times lam/kappa: BHyT's gain without its tanh",
}
"""Name of each norm, and what it is."""


@dataclass(frozen=True)
class NormConfig:
    """Which norm, and its constants (those of other norms are not used).

    Attributes
    ----------
    name : str
        A key of `NORMS`.
    lam, kappa : float
        Constants of BHyT and of the control; the starting value of lam where it is trained.
    train_lam : bool
        Whether BHyT's lam is trained.
    alpha : float
        Starting slope of Dynamic Tanh.
    eps : float
        Added to every mean square.
    """

    name: str = "rmsnorm"
    lam: float = 2.0
    kappa: float = 10.0
    train_lam: bool = True
    alpha: float = 0.5
    eps: float = 1e-6

    def __post_init__(self) -> None:
        if self.name not in NORMS:
            raise OptionError(f"norm {self.name!r} is unknown; the norms are {', '.join(NORMS)}")
        for name in ("lam", "kappa", "alpha", "eps"):
            require_positive(name, getattr(self, name))


def block_norms(
    config: NormConfig, width: int, *, block: int, maps: AttentionMaps | None = None, sequence_length: int = 0
) -> tuple[NormModule, NormModule]:
    """Return the norms before attention and before the MLP of one block.

    Parameters
    ----------
    config : NormConfig
        Which norm, and its constants.
    width : int
        Number of features.
    block : int
        Number of the block, from 1.
    maps, sequence_length : AttentionMaps, int
        Needed by ``"bhyt"`` only: where the second site's constant comes from.

    Raises
    ------
    OptionError
        If ``"bhyt"`` is asked for without the maps of a sequential block.
    """
    if config.name == "bhyt":
        if maps is None:
            raise OptionError(
                "norm 'bhyt' needs a block whose MLP reads the stream after attention, with separate value "
                "and output maps; use 'bhyt-exact', which needs neither"
            )
        first = BoundedTanh(width, lam=config.lam, kappa=config.kappa, train_lam=config.train_lam, eps=config.eps)
        return first, ApproximateBoundedTanh(first, maps, sequence_length=sequence_length)
    return single_norm(config, width, block), single_norm(config, width, block)


def single_norm(config: NormConfig, width: int, block: int) -> NormModule:
    """Return one norm that needs nothing but its own input."""
    eps = config.eps
    match config.name:
        case "rmsnorm":
            return RMSNorm(width, eps=eps)
        case "lns":
            return LayerNormScaling(width, block=block, eps=eps)
        case "peri":
            return PeriNorm(width, eps=eps)
        case "dyt":
            return DynamicTanh(width, alpha=config.alpha)
        case "control":
            return ScaledRMSNorm(width, scale=config.lam / config.kappa, eps=eps)
        case "bhyt-exact" | "bhyt-ideal":
            return BoundedTanh(
                width,
                lam=config.lam,
                kappa=config.kappa,
                train_lam=config.train_lam,
                centered=config.name == "bhyt-ideal",
                eps=eps,
            )
    raise AssertionError(f"no builder for {config.name!r}")
