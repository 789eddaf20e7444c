"""`scalefit optimal`: the best shape, or the best N and D, for a budget, with intervals; and what a loss takes."""

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Annotated

import typer

from scalefit.cli.app import AsJson, Force, Plot, Strict, command, finish, known_level, names_in, print_result
from scalefit.cli.request import FitRequest

if TYPE_CHECKING:
    from scalefit.errors import ScalefitWarning
    from scalefit.fitting.fit import Fit
    from scalefit.optimal import Budget, Space
    from scalefit.optimal.compute import Cost
    from scalefit.uncertainty.samples import Samples

DEFAULT_METHODS = ("pairs", "importance")

_BUDGET, _MODEL, _SURE = "The budget: a number, several with commas, or FROM:TO:HOW_MANY", "The model", "Certainty"
_ND = "N and D, for a law in params and tokens"

Limit = Annotated[str | None, typer.Option(rich_help_panel=_BUDGET)]
CountText = Annotated[
    str,
    typer.Option(
        rich_help_panel=_MODEL,
        help="12m2l, gpt2, llama or chinchilla with settings (llama:vocabulary=128256), or PARAMS[;FLOPS_PER_TOKEN]",
    ),
]
ServingText = Annotated[
    str, typer.Option(rich_help_panel=_MODEL, help="Settings such as context=8192,batch=4,bandwidth=3.35e12")
]
Ranges = Annotated[
    list[str] | None,
    typer.Option("--range", metavar="NAME=LOW:HIGH", rich_help_panel=_MODEL, help="Range of width, depth or tokens"),
]
Level = Annotated[
    float, typer.Option(callback=known_level, rich_help_panel=_SURE, help="Confidence level of intervals")
]


@command("optimal")
@dataclass(frozen=True)
class Optimal(FitRequest):
    """Find what has the lowest predicted loss within a budget: width, depth and tokens, or parameters and tokens.

    Which of them follows from the law: --law params+tokens gives N and D for a compute budget. With --target-loss it
    is the reverse, what a loss takes. Ends with status 3 if the data do not determine the answer, or no run reaches
    the loss.
    """

    params: Annotated[
        str | None,
        typer.Option(rich_help_panel=_BUDGET, help="Most parameters: 7B, several with commas, or FROM:TO:HOW_MANY"),
    ] = None
    flops: Annotated[
        str | None, typer.Option(rich_help_panel=_BUDGET, help="Training compute, written the same way")
    ] = None
    memory: Annotated[str | None, typer.Option(rich_help_panel=_BUDGET, help="Most bytes when served")] = None
    latency: Annotated[str | None, typer.Option(rich_help_panel=_BUDGET, help="Most seconds per token")] = None
    tokens: Annotated[str | None, typer.Option(rich_help_panel=_BUDGET, help="Training tokens, if fixed")] = None
    target_loss: Annotated[
        float | None,
        typer.Option(rich_help_panel=_BUDGET, help="Find what reaches it: the column that --at leaves open, or N, D"),
    ] = None
    at: Annotated[
        str | None,
        typer.Option(metavar="NAME=VALUE,...", rich_help_panel=_BUDGET, help="The other columns, for --target-loss"),
    ] = None
    cost: Annotated[
        str | None,
        typer.Option(rich_help_panel=_ND, help="What a run costs, in params and tokens [6*params*tokens]"),
    ] = None
    served: Annotated[
        str, typer.Option(rich_help_panel=_ND, help="Tokens served once trained, 2 N operations each (2T)")
    ] = "0"
    ratio: Annotated[
        float | None, typer.Option(rich_help_panel=_ND, help="Width / depth, for --count with attention's operations")
    ] = None
    tokens_per_param: Annotated[
        str | None, typer.Option(rich_help_panel=_ND, help="Ratios whose cost in loss is asked for: 20,100")
    ] = None
    count: CountText = "12m2l"
    serving: ServingText = ""
    ranges: Ranges = None
    head_size: Annotated[int, typer.Option(rich_help_panel=_MODEL, help="Width of a head")] = 64
    multiple: Annotated[int, typer.Option(rich_help_panel=_MODEL, help="The width is a multiple of it")] = 64
    layers: Annotated[int, typer.Option(rich_help_panel=_MODEL, help="The depth is a multiple of it")] = 1
    best: Annotated[int, typer.Option(rich_help_panel=_MODEL, help="Feasible shapes to name")] = 5
    method: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=_SURE,
            help="Any of cluster, pairs, importance, posterior, ...; or none, for the fit's own errors",
        ),
    ] = None
    resamples: Annotated[int, typer.Option(rich_help_panel=_SURE, help="Bootstrap replicates")] = 1000
    level: Level = 0.95
    plot: Plot = None
    as_json: AsJson = False
    force: Force = False
    strict: Strict = False

    def run(self) -> None:
        """Fit, search, draw, print."""
        from scalefit.errors import OptionError
        from scalefit.files import refuse_to_overwrite

        refuse_to_overwrite(self.force, self.plot)
        result = self.open()
        sizes = set(result.law.columns) == {"params", "tokens"}
        if self.plot is not None and (sizes or self.target_loss is not None):
            raise OptionError("--plot draws best shapes, of a law in width and depth; leave it out here")
        if self.target_loss is not None:
            self._reach(result, self.target_loss)
        elif sizes:
            self._allocate(result)
        else:
            self._shape(result)

    def _shape(self, result: "Fit") -> None:
        from scalefit.errors import OptionError
        from scalefit.optimal import Rounding, optimal_shape
        from scalefit.report.optimal import Shapes

        if self.cost or self.tokens_per_param or self.served != "0" or self.ratio is not None:
            raise OptionError(
                f"--cost, --served, --ratio and --tokens-per-param are for a law in params and tokens, and this one is "
                f"{result.law}; fit --law params+tokens"
            )
        given = {name: getattr(self, name) for name in ("params", "flops", "memory", "latency", "tokens")}
        budgets, space = read_budgets(given), read_space(self.count, self.serving, self.ranges)
        rounding = Rounding(self.head_size, self.multiple, self.layers, self.best)
        draws, withheld = draw_sets(result, self.method, self.resamples, self.seed)
        shapes = [optimal_shape(result, b, draws, space=space, rounding=rounding, level=self.level) for b in budgets]
        answered = all(shape.determined for shape in shapes)
        if not answered:
            withheld = []  # without a shape there is nothing that a method could give an interval of
        if self.plot is not None and answered:
            from scalefit.plots.fit import save_figure
            from scalefit.plots.optimal import shape_figure

            figure = shape_figure(result, budgets, draws[0] if draws else None, space)
            save_figure(figure, self.plot, overwrite=self.force)
        print_result(Shapes(shapes, withheld), self.as_json)
        warnings = [*withheld, *(warning for shape in shapes for warning in shape.warnings)]
        finish(answered, warnings, self.strict, written=[self.plot if answered else None])

    def _allocate(self, result: "Fit") -> None:
        from scalefit.errors import OptionError
        from scalefit.optimal import optimal_allocation, parse_budgets
        from scalefit.optimal.budget import parse_values
        from scalefit.optimal.compute import MOST
        from scalefit.report.allocation import Allocations

        if self.flops is None or self.params or self.memory or self.latency or self.tokens:
            raise OptionError(
                f"with the law {result.law} the budget is --flops alone; it gives N and D. What a loss takes at a "
                "given N or D: --target-loss with --at"
            )
        ratios = parse_values(self.tokens_per_param, "--tokens-per-param") if self.tokens_per_param else ()
        draws, withheld = draw_sets(result, self.method, self.resamples, self.seed)
        ends = read_ranges(self.ranges, {"params": MOST, "tokens": MOST})
        found = [
            optimal_allocation(
                result,
                flops,
                draws,
                cost=self._cost(),
                tokens_per_param=ratios,
                ranges=(ends["params"], ends["tokens"]),
                level=self.level,
            )
            for flops in parse_budgets(self.flops, "flops")
        ]
        answered = all(one.determined for one in found)
        withheld = withheld if answered else []
        print_result(Allocations(found, withheld), self.as_json)
        finish(answered, [*withheld, *(warning for one in found for warning in one.warnings)], self.strict)

    def _reach(self, result: "Fit", loss: float) -> None:
        from scalefit.optimal import needed_for_loss

        draws, withheld = draw_sets(result, self.method, self.resamples, self.seed)
        at = read_point(self.at or "")
        found = needed_for_loss(result, loss, at, draws, cost=self._cost(), level=self.level)
        print_result(found, self.as_json)
        finish(found.reachable, [*withheld, *found.warnings], self.strict)

    def _cost(self) -> "Cost":
        from scalefit.errors import OptionError
        from scalefit.optimal import parse_count
        from scalefit.optimal.budget import parse_values
        from scalefit.optimal.compute import cost_of_runs, parse_cost

        if self.cost is None:
            (served,) = parse_values(self.served, "--served")
            return cost_of_runs(served, parse_count(self.count), self.ratio)
        if self.served != "0" or self.ratio is not None:
            raise OptionError("--cost says all that a run costs; write serving into it, as in + 2*2e12*params")
        return parse_cost(self.cost)


def read_budgets(given: dict[str, str | None]) -> "list[Budget]":
    """Every combination of the budgets written."""
    from scalefit.optimal import Budget, parse_budgets

    values = {name: parse_budgets(text, name) for name, text in given.items() if text is not None}
    return [Budget(**dict(zip(values, each, strict=True))) for each in product(*values.values())]


def read_space(count: str, serving: str, ranges: list[str] | None) -> "Space":
    """The count, the serving settings and the ranges written."""
    from scalefit.optimal import Space, parse_count, parse_serving

    whole = {name: getattr(Space(), name) for name in ("width", "depth", "tokens")}
    return Space(count=parse_count(count), serving=parse_serving(serving), **read_ranges(ranges, whole))


def read_ranges(texts: list[str] | None, whole: "dict[str, tuple[float, float]]") -> "dict[str, tuple[float, float]]":
    """The ranges written, NAME=LOW:HIGH, in place of whole ones."""
    from scalefit.errors import OptionError

    ends = dict(whole)
    for text in texts or ():
        name, _, limits = (part.strip() for part in text.partition("="))
        low, _, high = limits.partition(":")
        try:
            ends[name] = (float(low or whole[name][0]), float(high or whole[name][1]))
            if name not in whole or not 0 < ends[name][0] <= ends[name][1] < math.inf:
                raise ValueError
        except (KeyError, ValueError):
            raise OptionError(
                f"--range {text!r} is not NAME=LOW:HIGH, 0 < LOW <= HIGH, with {' or '.join(whole)}"
            ) from None
    return ends


def read_point(text: str) -> dict[str, float]:
    """Columns written NAME=VALUE,..."""
    from scalefit.errors import OptionError
    from scalefit.optimal.budget import read_number

    point = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (piece.strip() for piece in part.partition("="))
        try:
            point[name] = read_number(value)
        except ValueError:
            raise OptionError(f"--at {text!r}: {part!r} is not NAME=VALUE; write for example params=7B") from None
    return point


def draw_sets(
    fit: "Fit", method: list[str] | None, resamples: int, seed: int
) -> "tuple[list[Samples], list[ScalefitWarning]]":
    """Draws of the law by each method, the one to trust first, and why a method gives none on this table."""
    from scalefit.errors import OptionError, ScalefitWarning
    from scalefit.uncertainty.comparison import Settings, compare_intervals
    from scalefit.uncertainty.groups import choose_grouping
    from scalefit.uncertainty.methods import METHODS

    names = names_in(method or [choose_grouping(fit).bootstrap, *DEFAULT_METHODS])
    drawing = [method.name for method in METHODS.values() if method.draws]
    if names == ["none"]:
        return [], []
    for name in names:
        if name not in drawing:
            raise OptionError(f"--method knows {', '.join(drawing)} and none, not {name!r}")
    settings = Settings(n_resamples=resamples, seed=seed, simulations=0, names=("L0",))
    found = compare_intervals(fit, names, settings)
    withheld = [
        ScalefitWarning("method-withheld", f"no intervals by {method}: {reason}.", "Read the other methods.")
        for method, reason in found.withheld.items()
    ]
    return list(found.samples.values()), withheld
