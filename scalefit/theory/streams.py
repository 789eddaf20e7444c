"""Residual streams: their statistics at each normalised site, and how their variance grows by recursion.

One block adds f to x, so with v = E mean x^2, V = E mean f^2 and rho their alignment, identically

    v_{l+1} = v_l + V_l + 2 rho_l sqrt(v_l V_l),            v_1 the embedding's.                              (1)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma

from scalefit.errors import DataError, OptionError
from scalefit.theory.norms import Norm, validate_depth

__all__ = [
    "BlockStatistics",
    "closed_form",
    "curse_of_depth_path",
    "harmonic",
    "log_slope",
    "norm_path",
    "variance_path",
]

FloatArray = NDArray[np.float64]

_PER_SITE = ("second_moment", "increment_variance", "alignment")


@dataclass(frozen=True)
class BlockStatistics:
    """Residual-stream statistics per site, in the order of the forward pass.

    A site is one normalised sublayer: a block has one (linear stack) or two (attention, MLP), which share its number.
    One-dimensional arrays are facts about one stream; a leading axis of seeds makes them a sample.

    Attributes
    ----------
    block : (n_sites,) int array
        1-based block of each site.
    variance : (..., n_sites + 1) array
        v = E mean x^2 before each site and after the last.
    second_moment : (..., n_sites) array
        m = E mean n(x)^2 of the norm's output.
    increment_variance : (..., n_sites) array
        V = E mean f^2 of what the site adds.
    alignment : (..., n_sites) array
        rho = E mean(x f) / sqrt(E mean x^2 E mean f^2).
    variance_ratio : (..., n_sites) array
        q = true / approximated mean square at the site; 1 where the norm measures its own.
    """

    block: NDArray[np.int64]
    variance: FloatArray
    second_moment: FloatArray
    increment_variance: FloatArray
    alignment: FloatArray
    variance_ratio: FloatArray = field(default_factory=lambda: np.ones(1))

    def __post_init__(self) -> None:
        object.__setattr__(self, "block", np.asarray(self.block, dtype=np.int64))
        n_sites = self.block.size
        if n_sites < 1 or self.block.ndim != 1 or self.block[0] < 1 or (np.diff(self.block) < 0).any():
            raise DataError("block must be a one-dimensional list of block numbers from 1 upwards, not falling")
        ratio = np.broadcast_to(np.asarray(self.variance_ratio, float), np.shape(self.second_moment))
        object.__setattr__(self, "variance_ratio", ratio)
        lead = np.shape(self.variance)[:-1]
        for name in ("variance", *_PER_SITE, "variance_ratio"):
            values = np.asarray(getattr(self, name), dtype=float)
            expected = (*lead, n_sites + (name == "variance"))
            if values.shape != expected or len(expected) > 2:
                raise DataError(
                    f"{name} has shape {values.shape} and must have {expected}: one entry a site of `block`, "
                    "one more for variance (before each site and after the last), at most one leading axis of seeds"
                )
            if not np.isfinite(values).all():
                raise DataError(f"{name} holds a value that is not finite; measure it on a finite forward pass")
            object.__setattr__(self, name, values)
        if (self.variance <= 0).any() or (self.second_moment <= 0).any() or (self.increment_variance < 0).any():
            raise DataError("variance and second_moment must be positive, increment_variance not negative")

    @classmethod
    def from_mapping(cls, arrays: Mapping[str, Any]) -> BlockStatistics:
        """Build from a mapping of arrays, as a monitor of a model yields; other keys are ignored."""
        required = ("block", "variance", *_PER_SITE)
        missing = [name for name in required if name not in arrays]
        if missing:
            raise DataError(f"the block statistics lack {', '.join(missing)}; they need {', '.join(required)}")
        optional = {"variance_ratio": arrays["variance_ratio"]} if "variance_ratio" in arrays else {}
        return cls(**{name: arrays[name] for name in required}, **optional)

    @property
    def gain(self) -> FloatArray:
        """Gain g = V / m of each site, shape (..., n_sites)."""
        return np.asarray(self.increment_variance / self.second_moment)

    @property
    def after(self) -> FloatArray:
        """Variance after each site, shape (..., n_sites)."""
        return self.variance[..., 1:]

    @property
    def n_seeds(self) -> int:
        """Independent seeds of a sample; 0 for the facts of one stream."""
        return self.variance.shape[0] if self.variance.ndim == 2 else 0

    @property
    def identity_error(self) -> float:
        """Largest relative error of v' = v + V + 2 rho sqrt(v V), which is an identity of honest measurements."""
        v, V = self.variance[..., :-1], self.increment_variance
        expected = v + V + 2 * self.alignment * np.sqrt(v * V)
        return float(np.max(np.abs(expected - self.after) / self.after))


def variance_path(increments: ArrayLike, start: ArrayLike = 1.0, alignment: ArrayLike = 0.0) -> FloatArray:
    """Iterate equation (1).

    Parameters
    ----------
    increments : (..., n_blocks) array_like
        V_1 .. V_L.
    start : (...) array_like
        v_1.
    alignment : (..., n_blocks) array_like
        rho_1 .. rho_L, broadcast against the increments.

    Returns
    -------
    (..., n_blocks + 1) array
        v_1 .. v_{L+1}: entry n is the variance after n completed blocks.
    """
    added, rho = np.broadcast_arrays(np.asarray(increments, float), np.asarray(alignment, float))
    path = np.empty((*added.shape[:-1], added.shape[-1] + 1))
    path[..., 0] = start
    for block in range(added.shape[-1]):
        v, V = path[..., block], added[..., block]
        path[..., block + 1] = v + V + 2 * rho[..., block] * np.sqrt(v * V)
    return path


def norm_path(
    norm: Norm, depth: int, *, start: float = 1.0, gain: float = 1.0, alignment: float = 0.0, mean: float = 0.0
) -> BlockStatistics:
    """Return the stream of `depth` one-sublayer blocks under a norm, by recursion (1) with V_l = gain m_l.

    `mean` is abs(mu) / s of the embedding. The aligned part of an update, rho sqrt(V / v) x, scales the mean mu with
    the stream; the rest leaves it alone, since its weights have mean zero. Peri-LN's increments are 1 whatever the
    gain.
    """
    validate_depth(depth)
    if not (start > 0 and gain > 0 and abs(alignment) <= 1):
        raise OptionError(
            f"start is {start}, gain {gain}, alignment {alignment}: start and gain must be positive, "
            "the alignment in [-1, 1]"
        )
    mu = mean * np.sqrt(start / (1 + mean**2))
    variance, moments, increments = [start], np.empty(depth), np.empty(depth)
    for block in range(1, depth + 1):
        v = variance[-1]
        moments[block - 1] = norm.second_moment(block, v, mu)
        increments[block - 1] = V = 1.0 if norm.normalises_output else gain * moments[block - 1]
        variance.append(float(v + V + 2 * alignment * np.sqrt(v * V)))
        mu *= 1 + alignment * np.sqrt(V / v)
    return BlockStatistics(
        block=np.arange(1, depth + 1),
        variance=np.array(variance),
        second_moment=moments,
        increment_variance=increments,
        alignment=np.full(depth, float(alignment)),
    )


def harmonic(n: ArrayLike) -> FloatArray:
    """Return H_n = 1 + 1/2 + ... + 1/n."""
    return np.asarray(digamma(np.asarray(n, float) + 1) + np.euler_gamma)


def closed_form(norm: Norm, completed: ArrayLike, *, start: float = 1.0, gain: float = 1.0) -> FloatArray:
    """Return the variance after `completed` blocks for independent zero-mean linear updates and a zero-mean stream.

    RMSNorm v_1 + g n; LNS v_1 + g H_n; BHyT v_1 + g m n; control v_1 + g a^2 n; Peri-LN v_1 + n. DyT has none: its
    output grows with the stream.
    """
    n = np.asarray(completed, float)
    if norm.name == "dyt":
        raise OptionError("Dynamic Tanh has no closed form, its output grows with the stream; use norm_path")
    if norm.name == "lns":
        return np.asarray(start + gain * harmonic(n))
    gain = 1.0 if norm.normalises_output else gain
    return np.asarray(start + gain * norm.second_moment(1, start) * n)


def curse_of_depth_path(power: float, depth: int) -> FloatArray:
    """Iterate v' = v + l^-power sqrt(v) from v = 1 (Sun et al. 2025): power 0 for Pre-LN, 1/2 for LNS.

    Returns the variance after 0 .. depth completed blocks.
    """
    validate_depth(depth)
    path = [1.0]
    for block in range(1, depth + 1):
        path.append(path[-1] + block**-power * float(np.sqrt(path[-1])))
    return np.array(path)


def log_slope(path: ArrayLike, first: int, last: int) -> float:
    """Return d log v / d log n of a path between `first` and `last` completed blocks, by least squares."""
    n = np.arange(first, last + 1)
    return float(np.polyfit(np.log(n), np.log(np.asarray(path)[first : last + 1]), 1)[0])
