"""`scalefit suggest`: the next runs to train."""

from dataclasses import dataclass
from typing import Annotated

import typer

from scalefit.cli.app import AsJson, Force, Plot, Strict, command, finish, known_level, print_result
from scalefit.cli.request import FitRequest

_GRID = "The candidates: levels with commas or FROM:TO:HOW_MANY"


@command("suggest")
@dataclass(frozen=True)
class Suggest(FitRequest):
    """Suggest the runs that shrink the interval of a quantity most.

    They are for a table that determines the quantity badly, too; the fit's own status is not repeated here.
    """

    quantity: Annotated[
        str | None,
        typer.Option(
            help="A parameter, ratio@params=1e10, or loss@width=4096,depth=40,tokens=1e12 "
            "[alpha_depth, else the least sure exponent]"
        ),
    ] = None
    n_runs: Annotated[int, typer.Option("-n", "--runs", help="Most runs to suggest")] = 10
    budget: Annotated[float | None, typer.Option(help="Most operations of all of them together")] = None
    levels: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=LEVELS", rich_help_panel=_GRID, help="depth=6,12,24 or tokens=1e9:1e11:5 [table's range]"
        ),
    ] = None
    max_flops: Annotated[
        float | None, typer.Option(rich_help_panel=_GRID, help="Most operations of one run [the table's largest]")
    ] = None
    count: Annotated[str, typer.Option(help="How parameters and operations are counted, as in optimal")] = "12m2l"
    level: Annotated[float, typer.Option(callback=known_level, help="Confidence level of intervals")] = 0.95
    plot: Plot = None
    as_json: AsJson = False
    force: Force = False
    strict: Strict = False

    def run(self) -> None:
        """Fit, choose, draw, print."""
        from scalefit.design import candidate_grid, parse_levels, suggest_runs
        from scalefit.errors import OptionError
        from scalefit.files import refuse_to_overwrite
        from scalefit.optimal import Space, parse_count

        refuse_to_overwrite(self.force, self.plot)
        axes = {}
        for text in self.levels or ():
            name, equals, values = (part.strip() for part in text.partition("="))
            if not equals:
                raise OptionError(f"--levels {text!r} is not COLUMN=LEVELS; write for example depth=6,12,24")
            axes[name] = parse_levels(values, name)
        space = Space(count=parse_count(self.count))
        result = self.open()
        candidates = candidate_grid(result, axes, count=space.count, max_flops=self.max_flops)
        suggestion = suggest_runs(
            result,
            self.quantity,
            self.n_runs,
            candidates,
            budget=float("inf") if self.budget is None else self.budget,
            space=space,
            level=self.level,
            seed=self.seed,
        )
        if self.plot is not None:
            from scalefit.plots.fit import save_figure
            from scalefit.plots.optimal import suggestion_figure

            save_figure(suggestion_figure(suggestion), self.plot, overwrite=self.force)
        print_result(suggestion, self.as_json)
        finish(True, suggestion.warnings, self.strict, written=[self.plot])
