"""`scalefit suggest`: the next runs to train."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scalefit.cli.app import app
from scalefit.cli.law_options import FitRequest, opens_fit
from scalefit.cli.output import AsJson, Force, Strict, finish, print_json, print_report, refuse_to_overwrite

_GRID = "The candidates: levels with commas or FROM:TO:HOW_MANY"


@app.command()
@opens_fit
def suggest(
    request: FitRequest,
    quantity: Annotated[
        str, typer.Option(help="A parameter, ratio@params=1e10, or loss@width=4096,depth=40,tokens=1e12")
    ] = "alpha_depth",
    n_runs: Annotated[int, typer.Option("-n", "--runs", help="Most runs to suggest")] = 10,
    budget: Annotated[float | None, typer.Option(help="Most operations of all of them together")] = None,
    levels: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=LEVELS", rich_help_panel=_GRID, help="depth=6,12,24 or tokens=1e9:1e11:5 [table's range]"
        ),
    ] = None,
    max_flops: Annotated[
        float | None, typer.Option(rich_help_panel=_GRID, help="Most operations of one run [the table's largest]")
    ] = None,
    count: Annotated[str, typer.Option(help="How parameters and operations are counted, as in optimal")] = "12m2l",
    level: Annotated[float, typer.Option(help="Confidence level of intervals")] = 0.95,
    plot: Annotated[Path | None, typer.Option(help="Write the figure to a .png, .pdf or .svg file")] = None,
    as_json: AsJson = False,
    force: Force = False,
    strict: Strict = False,
) -> None:
    """Suggest the runs that shrink the interval of a quantity most.

    They are for a table that determines the quantity badly, too; the fit's own status is not repeated here.
    """
    from scalefit.design import candidate_grid, parse_levels, suggest_runs
    from scalefit.errors import OptionError
    from scalefit.optimal import Space, parse_count
    from scalefit.report.suggest import suggestion_document, suggestion_report

    refuse_to_overwrite(force, plot)
    axes = {}
    for text in levels or ():
        name, equals, values = (part.strip() for part in text.partition("="))
        if not equals:
            raise OptionError(f"--levels {text!r} is not COLUMN=LEVELS; write for example depth=6,12,24")
        axes[name] = parse_levels(values, name)
    space = Space(count=parse_count(count))
    result = request.open()
    candidates = candidate_grid(result, axes, count=space.count, max_flops=max_flops)
    suggestion = suggest_runs(
        result,
        quantity,
        n_runs,
        candidates,
        budget=float("inf") if budget is None else budget,
        space=space,
        level=level,
        seed=request.seed,
    )
    if plot is not None:
        from scalefit.plots.fit import save_figure
        from scalefit.plots.optimal import suggestion_figure

        save_figure(suggestion_figure(suggestion), plot, overwrite=force)
    if as_json:
        print_json(suggestion_document(suggestion))
    else:
        print_report(suggestion_report(suggestion))
    finish(True, suggestion.warnings, strict, written=[plot])
