"""`scalefit ci`: how sure the parameters are, by several methods side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scalefit.cli.app import INTERRUPTED, app
from scalefit.cli.law_options import FitRequest, opens_fit
from scalefit.cli.methods import method_names
from scalefit.cli.output import AsJson, Force, Strict, finish, print_json, print_report, refuse_to_overwrite
from scalefit.cli.progress import progress_bars

if TYPE_CHECKING:
    from scalefit.uncertainty.comparison import Comparison


@app.command()
@opens_fit
def ci(
    request: FitRequest,
    method: Annotated[
        list[str] | None,
        typer.Option(help="all, fast (no Markov chains), or any of pairs, cluster, profile, posterior, ... [all]"),
    ] = None,
    by: Annotated[str | None, typer.Option(help="Clusters: run, shape or a column [what suits the table]")] = None,
    resamples: Annotated[int, typer.Option(help="Bootstrap replicates")] = 1000,
    level: Annotated[float, typer.Option(help="Confidence level")] = 0.95,
    jobs: Annotated[int, typer.Option(help="Processes for the bootstraps; results are the same for any number")] = 1,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the default's draws to an .npz")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the figure to a .png, .pdf or .svg file")] = None,
    as_json: AsJson = False,
    force: Force = False,
    strict: Strict = False,
) -> None:
    """Give intervals by bootstrap, profile, posterior and theory, say where they disagree and which to trust.

    Ends with status 3 if the data do not determine every parameter or no method gives intervals. Ctrl-C keeps the
    methods that were finished, and ends with status 130.
    """
    from scalefit.errors import OptionError
    from scalefit.identifiability import Verdict
    from scalefit.report.ci import ci_document, ci_report
    from scalefit.uncertainty.comparison import ALL_METHODS, FAST_METHODS, Interrupted, Settings, compare_intervals

    refuse_to_overwrite(force, output, plot)
    if jobs < 1:
        raise OptionError(f"--jobs is {jobs} and must be at least 1")
    sets = {"all": ALL_METHODS, "fast": FAST_METHODS}
    methods = [m for name in method_names(method or ["all"]) for m in sets.get(name, (name,))]
    fit = request.open()
    settings = Settings(level, resamples, by, request.seed, jobs if jobs > 1 else 0)
    stopped = False
    try:
        with progress_bars() as bars:
            result = compare_intervals(fit, methods, settings, bars)
    except Interrupted as interrupted:
        result, stopped = interrupted.comparison, True
    if as_json:
        print_json(ci_document(result))
    else:
        print_report(ci_report(result))
    if stopped:
        sys.stderr.write("interrupted; the methods that were finished are printed, nothing is written to files\n")
        raise typer.Exit(INTERRUPTED)
    _write_draws(result, output)
    if plot is not None:
        from scalefit.plots.fit import save_figure
        from scalefit.plots.uncertainty import interval_figure

        save_figure(interval_figure(result), plot, overwrite=force)
    answered = bool(result.intervals) and Verdict.NOT_DETERMINED not in fit.verdicts.values()
    finish(answered, result.warnings, strict, written=[plot, output])


def _write_draws(result: Comparison, output: Path | None) -> None:
    from scalefit.errors import OptionError

    if output is None:
        return
    if result.default not in result.samples:
        reason = result.withheld.get(result.default, "it was not among the methods")
        raise OptionError(f"there are no draws of {result.default} to write to {output}: {reason}")
    result.samples[result.default].save(output)
