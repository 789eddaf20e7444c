"""The normalisations under comparison: what they do to a token, their second moments, and what kappa covers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError
from scalefit.theory.moments import ideal_second_moment, tanh_second_moment

__all__ = ["NORM_NAMES", "Norm", "coverage_of_kappa", "kappa_of_coverage", "validate_depth"]

FloatArray = NDArray[np.float64]

NORM_NAMES = ("rmsnorm", "lns", "peri", "dyt", "bhyt", "bhyt-exact", "bhyt-ideal", "control")


@dataclass(frozen=True)
class Norm:
    """One normalisation with gain 1 and no epsilon.

    ============  ========================================  ==========================================
    name          n(x)                                      second moment of n(x)
    ============  ========================================  ==========================================
    rmsnorm       x / rms(x)                                1
    lns           rmsnorm(x) / sqrt(l)                      1 / l
    peri          rmsnorm(x), sublayer output too           1, and increments of exactly 1
    dyt           tanh(alpha x)                             E tanh^2(alpha x), grows with the stream
    bhyt          tanh(a x / r), r approximated             at most q a^2, q = true / approximated r^2
    bhyt-exact    tanh(a x / rms(x))                        at most a^2
    bhyt-ideal    tanh(lambda x / (kappa s + abs(mu)))      at most lambda^2 (1 + t^2) / (kappa + t)^2
    control       a rmsnorm(x)                              a^2
    ============  ========================================  ==========================================

    Statistics are taken over the features of one token; a = lambda / kappa, t = abs(mu) / s.

    Attributes
    ----------
    name : str
        One of `NORM_NAMES`.
    lam, kappa : float
        Slope lambda and Chebyshev width kappa of the bounded tanh; the control uses their ratio.
    alpha : float
        Slope of Dynamic Tanh.

    References
    ----------
    Byun et al. 2026 (BHyT), Sun et al. 2025 (LayerNorm Scaling), Kim et al. 2025 (Peri-LN), Zhu et al. 2025 (DyT).
    """

    name: str
    lam: float = 1.0
    kappa: float = 10.0
    alpha: float = 0.5

    def __post_init__(self) -> None:
        if self.name not in NORM_NAMES:
            raise OptionError(f"norm {self.name!r} is unknown; use one of {', '.join(NORM_NAMES)}")
        for symbol, value in (("lambda", self.lam), ("kappa", self.kappa), ("alpha", self.alpha)):
            if not (math.isfinite(value) and value > 0):
                raise OptionError(f"{symbol} is {value} and must be a positive finite number, such as 1")

    @property
    def ratio(self) -> float:
        """The ratio a = lambda / kappa."""
        return self.lam / self.kappa

    @property
    def normalises_output(self) -> bool:
        """Whether the sublayer's output is normalised as well, so that every increment has second moment 1."""
        return self.name == "peri"

    def second_moment(self, block: int, variance: float, mean: float = 0.0, variance_ratio: float = 1.0) -> float:
        """Return E mean n(x)^2 in block `block` (1-based) for a wide normal token.

        Parameters
        ----------
        variance : float
            Second moment v of the stream, mean included.
        mean : float
            Mean of the stream's entries; mean^2 < variance.
        variance_ratio : float
            q, true over approximated variance, for `bhyt`.
        """
        if self.name in ("rmsnorm", "peri"):
            return 1.0
        if self.name == "lns":
            return 1.0 / block
        if self.name == "control":
            return self.ratio**2
        spread = math.sqrt(variance - mean**2)
        t = abs(mean) / spread
        if self.name == "bhyt-ideal":
            return float(ideal_second_moment(self.lam, self.kappa, t))
        slope = {
            "dyt": self.alpha * spread,
            "bhyt": self.ratio * math.sqrt(variance_ratio) / math.sqrt(1 + t**2),
            "bhyt-exact": self.ratio / math.sqrt(1 + t**2),
        }[self.name]
        return float(tanh_second_moment(slope, t))

    def apply(self, x: FloatArray, block: int, approximated: FloatArray | None = None) -> FloatArray:
        """Return n(x) for tokens x of shape (..., width) in block `block` (1-based).

        `approximated` of shape (..., 1) is the approximated mean square that `bhyt` divides by; without it `bhyt`
        uses the token's own, as at the first site of a block.
        """
        if self.name == "dyt":
            return np.asarray(np.tanh(self.alpha * x))
        if self.name == "bhyt-ideal":
            mean = x.mean(axis=-1, keepdims=True)
            spread = x.std(axis=-1, keepdims=True)
            return np.asarray(np.tanh(self.lam * x / (self.kappa * spread + np.abs(mean))))
        square = np.einsum("...d,...d->...", x, x)[..., None] / x.shape[-1]
        if self.name in ("bhyt", "bhyt-exact"):
            divisor = square if approximated is None or self.name == "bhyt-exact" else approximated
            return np.asarray(np.tanh(x * (self.ratio / np.sqrt(divisor))))
        factor = {"lns": 1 / math.sqrt(block), "control": self.ratio}.get(self.name, 1.0)
        return np.asarray(x * (factor / np.sqrt(square)))


def validate_depth(depth: int) -> None:
    """Raise `OptionError` unless depth is at least one block."""
    if depth < 1:
        raise OptionError(f"depth is {depth} and must be at least 1 block")


def kappa_of_coverage(p: float) -> float:
    """Return kappa = 1/sqrt(1 - p), for which P(abs(X - mu) < kappa s) >= p under any law; p = .99 gives 10."""
    if not 0 <= p < 1:
        raise OptionError(f"the probability p is {p} and must lie in [0, 1), such as 0.99")
    return 1 / math.sqrt(1 - p)


def coverage_of_kappa(kappa: float) -> float:
    """Return p = 1 - 1/kappa^2, the inverse of `kappa_of_coverage`; 0 below kappa = 1, where nothing is promised."""
    if not (math.isfinite(kappa) and kappa > 0):
        raise OptionError(f"kappa is {kappa} and must be a positive finite number, such as 10")
    return max(0.0, 1 - 1 / kappa**2)
