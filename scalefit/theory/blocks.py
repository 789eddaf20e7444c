"""What is known of each normalised site of a residual network, computed, simulated or measured on any model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError

__all__ = ["BlockStatistics"]

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
