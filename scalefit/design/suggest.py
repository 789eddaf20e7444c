"""Which runs to train next: those that shrink the interval of a chosen quantity most.

The fitted law and the scatter s of its residuals give, to first order, the covariance (s^-2 J' W J)^-1 of the
parameters with J the derivatives of t(L) at the runs of the table, and what any further run would add to its inverse.
Rows count as independent, also those of one training run, and the law as true: the expected interval is that of the
formula.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from scalefit.design.candidates import Candidates, candidate_grid, tells_cost
from scalefit.design.information import ASSUMED_EXPONENT, ASSUMED_SIZE, choose_runs, linearise, variance_after
from scalefit.design.quantity import Quantity, parse_quantity, usual_quantity
from scalefit.errors import OptionError, ScalefitWarning
from scalefit.fitting.student import t_quantile
from scalefit.laws.terms import PowerTerm
from scalefit.optimal.budget import Space
from scalefit.uncertainty.samples import check_level

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["SuggestedRun", "Suggestion", "suggest_runs"]

Interval = tuple[float, float]


@dataclass(frozen=True)
class SuggestedRun:
    """One run to train.

    Attributes
    ----------
    point : mapping of str to float
        Its columns, such as width, depth and tokens.
    flops : float
        What it costs.
    expected : (float, float)
        Interval of the quantity expected after this run and those before it; nan where no estimate is known.
    error : float
        Its standard error, in ln for a quantity whose interval is a factor; inf while it is not determined.
    """

    point: Mapping[str, float]
    flops: float
    expected: Interval
    error: float


@dataclass(frozen=True)
class Suggestion:
    """Runs to train next.

    Attributes
    ----------
    quantity : str
    factor : bool
        Whether its standard errors are in ln.
    estimate : float
        By the fit; nan where the table does not determine it.
    level : float
    before, after : (float, float)
        Interval by the formula, with the table alone and with the suggested runs.
    error_before, error_after : float
        Standard errors; inf where the table, or the table with the runs, does not determine the quantity.
    runs : tuple of SuggestedRun
        In the order in which they help most.
    flops : float
        Cost of all of them.
    costed : bool
        Whether the law's columns tell the compute of a run; where not, `flops` counts runs.
    n_candidates : int
    warnings : tuple of ScalefitWarning
    """

    quantity: str
    factor: bool
    estimate: float
    level: float
    before: Interval
    after: Interval
    error_before: float
    error_after: float
    runs: tuple[SuggestedRun, ...]
    flops: float
    costed: bool
    n_candidates: int
    warnings: tuple[ScalefitWarning, ...]


def suggest_runs(
    fit: Fit,
    quantity: str | None = None,
    n_runs: int = 10,
    candidates: Candidates | None = None,
    *,
    budget: float = math.inf,
    space: Space | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Suggestion:
    """Suggest the runs that leave the smallest expected interval of a quantity.

    Parameters
    ----------
    fit : Fit
    quantity : str, optional
        See `parse_quantity`: ``"alpha_depth"``, ``"ratio@params=1e10"``, ``"loss@width=4096,depth=40,tokens=1e12"``;
        by default what `usual_quantity` gives.
    n_runs : int
        Most runs to suggest.
    candidates : Candidates, optional
        What to choose from; a grid inside the table's ranges by default.
    budget : float
        Most compute of all suggested runs together.
    space : Space, optional
        The count of operations, and of parameters for budgets.
    level : float
    seed : int
        Of the random starts of the exchange.

    Raises
    ------
    OptionError
        If the quantity is unknown, or no candidate fits the budget.
    DataError
        If the fit leaves no residuals, so that nothing is known of the scatter.

    Examples
    --------
    >>> import scalefit as sf
    >>> chinchilla = sf.fit(sf.load_dataset("chinchilla").drop_worst(40))
    >>> plan = suggest_runs(chinchilla, "alpha_depth", n_runs=10)
    >>> plan.error_after < 0.5 * plan.error_before
    True
    """
    check_level(level)
    if n_runs < 1:
        raise OptionError(f"n_runs is {n_runs} and must be at least 1")
    if not budget > 0:
        raise OptionError(f"the budget of operations is {budget:g} and must be positive")
    space = space or Space()
    wanted = parse_quantity(quantity or usual_quantity(fit), fit, space)
    candidates = candidates or candidate_grid(fit, count=space.count)
    if candidates.flops.min() > budget:
        raise OptionError(
            f"the budget of {budget:.3g} operations pays for no candidate; the cheapest costs "
            f"{candidates.flops.min():.3g}"
        )
    linear = linearise(fit, wanted, candidates, budget)
    choice = linear.choice
    chosen = choose_runs(choice, n_runs, seed)
    variances = [variance_after(choice, chosen[:i]) for i in range(len(chosen) + 1)]
    errors = [math.sqrt(v) if v <= linear.open_variance else math.inf for v in variances]
    known = math.isfinite(linear.estimate)
    ends = _Ends(wanted, linear.estimate, t_quantile(linear.degrees, (1 + level) / 2))
    columns = candidates.columns
    runs = tuple(
        SuggestedRun(
            MappingProxyType({name: float(x[i]) for name, x in columns.items()}),
            float(candidates.flops[i]),
            ends.interval(variance),
            error,
        )
        for i, variance, error in zip(chosen, variances[1:], errors[1:], strict=True)
    )
    return Suggestion(
        quantity=wanted.name,
        factor=wanted.log,
        estimate=wanted.plain(ends.estimate),
        level=level,
        before=ends.interval(variances[0]),
        after=ends.interval(variances[-1]),
        error_before=errors[0] if known else math.inf,
        error_after=errors[-1],
        runs=runs,
        flops=float(candidates.flops[chosen].sum()),
        costed=tells_cost(columns),
        n_candidates=len(candidates),
        warnings=_remarks(wanted, known, math.isfinite(errors[-1]), linear.assumed),
    )


@dataclass(frozen=True)
class _Ends:
    """Turns variances of a quantity into intervals in plain units; nan around an estimate that is nan."""

    quantity: Quantity
    estimate: float
    quantile: float

    def interval(self, variance: float) -> Interval:
        half = self.quantile * math.sqrt(variance)
        return self.quantity.plain(self.estimate - half), self.quantity.plain(self.estimate + half)


def _remarks(
    quantity: Quantity, known: bool, known_after: bool, assumed: tuple[str, ...]
) -> tuple[ScalefitWarning, ...]:
    remarks = []
    if not known_after:
        remarks.append(
            ScalefitWarning(
                "runs-do-not-determine",
                f"these runs leave {quantity.name} undetermined, and so would any others of the candidates.",
                "Widen the candidates with --levels: other depths at the widths of the table, and the reverse.",
                {"quantity": quantity.name},
            )
        )
    elif not known:
        remarks.append(
            ScalefitWarning(
                "quantity-not-determined",
                f"the table does not determine {quantity.name}; the fit holds no estimate of it.",
                "Train the suggested runs and fit again; the standard error is what they leave at the fitted law.",
                {"quantity": quantity.name},
            )
        )
    if assumed:
        remarks.append(
            ScalefitWarning(
                "assumed-term",
                f"the fit leaves the term in {', '.join(assumed)} at a bound; the runs are planned as though it made "
                f"up {100 * ASSUMED_SIZE:g} % of the smallest loss with exponent {ASSUMED_EXPONENT:g}.",
                f"Where that is far off, fix the exponent with --fix {PowerTerm(assumed[0]).exponent}=VALUE.",
                {"columns": list(assumed)},
            )
        )
    return tuple(remarks)
