"""`scalefit optimal`: the best width, depth and tokens for a budget, with intervals."""

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Annotated

import typer

from scalefit.cli.app import AsJson, Force, Plot, Strict, command, finish, names_in, print_result
from scalefit.cli.request import FitRequest

if TYPE_CHECKING:
    from scalefit.errors import ScalefitWarning
    from scalefit.fitting.fit import Fit
    from scalefit.optimal import Budget, Space
    from scalefit.uncertainty.samples import Samples

DEFAULT_METHODS = ("pairs", "importance")

_BUDGET, _MODEL, _SURE = "The budget: a number, several with commas, or FROM:TO:HOW_MANY", "The model", "Certainty"

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
Level = Annotated[float, typer.Option(rich_help_panel=_SURE, help="Confidence level of intervals")]


@command("optimal")
@dataclass(frozen=True)
class Optimal(FitRequest):
    """Find the width, depth and tokens with the lowest predicted loss within a budget.

    Ends with status 3 if the data do not determine the best shape.
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
    count: CountText = "12m2l"
    serving: ServingText = ""
    ranges: Ranges = None
    head_size: Annotated[int, typer.Option(rich_help_panel=_MODEL, help="Width of a head")] = 64
    multiple: Annotated[int, typer.Option(rich_help_panel=_MODEL, help="The width is a multiple of it")] = 64
    layers: Annotated[int, typer.Option(rich_help_panel=_MODEL, help="The depth is a multiple of it")] = 1
    best: Annotated[int, typer.Option(rich_help_panel=_MODEL, help="Feasible shapes to name")] = 5
    method: Annotated[
        list[str] | None,
        typer.Option(rich_help_panel=_SURE, help="Any of cluster, pairs, importance, posterior, ...; or none"),
    ] = None
    resamples: Annotated[int, typer.Option(rich_help_panel=_SURE, help="Bootstrap replicates")] = 1000
    level: Level = 0.95
    plot: Plot = None
    as_json: AsJson = False
    force: Force = False
    strict: Strict = False

    def run(self) -> None:
        """Fit, search, draw, print."""
        from scalefit.files import refuse_to_overwrite
        from scalefit.optimal import Rounding, optimal_shape
        from scalefit.report.optimal import Shapes

        refuse_to_overwrite(self.force, self.plot)
        given = {name: getattr(self, name) for name in ("params", "flops", "memory", "latency", "tokens")}
        budgets, space = read_budgets(given), read_space(self.count, self.serving, self.ranges)
        rounding = Rounding(self.head_size, self.multiple, self.layers, self.best)
        result = self.open()
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


def read_budgets(given: dict[str, str | None]) -> "list[Budget]":
    """Every combination of the budgets written."""
    from scalefit.optimal import Budget, parse_budgets

    values = {name: parse_budgets(text, name) for name, text in given.items() if text is not None}
    return [Budget(**dict(zip(values, each, strict=True))) for each in product(*values.values())]


def read_space(count: str, serving: str, ranges: list[str] | None) -> "Space":
    """The count, the serving settings and the ranges written."""
    from scalefit.errors import OptionError
    from scalefit.optimal import Space, parse_count, parse_serving

    ends = {}
    for text in ranges or ():
        name, _, limits = (part.strip() for part in text.partition("="))
        low, _, high = limits.partition(":")
        try:
            if name not in ("width", "depth", "tokens"):
                raise ValueError
            ends[name] = (float(low or 1), float(high or getattr(Space(), name)[1]))
        except ValueError:
            raise OptionError(f"--range {text!r} is not NAME=LOW:HIGH with width, depth or tokens") from None
    return Space(count=parse_count(count), serving=parse_serving(serving), **ends)


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
