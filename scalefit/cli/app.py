"""The `scalefit` command: one file per subcommand, errors turned into one sentence and an exit status."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from scalefit import __version__
from scalefit.errors import ScalefitError

app = typer.Typer(
    name="scalefit",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Fit scaling laws in width, depth and tokens to a table of runs, and plan the next run.",
)

DONE, WARNED, WRONG_INPUT, NO_ANSWER, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit statuses: done; warnings under --strict (theory: a claim is violated); input wrong; data cannot answer;
Ctrl-C."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"scalefit {__version__}")
        raise typer.Exit(DONE)


@app.callback()
def _commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Keep subcommands subcommands, and hold the options that stand before them."""


def main() -> None:
    """Run the command line; what is wrong becomes one message on standard error and status 2."""
    try:
        app()
    except ScalefitError as error:
        sys.stderr.write(f"error: {error}\n")
    except OSError as error:
        sys.stderr.write(f"error: {error.filename or 'a file'}: {error.strerror}; name another place\n")
    raise SystemExit(WRONG_INPUT)
