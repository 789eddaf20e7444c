"""How many parameters and tokens a compute budget is best spent on, with what is known of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError, ScalefitWarning
from scalefit.identifiability import Verdict
from scalefit.optimal.compute import MOST, BestSizes, Cost, best_sizes, cost_of_runs, losses_at_ratio
from scalefit.optimal.remarks import extrapolates, not_determined
from scalefit.optimal.sweep import ShapeIntervals, analytic_intervals, central_interval
from scalefit.uncertainty.samples import Samples, check_level

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["Allocation", "AtRatio", "optimal_allocation"]

Array = NDArray[np.float64]
Interval = tuple[float, float]
Range = tuple[float, float]

ROWS_MATTER = (
    "Nothing in the table checks the law there; the interval assumes that it holds. Fit again with other rows left out "
    "(--drop-worst), which moves the answer more than the interval says."
)


@dataclass(frozen=True)
class AtRatio:
    """A budget spent at a given number of tokens a parameter.

    Attributes
    ----------
    tokens_per_param, params, tokens, loss : float
    excess : float
        By which share the loss exceeds the best one.
    interval : (float, float)
        Of the excess, by the first set of draws; nan without draws.
    """

    tokens_per_param: float
    params: float
    tokens: float
    loss: float
    excess: float
    interval: Interval


@dataclass(frozen=True)
class Allocation:
    """The best parameters and tokens for a compute budget.

    Attributes
    ----------
    budget : float
        Compute, floating-point operations.
    cost : str
        What a run costs, in words.
    determined : bool
        Whether the data determine the parameters that the answer follows from; where not, all numbers are nan.
    params, tokens, tokens_per_param : float
    loss : float
        Predicted, nats per token.
    exponents : mapping of str to float
        d ln N* / d ln C as `params`, d ln D* / d ln C as `tokens`.
    by_method : tuple of ShapeIntervals
        One for each set of draws, or by the fit's own errors where there are none.
    at_ratios : tuple of AtRatio
    decades : mapping of str to float
        Powers of ten by which params and tokens lie beyond the table.
    warnings : tuple of ScalefitWarning
    """

    budget: float
    cost: str
    determined: bool
    params: float = math.nan
    tokens: float = math.nan
    tokens_per_param: float = math.nan
    loss: float = math.nan
    exponents: Mapping[str, float] = field(default_factory=dict)
    by_method: tuple[ShapeIntervals, ...] = ()
    at_ratios: tuple[AtRatio, ...] = ()
    decades: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[ScalefitWarning, ...] = ()

    @property
    def intervals(self) -> Mapping[str, Interval]:
        """Intervals by the first set of draws, or by the fit's own errors."""
        return self.by_method[0].intervals if self.by_method else MappingProxyType({})


def optimal_allocation(
    fit: Fit,
    flops: float,
    draws: Samples | Iterable[Samples] = (),
    *,
    cost: Cost | None = None,
    tokens_per_param: Sequence[float] = (),
    ranges: tuple[Range, Range] = (MOST, MOST),
    level: float = 0.95,
) -> Allocation:
    """Find the parameters and tokens with the lowest predicted loss for a compute budget.

    Parameters
    ----------
    fit : Fit
        A law in params and tokens.
    flops : float
        Compute of training, and of serving where the cost counts it.
    draws : Samples or several, optional
        Draws of the law's parameters, for intervals; without them intervals are those of the fit's own errors.
    cost : Cost, optional
        What a run costs; 6 N D by default. See `cost_of_runs` and `parse_cost`.
    tokens_per_param : sequence of float
        Ratios whose cost in loss is asked for.
    ranges : (float, float), (float, float)
        Of parameters and of tokens.
    level : float

    Raises
    ------
    OptionError
        If the law has other columns, or the budget is no positive number or below the smallest run.

    Examples
    --------
    >>> import scalefit as sf
    >>> table = sf.load_dataset("chinchilla").drop_worst(5)
    >>> best = optimal_allocation(sf.fit(table, "params+tokens", objective="log-huber:1e-3"), 5.76e23)
    >>> f"{best.params:.3g} {best.tokens:.4g} {best.tokens_per_param:.1f} C^{best.exponents['params']:.3f}"
    '7.32e+10 1.312e+12 17.9 C^0.514'
    """
    check_level(level)
    for ratio in tokens_per_param:
        if not (math.isfinite(ratio) and ratio > 0):
            raise OptionError(f"tokens per parameter is {ratio:g} and must be a positive number")
    cost = cost or cost_of_runs()
    sets = (draws,) if isinstance(draws, Samples) else tuple(draws)
    found = best_sizes(fit.law, fit.params, flops, cost, ranges)
    open_names = tuple(
        p.name for p in fit.law.parameters if not p.is_floor and fit.verdicts.get(p.name) is Verdict.NOT_DETERMINED
    )
    if open_names:
        return Allocation(flops, cost.name, determined=False, warnings=(not_determined("allocation", open_names),))
    drawn = [best_sizes(fit.law, samples, flops, cost, ranges) for samples in sets]

    def evaluate(params: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
        sizes = best_sizes(fit.law, params, flops, cost, ranges)
        return _plain(sizes), {"params": sizes.exponent, "tokens": sizes.token_exponent}

    values: dict[str, Any] = {name: float(x[0]) for name, x in _plain(found).items()}
    ratios = []
    for ratio in tokens_per_param:
        n, w, loss = (float(x[0]) for x in losses_at_ratio(fit.law, fit.params, flops, cost, ratio))
        interval = (math.nan, math.nan)
        if sets:
            interval = central_interval(
                losses_at_ratio(fit.law, sets[0], flops, cost, ratio)[2] / drawn[0].loss - 1, level
            )
        ratios.append(AtRatio(ratio, math.exp(n), math.exp(w), loss, loss / values["loss"] - 1, interval))
    allocation = Allocation(
        budget=flops,
        cost=cost.name,
        determined=True,
        **values,
        exponents=MappingProxyType({"params": float(found.exponent[0]), "tokens": float(found.token_exponent[0])}),
        by_method=tuple(_intervals(s, sizes, level) for s, sizes in zip(sets, drawn, strict=True))
        or (analytic_intervals(fit, evaluate, level),),
        at_ratios=tuple(ratios),
        decades=MappingProxyType({n: float(fit.runs.decades_beyond(n, values[n])) for n in ("params", "tokens")}),
    )
    remarks = []
    if found.at_end[0]:
        remarks.append(
            ScalefitWarning(
                "optimum-at-edge",
                f"the best size stands at the end of a range, {allocation.params:.4g} parameters and "
                f"{allocation.tokens:.4g} tokens: this is no optimum of the law.",
                "Widen the range with --range params=LOW:HIGH or tokens=LOW:HIGH.",
                {"params": allocation.params, "tokens": allocation.tokens},
            )
        )
    remarks += extrapolates("the answer", allocation, ROWS_MATTER)
    return replace(allocation, warnings=(*remarks, *(warning for samples in sets for warning in samples.warnings)))


def _plain(found: BestSizes) -> dict[str, Array]:
    """Quantities of each draw in plain units."""
    with np.errstate(over="ignore"):
        n, d = np.exp(found.log_params), np.exp(found.log_tokens)
        return {"params": n, "tokens": d, "tokens_per_param": d / n, "loss": found.loss}


def _intervals(samples: Samples, found: BestSizes, level: float) -> ShapeIntervals:
    return ShapeIntervals(
        method=samples.method,
        level=level,
        intervals=MappingProxyType({name: central_interval(x, level) for name, x in _plain(found).items()}),
        exponents=MappingProxyType(
            {
                "params": central_interval(found.exponent, level),
                "tokens": central_interval(found.token_exponent, level),
            }
        ),
        at_edge=float(found.at_end.mean()),
    )
