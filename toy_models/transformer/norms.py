"""The normalisations that decide how a residual stream grows with depth, as torch modules.

Every module takes its statistics per token over the last axis in float32 (float64 for float64 input)
from a float32 copy of the input, so that squares of half-precision numbers cannot overflow, and casts
once at the end. With gain 1 the second moments of the outputs are 1 (RMSNorm, PeriNorm), 1/l
(LayerNormScaling), a² (ScaledRMSNorm) and at most a² = (lam/kappa)² (BoundedTanh with its own statistic).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from scalefit.errors import OptionError

__all__ = [
    "BoundedTanh",
    "DynamicTanh",
    "LayerNormScaling",
    "NormModule",
    "PeriNorm",
    "RMSNorm",
    "ScaledRMSNorm",
    "SharedStatistic",
    "mean_square",
    "require_positive",
]

HALF_PRECISION = (torch.float16, torch.bfloat16)


def require_positive(name: str, value: float) -> float:
    """Return `value` as a float, or say which option is not a finite positive number."""
    if not (math.isfinite(value) and value > 0):
        raise OptionError(f"{name} is {value} and must be a finite number above 0")
    return float(value)


def widen(x: Tensor) -> Tensor:
    """Copy half-precision input to float32; leave float32 and float64 as they are."""
    return x.float() if x.dtype in HALF_PRECISION else x


def mean_square(x: Tensor) -> Tensor:
    """Return the second moment of each token over the features, (..., 1), in float32 or wider."""
    return widen(x).square().mean(dim=-1, keepdim=True)


class NormModule(nn.Module):
    """A norm at one site of a block: ``gain * normalize(x)``, and what the sublayer's result passes through.

    Parameters
    ----------
    width : int
        Number of features, the size of the last axis.
    eps : float
        Added to every mean square; above 0, so that a zero vector has a finite output.

    Attributes
    ----------
    weight : (width,) Parameter or None
        The gain, 1 at the start; None once it has been folded into the maps that read the output.
    bias : (width,) Parameter or None
        Added last; only DynamicTanh has one.
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(self, width: int, *, eps: float = 1e-6, bias: bool = False) -> None:
        super().__init__()
        if width < 1:
            raise OptionError(f"width is {width} and must be at least 1")
        self.width = width
        self.eps = require_positive("eps", eps)
        self.weight = nn.Parameter(torch.ones(width))
        self.register_parameter("bias", nn.Parameter(torch.zeros(width)) if bias else None)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Set every parameter to its starting value, as after ``to_empty()``."""
        if self.weight is not None:
            self.weight.fill_(1.0)
        if self.bias is not None:
            self.bias.zero_()

    def normalize(self, x: Tensor) -> Tensor:
        """Map wide input to wide output at gain 1."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Normalise ``x``, (..., width), in its own dtype."""
        u = self.normalize(widen(x))
        if self.weight is not None:
            u = u * self.weight
        if self.bias is not None:
            u = u + self.bias
        return u.to(x.dtype)

    def after(self, update: Tensor) -> Tensor:
        """Return what is added to the stream, given the sublayer's result."""
        return update

    def extra_repr(self) -> str:
        """Show the sizes in the printed module."""
        return f"width={self.width}, eps={self.eps}"


class RMSNorm(NormModule):
    """``x / rms(x)`` (Zhang and Sennrich, 2019)."""

    def normalize(self, x: Tensor) -> Tensor:
        """Divide by the root of the mean square."""
        return x * torch.rsqrt(mean_square(x) + self.eps)


class ScaledRMSNorm(RMSNorm):
    """``scale * x / rms(x)``: the control that has a bounded tanh's gain without its tanh."""

    def __init__(self, width: int, *, scale: float, eps: float = 1e-6) -> None:
        super().__init__(width, eps=eps)
        # A Python number: a buffer would be lost by to_empty().
        self.scale = require_positive("scale", scale)

    def normalize(self, x: Tensor) -> Tensor:
        """Divide by the root of the mean square and multiply by the scale."""
        return super().normalize(x) * self.scale

    def extra_repr(self) -> str:
        """Show the scale in the printed module."""
        return f"{super().extra_repr()}, scale={self.scale:.6g}"


class LayerNormScaling(ScaledRMSNorm):
    """``x / rms(x) / sqrt(block)`` (Sun et al., 2025, The Curse of Depth).

    Parameters
    ----------
    width : int
        Number of features.
    block : int
        Number of the block, from 1; both norms of a block share it.
    """

    def __init__(self, width: int, *, block: int, eps: float = 1e-6) -> None:
        if block < 1:
            raise OptionError(f"block is {block} and blocks are numbered from 1")
        super().__init__(width, scale=1.0 / math.sqrt(block), eps=eps)


class PeriNorm(RMSNorm):
    """RMSNorm of the sublayer's input, and of its result by `after` (Kim et al., 2025, Peri-LN).

    Attributes
    ----------
    output : RMSNorm
        Normalises what the sublayer adds to the stream: the increment's second moment is its squared gain.
    """

    def __init__(self, width: int, *, eps: float = 1e-6) -> None:
        super().__init__(width, eps=eps)
        self.output = RMSNorm(width, eps=eps)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Set both gains to 1."""
        super().reset_parameters()
        self.output.reset_parameters()

    def after(self, update: Tensor) -> Tensor:
        """Normalise the sublayer's result."""
        normalized: Tensor = self.output(update)
        return normalized


class DynamicTanh(NormModule):
    """``gain * tanh(alpha x) + bias`` with a trained scalar alpha (Zhu et al., 2025, DyT): no statistic.

    Parameters
    ----------
    width : int
        Number of features.
    alpha : float
        Value of the slope at the start.
    bias : bool
        Whether a trained bias is added.
    """

    def __init__(self, width: int, *, alpha: float = 0.5, bias: bool = True) -> None:
        super().__init__(width, bias=bias)
        self.initial_alpha = require_positive("alpha", alpha)
        self.alpha = nn.Parameter(torch.full((1,), alpha))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Set gain, bias and slope to their starting values."""
        super().reset_parameters()
        self.alpha.fill_(self.initial_alpha)

    def normalize(self, x: Tensor) -> Tensor:
        """Squash each entry on its own."""
        return torch.tanh(self.alpha * x)


class SharedStatistic:
    """Hands the first site's statistic to the second site of the same block, once per forward pass."""

    def __init__(self) -> None:
        self.mean_square: Tensor | None = None
        self.amplitude: Tensor | float = 0.0

    def put(self, mean_square: Tensor, amplitude: Tensor | float) -> None:
        """Keep the first site's mean square, (..., 1), and its lam/kappa."""
        self.mean_square, self.amplitude = mean_square, amplitude

    def take(self) -> tuple[Tensor, Tensor | float]:
        """Return both and forget the mean square, which would otherwise keep the graph alive."""
        if self.mean_square is None:
            raise RuntimeError("the block's second norm was called before its first one")
        kept, self.mean_square = self.mean_square, None
        return kept, self.amplitude


class BoundedTanh(NormModule):
    """``gain * tanh(lam x / scale(x))`` (Byun et al., 2026, BHyT) with a statistic of ``x`` itself.

    The exact form has ``scale = kappa rms(x)``: with gain 1 its second moment is at most (lam/kappa)²
    for every input. The ideal form has ``scale = kappa s + |mu|`` with the token's mean mu and standard
    deviation s; with a mean it may exceed (lam/kappa)².

    Parameters
    ----------
    width : int
        Number of features.
    lam, kappa : float
        The tanh is linear up to about 1/lam of its bound, kappa standard deviations of the input.
    train_lam : bool
        Train lam, as the released code does (also where it says otherwise); False keeps a Python number.
    centered : bool
        The ideal form.
    """

    lam: nn.Parameter | float

    def __init__(
        self,
        width: int,
        *,
        lam: float = 2.0,
        kappa: float = 10.0,
        train_lam: bool = True,
        centered: bool = False,
        eps: float = 1e-6,
    ) -> None:
        super().__init__(width, eps=eps)
        self.initial_lam = require_positive("lam", lam)
        self.train_lam = train_lam
        self.lam = nn.Parameter(torch.tensor(self.initial_lam)) if train_lam else self.initial_lam
        self.kappa = require_positive("kappa", kappa)
        self.centered = centered
        self.shared: SharedStatistic | None = None

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Set gain and lam to their starting values."""
        super().reset_parameters()
        if isinstance(self.lam, Tensor):
            self.lam.fill_(self.initial_lam)

    def amplitude(self) -> Tensor | float:
        """Return lam/kappa, without gradient."""
        lam = self.lam.detach() if isinstance(self.lam, Tensor) else self.lam
        return lam / self.kappa

    def scale(self, x: Tensor) -> Tensor:
        """Return what ``lam x`` is divided by, (..., 1)."""
        if self.centered:
            mu = x.mean(dim=-1, keepdim=True)
            return self.kappa * torch.sqrt(mean_square(x - mu) + self.eps) + mu.abs()
        statistic = mean_square(x)
        if self.shared is not None:
            self.shared.put(statistic, self.amplitude())
        return self.kappa * torch.sqrt(statistic + self.eps)

    def normalize(self, x: Tensor) -> Tensor:
        """Squash each entry, measured in units of the scale."""
        return torch.tanh(self.lam * x / self.scale(x))

    def extra_repr(self) -> str:
        """Show the constants in the printed module."""
        constants: dict[str, Any] = {"lam": self.initial_lam, "kappa": self.kappa, "centered": self.centered}
        return ", ".join([super().extra_repr(), *(f"{name}={value}" for name, value in constants.items())])
