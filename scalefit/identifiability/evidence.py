"""What a verdict is drawn from, and the verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import ScalefitWarning
from scalefit.laws.law import Law

__all__ = ["Evidence", "Identification", "Verdict"]

Array = NDArray[np.float64]


class Verdict(StrEnum):
    """What the data say of one parameter."""

    DETERMINED = "determined"
    WEAK = "weak"
    NOT_DETERMINED = "not-determined"


@dataclass(frozen=True)
class Evidence:
    """What a verdict is drawn from.

    Parameters
    ----------
    law : Law
    arguments : mapping of str to (n,) float array
        Each term's column less its shift.
    params : mapping of str to float
        The estimates.
    free : tuple of str
        Parameters that were estimated rather than fixed, ties included.
    standard_errors : mapping of str to float
        Of ln c, alpha and L0; nan where there is none.
    relative_sizes : mapping of str to float
        By coefficient name: standard error of the term's size over that size, at the column's geometric mean.
    null : frozenset of str
        Parameters with a share in a null direction of the information matrix.
    limits : mapping of str to float
        One-sided limits of parameters at a bound.
    smallest_loss : float
    correlations : mapping of (str, str) to float
        Correlations of the estimates of the exponents.
    covariance : (n_parameters, n_parameters) float array
        Of ln c, alpha and L0.
    noise : float
        Root mean square of the residuals, nats per token.
    """

    law: Law
    arguments: Mapping[str, Array]
    params: Mapping[str, float]
    free: tuple[str, ...]
    standard_errors: Mapping[str, float]
    relative_sizes: Mapping[str, float]
    null: frozenset[str]
    limits: Mapping[str, float]
    smallest_loss: float
    correlations: Mapping[tuple[str, str], float]
    covariance: Array
    noise: float


@dataclass(frozen=True)
class Identification:
    """A verdict for every estimated parameter, and the remarks that explain them."""

    verdicts: Mapping[str, Verdict]
    warnings: tuple[ScalefitWarning, ...]

    def having(self, verdict: Verdict) -> tuple[str, ...]:
        """Names of the parameters with this verdict."""
        return tuple(name for name, given in self.verdicts.items() if given is verdict)
