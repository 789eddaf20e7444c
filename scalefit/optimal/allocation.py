"""How many parameters and tokens a compute budget is best spent on, with what is known of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefit.errors import OptionError, ScalefitWarning
from scalefit.fitting.fit import Fit
from scalefit.identifiability import Verdict
from scalefit.optimal.compute import MOST, BestSizes, Cost, best_sizes, cost_of_runs, losses_at_ratio
from scalefit.optimal.remarks import WORTH_SAYING
from scalefit.optimal.shape import ShapeIntervals
from scalefit.optimal.sweep import central_interval
from scalefit.prediction import decades_beyond
from scalefit.uncertainty.samples import Samples, check_level

__all__ = ["Allocation", "AtRatio", "optimal_allocation"]

Array = NDArray[np.float64]
Interval = tuple[float, float]
Range = tuple[float, float]

QUANTITIES = ("params", "tokens", "tokens_per_param", "loss")


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
        One for each set of draws.
    at_ratios : tuple of AtRatio
    decades : mapping of str to float
        Powers of ten by which params and tokens lie beyond the table.
    warnings : tuple of ScalefitWarning
    """

    budget: float
    cost: str
    determined: bool
    params: float
    tokens: float
    tokens_per_param: float
    loss: float
    exponents: Mapping[str, float]
    by_method: tuple[ShapeIntervals, ...]
    at_ratios: tuple[AtRatio, ...]
    decades: Mapping[str, float]
    warnings: tuple[ScalefitWarning, ...] = ()

    @property
    def intervals(self) -> Mapping[str, Interval]:
        """Intervals by the first set of draws; empty without draws."""
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
        Draws of the law's parameters, for intervals.
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
        return replace(_bare(flops, cost, dict.fromkeys(QUANTITIES, math.nan)), warnings=(_not_determined(open_names),))
    drawn = [best_sizes(fit.law, samples, flops, cost, ranges) for samples in sets]
    values = {name: float(x[0]) for name, x in _plain(found).items()}
    allocation = replace(
        _bare(flops, cost, values),
        determined=True,
        exponents=MappingProxyType({name: float(x[0]) for name, x in _rates(found).items()}),
        by_method=tuple(_intervals(s, sizes, level) for s, sizes in zip(sets, drawn, strict=True)),
        at_ratios=tuple(
            _at_ratio(fit, flops, cost, ratio, (sets[0], drawn[0].loss) if sets else None, level)
            for ratio in tokens_per_param
        ),
        decades=MappingProxyType({n: float(decades_beyond(values[n], fit.runs[n])) for n in ("params", "tokens")}),
    )
    doubts = [warning for samples in sets for warning in samples.warnings]
    return replace(allocation, warnings=(*_explain(allocation, bool(found.at_end[0])), *doubts))


def _bare(flops: float, cost: Cost, values: Mapping[str, float]) -> Allocation:
    """The numbers alone."""
    nothing: Mapping[str, float] = MappingProxyType({})
    return Allocation(
        budget=flops,
        cost=cost.name,
        determined=False,
        params=values["params"],
        tokens=values["tokens"],
        tokens_per_param=values["tokens_per_param"],
        loss=values["loss"],
        exponents=nothing,
        by_method=(),
        at_ratios=(),
        decades=nothing,
    )


def _plain(found: BestSizes) -> dict[str, Array]:
    """Quantities of each draw in plain units."""
    with np.errstate(over="ignore"):
        n, d = np.exp(found.log_params), np.exp(found.log_tokens)
        return {"params": n, "tokens": d, "tokens_per_param": d / n, "loss": found.loss}


def _rates(found: BestSizes) -> dict[str, Array]:
    return {"params": found.exponent, "tokens": found.token_exponent}


def _intervals(samples: Samples, found: BestSizes, level: float) -> ShapeIntervals:
    return ShapeIntervals(
        method=samples.method,
        level=level,
        intervals=MappingProxyType({name: central_interval(x, level) for name, x in _plain(found).items()}),
        exponents=MappingProxyType({name: central_interval(x, level) for name, x in _rates(found).items()}),
        at_edge=float(found.at_end.mean()),
    )


def _at_ratio(
    fit: Fit, flops: float, cost: Cost, ratio: float, drawn: tuple[Samples, Array] | None, level: float
) -> AtRatio:
    best: ArrayLike = best_sizes(fit.law, fit.params, flops, cost).loss
    n, w, loss = (float(x[0]) for x in losses_at_ratio(fit.law, fit.params, flops, cost, ratio))
    interval = (float("nan"), float("nan"))
    if drawn is not None:
        samples, least = drawn
        interval = central_interval(losses_at_ratio(fit.law, samples, flops, cost, ratio)[2] / least - 1, level)
    return AtRatio(ratio, math.exp(n), math.exp(w), loss, loss / float(np.asarray(best)[0]) - 1, interval)


def _not_determined(names: tuple[str, ...]) -> ScalefitWarning:
    return ScalefitWarning(
        "allocation-not-determined",
        f"the best size follows from {', '.join(names)}, which the data do not determine, so that none is given.",
        "Train the runs that `scalefit suggest` names, fix the parameters at known values, or fit a smaller law.",
        {"parameters": list(names)},
    )


def _explain(found: Allocation, at_end: bool) -> list[ScalefitWarning]:
    """What limits the meaning of the answer."""
    remarks = []
    if at_end:
        remarks.append(
            ScalefitWarning(
                "optimum-at-edge",
                f"the best size stands at the end of a range, {found.params:.4g} parameters and {found.tokens:.4g} "
                "tokens: this is no optimum of the law.",
                "Widen the range with --range params=LOW:HIGH or tokens=LOW:HIGH.",
                {"params": found.params, "tokens": found.tokens},
            )
        )
    far = {name: d for name, d in found.decades.items() if abs(d) >= WORTH_SAYING}
    if far:
        parts = [
            f"{name} {getattr(found, name):.4g} lies {abs(d):.1f} decades {'above' if d > 0 else 'below'}"
            for name, d in far.items()
        ]
        remarks.append(
            ScalefitWarning(
                "extrapolates",
                f"the answer extrapolates: {', '.join(parts)} the runs of the table.",
                "Nothing in the table checks the law there; the interval assumes that it holds. Fit again with other "
                "rows left out (--drop-worst), which moves the answer more than the interval says.",
                {"decades": {name: round(d, 4) for name, d in far.items()}},
            )
        )
    return remarks
