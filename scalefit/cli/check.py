"""`scalefit check`: what a table holds, what was left out, what it can determine."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from scalefit.cli.app import app
from scalefit.cli.output import AsJson, Force, Strict, finish, print_json, print_report, refuse_to_overwrite
from scalefit.cli.reading import RunsRequest, reads_runs


@app.command()
@reads_runs
def check(
    request: RunsRequest,
    write: Annotated[Path | None, typer.Option(help="Write the rows in the tidy form, .csv or .json")] = None,
    as_json: AsJson = False,
    force: Force = False,
    strict: Strict = False,
) -> None:
    """Read a table and say what it holds: columns, rows left out, design, repetitions, laws it may determine.

    Ends with status 2 if a width, depth, token count or loss is not positive.
    """
    from scalefit.errors import OptionError
    from scalefit.identifiability.inspection import DESIGN, inspect_runs
    from scalefit.report.check import check_document, check_report, warnings_of

    if write is not None and write.suffix not in {".csv", ".json"}:
        raise OptionError(f"--write {write} must end in .csv or .json")
    refuse_to_overwrite(force, write)
    runs = request.load()
    runs.require_positive([name for name in (*DESIGN, "loss") if name in runs])
    seen = inspect_runs(runs)
    if write is not None:
        (runs.to_json if write.suffix == ".json" else runs.to_csv)(write)
    if as_json:
        print_json(check_document(runs, seen))
    else:
        print_report(check_report(runs, seen, shlex.join(request.sources)))
    finish(True, warnings_of(runs, seen), strict, [write])
