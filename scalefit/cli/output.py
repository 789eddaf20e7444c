"""What every command does at its end: print, write, choose the exit status."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scalefit.cli.app import DONE, NO_ANSWER, WARNED

if TYPE_CHECKING:
    from rich.console import RenderableType

    from scalefit.errors import ScalefitWarning

__all__ = ["AsJson", "Force", "Strict", "finish", "print_json", "print_report", "refuse_to_overwrite"]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist")]
Strict = Annotated[bool, typer.Option("--strict", help="End with status 1 if there are warnings")]


def print_json(document: Any) -> None:
    """Print one JSON document to standard output."""
    sys.stdout.write(json.dumps(document, indent=1, allow_nan=False) + "\n")


def print_report(content: RenderableType) -> None:
    """Print a report: in colour on a terminal, as plain text elsewhere."""
    from scalefit.report.text import render

    if sys.stdout.isatty():
        from rich.console import Console

        Console(highlight=False, markup=False).print(content)
    else:
        sys.stdout.write(render(content))


def refuse_to_overwrite(force: bool, *paths: Path | None) -> None:
    """Complain about files that exist before any work is done.

    Raises
    ------
    OptionError
        If one exists and `force` is false, or two are the same.
    """
    from scalefit.errors import OptionError

    given = [path for path in paths if path is not None]
    if len(set(given)) < len(given):
        raise OptionError(f"{given[0]} is named for two files; give each a name of its own")
    for path in given:
        if path.exists() and not force:
            raise OptionError(f"{path} exists; choose another name or overwrite it with --force")


def finish(
    answered: bool, warnings: Iterable[ScalefitWarning], strict: bool = False, written: Iterable[Path | None] = ()
) -> None:
    """Name the files written, on standard error, and end with the status that the result deserves."""
    for path in written:
        if path is not None:
            sys.stderr.write(f"wrote {path}\n")
    if not answered:
        raise typer.Exit(NO_ANSWER)
    raise typer.Exit(WARNED if strict and tuple(warnings) else DONE)
