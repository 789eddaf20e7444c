"""A small Llama-like transformer: rotary positions, grouped queries, SwiGLU, and a choice of norms.

Modules are named as in the Llama of the transformers package, so that converting, folding and monitoring
work the same on both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from scalefit.errors import OptionError
from toy_models.transformer.build import NormConfig, block_norms
from toy_models.transformer.norms import NormModule, RMSNorm
from toy_models.transformer.second_site import AttentionMaps

__all__ = ["KeyValueCache", "ModelConfig", "Transformer"]


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of a transformer.

    Attributes
    ----------
    width, depth, hidden : int
        Features of the stream, blocks, and units of each SwiGLU.
    n_heads, n_kv_heads : int
        Query heads, and the key-value heads they share.
    vocabulary : int
        Number of tokens; 256 for bytes.
    sequence_length : int
        Longest sequence, and the T of BHyT's second site.
    tied : bool
        Whether the head is the transposed embedding.
    norm : NormConfig
        The norms inside the blocks; the final norm is always an RMSNorm.
    """

    width: int = 64
    depth: int = 24
    hidden: int = 176
    n_heads: int = 4
    n_kv_heads: int = 2
    vocabulary: int = 256
    sequence_length: int = 128
    tied: bool = False
    norm: NormConfig = field(default_factory=NormConfig)

    def __post_init__(self) -> None:
        for name in ("width", "depth", "hidden", "n_heads", "n_kv_heads", "vocabulary", "sequence_length"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} is {getattr(self, name)} and must be at least 1")
        if self.width % (2 * self.n_heads):
            raise OptionError(
                f"width is {self.width} and must be a multiple of 2 * n_heads = {2 * self.n_heads}: rotary "
                "positions turn pairs of a head's features"
            )
        if self.n_heads % self.n_kv_heads:
            raise OptionError(f"n_heads is {self.n_heads} and must be a multiple of n_kv_heads = {self.n_kv_heads}")

    @property
    def initial_std(self) -> float:
        """Standard deviation of the initial weights: .02 at width 2048, and every map's gain kept."""
        return 0.02 * math.sqrt(2048 / self.width)


class KeyValueCache:
    """Keys and values of the tokens seen so far, for generation; (batch, heads, T, head size) a block."""

    def __init__(self, config: ModelConfig) -> None:
        self.longest = config.sequence_length
        self.length = 0
        self.store: dict[int, tuple[Tensor, Tensor]] = {}

    def extend(self, block: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append keys and values of new tokens of one block and return all so far."""
        if block not in self.store:
            # Room for the longest sequence at once; the dtype is known only here (autocast).
            shape = (*key.shape[:2], self.longest, key.shape[3])
            self.store[block] = (key.new_empty(shape), value.new_empty(shape))
        stop = self.length + key.shape[2]
        for kept, new in zip(self.store[block], (key, value), strict=True):
            kept[:, :, self.length : stop] = new
        keys, values = self.store[block]
        return keys[:, :, :stop], values[:, :, :stop]


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair of features, (..., T, head size), by the angle of its position (Su et al., 2021)."""
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1).to(x.dtype)


class Attention(nn.Module):
    """Causal attention with grouped queries and rotary positions."""

    def __init__(self, config: ModelConfig, index: int) -> None:
        super().__init__()
        self.index, self.n_heads, self.n_kv_heads = index, config.n_heads, config.n_kv_heads
        head = config.width // config.n_heads
        self.q_proj = nn.Linear(config.width, config.n_heads * head, bias=False)
        self.k_proj = nn.Linear(config.width, config.n_kv_heads * head, bias=False)
        self.v_proj = nn.Linear(config.width, config.n_kv_heads * head, bias=False)
        self.o_proj = nn.Linear(config.n_heads * head, config.width, bias=False)

    def forward(self, u: Tensor, rotary: tuple[Tensor, Tensor], cache: KeyValueCache | None) -> Tensor:
        """Mix tokens, (batch, T, width)."""
        batch, length, _ = u.shape
        query = self.q_proj(u).view(batch, length, self.n_heads, -1).transpose(1, 2)
        key = self.k_proj(u).view(batch, length, self.n_kv_heads, -1).transpose(1, 2)
        value = self.v_proj(u).view(batch, length, self.n_kv_heads, -1).transpose(1, 2)
        query, key = rotate(query, *rotary), rotate(key, *rotary)
        if cache is not None:
            key, value = cache.extend(self.index, key, value)
        # One new token reads everything before it; a whole prompt needs the causal mask.
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=length > 1, enable_gqa=True)
        result: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return result


class SwiGLU(nn.Module):
    """``W_down (silu(W_gate u) * W_up u)`` (Shazeer, 2020)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.width, config.hidden, bias=False)
        self.up_proj = nn.Linear(config.width, config.hidden, bias=False)
        self.down_proj = nn.Linear(config.hidden, config.width, bias=False)

    def forward(self, u: Tensor) -> Tensor:
        """Transform each token, (batch, T, width)."""
        result: Tensor = self.down_proj(F.silu(self.gate_proj(u)) * self.up_proj(u))
        return result


class Block(nn.Module):
    """``x + attention(norm(x))``, then ``h + mlp(norm(h))``.

    Attributes
    ----------
    calls_after : bool
        Tells `convert_norms` that this block passes updates through its norms' `after` by itself.
    """

    calls_after = True

    def __init__(self, config: ModelConfig, index: int) -> None:
        super().__init__()
        self.self_attn = Attention(config, index)
        self.mlp = SwiGLU(config)
        self.input_layernorm, self.post_attention_layernorm = block_norms(
            config.norm,
            config.width,
            block=index + 1,
            maps=AttentionMaps(self.self_attn, config.n_heads, config.n_kv_heads),
            sequence_length=config.sequence_length,
        )

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor], cache: KeyValueCache | None) -> Tensor:
        """Update the stream, (batch, T, width)."""
        first, second = self.input_layernorm, self.post_attention_layernorm
        x = x + first.after(self.self_attn(first(x), rotary, cache))
        return x + second.after(self.mlp(second(x)))


class Transformer(nn.Module):
    """A stack of blocks between an embedding and a head.

    Parameters
    ----------
    config : ModelConfig
        Sizes and norms.
    seed : int
        Initial weights: the same for every norm, since norms draw nothing.
    """

    def __init__(self, config: ModelConfig, *, seed: int) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocabulary, config.width)
        self.layers = nn.ModuleList(Block(config, index) for index in range(config.depth))
        self.norm = RMSNorm(config.width, eps=config.norm.eps)
        self.lm_head = nn.Linear(config.width, config.vocabulary, bias=False)
        if config.tied:
            self.lm_head.weight = self.embed_tokens.weight
        self.init_weights(seed)

    @torch.no_grad()
    def init_weights(self, seed: int) -> None:
        """Draw every matrix from N(0, initial_std²) on the CPU, so that every device starts alike; reset the norms.

        Nothing of the old state is left: it also starts a model that came out of ``to_empty()``.
        """
        rng = torch.Generator().manual_seed(seed)
        for weight in self.parameters():
            if weight.ndim == 2:
                weight.copy_(torch.randn(weight.shape, generator=rng) * self.config.initial_std)
        for module in self.modules():
            if isinstance(module, NormModule):
                module.reset_parameters()

    def rotary(self, start: int, stop: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return cosine and sine of each position's angles, (T, head size / 2)."""
        half = self.config.width // self.config.n_heads // 2
        rate = 10_000.0 ** (-torch.arange(half, device=device, dtype=torch.float32) / half)
        angle = torch.arange(start, stop, device=device, dtype=torch.float32)[:, None] * rate
        return angle.cos(), angle.sin()

    def forward(self, tokens: Tensor, cache: KeyValueCache | None = None) -> Tensor:
        """Return logits, (batch, T, vocabulary), of the next token after each of ``tokens``, (batch, T)."""
        start = 0 if cache is None else cache.length
        if start and tokens.shape[1] > 1:
            raise OptionError(
                f"{tokens.shape[1]} tokens follow {start} in the cache; after the prompt it takes one at a time"
            )
        stop = start + tokens.shape[1]
        if stop > self.config.sequence_length:
            raise OptionError(
                f"the sequence has {stop} tokens and the model takes at most {self.config.sequence_length}"
            )
        rotary = self.rotary(start, stop, tokens.device)
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x, rotary, cache)
        if cache is not None:
            cache.length = stop
        logits: Tensor = self.lm_head(self.norm(x))
        return logits

    @torch.inference_mode()
    def generate(self, prompt: Tensor, n_tokens: int) -> Tensor:
        """Append the ``n_tokens`` likeliest tokens, one after the other, to ``prompt``, (batch, T)."""
        cache = KeyValueCache(self.config)
        pieces, new = [prompt], prompt
        for _ in range(n_tokens):
            new = self(new, cache)[:, -1:].argmax(dim=-1)
            pieces.append(new)
        return torch.cat(pieces, dim=1)
