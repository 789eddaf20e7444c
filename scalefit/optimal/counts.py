"""What a decoder-only transformer of a given width and depth costs: parameters, operations, cache.

All counts are per model or per token, as functions of width m and depth l with everything else in proportion:
the feed-forward block is r m wide, attention a m, keys and values a m / g. One layer then holds

    N_layer = (2 a + 2 a / g) m^2 + (2 or 3) r m^2    weights in matrices,                      (1)

the four projections of attention and the two or, gated, three matrices of the feed-forward block; a = 1, g = 1, r = 4
and no gate give the 12 m^2 of Kaplan et al. (2020, Table 1). Operations count a multiplication and an addition as
two. A forward pass takes 2 for each weight in a matrix plus attention's 4 T a m per layer over T tokens of
context, and training takes three forward passes (Hoffmann et al. 2022, appendix F; Chowdhery et al. 2022, appendix B).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefit.errors import OptionError
from scalefit.expressions import did_you_mean
from scalefit.optimal.sizes import Posynomial, Size, read_size

__all__ = ["BLOCKS", "PRESETS", "Count", "Transformer", "count_blocks", "parse_count", "parse_settings"]

Array = NDArray[np.float64]

TRAINING = 3.0
"""Forward passes' worth of operations in a training step: one forward, two backward."""


@dataclass(frozen=True)
class Count:
    """The costs of a family of models as functions of width and depth.

    Attributes
    ----------
    name : str
    params : Size
        Parameters.
    training_flops : Size
        Floating-point operations of training, per token.
    inference_flops : Size
        Operations of generating one token.
    cache : Size
        Numbers that the key-value cache holds per token of context.
    attention_ratio, heads_per_kv : float
        As in `Transformer`: heads x head size over the width, and query heads that share keys and values.
    """

    name: str
    params: Size
    training_flops: Size
    inference_flops: Size
    cache: Size
    attention_ratio: float = 1.0
    heads_per_kv: float = 1.0

    def train(self, width: ArrayLike, depth: ArrayLike, tokens: ArrayLike) -> Array:
        """Training compute of a run, in floating-point operations."""
        return self.training_flops(width, depth) * np.asarray(tokens, dtype=np.float64)


def count_blocks(k: float = 12.0) -> Count:
    """Count k m^2 l parameters, the matrices of the layers alone, and 6 operations a parameter and token.

    Raises
    ------
    OptionError
        If k is not positive.
    """
    if not (math.isfinite(k) and k > 0):
        raise OptionError(f"k of the count k m^2 l is {k:g} and must be positive; 12 is a plain transformer")
    params = Posynomial(((float(k), 2, 1),))
    return Count(f"{k:g}m2l", params, params.scaled(2 * TRAINING), params.scaled(2), Posynomial(((2, 1, 1),)))


BLOCKS = count_blocks()
"""12 m^2 l: a plain transformer without its embeddings."""


@dataclass(frozen=True)
class Transformer:
    """A decoder-only transformer whose parts keep their proportions as width and depth change.

    Parameters
    ----------
    vocabulary : int
        Tokens known to the embedding; 0 leaves embedding and output matrix out.
    tied : bool
        Whether the output matrix is the embedding.
    mlp_ratio : float
        Inner width of the feed-forward block over the width.
    gated : bool
        Whether that block has a third, gating matrix (SwiGLU and its kin).
    attention_ratio : float
        Heads x head size over the width.
    heads_per_kv : float
        Query heads that share one head of keys and values: 1 is plain attention, 8 grouped-query attention.
    norms : int
        Normalisations in a layer; one more follows the last layer when there are any.
    biases : bool
        Whether matrices of the layers and normalisations carry biases.
    positions : int
        Learned position embeddings.
    relative : bool
        Whether each layer projects relative positions (Dai et al. 2019): one more attention_ratio x m^2.
    context : int
        Tokens over which attention runs in training; 0 leaves its length term out. The count is that of
        full attention; halve the context for kernels that skip the masked half.

    Examples
    --------
    >>> gpt2 = PRESETS["gpt2"].count()
    >>> int(gpt2.params(768, 12))
    124439808
    """

    vocabulary: int = 0
    tied: bool = True
    mlp_ratio: float = 4.0
    gated: bool = False
    attention_ratio: float = 1.0
    heads_per_kv: float = 1.0
    norms: int = 2
    biases: bool = False
    positions: int = 0
    relative: bool = False
    context: int = 0

    def __post_init__(self) -> None:
        for name in ("mlp_ratio", "attention_ratio", "heads_per_kv"):
            if not (getattr(self, name) > 0 and math.isfinite(getattr(self, name))):
                raise OptionError(f"{name} is {getattr(self, name):g} and must be positive and finite")
        if self.heads_per_kv < 1:
            raise OptionError(f"heads_per_kv is {self.heads_per_kv:g} and must be at least 1, which is plain attention")
        for name in ("vocabulary", "norms", "positions", "context"):
            if getattr(self, name) < 0:
                raise OptionError(f"{name} is {getattr(self, name)} and must not be negative; 0 leaves it out")

    @property
    def layer_matrices(self) -> float:
        """Weights in one layer's matrices over m^2, equation (1)."""
        attention = self.attention_ratio * (2 + 2 / self.heads_per_kv + self.relative)
        return attention + (3 if self.gated else 2) * self.mlp_ratio

    @property
    def layer_vectors(self) -> float:
        """Weights in one layer's biases and normalisations over m."""
        scales = self.norms * (2 if self.biases else 1)
        if not self.biases:
            return float(scales)
        attention = self.attention_ratio * (1 + 2 / self.heads_per_kv) + 1
        feed_forward = self.mlp_ratio * (2 if self.gated else 1) + 1
        return scales + attention + feed_forward

    def count(self, name: str = "transformer") -> Count:
        """Give the costs as functions of width and depth."""
        embeddings = self.vocabulary * (1 if self.tied else 2) + self.positions
        last_norm = (2 if self.biases else 1) if self.norms else 0
        params = Posynomial(
            ((self.layer_matrices, 2, 1), (self.layer_vectors, 1, 1), (embeddings + last_norm, 1, 0)),
        )
        attention = 4.0 * self.context * self.attention_ratio
        forward = Posynomial(((2 * self.layer_matrices, 2, 1), (attention, 1, 1), (2.0 * self.vocabulary, 1, 0)))
        cache = Posynomial(((2 * self.attention_ratio / self.heads_per_kv, 1, 1),))
        ratios = self.attention_ratio, self.heads_per_kv
        return Count(name, params, forward.scaled(TRAINING), forward, cache, *ratios)


PRESETS = {
    "gpt2": Transformer(vocabulary=50257, biases=True, positions=1024, context=1024),
    "llama": Transformer(vocabulary=32000, tied=False, gated=True, mlp_ratio=8 / 3, context=4096),
    "chinchilla": Transformer(vocabulary=32000, norms=0, relative=True, context=2048),
}
"""Architectures by name; their settings can be replaced, as in ``llama:vocabulary=128256,heads_per_kv=4``."""


def parse_count(text: str | Count | Transformer) -> Count:
    """Read a count from its written form.

    Parameters
    ----------
    text : str, Count or Transformer
        ``"12m2l"`` (any number in place of 12), an architecture of `PRESETS` with settings to replace, such as
        ``"llama:vocabulary=128256,heads_per_kv=4"``, or expressions of width and depth: ``"PARAMS"`` or
        ``"PARAMS;TRAINING_FLOPS_PER_TOKEN"``.

    Raises
    ------
    OptionError
        If it is none of these.

    Examples
    --------
    >>> parse_count("llama:vocabulary=128256,mlp_ratio=3.5,heads_per_kv=4").params(4096, 32).item()
    8030261248.0
    """
    if isinstance(text, Count):
        return text
    if isinstance(text, Transformer):
        return text.count()
    written = text.strip()
    if written.endswith("m2l"):
        try:
            return count_blocks(float(written.removesuffix("m2l")))
        except ValueError:
            raise OptionError(f"count {text!r}: {written.removesuffix('m2l')!r} is not a number") from None
    name, _, settings = written.partition(":")
    if name in PRESETS:
        base = PRESETS[name]
        return replace(base, **parse_settings(settings, base, f"count {written!r}")).count(written)
    if "width" not in written:
        raise OptionError(
            f"unknown count {text!r}{did_you_mean(name, PRESETS)}; write 12m2l, one of {', '.join(PRESETS)} "
            "with settings such as llama:vocabulary=128256, or an expression of width and depth"
        )
    expression, _, flops = written.partition(";")
    params = read_size(expression.strip())
    training = read_size(flops.strip()) if flops.strip() else params.scaled(2 * TRAINING)
    return Count(expression.strip(), params, training, training.scaled(1 / TRAINING), Posynomial(((2, 1, 1),)))


def parse_settings(text: str, defaults: Any, what: str) -> dict[str, Any]:
    """Read settings such as ``"context=8192,batch=4"`` of a dataclass, each of its default's type.

    Raises
    ------
    OptionError
        If a setting is unknown, or not of its type.
    """
    known = {f.name: type(getattr(defaults, f.name)) for f in fields(defaults)}
    values: dict[str, Any] = {}
    for setting in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (part.strip() for part in setting.partition("="))
        if name not in known:
            raise OptionError(
                f"{what}: there is no setting {name!r}{did_you_mean(name, known)}; there are {', '.join(known)}"
            )
        if known[name] is bool:
            if value.lower() not in ("true", "false"):
                raise OptionError(f"{what}: {name} is {value!r} and must be true or false")
            values[name] = value.lower() == "true"
            continue
        try:
            number = float(value)
        except ValueError:
            raise OptionError(f"{what}: {name} is {value!r} and must be a number") from None
        if known[name] is int and not number.is_integer():
            raise OptionError(f"{what}: {name} is {value} and must be a whole number")
        values[name] = known[name](number)
    return values
