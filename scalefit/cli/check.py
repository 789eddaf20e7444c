"""`scalefit check`: what a table holds, what was left out, what it can determine."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from scalefit.cli.app import AsJson, Force, Strict, command, finish, print_result
from scalefit.cli.request import RunsRequest


@command("check")
@dataclass(frozen=True)
class Check(RunsRequest):
    """Read a table and say what it holds: columns, rows left out, design, repetitions, laws it may determine.

    Ends with status 2 if a width, depth, token count or loss is not positive.
    """

    write: Annotated[Path | None, typer.Option(help="Write the rows in the tidy form, .csv or .json")] = None
    as_json: AsJson = False
    force: Force = False
    strict: Strict = False

    def run(self) -> None:
        """Read, write, print."""
        from scalefit.errors import OptionError
        from scalefit.files import refuse_to_overwrite
        from scalefit.identifiability.inspection import DESIGN
        from scalefit.report.check import Checked

        if self.write is not None and self.write.suffix not in {".csv", ".json"}:
            raise OptionError(f"--write {self.write} must end in .csv or .json")
        refuse_to_overwrite(self.force, self.write)
        runs = self.load()
        runs.require_positive([name for name in (*DESIGN, "loss") if name in runs])
        checked = Checked.of(runs, shlex.join(self.sources))
        if self.write is not None:
            (runs.to_json if self.write.suffix == ".json" else runs.to_csv)(self.write)
        print_result(checked, self.as_json)
        finish(True, checked.warnings, self.strict, [self.write])
