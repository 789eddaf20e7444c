"""`scalefit fit`: the law, with its certificate and warnings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scalefit.cli.app import app
from scalefit.cli.law_options import FitRequest, opens_fit
from scalefit.cli.output import AsJson, Force, Strict, finish, print_json, print_report, refuse_to_overwrite


@app.command()
@opens_fit
def fit(
    request: FitRequest,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the fit and its rows to a file")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the figure to a .png, .pdf or .svg file")] = None,
    as_json: AsJson = False,
    force: Force = False,
    strict: Strict = False,
) -> None:
    """Fit a law to a table of runs; no initial guess is needed.

    Ends with status 3 if the data do not determine every parameter, or no optimum was reached.
    """
    from scalefit.fitting.file import fit_document, save_fit

    refuse_to_overwrite(force, output, plot)
    if plot is not None:
        from scalefit.plots.fit import require_image

        require_image(plot)
    result = request.open()
    if output is not None:
        save_fit(result, output, overwrite=force)
    if as_json:
        print_json(fit_document(result))
    else:
        from scalefit.report.fit import fit_report

        print_report(fit_report(result))
    if plot is not None:
        from scalefit.plots.fit import fit_figure, save_figure

        save_figure(fit_figure(result), plot, overwrite=force)
    finish(result.answered, result.warnings, strict, written=[output, plot])
