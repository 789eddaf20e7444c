"""`scalefit compare-runs`: the compute that one recipe saves over another."""

from dataclasses import dataclass, replace
from typing import Annotated

import typer

from scalefit.cli.app import AsJson, Strict, command, finish, known_level, print_result
from scalefit.cli.request import FitRequest


@command("compare-runs")
@dataclass(frozen=True)
class CompareRuns(FitRequest):
    """Compare two recipes, A then B: the compute that A needs for B's loss, over B's own, along compute.

    A and B are files of runs, or fits, with losses on the same text in the same unit. Where both hold the same
    configurations row by row, draws resample the same rows of both.
    """

    law: Annotated[str, typer.Option(help="The law of both, in params and tokens")] = "params+tokens"
    flops: Annotated[str, typer.Option(help="Budgets: with commas, or FROM:TO:HOW_MANY [the tables' range]")] = ""
    cost: Annotated[str, typer.Option(help="What a run costs: an expression of params and tokens")] = "6*params*tokens"
    resamples: Annotated[int, typer.Option(help="Bootstrap replicates")] = 1000
    level: Annotated[float, typer.Option(callback=known_level, help="Confidence level of intervals")] = 0.95
    as_json: AsJson = False
    strict: Strict = False

    def run(self) -> None:
        """Fit both, draw from both, print."""
        from scalefit.errors import OptionError
        from scalefit.optimal import are_paired, parse_budgets, shared_budgets, speed_up
        from scalefit.optimal.compute import parse_cost
        from scalefit.uncertainty.bootstrap import bootstrap
        from scalefit.uncertainty.groups import choose_grouping

        if len(self.sources) != 2:
            raise OptionError(f"compare-runs takes two tables or fits, A and B, and {len(self.sources)} are given")
        a, b = (replace(self, sources=[source]).open() for source in self.sources)
        budgets = parse_budgets(self.flops, "flops") if self.flops else shared_budgets(a, b)
        method = choose_grouping(a).bootstrap
        seeds = (self.seed, self.seed if are_paired(a, b) else self.seed + 1)
        draws = tuple(bootstrap(f, self.resamples, method=method, seed=s) for f, s in zip((a, b), seeds, strict=True))
        found = speed_up(a, b, budgets, (draws[0], draws[1]), cost=parse_cost(self.cost), level=self.level)
        print_result(found, self.as_json)
        finish(True, found.warnings, self.strict)
