"""`scalefit plot`: the figure of a fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scalefit.cli.app import app
from scalefit.cli.law_options import FitRequest, opens_fit
from scalefit.cli.output import Force, finish, refuse_to_overwrite


@app.command()
@opens_fit
def plot(
    request: FitRequest,
    output: Annotated[Path, typer.Option("-o", "--output", help="A .png, .pdf or .svg file")] = Path("fit.png"),
    force: Force = False,
) -> None:
    """Draw a fit: each term with its data, the residuals, observed against predicted loss.

    Ends with status 3, the figure drawn, if the data do not determine every parameter.
    """
    from scalefit.plots.fit import fit_figure, save_figure

    refuse_to_overwrite(force, output)
    result = request.open()
    save_figure(fit_figure(result), output, overwrite=force)
    finish(result.answered, (), written=[output])
