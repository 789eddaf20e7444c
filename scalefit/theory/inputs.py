"""Laws that the entries of a token are drawn from, standardised to mean 0 and (where it exists) variance 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, stats

from scalefit.errors import OptionError

__all__ = ["INPUT_LAWS", "InputLaw", "input_law", "three_point_law"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class InputLaw:
    """A law of independent entries, or one that puts a single large entry into each token.

    Attributes
    ----------
    name : str
    distribution : scipy.stats frozen distribution
        Law of an ordinary entry.
    outlier : float
        Size of one extra entry a token, in units of sqrt(width); 0 for none.
    """

    name: str
    distribution: Any
    outlier: float = 0.0

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw entries of shape (..., width)."""
        entries = np.asarray(self.distribution.rvs(size=shape, random_state=rng), dtype=float)
        if self.outlier:
            entries[..., 0] = self.outlier * np.sqrt(shape[-1])
        return entries

    def tanh_second_moment(self, scale: float) -> float:
        """Return E tanh^2(scale X) of an ordinary entry X, by adaptive quadrature.

        An independent route to `moments.tanh_second_moment`.
        """

        def weighted(x: float) -> float:
            return float(np.tanh(scale * x) ** 2 * self.distribution.pdf(x))

        # symmetric laws: twice the half line, cut where tanh saturates so that no feature is missed
        knee = 4.0 / scale
        pieces = [integrate.quad(weighted, *ends, epsabs=1e-13, epsrel=1e-11, limit=200) for ends in _pieces(knee)]
        return 2.0 * float(sum(value for value, _ in pieces))


def _pieces(knee: float) -> tuple[tuple[float, float], ...]:
    near = min(4.0, knee)
    return (0.0, near), (near, near + knee), (near + knee, np.inf)


def three_point_law(kappa: float) -> tuple[FloatArray, FloatArray]:
    """Return values and probabilities of the law for which Chebyshev's inequality is an equality.

    P(X = 0) = 1 - 1/kappa^2 and P(X = +-kappa) = 1/(2 kappa^2): mean 0, variance 1, P(abs(X) >= kappa) = 1/kappa^2.
    """
    tail = 0.5 / kappa**2
    return np.array([-kappa, 0.0, kappa]), np.array([tail, 1.0 - 2.0 * tail, tail])


INPUT_LAWS = {
    law.name: law
    for law in (
        InputLaw("normal", stats.norm()),
        InputLaw("laplace", stats.laplace(scale=1 / np.sqrt(2))),
        InputLaw("student-t3", stats.t(3, scale=1 / np.sqrt(3))),
        InputLaw("cauchy", stats.cauchy()),
        InputLaw("one-outlier", stats.norm(), outlier=1.0),
    )
}


def input_law(name: str) -> InputLaw:
    """Return a law of `INPUT_LAWS` by name."""
    if name not in INPUT_LAWS:
        raise OptionError(f"input law {name!r} is unknown; use one of {', '.join(INPUT_LAWS)}")
    return INPUT_LAWS[name]
