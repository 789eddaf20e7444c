"""Put another norm into the blocks of an existing model, and take it out again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from scalefit.errors import OptionError, ScalefitWarning
from toy_models.transformer.build import NormConfig, block_norms
from toy_models.transformer.layout import BlockLayout, find_blocks
from toy_models.transformer.norms import NormModule, PeriNorm

__all__ = ["Conversion", "convert_norms"]


@dataclass(frozen=True)
class Conversion:
    """What was replaced, and the way back.

    Attributes
    ----------
    replaced : tuple of str
        Names in the model of the norms that were replaced.
    kept : tuple of str
        Other norms: final ones, those of queries and keys, those of a sublayer's output.
    warnings : tuple of ScalefitWarning
        What the new model does not inherit from the old one.
    """

    replaced: tuple[str, ...]
    kept: tuple[str, ...]
    warnings: tuple[ScalefitWarning, ...]
    _originals: tuple[tuple[nn.Module, str, nn.Module], ...] = field(repr=False)
    _hooks: tuple[RemovableHandle, ...] = field(repr=False)

    def undo(self) -> None:
        """Put the original norm modules back and drop the hooks; what was trained since stays trained."""
        for hook in self._hooks:
            hook.remove()
        for parent, name, original in self._originals:
            setattr(parent, name, original)


def convert_norms(model: nn.Module, norm: NormConfig, *, sequence_length: int | None = None) -> Conversion:
    """Replace the norms before attention and before the MLP of every block, in place.

    The new norms take over gain, bias-free, and eps of the old ones; all other parameters stay the same
    objects. A model trained with its old norms computes something else with new ones, unless both are
    RMSNorm: it has to be trained again.

    Parameters
    ----------
    model : Module
        Llama-like (also this package's `Transformer`) or GPT-NeoX-like.
    norm : NormConfig
        The norm to put in; its eps is replaced by that of the old norms.
    sequence_length : int, optional
        T of BHyT's second site; needed by ``"bhyt"`` only.

    Returns
    -------
    Conversion
        With `undo`.

    Raises
    ------
    OptionError
        If no blocks are found, they are converted already, a norm's gain cannot be read, or ``"bhyt"`` lacks
        what it needs.
    """
    if norm.name == "bhyt" and sequence_length is None:
        raise OptionError("norm 'bhyt' needs sequence_length, the number of tokens the model is trained on")
    blocks = find_blocks(model)
    # Build everything before touching the model: an error leaves it as it was.
    built = [_build(block, norm, sequence_length or 0) for block in blocks]
    replaced, originals, hooks = [], [], []
    for block, pair in zip(blocks, built, strict=True):
        for name, sublayer, new in zip((block.first, block.second), (block.attention, block.mlp), pair, strict=True):
            originals.append((block.block, name, block.block.get_submodule(name)))
            replaced.append(f"{block.name}.{name}")
            setattr(block.block, name, new)
            if isinstance(new, PeriNorm) and not getattr(block.block, "calls_after", False):
                hooks.append(sublayer.register_forward_hook(_finish_with(new)))
    kept = [name for name, module in model.named_modules() if _is_foreign_norm(name, module, replaced)]
    warnings = _warnings(norm, [original for _, _, original in originals])
    return Conversion(tuple(replaced), tuple(kept), warnings, tuple(originals), tuple(hooks))


def read_gain(norm: nn.Module) -> Tensor:
    """Return a norm's gain, (width,), whether it multiplies by ``weight`` or by ``1 + weight`` (Gemma).

    The module is asked rather than its class: entries of size 1 and alternating sign have mean 0 and mean
    square 1, so that every norm answers with its gain, up to eps and half precision. This package's own norms
    are known to multiply by ``weight``, and some of them do not answer with it alone.
    """
    weight = getattr(norm, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim != 1:
        raise OptionError(f"{type(norm).__name__} has no gain of one number a feature, so it cannot be replaced")
    if isinstance(norm, NormModule):
        return weight.detach().clone()
    sign = torch.ones_like(weight)
    sign[1::2] = -1
    with torch.no_grad():
        # The difference of two answers removes a bias.
        answer = (norm(sign[None]) - norm(-sign[None]))[0].float() / 2 * sign
        candidates = (weight.detach(), 1 + weight.detach())
        errors = [float((answer - gain.float()).abs().max()) for gain in candidates]
    best = int(errors[1] < errors[0])
    if not errors[best] <= 0.02 * (1 + float(answer.abs().max())):
        raise OptionError(
            f"{type(norm).__name__} multiplies neither by its weight nor by 1 + weight (off by "
            f"{min(errors):.3g}), so its gain cannot be taken over"
        )
    return candidates[best].clone()


def _build(block: BlockLayout, norm: NormConfig, sequence_length: int) -> tuple[NormModule, NormModule]:
    originals = block.norms()
    # Hooks of an earlier conversion would stay behind, and what it kept of the model would be lost.
    if isinstance(originals[0], NormModule) and not getattr(block.block, "calls_after", False):
        raise OptionError(f"block {block.name} is converted already; call undo() of that conversion first")
    gains = [read_gain(original) for original in originals]
    eps = _eps(originals[0], default=norm.eps)
    config = replace(norm, eps=eps)
    maps = block.attention_maps() if norm.name == "bhyt" else None
    pair = block_norms(config, gains[0].numel(), block=block.index, maps=maps, sequence_length=sequence_length)
    for new, gain, original in zip(pair, gains, originals, strict=True):
        new.to(device=gain.device, dtype=gain.dtype)
        assert new.weight is not None
        new.weight.data.copy_(gain)
        new.weight.requires_grad_(all(weight.requires_grad for weight in original.parameters()))
        new.train(original.training)
    return pair


def _eps(norm: nn.Module, *, default: float) -> float:
    for name in ("variance_epsilon", "eps"):
        value = getattr(norm, name, None)
        if isinstance(value, float):
            return value
    return default


def _finish_with(norm: NormModule) -> Callable[[nn.Module, Any, Any], Any]:
    """Return a forward hook that passes a sublayer's result, alone or first in a tuple, through `after`."""

    def finish(_module: nn.Module, _inputs: Any, result: Any) -> Any:
        if isinstance(result, tuple):
            return (norm.after(result[0]), *result[1:])
        return norm.after(result)

    return finish


def _is_foreign_norm(name: str, module: nn.Module, replaced: list[str]) -> bool:
    return (
        "norm" in type(module).__name__.lower()
        and name not in replaced
        and not any(name.startswith(f"{prefix}.") for prefix in replaced)
    )


def _warnings(norm: NormConfig, originals: list[nn.Module]) -> tuple[ScalefitWarning, ...]:
    found = []
    if norm.name != "rmsnorm":
        found.append(
            ScalefitWarning(
                "needs-training",
                f"The blocks now use {norm.name!r}; the other weights were made for another norm.",
                "Train the converted model before using it.",
            )
        )
    if any(getattr(original, "bias", None) is not None for original in originals):
        found.append(
            ScalefitWarning(
                "bias-dropped",
                "The old norms subtract the mean and add a bias; the new ones do neither.",
                "Train the converted model before using it.",
            )
        )
    return tuple(found)
