"""The `scalefit` command: one file per subcommand, errors turned into one sentence and an exit status."""

from __future__ import annotations

import sys

import typer

from scalefit.errors import ScalefitError

app = typer.Typer(
    name="scalefit",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Fit scaling laws in width, depth and tokens to a table of runs, and plan the next run.",
)

DONE, WARNED, WRONG_INPUT, NO_ANSWER = 0, 1, 2, 3
"""Exit statuses: done; warnings under --strict (theory: a claim is violated); input wrong; data cannot answer."""


@app.callback()
def _commands() -> None:
    # a callback keeps subcommands subcommands even where only one is installed
    return


def main() -> None:
    """Run the command line; what is wrong becomes one message on standard error and status 2."""
    try:
        app()
    except ScalefitError as error:
        sys.stderr.write(f"error: {error}\n")
    except OSError as error:
        sys.stderr.write(f"error: {error.filename or 'a file'}: {error.strerror}; name another place\n")
    raise SystemExit(WRONG_INPUT)
