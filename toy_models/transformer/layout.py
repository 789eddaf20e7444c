"""Where the blocks, norms and sublayers of a transformer are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from scalefit.errors import OptionError
from toy_models.transformer.second_site import AttentionMaps

__all__ = ["BlockLayout", "find_blocks"]

FIRST = "input_layernorm"
ATTENTION = ("self_attn", "attention")
BEFORE_MLP = ("pre_feedforward_layernorm", "post_attention_layernorm")


@dataclass(frozen=True)
class BlockLayout:
    """One block of a model.

    Attributes
    ----------
    index : int
        Number of the block, from 1.
    name : str
        Its name in the model.
    block, attention, mlp : Module
        The block and its two sublayers.
    first, second : str
        Names in the block of the norms before attention and before the MLP.
    parallel : bool
        Whether the MLP reads the same state as attention (GPT-NeoX), not the one after it.
    """

    index: int
    name: str
    block: nn.Module
    attention: nn.Module
    mlp: nn.Module
    first: str
    second: str
    parallel: bool

    def norms(self) -> tuple[nn.Module, nn.Module]:
        """Return the norms before attention and before the MLP, as they stand now."""
        return self.block.get_submodule(self.first), self.block.get_submodule(self.second)

    def readers(self) -> tuple[tuple[nn.Linear, ...], tuple[nn.Linear, ...]]:
        """Return the linear maps that read each norm's output."""
        return (
            _maps(self.attention, ("q_proj", "k_proj", "v_proj", "query_key_value")),
            _maps(self.mlp, ("gate_proj", "up_proj", "dense_h_to_4h")),
        )

    def attention_maps(self) -> AttentionMaps | None:
        """Return what BHyT's second site needs, or None where the block has no such site."""
        attention = self.attention
        if self.parallel or len(_maps(attention, ("v_proj", "o_proj"))) < 2:
            return None
        n_heads, n_kv_heads = _heads(attention)
        return AttentionMaps(attention, n_heads, n_kv_heads)


def find_blocks(model: nn.Module) -> tuple[BlockLayout, ...]:
    """Find the blocks of a Llama-like or GPT-NeoX-like model, in order.

    Raises
    ------
    OptionError
        If no list of blocks with a norm before attention and one before the MLP is found.
    """
    blocks = tuple(_layouts(model))
    if not blocks:
        raise OptionError(
            f"no blocks were found in {type(model).__name__}: a block needs a norm {FIRST!r}, a second one "
            f"({' or '.join(BEFORE_MLP)}), an attention ({' or '.join(ATTENTION)}) and an 'mlp'"
        )
    return blocks


def _layouts(model: nn.Module) -> Iterator[BlockLayout]:
    index = 0
    for name, module in model.named_modules():
        children = dict(module.named_children())
        attention = next((children[key] for key in ATTENTION if key in children), None)
        second = next((key for key in BEFORE_MLP if key in children), None)
        if attention is None or second is None or FIRST not in children or "mlp" not in children:
            continue
        index += 1
        parallel = bool(getattr(module, "use_parallel_residual", False))
        yield BlockLayout(index, name, module, attention, children["mlp"], FIRST, second, parallel)


def _maps(module: nn.Module, names: tuple[str, ...]) -> tuple[nn.Linear, ...]:
    found = (getattr(module, name, None) for name in names)
    return tuple(linear for linear in found if isinstance(linear, nn.Linear))


def _heads(attention: nn.Module) -> tuple[int, int]:
    """Read the head counts from the module, or from its configuration in the transformers package."""
    config = getattr(attention, "config", None)
    n_heads = getattr(attention, "n_heads", None) or getattr(config, "num_attention_heads", None)
    n_kv_heads = getattr(attention, "n_kv_heads", None) or getattr(config, "num_key_value_heads", None)
    if not (isinstance(n_heads, int) and isinstance(n_kv_heads, int)):
        raise OptionError(f"{type(attention).__name__} does not tell its numbers of heads")
    return n_heads, n_kv_heads
