"""What a parameter of a law is: the one place that knows kinds, scales and natural bounds.

Nobody parses names: `Law.parameters` gives these objects, and `Law.parameter(name)` one of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["COUPLING_BOUNDS", "EXPONENT_BOUNDS", "Bounds", "Kind", "Parameter"]

Bounds = tuple[float, float]
FloatOrArray = TypeVar("FloatOrArray", float, NDArray[np.float64])

EXPONENT_BOUNDS: Bounds = (1e-3, 10.0)
"""An exponent below the first is a logarithm, above the second a step; a fit that ends there says so."""

COUPLING_BOUNDS: Bounds = (0.3, 8.0)
"""Below the first the law is larger than any sum of its terms by orders, above the second it is its largest term."""


class Kind(StrEnum):
    """What a parameter does in its law."""

    COEFFICIENT = "coefficient"
    EXPONENT = "exponent"
    FLOOR = "floor"
    COUPLING = "coupling"


@dataclass(frozen=True)
class Parameter:
    """One parameter of a law.

    Attributes
    ----------
    name : str
        As users write it: ``"c_width"``, ``"alpha_width"``, ``"L0"``.
    kind : Kind
    term : int or None
        Index of its term in `Law.terms`; None for what belongs to no term, such as the floor.
    column : str or None
        The column that an exponent belongs to, the name of the term that a coefficient scales.
    """

    name: str
    kind: Kind
    term: int | None = None
    column: str | None = None

    @property
    def is_coefficient(self) -> bool:
        """Whether it is the size of a term at one unit of its column."""
        return self.kind is Kind.COEFFICIENT

    @property
    def is_exponent(self) -> bool:
        """Whether it is the exponent of a column."""
        return self.kind is Kind.EXPONENT

    @property
    def is_floor(self) -> bool:
        """Whether it is the irreducible loss."""
        return self.kind is Kind.FLOOR

    @property
    def is_coupling(self) -> bool:
        """Whether it is the exponent q that joins the terms."""
        return self.kind is Kind.COUPLING

    @property
    def in_logs(self) -> bool:
        """Whether errors and intervals are formed for ln of it, where the estimator is nearly normal."""
        return self.is_coefficient or self.is_coupling

    @property
    def natural_bounds(self) -> Bounds:
        """Bounds where nobody constrained it: `EXPONENT_BOUNDS`, `COUPLING_BOUNDS`, and from 0 up for the rest."""
        if self.is_coupling:
            return COUPLING_BOUNDS
        return EXPONENT_BOUNDS if self.is_exponent else (0.0, math.inf)

    def inner(self, value: FloatOrArray) -> FloatOrArray:
        """From plain units to the scale of its error; ln 0 is -inf."""
        if not self.in_logs:
            return value
        with np.errstate(divide="ignore"):
            logarithm: FloatOrArray = np.log(value)
        return logarithm

    def outer(self, value: FloatOrArray) -> FloatOrArray:
        """Back from the scale of its error to plain units."""
        return np.exp(value) if self.in_logs else value
