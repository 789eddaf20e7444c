"""The best shape for one budget, with what is known of it: intervals, flatness, neighbours, distance from the table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError, ScalefitWarning
from scalefit.identifiability import Verdict
from scalefit.optimal.budget import Budget, Serving, Space
from scalefit.optimal.neighbours import FeasibleShape, Flatness, Rounding, feasible_shapes, flatness
from scalefit.optimal.remarks import explain, not_determined
from scalefit.optimal.search import AT_LIMIT, Shapes, best_at_ratio, find_shapes
from scalefit.optimal.sweep import ShapeIntervals, analytic_intervals, central_interval, quantities
from scalefit.optimal.tradeoff import TermsInLogs, Tradeoff
from scalefit.runs import decades_beyond
from scalefit.uncertainty.samples import Samples, check_level

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["OptimalShape", "optimal_shape"]

Array = NDArray[np.float64]
Interval = tuple[float, float]

BUDGET_STEP = 1e-3
"""Step in ln budget of the local exponents, whose error is of its square."""


@dataclass(frozen=True)
class OptimalShape:
    """The best shape within a budget.

    Attributes
    ----------
    budget : Budget
    count : str
        How parameters and operations were counted.
    serving : Serving
        Where the model is served, which limits of memory and latency depend on.
    determined : bool
        Whether the data determine the parameters that the shape follows from; where not, all numbers are nan.
    width, depth : float
        The real-valued optimum.
    tokens : float
        Training tokens; nan for unlimited ones.
    ratio : float
        width / depth.
    loss : float
        Predicted loss, nats per token.
    params, flops : float
        By the count; `flops` of the whole training.
    tokens_per_param : float
        nan for unlimited tokens.
    exponents : mapping of str to float
        Local exponents of width, depth, tokens, ratio and params against the budget (the compute, where it is one).
    flatness : Flatness or None
    feasible : tuple of FeasibleShape
        The best shapes that can be built, best first.
    by_method : tuple of ShapeIntervals
        One for each set of draws, or by the fit's own errors where there are none.
    binding : tuple of str
        Limits that hold with equality, where the budget has several.
    at_edge : tuple of str
        Of width, depth and tokens, those that end at their range.
    decades : mapping of str to float
        By how many powers of ten width, depth, tokens and params (by the count) lie beyond the table: positive
        above its largest, negative below its smallest, 0 inside.
    warnings : tuple of ScalefitWarning
        Of the shape and of the draws.
    """

    budget: Budget
    count: str
    serving: Serving
    determined: bool
    width: float = math.nan
    depth: float = math.nan
    tokens: float = math.nan
    ratio: float = math.nan
    loss: float = math.nan
    params: float = math.nan
    tokens_per_param: float = math.nan
    flops: float = math.nan
    exponents: Mapping[str, float] = field(default_factory=dict)
    flatness: Flatness | None = None
    feasible: tuple[FeasibleShape, ...] = ()
    by_method: tuple[ShapeIntervals, ...] = ()
    binding: tuple[str, ...] = ()
    at_edge: tuple[str, ...] = ()
    decades: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[ScalefitWarning, ...] = ()

    @property
    def intervals(self) -> Mapping[str, Interval]:
        """Intervals by the first set of draws, or by the fit's own errors."""
        return self.by_method[0].intervals if self.by_method else MappingProxyType({})


def optimal_shape(
    fit: Fit,
    budget: Budget | None = None,
    draws: Samples | Iterable[Samples] = (),
    *,
    space: Space | None = None,
    rounding: Rounding | None = None,
    level: float = 0.95,
    **limits: float,
) -> OptimalShape:
    """Find the width, depth and tokens with the lowest predicted loss within a budget.

    Parameters
    ----------
    fit : Fit
        A law in width, depth and tokens, or some of them.
    budget : Budget, optional
        Or its limits as keywords: ``optimal_shape(fit, params=1e9)``.
    draws : Samples or several, optional
        Draws of the law's parameters, for intervals; without them intervals are those of the fit's own errors.
    space : Space, optional
        The count of parameters and operations, where the model is served, and ranges of shapes.
    rounding : Rounding, optional
        What shapes that can be built are multiples of.
    level : float
        Confidence level of the intervals.

    Returns
    -------
    OptimalShape
        With `determined` false and no numbers where the data do not determine what the shape follows from.

    Raises
    ------
    OptionError
        If a limit is not positive or below the smallest model, the law says nothing of the shape, or both a budget
        and limits are given.

    Examples
    --------
    >>> import scalefit as sf
    >>> chinchilla = sf.fit(sf.load_dataset("chinchilla").drop_worst(40))
    >>> best = optimal_shape(chinchilla, params=1e10)
    >>> round(best.width), round(best.depth), round(best.ratio, 1)
    (4085, 50, 81.8)
    """
    check_level(level)
    if budget is not None and limits:
        raise OptionError(f"give either a budget or its limits ({', '.join(limits)}) as keywords, not both")
    budget = budget or Budget(**limits)
    space, rounding = space or Space(), rounding or Rounding()
    tradeoff = Tradeoff(TermsInLogs.of(fit.law, fit.params), budget, space)
    sets = (draws,) if isinstance(draws, Samples) else tuple(draws)
    columns = ("width", "depth", "tokens") if tradeoff.tokens_follow else ("width", "depth")
    names = [n for t in fit.law.factors if t.column in columns for n in (fit.law.term_of(t).coefficient, t.exponent)]
    if loose := tuple(name for name in names if fit.verdicts.get(name) is Verdict.NOT_DETERMINED):
        undetermined = OptimalShape(budget, space.count.name, space.serving, determined=False)
        return replace(undetermined, warnings=(not_determined("shape", loose),))
    best = find_shapes(tradeoff)

    def evaluate(params: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
        moved = Tradeoff(TermsInLogs.of(fit.law, params), budget, space)
        shapes = find_shapes(moved)
        return quantities(shapes, space.count), _exponents(moved, shapes)

    values: dict[str, Any] = {name: float(value[0]) for name, value in quantities(best, space.count).items()}
    binding = [x.name for x in tradeoff.limits if x.excess(best.log_width, best.log_depth)[0] > -1e-7]
    if tradeoff.tokens_follow and best.log_tokens is not None:
        paid = tradeoff.affordable(best.log_width, best.log_depth)
        binding += ["flops"] if paid[0] <= best.log_tokens[0] + AT_LIMIT else []
    far = {n: float(fit.runs.decades_beyond(n, values[n])) for n in ("width", "depth", "tokens") if n in fit.runs}
    if "width" in fit.runs and "depth" in fit.runs:
        sizes = space.count.params(fit.runs["width"], fit.runs["depth"])
        far["params"] = float(decades_beyond(sizes, values["params"]))
    shape = OptimalShape(
        budget=budget,
        count=space.count.name,
        serving=space.serving,
        determined=True,
        **values,
        flops=float(space.count.train(values["width"], values["depth"], values["tokens"])),
        exponents=MappingProxyType({name: float(e[0]) for name, e in _exponents(tradeoff, best).items()}),
        flatness=flatness(tradeoff, float(best.log_ratio[0])),
        feasible=feasible_shapes(tradeoff, float(best.log_width[0]), values["loss"], rounding),
        by_method=tuple(_intervals(tradeoff, fit, samples, level) for samples in sets)
        or (analytic_intervals(fit, evaluate, level),),
        binding=tuple(dict.fromkeys(binding)),
        at_edge=tuple(name for name, there in edges(tradeoff, best).items() if there[0]),
        decades=MappingProxyType({name: decades for name, decades in far.items() if math.isfinite(decades)}),
    )
    doubts = [warning for samples in sets for warning in samples.warnings]
    return replace(shape, warnings=(*explain(shape, fit, rounding), *doubts))


def _exponents(tradeoff: Tradeoff, at: Shapes) -> dict[str, Array]:
    """d ln x / d ln budget by a one-sided difference of second order: the budget below may not exist."""
    steps = [Tradeoff(tradeoff.law, tradeoff.budget.times(math.exp(i * BUDGET_STEP)), tradeoff.space) for i in (1, 2)]
    near, far = (find_shapes(step, (at.log_width, at.log_depth)) for step in steps)

    def rate(x0: Array, x1: Array, x2: Array) -> Array:
        return np.asarray((4 * x1 - 3 * x0 - x2) / (2 * BUDGET_STEP))

    size = tradeoff.space.count.params
    rates = {
        "params": rate(*(size.log(shapes.log_width, shapes.log_depth) for shapes in (at, near, far))),
        "width": rate(at.log_width, near.log_width, far.log_width),
        "depth": rate(at.log_depth, near.log_depth, far.log_depth),
        "tokens": np.full(len(tradeoff.law), np.nan),
        "ratio": rate(at.log_ratio, near.log_ratio, far.log_ratio),
    }
    if at.log_tokens is not None and near.log_tokens is not None and far.log_tokens is not None:
        rates["tokens"] = rate(at.log_tokens, near.log_tokens, far.log_tokens)
    return rates


def _intervals(tradeoff: Tradeoff, fit: Fit, samples: Samples, level: float) -> ShapeIntervals:
    drawn = Tradeoff(TermsInLogs.of(fit.law, samples), tradeoff.budget, tradeoff.space)
    shapes = find_shapes(drawn)
    spread = quantities(shapes, tradeoff.space.count)
    for name, factor in (("halved", 0.5), ("doubled", 2.0)):
        spread[name] = best_at_ratio(drawn, shapes.log_ratio + math.log(factor)).loss / shapes.loss - 1
    edge = np.logical_or.reduce(list(edges(drawn, shapes).values()))
    return ShapeIntervals(
        method=samples.method,
        level=level,
        intervals=MappingProxyType({name: central_interval(x, level) for name, x in spread.items()}),
        exponents=MappingProxyType({n: central_interval(x, level) for n, x in _exponents(drawn, shapes).items()}),
        at_edge=float(edge.mean()),
    )


def edges(tradeoff: Tradeoff, shapes: Shapes) -> dict[str, NDArray[np.bool_]]:
    """Which draws' width, depth or tokens stand at the end of their range."""
    found = {}
    for name, x, ends in (
        ("width", shapes.log_width, tradeoff.v_range),
        ("depth", shapes.log_depth, tradeoff.u_range),
        ("tokens", shapes.log_tokens, tuple(map(math.log, tradeoff.space.tokens))),
    ):
        if x is not None and (name != "tokens" or tradeoff.tokens_follow):
            found[name] = (x <= ends[0] + AT_LIMIT) | (x >= ends[1] - AT_LIMIT)
    return found
