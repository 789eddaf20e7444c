"""The released form of BHyT: the norm before the MLP without a second reduction over the features."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from scalefit.errors import OptionError
from toy_models.transformer.norms import BoundedTanh, SharedStatistic

__all__ = ["ApproximateBoundedTanh", "AttentionMaps"]


@dataclass(frozen=True)
class AttentionMaps:
    """The maps from which the variance of a block's attention output is estimated.

    Attributes
    ----------
    attention : Module
        Holds the two linear maps; they are looked up when needed, so that a replaced map is seen.
    n_heads, n_kv_heads : int
        Query heads, and the key-value heads they share in groups.
    value, output : str
        Names of the maps in `attention`.
    """

    attention: nn.Module
    n_heads: int
    n_kv_heads: int
    value: str = "v_proj"
    output: str = "o_proj"

    @torch.no_grad()
    def squared_norm(self) -> Tensor:
        """Return ||W_V W_O||_F² with every key-value head repeated for the query heads that read it."""
        value = self.attention.get_submodule(self.value).weight.float()
        output = self.attention.get_submodule(self.output).weight.float()
        assert isinstance(value, Tensor)
        assert isinstance(output, Tensor)
        # Repeating the rows of W_V is the same as summing the matching columns of W_O, and the norm of
        # the product is the inner product of two Gram matrices: nothing of size width² is formed.
        head_size = output.shape[1] // self.n_heads
        group = self.n_heads // self.n_kv_heads
        output = output.view(-1, self.n_kv_heads, group, head_size).sum(dim=2).flatten(1)
        return ((output.T @ output) * (value @ value.T)).sum()


class ApproximateBoundedTanh(BoundedTanh):
    """BHyT's second site: the first site's mean square plus the expected variance of attention's output.

    ``v2 = v1 + a1² c`` with ``c = ||W_V W_O||_F² / (T width)`` (Byun et al., 2026): uniform attention over
    T independent tokens. The gain of the first site is left out, as published. In training c follows the
    weights; in evaluation the buffer holds its value at the switch, so that generation needs no product.

    Parameters
    ----------
    first : BoundedTanh
        The block's first site, in the exact form; it lends its width, lam, kappa, eps and statistic.
    maps : AttentionMaps
        Where c comes from.
    sequence_length : int
        T, fixed for the life of the module: never taken from a batch.
    """

    attention_variance: Tensor

    def __init__(self, first: BoundedTanh, maps: AttentionMaps, *, sequence_length: int) -> None:
        if sequence_length < 1:
            raise OptionError(f"sequence_length is {sequence_length} and must be at least 1")
        super().__init__(
            first.width,
            lam=first.initial_lam,
            kappa=first.kappa,
            train_lam=first.train_lam,
            eps=first.eps,
        )
        self.sequence_length = sequence_length
        self.maps: AttentionMaps | None = maps
        first.shared = self.shared = SharedStatistic()
        self.register_buffer("attention_variance", torch.zeros(()))
        self.refresh()

    def current_variance(self) -> Tensor:
        """Return c from the weights as they are now; from the buffer once the weights are folded."""
        if self.maps is None:
            return self.attention_variance
        return self.maps.squared_norm() / (self.sequence_length * self.width)

    @torch.no_grad()
    def refresh(self) -> None:
        """Put c of the current weights into the buffer."""
        self.attention_variance.copy_(self.current_variance())

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Set gain and lam to their starting values, and c to that of the weights as they are now."""
        super().reset_parameters()
        self.refresh()

    def freeze(self) -> None:
        """Keep the present c for good: the weights no longer tell it once a gain is folded into them."""
        self.refresh()
        self.maps = None

    def train(self, mode: bool = True) -> ApproximateBoundedTanh:
        """Switch the mode; the switch to evaluation refreshes c."""
        super().train(mode)
        if not mode:
            self.refresh()
        return self

    def approximate(self, first_mean_square: Tensor, first_amplitude: Tensor | float) -> Tensor:
        """Return v2, (..., 1), from the first site's mean square and its lam/kappa."""
        c = self.current_variance() if self.training else self.attention_variance
        return first_mean_square + first_amplitude**2 * c

    def scale(self, x: Tensor) -> Tensor:  # noqa: ARG002 - the point: no statistic of x is taken
        """Return kappa times the root of the approximated mean square, (..., 1)."""
        assert self.shared is not None
        return self.kappa * torch.sqrt(self.approximate(*self.shared.take()) + self.eps)
