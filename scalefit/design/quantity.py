"""The quantities that next runs can be chosen for: parameters, best shapes, losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scalefit.errors import OptionError
from scalefit.expressions import did_you_mean
from scalefit.laws.law import Law
from scalefit.optimal.budget import Budget, Space, read_number
from scalefit.optimal.search import find_shapes
from scalefit.optimal.tradeoff import TermsInLogs, Tradeoff

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["Quantity", "parse_quantity", "usual_quantity"]

SHAPE = ("ratio", "width", "depth", "tokens")


@dataclass(frozen=True)
class Quantity:
    """A function of a law's parameters.

    Attributes
    ----------
    name : str
        As written: ``"alpha_depth"``, ``"ratio@params=1e10"``, ``"loss@width=4096,depth=40,tokens=1e12"``.
    log : bool
        Whether its errors are taken in ln, so that its interval is a factor.
    value : callable
        Parameters in plain units to the quantity, in ln where `log` is true.
    """

    name: str
    log: bool
    value: Callable[[Mapping[str, float]], float]

    def plain(self, value: float) -> float:
        """Take a value from the scale of `value` to plain units."""
        if not self.log:
            return value
        return math.exp(value) if value < 700 else math.inf


def usual_quantity(fit: Fit) -> str:
    """The exponent that most tables leave open: that of depth, else the one least sure for its size."""
    exponents = [p.name for p in fit.law.parameters if p.is_exponent]
    if "alpha_depth" in exponents:
        return "alpha_depth"
    doubt = {name: fit.standard_errors[name] / fit.params[name] for name in exponents}
    # An error that is not known, as of an exponent at its bound, is the largest doubt there is.
    return max(exponents, key=lambda name: doubt[name] if math.isfinite(doubt[name]) else math.inf)


def parse_quantity(text: str, fit: Fit, space: Space | None = None) -> Quantity:
    """Read a quantity of a fitted law.

    Parameters
    ----------
    text : str
        A parameter; ``QUANTITY@BUDGET=VALUE`` with ratio, width, depth or tokens of the best shape and the budgets of
        `Budget`; or ``loss@COLUMN=VALUE,...`` with every column of the law.
    fit : Fit
    space : Space, optional
        The count for budgets.

    Raises
    ------
    OptionError
        If it is none of these.
    """
    name, at, settings = (part.strip() for part in text.partition("@"))
    law = fit.law
    if not at and name in law.parameter_names:
        if name in fit.constraints.fixed:
            raise OptionError(f"{name} is fixed, so that no run would change it; choose a parameter that is estimated")
        parameter = law.parameter(name)
        return Quantity(text, parameter.in_logs, lambda params: float(parameter.inner(params[name])))
    if name == "loss" and at:
        return _loss(text, law, _settings(settings, text))
    if name in SHAPE and at:
        return _shape(text, name, law, _settings(settings, text), space or Space())
    known = [*law.parameter_names, "loss@...", *(f"{shape}@..." for shape in SHAPE)]
    parameters = ", ".join(law.parameter_names)
    raise OptionError(
        f"there is no quantity {text!r}{did_you_mean(name, known)}; write a parameter ({parameters}), "
        "ratio@params=1e10 or another part of a best shape, or loss@ with every column of the law"
    )


def _settings(text: str, quantity: str) -> dict[str, float]:
    values = {}
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        try:
            values[name] = read_number(value)
        except ValueError:
            raise OptionError(f"quantity {quantity!r}: {part.strip()!r} is not NAME=NUMBER") from None
        if not (math.isfinite(values[name]) and values[name] > 0):
            raise OptionError(f"quantity {quantity!r}: {name} is {value} and must be positive")
    return values


def _loss(text: str, law: Law, point: dict[str, float]) -> Quantity:
    if set(point) != set(law.columns):
        raise OptionError(f"quantity {text!r} has to give exactly the columns of the law: {', '.join(law.columns)}")
    columns = {name: np.array([x]) for name, x in point.items()}
    return Quantity(text, True, lambda params: math.log(law.predict(columns, params)[0]))


def _shape(text: str, name: str, law: Law, limits: dict[str, float], space: Space) -> Quantity:
    try:
        budget = Budget(**limits)
    except TypeError:
        raise OptionError(f"quantity {text!r}: budgets are params, flops, memory, latency and tokens") from None
    if name == "tokens" and (budget.flops is None or budget.tokens is not None):
        raise OptionError(f"quantity {text!r}: tokens follow from a compute budget; give flops")

    def value(params: Mapping[str, float]) -> float:
        shapes = find_shapes(Tradeoff(TermsInLogs.of(law, params), budget, space))
        found = {"ratio": shapes.log_ratio, "width": shapes.log_width, "depth": shapes.log_depth}
        chosen = shapes.log_tokens if name == "tokens" else found[name]
        assert chosen is not None
        return float(chosen[0])

    return Quantity(text, True, value)
