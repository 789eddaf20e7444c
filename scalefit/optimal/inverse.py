"""What a loss takes: the tokens, the parameters or the compute that reach it.

The column x of the term T = c' (x - s)^-alpha that is left open follows from the others,

    T^q = (L - L0)^q - sum_others T_k^q,    x = s + (c' / T)^(1 / alpha),                        (1)

and there is none where the right-hand side is not positive: the loss is out of reach.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError, ScalefitWarning
from scalefit.optimal.compute import Cost, best_sizes, cost_of_runs, least_compute
from scalefit.optimal.sweep import central_interval
from scalefit.optimal.tradeoff import coupling
from scalefit.uncertainty.samples import Samples, check_level

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["Requirement", "needed_for_loss"]

Array = NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True)
class Requirement:
    """What reaching a loss takes.

    Attributes
    ----------
    loss : float
        The target, nats per token.
    at : mapping of str to float
        The columns that were given.
    needed : mapping of str to float
        The column that was left open, or `flops`, `params` and `tokens` of the cheapest run; inf where the loss is out
        of reach.
    intervals : mapping of str to (mapping of str to (float, float))
        By method; inf where draws do not reach the loss.
    unreached : mapping of str to float
        By method, the share of draws that do not reach it.
    level : float
    warnings : tuple of ScalefitWarning
    """

    loss: float
    at: Mapping[str, float]
    needed: Mapping[str, float]
    intervals: Mapping[str, Mapping[str, Interval]]
    unreached: Mapping[str, float]
    level: float
    warnings: tuple[ScalefitWarning, ...]

    @property
    def reachable(self) -> bool:
        """Whether the fitted law reaches the loss."""
        return all(math.isfinite(value) for value in self.needed.values())


def needed_for_loss(
    fit: Fit,
    loss: float,
    at: Mapping[str, float] | None = None,
    draws: Samples | Iterable[Samples] = (),
    *,
    cost: Cost | None = None,
    level: float = 0.95,
) -> Requirement:
    """Find the tokens, the parameters, or the least compute, at which the law reaches a loss.

    Parameters
    ----------
    fit : Fit
    loss : float
        Target, nats per token.
    at : mapping of str to float, optional
        All columns of the law but one, whose value is found. Without any, for a law in params and tokens, the
        cheapest run.
    draws : Samples or several, optional
    cost : Cost, optional
        Of the cheapest run; 6 N D by default.
    level : float

    Raises
    ------
    OptionError
        If the loss is no positive number, or other columns are given.

    Examples
    --------
    >>> import scalefit as sf
    >>> chinchilla = sf.fit(sf.load_dataset("chinchilla").drop_worst(5), "params+tokens", objective="log-huber:1e-3")
    >>> found = needed_for_loss(chinchilla, 2.0, {"params": 7e10})
    >>> f"{found.needed['tokens']:.3g}"
    '6.08e+11'
    """
    check_level(level)
    at = dict(at or {})
    if not (math.isfinite(loss) and loss > 0):
        raise OptionError(f"the target loss is {loss:g} and must be a positive number")
    for name, value in at.items():
        if name not in fit.law.columns:
            raise OptionError(f"the law {fit.law} has no column {name!r}; it has {', '.join(fit.law.columns)}")
        if not (math.isfinite(value) and value > 0):
            raise OptionError(f"{name} is {value:g} and must be a positive number")
    missing = [name for name in fit.law.columns if name not in at]
    cheapest = not at and set(missing) == {"params", "tokens"}
    if len(missing) != 1 and not cheapest:
        raise OptionError(
            f"the law {fit.law} has the columns {', '.join(fit.law.columns)}; give all but the one to find, "
            f"and {', '.join(at) or 'none'} is given"
        )
    cost = cost or cost_of_runs()

    def solve(params: Any) -> dict[str, Array]:
        if cheapest:
            return _cheapest(fit, params, loss, cost)
        return {missing[0]: _open_column(fit, params, loss, at, missing[0])}

    needed = {name: float(x[0]) for name, x in solve(fit.params).items()}
    sets = (draws,) if isinstance(draws, Samples) else tuple(draws)
    intervals, unreached = {}, {}
    for samples in sets:
        found = solve(samples)
        intervals[samples.method] = MappingProxyType({name: central_interval(x, level) for name, x in found.items()})
        unreached[samples.method] = float(np.mean([~np.isfinite(x) for x in found.values()]))
    doubts = [warning for samples in sets for warning in samples.warnings]
    if not all(map(math.isfinite, needed.values())):
        doubts.insert(0, _unreachable(fit, loss, at))
    return Requirement(
        loss=loss,
        at=MappingProxyType(at),
        needed=MappingProxyType(needed),
        intervals=MappingProxyType(intervals),
        unreached=MappingProxyType(unreached),
        level=level,
        warnings=tuple(doubts),
    )


def _cheapest(fit: Fit, params: Any, loss: float, cost: Cost) -> dict[str, Array]:
    compute = least_compute(fit.law, params, loss, cost)
    reached = np.isfinite(compute)
    found = best_sizes(fit.law, params, np.exp(np.where(reached, compute, math.log(1e20))), cost)
    sizes = {"flops": compute, "params": found.log_params, "tokens": found.log_tokens}
    return {name: np.where(reached, np.exp(np.where(reached, x, 0.0)), np.inf) for name, x in sizes.items()}


def _open_column(fit: Fit, params: Any, loss: float, at: Mapping[str, float], column: str) -> Array:
    """Equation (1) for each draw."""
    law = fit.law
    names = law.parameter_names
    values: dict[str, Any] = {name: np.atleast_1d(np.asarray(params[name], dtype=np.float64)) for name in names}
    term = law.factors[law.columns.index(column)]
    k = law.owners[law.columns.index(column)]
    q = np.asarray(coupling(law, values), dtype=np.float64)
    unit = {**at, column: 1.0 + term.shift}
    terms = list(law.term_values({name: np.asarray(x) for name, x in unit.items()}, values).values())
    rest = sum((x**q for i, x in enumerate(terms) if i != k), start=np.zeros(()))
    floor = values["L0"] if law.irreducible else np.zeros(())
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = (loss - floor) ** q - rest
        x = term.shift + (terms[k] / wanted ** (1 / q)) ** (1 / values[term.exponent])
    return np.where(np.isfinite(x) & (wanted > 0), x, np.inf)


def _unreachable(fit: Fit, loss: float, at: Mapping[str, float]) -> ScalefitWarning:
    floor = fit.params.get("L0", 0.0)
    given = "".join(f", {name} {value:.4g}" for name, value in at.items())
    return ScalefitWarning(
        "unreachable-loss",
        f"no run of the fitted law reaches a loss of {loss:g}: its irreducible loss is {floor:.4g}{given}.",
        "Ask for a higher loss, or give larger values of the other columns.",
        {"loss": loss, "L0": floor},
    )
