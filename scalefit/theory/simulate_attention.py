"""Monte Carlo of what attention adds to the stream, against the constant that BHyT's second site uses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scalefit.theory.attention import (
    approximated_square,
    published_constant,
    uniform_weights,
    value_output_product,
)
from scalefit.theory.moments import sphere_second_moment
from scalefit.theory.norms import Norm
from scalefit.theory.simulate import draw_tokens, seed_generators
from scalefit.theory.simulate_blocks import BlockSetting, causal_attention

__all__ = ["measured_over_published", "second_site_ratios"]

FloatArray = NDArray[np.float64]

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
