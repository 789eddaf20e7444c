"""Fixed values, equality ties and bounds of a law's parameters, in the vocabulary of lmfit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from scalefit.errors import OptionError
from scalefit.laws.law import Law
from scalefit.laws.parameter import Bounds, Parameter

__all__ = ["Bounds", "Constraints"]

_NONE: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class Constraints:
    """What is known about the parameters of a law before it is fitted.

    Parameters
    ----------
    fixed : mapping of str to float
        Parameter -> its value, in plain units.
    ties : mapping of str to str
        Exponent -> the exponent it equals. (Coefficients carry the unit of their column, so that an equality
        of two of them would depend on the units; fix their values instead.)
    bounds : mapping of str to (float, float)
        Parameter -> lower and upper bound, -inf and inf allowed; equal bounds fix the parameter. An end that is nan
        becomes the parameter's natural bound when the law is known, in `checked`.

    Examples
    --------
    >>> Constraints.parse(fix=["L0=1.7"], tie=["alpha_depth=alpha_width"]).fixed["L0"]
    1.7
    """

    fixed: Mapping[str, float] = field(default_factory=lambda: _NONE)
    ties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    bounds: Mapping[str, Bounds] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def parse(cls, fix: Iterable[str] = (), tie: Iterable[str] = (), bound: Iterable[str] = ()) -> Constraints:
        """Read the command line's forms `NAME=VALUE`, `NAME=OTHER` and `NAME=LOW:HIGH`; an empty end keeps its default.

        Raises
        ------
        OptionError
            If a text does not have that form.
        """
        fixed = {}
        for text in fix:
            name, value = _split(text, "--fix L0=1.7")
            if name in fixed:
                raise OptionError(f"{name} is fixed twice; give it one value")
            fixed[name] = _number(value, text)
        ties = dict(_split(text, "--tie alpha_depth=alpha_width") for text in tie)
        bounds = {}
        for text in bound:
            name, limits = _split(text, "--bound alpha_depth=0.5:2")
            low, colon, high = limits.partition(":")
            if not colon:
                raise OptionError(f"{text!r} is not NAME=LOW:HIGH; write for example --bound alpha_depth=0.5:2")
            bounds[name] = (_number(low, text) if low else math.nan, _number(high, text) if high else math.nan)
        return cls(fixed, ties, bounds)

    def checked(self, law: Law) -> Constraints:
        """The same with every bound a number and equal bounds as fixed values, after checking every name and number.

        Raises
        ------
        OptionError
            If a name is no parameter of the law, a value lies outside its bounds, or a tie is not possible.
        """
        for name in [*self.fixed, *self.ties, *self.ties.values(), *self.bounds]:
            law.parameter(name)
        fixed, bounds = dict(self.fixed), {}
        for name, given in self.bounds.items():
            natural = law.parameter(name).natural_bounds
            low, high = (own if math.isnan(end) else end for end, own in zip(given, natural, strict=True))
            bounds[name] = (low, high)
            if low <= 0 and law.parameter(name).is_coupling:
                raise OptionError(f"the lower bound of {name} is {low:g} and must be positive")
            if low < 0 and law.coupling is not None:
                raise OptionError(f"the lower bound of {name} is {low:g}; in a coupled law nothing may be negative")
            if not low <= high:
                raise OptionError(f"the bounds of {name} are {low:g} and {high:g}; the lower must not exceed the upper")
            if low == high:
                fixed.setdefault(name, low)
        for name, value in fixed.items():
            self._check_value(name, value)
        for name, other in self.ties.items():
            self._check_tie(law.parameter(name), law.parameter(other), fixed)
        return Constraints(
            MappingProxyType(fixed),
            MappingProxyType(dict(self.ties)),
            MappingProxyType({name: limits for name, limits in bounds.items() if name not in fixed}),
        )

    def _check_value(self, name: str, value: float) -> None:
        low, high = self.bounds.get(name, (-math.inf, math.inf))
        if not math.isfinite(value):
            raise OptionError(f"{name} is fixed at {value} and must be a finite number")
        if value < 0 or (value == 0 and name == "q"):
            raise OptionError(f"{name} is fixed at {value:g} and must not be negative")
        if not low <= value <= high:
            raise OptionError(f"{name} is fixed at {value:g}, outside its bounds {low:g} to {high:g}")

    def _check_tie(self, tied: Parameter, to: Parameter, fixed: Mapping[str, float]) -> None:
        name, other = tied.name, to.name
        if not (tied.is_exponent and to.is_exponent):
            raise OptionError(f"{name} cannot be tied to {other}: only exponents can be tied to each other")
        if name == other or other in self.ties:
            raise OptionError(f"{name} is tied to {other}; tie it to an exponent that is not tied itself")
        if name in fixed or name in self.bounds:
            raise OptionError(f"{name} is tied to {other} and must not be fixed or bounded too; constrain {other}")

    def limits(self, parameter: Parameter) -> Bounds:
        """Bounds of a free parameter."""
        return self.bounds.get(parameter.name, parameter.natural_bounds)


def _split(text: str, example: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals and value):
        raise OptionError(f"{text!r} is not NAME=VALUE; write for example {example}")
    return name, value


def _number(value: str, text: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise OptionError(f"{text!r}: {value!r} is not a number") from None
