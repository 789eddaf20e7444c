"""`scalefit isoflop`: the valley of each compute budget, and N* and D* by three approaches."""

from dataclasses import dataclass
from typing import Annotated

import typer

from scalefit.cli.app import AsJson, Strict, command, finish, known_level, print_result
from scalefit.cli.request import FitRequest


@command("isoflop")
@dataclass(frozen=True)
class IsoFlop(FitRequest):
    """Find the best size at each compute budget of a table, and N* ~ C^a through these valleys.

    Beside it stand the law in params and tokens and, where runs have several rows, the lower envelope of their curves.
    Ends with status 3 if fewer than three budgets have a minimum between their runs.
    """

    law: Annotated[str, typer.Option(help="The law beside the valleys, in params and tokens")] = "params+tokens"
    budgets: Annotated[
        str | None, typer.Option(help="Computes of the groups: 6e18,1e19,3e19 [told apart by their gaps]")
    ] = None
    flops: Annotated[str | None, typer.Option(help="Where the approaches are compared [the largest budget]")] = None
    resamples: Annotated[int, typer.Option(help="Bootstrap replicates of the law")] = 1000
    level: Annotated[float, typer.Option(callback=known_level, help="Confidence level of intervals")] = 0.95
    as_json: AsJson = False
    strict: Strict = False

    def run(self) -> None:
        """Fit, draw, find valleys, print."""
        from scalefit.optimal import isoflop
        from scalefit.optimal.budget import parse_values
        from scalefit.uncertainty.bootstrap import bootstrap

        fitted = self.open()
        budgets = parse_values(self.budgets, "--budgets") if self.budgets else ()
        at = parse_values(self.flops, "--flops")[0] if self.flops else None
        draws = bootstrap(fitted, self.resamples, seed=self.seed)
        found = isoflop(fitted.runs, budgets, at, draws, fit=fitted, level=self.level)
        print_result(found, self.as_json)
        finish(any(one.name == "valleys" for one in found.approaches), found.warnings, self.strict)
