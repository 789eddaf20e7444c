"""`scalefit plot`: the figure of a fit."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from scalefit.cli.app import Force, command, finish
from scalefit.cli.request import FitRequest


@command("plot")
@dataclass(frozen=True)
class Plot(FitRequest):
    """Draw a fit: each term with its data, the residuals, observed against predicted loss.

    Ends with status 3, the figure drawn, if the data do not determine every parameter.
    """

    output: Annotated[Path, typer.Option("-o", "--output", help="A .png, .pdf or .svg file")] = Path("fit.png")
    force: Force = False

    def run(self) -> None:
        """Fit and draw."""
        from scalefit.files import refuse_to_overwrite
        from scalefit.plots.fit import fit_figure, save_figure

        refuse_to_overwrite(self.force, self.output)
        result = self.open()
        save_figure(fit_figure(result), self.output, overwrite=self.force)
        finish(result.answered, (), written=[self.output])
