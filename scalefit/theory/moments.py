"""Second moments in closed form: of bounded functions of a normal variable, and of what attention adds.

The trapezoidal rule on the line converges geometrically for functions analytic in a strip (Trefethen and Weideman
2014, section 5). Gauss-Hermite rules overflow at the degrees that steep tanh curves ask for. Attention's output is a
weighted mean of tokens; BHyT's second site approximates its variance without a second reduction.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize.elementwise import find_root
from scipy.special import expit

from scalefit.errors import OptionError

__all__ = [
    "approximated_square",
    "attention_factor",
    "ideal_break_even",
    "ideal_moment_bound",
    "ideal_second_moment",
    "participation",
    "published_constant",
    "scale_of_second_moment",
    "silu_second_moment",
    "sphere_second_moment",
    "swiglu_increment",
    "tanh_second_moment",
    "uniform_weights",
    "value_output_product",
]

FloatArray = NDArray[np.float64]

# the normal density is below 1e-43 outside; a step of 0.01 is exact to rounding for slopes up to about 30
_NODES = np.linspace(-14.0, 14.0, 2801)
_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.sqrt(2 * np.pi) * (_NODES[1] - _NODES[0])


def tanh_second_moment(scale: ArrayLike, mean: ArrayLike = 0.0) -> FloatArray:
    """Return m = E tanh^2(scale (Z + mean)) for standard normal Z, = scale^2 - 2 scale^4 + ... at mean 0.

    Parameters
    ----------
    scale, mean : array_like
        Broadcast against each other; `mean` is in standard deviations.

    Examples
    --------
    >>> float(tanh_second_moment(0.1).round(9))
    0.009805469
    """
    slope, shift = np.broadcast_arrays(np.asarray(scale, float), np.asarray(mean, float))
    return np.asarray(np.tanh(slope[..., None] * (_NODES + shift[..., None])) ** 2 @ _WEIGHTS)


def sphere_second_moment(scale: float, width: int) -> float:
    """Return E tanh^2(scale x / rms(x)) for a normal token of finite width, `tanh_second_moment` as width grows.

    u = x / rms(x) is sqrt(width) times a coordinate of a uniform point on the sphere, with density proportional to
    (1 - u^2 / width)^((width - 3) / 2); lighter tails than the normal make the moment larger by 4 scale^4 / (width + 2)
    to leading order.
    """
    if width < 3:
        raise OptionError(f"width is {width} and must be at least 3 for a token on the sphere")
    # u = sqrt(width) cos(theta) has density sin(theta)^(width - 2) in theta: smooth and periodic
    theta = np.linspace(0.0, np.pi, 20_001)
    weights = np.sin(theta) ** (width - 2)
    return float(np.tanh(scale * np.sqrt(width) * np.cos(theta)) ** 2 @ weights / weights.sum())


def scale_of_second_moment(moment: float) -> float:
    """Return the scale a with E tanh^2(a Z) = moment, for a moment in (0, 0.9)."""
    if not 0 < moment < 0.9:
        raise OptionError(f"the second moment of a tanh is {moment} and must lie in (0, 0.9) to be inverted")
    return float(find_root(lambda a: tanh_second_moment(a) - moment, (1e-9, 30.0)).x)


def ideal_moment_bound(lam: float, kappa: float, mean: ArrayLike) -> FloatArray:
    """Return lambda^2 (1 + t^2) / (kappa + t)^2, which tanh^2 y <= y^2 gives for the ideal form with t = abs(mu)/s.

    The ideal form tanh(lambda x / (kappa s + abs(mu))) divides by less than it should once the mean is large.
    """
    t = np.abs(np.asarray(mean, float))
    return np.asarray(lam**2 * (1 + t**2) / (kappa + t) ** 2)


def ideal_second_moment(lam: float, kappa: float, mean: ArrayLike) -> FloatArray:
    """Return E tanh^2(lambda (Z + t) / (kappa + t)), the ideal form on a normal token with mean t s."""
    t = np.abs(np.asarray(mean, float))
    return tanh_second_moment(lam / (kappa + t), t)


def ideal_break_even(kappa: float) -> float:
    """Return the t above which `ideal_moment_bound` exceeds (lambda/kappa)^2: 2 kappa / (kappa^2 - 1).

    Infinite for kappa <= 1, where no mean exceeds it.
    """
    return 2 * kappa / (kappa**2 - 1) if kappa > 1 else np.inf


def silu_second_moment(variance: ArrayLike) -> FloatArray:
    """Return E silu(h)^2 for h normal with mean 0 and the given variance; variance/4 at small variance."""
    h = np.sqrt(np.asarray(variance, float))[..., None] * _NODES
    return np.asarray((h * expit(h)) ** 2 @ _WEIGHTS)


def swiglu_increment(moment: ArrayLike, gain: float = 1.0) -> FloatArray:
    """Return V = gain m E silu(sqrt(m) Z)^2, the increment of W3 (silu(W1 u) * W2 u) with independent weights.

    `moment` is m = E mean u^2 and rows of W1, W2 and W3 have unit squared norm. At small m it is m^2 / 4: the fourth
    power of the scale of u, so closed forms linear in m do not apply.
    """
    m = np.asarray(moment, float)
    return np.asarray(gain * m * silu_second_moment(m))


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
