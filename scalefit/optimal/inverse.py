"""What a loss takes: tokens, parameters or compute for a target, and the compute that one recipe saves over another.

The column x of the term T = c' (x - s)^-alpha that is left open follows from the others,

    T^q = (L - L0)^q - sum_others T_k^q,    x = s + (c' / T)^(1 / alpha),                        (1)

and there is none where the right-hand side is not positive: the loss is out of reach.

The effective speed-up of recipe B over A at a compute C is what A would have to spend for B's loss,

    S(C) = C_A(L_B(C)) / C,    each at its best N and D,                                         (2)

so that 1 means no gain and 2 half the compute.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefit.errors import OptionError, ScalefitWarning
from scalefit.fitting.fit import Fit
from scalefit.optimal.compute import Cost, best_sizes, cost_of_runs, least_compute
from scalefit.optimal.sweep import central_interval
from scalefit.optimal.tradeoff import coupling
from scalefit.uncertainty.samples import Samples, check_level

__all__ = ["Requirement", "SpeedUp", "SpeedUpAt", "are_paired", "needed_for_loss", "shared_budgets", "speed_up"]

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


@dataclass(frozen=True)
class SpeedUpAt:
    """Recipe B against A at one compute.

    Attributes
    ----------
    flops : float
    loss_a, loss_b : float
        Each at its best N and D.
    speed_up : float
        Equation (2); inf where A never reaches B's loss.
    interval : (float, float)
    probability : float
        Share of the draws in which B has the lower loss.
    """

    flops: float
    loss_a: float
    loss_b: float
    speed_up: float
    interval: Interval
    probability: float


@dataclass(frozen=True)
class SpeedUp:
    """Recipe B against A along compute.

    Attributes
    ----------
    at : tuple of SpeedUpAt
    cost, method : str
    level : float
    paired : bool
        Whether the tables match row by row, so that draws resample the same rows of both.
    warnings : tuple of ScalefitWarning
    """

    at: tuple[SpeedUpAt, ...]
    cost: str
    method: str
    level: float
    paired: bool
    warnings: tuple[ScalefitWarning, ...] = ()


def are_paired(a: Fit, b: Fit) -> bool:
    """Whether two tables hold the same configurations row by row."""
    names = [name for name in a.law.columns if name in b.law.columns]
    return len(a.runs) == len(b.runs) and all(np.array_equal(a.runs[name], b.runs[name]) for name in names)


def shared_budgets(a: Fit, b: Fit, n: int = 4) -> tuple[float, ...]:
    """Computes in equal ratios over what the runs of both tables spent.

    Raises
    ------
    OptionError
        If a law has other columns than params and tokens, or no compute lies within both tables.
    """
    for fit in (a, b):
        if set(fit.law.columns) != {"params", "tokens"}:
            raise OptionError(f"the law {fit.law} is not one in params and tokens, which recipes are compared by")
    spent = [6 * f.runs["params"] * f.runs["tokens"] for f in (a, b)]
    low, high = max(x.min() for x in spent), min(x.max() for x in spent)
    if not low < high:
        raise OptionError("the two tables share no range of compute; name budgets with --flops")
    return tuple(np.geomspace(low, high, n).tolist())


def speed_up(
    a: Fit,
    b: Fit,
    budgets: Sequence[float],
    draws: tuple[Samples, Samples] | None = None,
    *,
    cost: Cost | None = None,
    level: float = 0.95,
) -> SpeedUp:
    """Find the compute that recipe A needs for the loss of recipe B, over B's own.

    Parameters
    ----------
    a, b : Fit
        Laws in params and tokens of the two recipes' runs, with losses on the same text in the same unit.
    budgets : sequence of float
        Computes.
    draws : (Samples, Samples), optional
        Of A and of B; the i-th of one belongs to the i-th of the other.
    cost : Cost, optional
    level : float

    Raises
    ------
    OptionError
        If a law has other columns, or a budget is no positive number.
    """
    check_level(level)
    cost = cost or cost_of_runs()
    rows = []
    for flops in budgets:
        loss_a, loss_b = (float(best_sizes(f.law, f.params, flops, cost).loss[0]) for f in (a, b))
        interval, probability = (math.nan, math.nan), math.nan
        if draws is not None:
            n = min(len(draws[0].draws), len(draws[1].draws))
            in_a, in_b = (
                {name: samples[name][:n] for name in fit.params} for fit, samples in zip((a, b), draws, strict=True)
            )
            drawn_a, drawn_b = (best_sizes(f.law, p, flops, cost).loss for f, p in ((a, in_a), (b, in_b)))
            interval = central_interval(_ratio(a, in_a, drawn_b, flops, cost), level)
            probability = float(np.mean(drawn_b < drawn_a))
        ratio = float(_ratio(a, a.params, loss_b, flops, cost)[0])
        rows.append(SpeedUpAt(flops, loss_a, loss_b, ratio, interval, probability))
    method = "none" if draws is None else draws[0].method
    doubts = () if draws is None else (*draws[0].warnings, *draws[1].warnings)
    return SpeedUp(tuple(rows), cost.name, method, level, are_paired(a, b), doubts)


def _ratio(a: Fit, params: Any, loss: ArrayLike, flops: float, cost: Cost) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(least_compute(a.law, params, loss, cost) - math.log(flops)))
