"""`scalefit ci`: how sure the parameters are, by several methods side by side."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scalefit.cli.app import (
    INTERRUPTED,
    AsJson,
    Force,
    Plot,
    Strict,
    command,
    finish,
    known_level,
    names_in,
    print_result,
    progress_bars,
)
from scalefit.cli.request import FitRequest

if TYPE_CHECKING:
    from scalefit.uncertainty.comparison import Comparison


@command("ci")
@dataclass(frozen=True)
class Ci(FitRequest):
    """Give intervals by bootstrap, profile, posterior and theory, say where they disagree and which to trust.

    Ends with status 3 if the data do not determine every parameter or no method gives intervals. Ctrl-C keeps the
    methods that were finished, and ends with status 130.
    """

    method: Annotated[
        list[str] | None,
        typer.Option(help="all, fast (no Markov chains), or any of pairs, cluster, profile, posterior, ... [all]"),
    ] = None
    by: Annotated[str | None, typer.Option(help="Clusters: run, shape or a column [what suits the table]")] = None
    resamples: Annotated[int, typer.Option(help="Bootstrap replicates")] = 1000
    level: Annotated[float, typer.Option(callback=known_level, help="Confidence level")] = 0.95
    jobs: Annotated[int, typer.Option(help="Processes for the bootstraps; results are the same for any number")] = 1
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write draws to an .npz")] = None
    plot: Plot = None
    as_json: AsJson = False
    force: Force = False
    strict: Strict = False

    def run(self) -> None:
        """Compare the methods, print, write, draw."""
        from scalefit.errors import OptionError
        from scalefit.files import refuse_to_overwrite
        from scalefit.identifiability import Verdict
        from scalefit.uncertainty.comparison import ALL_METHODS, FAST_METHODS, Interrupted, Settings, compare_intervals

        refuse_to_overwrite(self.force, self.output, self.plot)
        if self.jobs < 1:
            raise OptionError(f"--jobs is {self.jobs} and must be at least 1")
        sets = {"all": ALL_METHODS, "fast": FAST_METHODS}
        methods = [m for name in names_in(self.method or ["all"]) for m in sets.get(name, (name,))]
        fit = self.open()
        settings = Settings(self.level, self.resamples, self.by, self.seed, self.jobs if self.jobs > 1 else 0)
        stopped = False
        try:
            with progress_bars() as bars:
                result = compare_intervals(fit, methods, settings, bars)
        except Interrupted as interrupted:
            result, stopped = interrupted.comparison, True
        print_result(result, self.as_json)
        if stopped:
            sys.stderr.write("interrupted; the methods that were finished are printed, nothing is written to files\n")
            raise typer.Exit(INTERRUPTED)
        self._write_draws(result)
        if self.plot is not None:
            from scalefit.plots.fit import save_figure
            from scalefit.plots.uncertainty import interval_figure

            save_figure(interval_figure(result), self.plot, overwrite=self.force)
        answered = bool(result.intervals) and Verdict.NOT_DETERMINED not in fit.verdicts.values()
        finish(answered, result.warnings, self.strict, written=[self.plot, self.output])

    def _write_draws(self, result: "Comparison") -> None:
        from scalefit.errors import OptionError

        if self.output is None:
            return
        if (draws := result.draws) is None:
            suits = "pairs" if result.grouping.by == "row" else "cluster"
            reason = result.withheld.get(suits, f"add --method {suits}")
            raise OptionError(f"no method asked for gives draws for {self.output} that suit the table: {reason}")
        draws.save(self.output)
