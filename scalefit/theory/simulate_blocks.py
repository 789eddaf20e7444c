"""Monte Carlo of transformer blocks at random weights: causal grouped-query attention and SwiGLU, per norm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from scalefit.errors import OptionError
from scalefit.theory.moments import (
    approximated_square,
    published_constant,
    sphere_second_moment,
    uniform_weights,
    value_output_product,
)
from scalefit.theory.norms import Norm, validate_depth
from scalefit.theory.simulate import SEEDS_AT_ONCE, Recorder, StackSetting, draw_tokens, seed_generators
from scalefit.theory.streams import BlockStatistics

__all__ = [
    "BlockSetting",
    "causal_attention",
    "measured_over_published",
    "second_site_ratios",
    "simulate_blocks",
    "swiglu",
]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class BlockSetting:
    """Blocks x += Attention(n(x)); x += SwiGLU(n(x)), weights normal with variance 1 / (number of inputs).

    Attributes
    ----------
    depth, width, tokens : int
        Blocks, features, tokens of one sequence (a seed is one sequence and one draw of the weights).
    heads, kv_heads, hidden : int
        Query heads, key-value heads that they share, hidden width of SwiGLU.
    start : float
        v_1 = E mean x_1^2.
    law, mean : str, float
        Law of the embedding's entries (`INPUT_LAWS`), and its mean in standard deviations.
    """

    depth: int
    width: int = 64
    tokens: int = 48
    heads: int = 4
    kv_heads: int = 2
    hidden: int = 128
    start: float = 1.0
    law: str = "normal"
    mean: float = 0.0

    def __post_init__(self) -> None:
        validate_depth(self.depth)
        if min(self.heads, self.kv_heads, self.hidden) < 1:
            raise OptionError(
                f"heads is {self.heads}, kv_heads {self.kv_heads}, hidden {self.hidden}; each must be at least 1"
            )
        self.embedding  # noqa: B018 - validates width, tokens, start and law
        if self.width % self.heads or self.heads % self.kv_heads:
            raise OptionError(
                f"width {self.width}, heads {self.heads} and kv_heads {self.kv_heads} do not divide: "
                "heads must divide width, kv_heads must divide heads"
            )

    @property
    def head(self) -> int:
        """Features of one head."""
        return self.width // self.heads

    @property
    def embedding(self) -> StackSetting:
        """How the embedding is drawn."""
        return StackSetting(1, self.width, self.tokens, start=self.start, law=self.law, mean=self.mean)

    def draw_weights(self, rng: np.random.Generator) -> dict[str, FloatArray]:
        """Draw the matrices of one block, in the row-vector convention."""
        d, kv, h = self.width, self.kv_heads * self.head, self.hidden
        shapes = {"q": (d, d), "k": (d, kv), "v": (d, kv), "o": (d, d), "gate": (d, h), "up": (d, h), "down": (h, d)}
        return {name: rng.standard_normal(shape) / np.sqrt(shape[0]) for name, shape in shapes.items()}

    def second_site_constant(self, weights: dict[str, FloatArray]) -> float:
        """Return the published c of one block's weights, see `attention.published_constant`."""
        return published_constant(value_output_product(weights["v"], weights["o"], self.heads), self.tokens)


def causal_attention(u: FloatArray, weights: dict[str, FloatArray], setting: BlockSetting) -> FloatArray:
    """Return softmax(Q K^T / sqrt(head)) V W_O for u of shape (..., batch, tokens, width), weights (batch, ...)."""
    T, kv, group = setting.tokens, setting.kv_heads, setting.heads // setting.kv_heads
    lead = u.shape[:-2]
    q = (u @ weights["q"]).reshape(*lead, T, kv, group, setting.head)
    k, v = ((u @ weights[name]).reshape(*lead, T, kv, setting.head) for name in ("k", "v"))
    scores = np.einsum("...qgrh,...kgh->...grqk", q, k, optimize=True) / np.sqrt(setting.head)
    scores = np.where(np.tril(np.ones((T, T), bool)), scores, -np.inf)
    attention = np.exp(scores - scores.max(axis=-1, keepdims=True))
    attention /= attention.sum(axis=-1, keepdims=True)
    mixed = np.einsum("...grqk,...kgh->...qgrh", attention, v, optimize=True)
    return np.asarray(mixed.reshape(*lead, T, setting.width) @ weights["o"])


def swiglu(u: FloatArray, weights: dict[str, FloatArray]) -> FloatArray:
    """Return W_down (silu(W_gate u) * W_up u)."""
    gate = u @ weights["gate"]
    return np.asarray((gate * expit(gate) * (u @ weights["up"])) @ weights["down"])


def simulate_blocks(
    norms: Sequence[Norm], setting: BlockSetting, *, n_seeds: int, seed: int = 0
) -> dict[str, BlockStatistics]:
    """Simulate the blocks under every norm with the same weights and tokens seed by seed.

    Both sites of a block share its number l. At the second site `bhyt` divides by v_1 + a^2 c instead of its own mean
    square (see `attention.published_constant`) and the true over the approximated mean square is recorded as q.

    Returns
    -------
    dict from norm name to BlockStatistics
        Arrays of shape (n_seeds, 2 depth).
    """
    generators = seed_generators(seed, n_seeds)
    record = Recorder((len(norms), n_seeds, 2 * setting.depth))
    for first in range(0, n_seeds, SEEDS_AT_ONCE):
        batch = generators[first : first + SEEDS_AT_ONCE]
        _simulate_batch(norms, setting, batch, record, slice(first, first + len(batch)))
    block = np.repeat(np.arange(1, setting.depth + 1), 2)
    return {norm.name: record.statistics(block, i) for i, norm in enumerate(norms)}


def _simulate_batch(
    norms: Sequence[Norm],
    setting: BlockSetting,
    generators: list[np.random.Generator],
    record: Recorder,
    rows: slice,
) -> None:
    x = np.repeat(np.stack([draw_tokens(rng, setting.embedding) for rng in generators])[None], len(norms), axis=0)
    for block in range(1, setting.depth + 1):
        drawn = [setting.draw_weights(rng) for rng in generators]
        weights = {name: np.stack([w[name] for w in drawn]) for name in drawn[0]}
        square = np.mean(x**2, axis=-1, keepdims=True)
        normed = np.stack([norm.apply(x[i], block) for i, norm in enumerate(norms)])
        added = _outputs(norms, causal_attention(normed, weights, setting))
        record.site(2 * block - 2, rows, x, normed, added)
        x = x + added

        constants = np.array([setting.second_site_constant(w) for w in drawn])[:, None, None]
        for i, norm in enumerate(norms):
            approximated = approximated_square(square[i], norm.ratio, constants) if norm.name == "bhyt" else None
            normed[i] = norm.apply(x[i], block, approximated)
            if approximated is not None:
                record.ratio[i, rows, 2 * block - 1] = np.mean(np.mean(x[i] ** 2, -1, keepdims=True) / approximated)
        added = _outputs(norms, swiglu(normed, weights))
        record.site(2 * block - 1, rows, x, normed, added)
        x = x + added
    record.finish(rows, x)


def _outputs(norms: Sequence[Norm], added: FloatArray) -> FloatArray:
    """Normalise the outputs of the norms that do so."""
    for i, norm in enumerate(norms):
        if norm.normalises_output:
            added[i] /= np.sqrt(np.mean(added[i] ** 2, axis=-1, keepdims=True))
    return added


WIDTH, HEADS, KV_HEADS = 64, 4, 2


def measured_over_published(
    tokens: int, *, causal: bool, correlation: float = 0.0, n_seeds: int = 128, seed: int = 0
) -> FloatArray:
    """Return attention's output variance over m norm_F(W_V W_O)^2 / (T d), one estimate a seed.

    Uniform attention, grouped-query weights drawn anew for each seed, eight sequences through each, whose tokens have
    pairwise correlation `correlation` and pass through BHyT (lambda 1, kappa 10). Theory: T (r + (1 - r) P).
    """
    norm, mixing = Norm("bhyt-exact"), uniform_weights(tokens, causal=causal)
    m = sphere_second_moment(norm.ratio, WIDTH)
    head = WIDTH // HEADS
    ratios = []
    for rng in seed_generators(seed, n_seeds):
        x = np.sqrt(1 - correlation) * rng.standard_normal((8, tokens, WIDTH))
        x += np.sqrt(correlation) * rng.standard_normal((8, 1, WIDTH))
        value, output = rng.standard_normal((WIDTH, KV_HEADS * head)), rng.standard_normal((WIDTH, WIDTH))
        product = value_output_product(value, output, HEADS)
        added = mixing @ norm.apply(x, 1) @ product
        ratios.append(np.mean(added**2) / (m * published_constant(product, tokens)))
    return np.array(ratios)


def second_site_ratios(norm: Norm, setting: BlockSetting, *, n_seeds: int, seed: int = 0) -> FloatArray:
    """Return q = true / approximated mean square of each token at the second site of the first block.

    Returns
    -------
    (n_seeds, tokens) array
        Large for the first tokens under a causal mask: they average over few others.
    """
    ratios = []
    for rng in seed_generators(seed, n_seeds):
        x, weights = draw_tokens(rng, setting.embedding), setting.draw_weights(rng)
        square = np.mean(x**2, axis=-1)
        true = np.mean((x + causal_attention(norm.apply(x, 1), weights, setting)) ** 2, axis=-1)
        ratios.append(true / approximated_square(square, norm.ratio, setting.second_site_constant(weights)))
    return np.stack(ratios)
