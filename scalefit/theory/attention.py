"""Variance of what attention adds, and BHyT's second site, which approximates it without a second reduction."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefit.errors import OptionError

__all__ = [
    "approximated_square",
    "attention_factor",
    "participation",
    "published_constant",
    "uniform_weights",
    "value_output_product",
]

FloatArray = NDArray[np.float64]


def uniform_weights(tokens: int, *, causal: bool) -> FloatArray:
    """Return (tokens, tokens) attention weights that are equal over the visible tokens."""
    if tokens < 1:
        raise OptionError(f"the sequence length is {tokens} and must be at least 1 token")
    visible = np.tril(np.ones((tokens, tokens))) if causal else np.ones((tokens, tokens))
    return np.asarray(visible / visible.sum(axis=-1, keepdims=True))


def participation(weights: ArrayLike) -> FloatArray:
    """Return P, the mean over queries of the summed squared attention weights.

    `weights` has shape (..., queries, keys) with rows that sum to 1. Uniform over T tokens P = 1/T; uniform causal
    P = H_T / T, since the query at position i sees i tokens and sum_i 1/i = H_T.
    """
    w = np.asarray(weights, float)
    return np.asarray(np.mean(np.sum(w**2, axis=-1), axis=-1))


def attention_factor(weights_participation: ArrayLike, correlation: ArrayLike = 0.0) -> FloatArray:
    """Return r + (1 - r) P: variance of a weighted mean of tokens with pairwise correlation r, relative to one token.

    With tokens u_j of variance m and covariance r m, Var sum_j w_j u_j = m (sum w_j^2 + r sum_{j != k} w_j w_k), and
    sum_{j != k} w_j w_k = 1 - sum w_j^2.
    """
    P, r = np.asarray(weights_participation, float), np.asarray(correlation, float)
    return np.asarray(r + (1 - r) * P)


def value_output_product(value: FloatArray, output: FloatArray, n_heads: int) -> FloatArray:
    """Return sum_h W_V^{(h)} W_O^{(h)}, the (d, d) map from a token to the output when all heads attend alike.

    Parameters
    ----------
    value : (d, n_kv * head) array
        Row-vector convention: values are u @ value. Query heads h = 0 .. n_heads - 1 share the key-value head
        h // (n_heads / n_kv); each is expanded before the product.
    output : (n_heads * head, d) array
    """
    d, kv_width = value.shape
    head, rest = divmod(output.shape[0], n_heads)
    if rest or kv_width % head or n_heads % (kv_width // head):
        raise OptionError(
            f"W_V of shape {value.shape} and W_O of shape {output.shape} do not fit {n_heads} heads: "
            "W_O needs n_heads * head rows and W_V n_kv * head columns with n_heads a multiple of n_kv"
        )
    n_kv = kv_width // head
    expanded = np.repeat(value.reshape(d, n_kv, head), n_heads // n_kv, axis=1).reshape(d, n_heads * head)
    return np.asarray(expanded @ output)


def published_constant(product: FloatArray, tokens: int) -> float:
    """Return c = norm_F(W_V W_O)^2 / (T d), with which BHyT approximates v_2 = v_1 + m c (Byun et al. 2026).

    1/T is the factor P of uniform attention over all T tokens, independent of each other; a causal mask makes the
    true increment H_T times larger.
    """
    if tokens < 1:
        raise OptionError(f"the sequence length is {tokens} and must be at least 1 token")
    return float(np.sum(product**2) / (tokens * product.shape[-1]))


def approximated_square(square: ArrayLike, ratio: float, constant: ArrayLike) -> FloatArray:
    """Return v_1 + a^2 c, the approximated mean square at the second site from the first site's `square`."""
    return np.asarray(np.asarray(square, float) + ratio**2 * np.asarray(constant, float))
