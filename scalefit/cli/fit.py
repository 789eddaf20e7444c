"""`scalefit fit`: the law, with its certificate and warnings."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from scalefit.cli.app import AsJson, Force, Plot, Strict, command, finish, print_result
from scalefit.cli.request import FitRequest


@command("fit")
@dataclass(frozen=True)
class Fit(FitRequest):
    """Fit a law to a table of runs; no initial guess is needed.

    Ends with status 3 if the data do not determine every parameter, or no optimum was reached.
    """

    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the fit and its rows to a file")] = None
    plot: Plot = None
    as_json: AsJson = False
    force: Force = False
    strict: Strict = False

    def run(self) -> None:
        """Fit, write, print, draw."""
        from scalefit.files import refuse_to_overwrite
        from scalefit.fitting.file import save_fit

        refuse_to_overwrite(self.force, self.output, self.plot)
        if self.plot is not None:
            from scalefit.plots.fit import require_image

            require_image(self.plot)
        result = self.open()
        if self.output is not None:
            save_fit(result, self.output, overwrite=self.force)
        print_result(result, self.as_json)
        if self.plot is not None:
            from scalefit.plots.fit import fit_figure, save_figure

            save_figure(fit_figure(result), self.plot, overwrite=self.force)
        finish(result.answered, result.warnings, self.strict, written=[self.output, self.plot])
