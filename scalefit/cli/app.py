"""The `scalefit` command: what all subcommands share, errors turned into one sentence and an exit status."""

# Annotations are read when the program runs: by Typer, also those that a command inherits from another file.

import functools
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import typer

from scalefit import __version__
from scalefit.errors import ScalefitError

if TYPE_CHECKING:
    from scalefit.errors import ScalefitWarning
    from scalefit.execute import Progress

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

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist")]
Strict = Annotated[bool, typer.Option("--strict", help="End with status 1 if there are warnings")]
Plot = Annotated[Path | None, typer.Option(help="Write the figure to a .png, .pdf or .svg file")]


class _Command(Protocol):
    def run(self) -> None: ...


_C = TypeVar("_C", bound=_Command)


def command(name: str) -> Callable[[type[_C]], type[_C]]:
    """Make a subcommand of a dataclass.

    Its fields, inherited ones first, are the arguments and options, its docstring is the help, `run` is what it does.
    """

    def register(kind: type[_C]) -> type[_C]:
        @functools.wraps(kind, updated=())
        def run(**given: Any) -> None:
            kind(**given).run()

        app.command(name)(run)
        return kind

    return register


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
    # One thread a process, before NumPy is loaded: --jobs are the parallelism, and give the same bits in any number.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the shell
            setattr(sys, name, io.StringIO())
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal without a letter shows its number
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except ScalefitError as error:
        say(f"error: {error}")
    except BrokenPipeError:  # the reader, such as head, has what it wants; nothing is left to flush at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(WARNED) from None
    except OSError as error:
        say(f"error: {error.filename or 'standard output'}: {error.strerror}; name another place")
    raise SystemExit(WRONG_INPUT)


def say(line: str) -> None:
    """Tell the user a line beside the result, on standard error."""
    from scalefit.numbers import visible

    sys.stderr.write(f"{visible(line, lines=False)}\n")
    sys.stderr.flush()


def known_level(value: float) -> float:
    """Refuse a confidence level that is none, before any work."""
    from scalefit.errors import OptionError

    if not 0 < value < 1:
        raise OptionError(f"--level is {value:g} and must lie between 0 and 1, for example 0.95")
    return value


def names_in(texts: Sequence[str]) -> list[str]:
    """Names of an option that may be repeated, hold names with commas, or both: in the order written, each once."""
    return list(dict.fromkeys(name.strip() for text in texts for name in text.split(",")))


def print_json(document: Any, indent: int | None = 1) -> None:
    """Print one JSON document to standard output."""
    from scalefit.numbers import json_text

    sys.stdout.write(json_text(document, indent))


def print_result(result: Any, as_json: bool) -> None:
    """Print a result, or several of a kind: as JSON, in colour on a terminal, or as plain text."""
    from scalefit.report import document, layout, print_visibly, render

    if as_json:
        print_json(document(result))
        return
    page = layout(result)
    if sys.stdout.isatty() and not isinstance(page, str):
        from rich.console import Console

        print_visibly(Console(highlight=False, markup=False), page)
    else:
        sys.stdout.write(render(page))


def finish(
    answered: bool, warnings: Iterable["ScalefitWarning"], strict: bool = False, written: Iterable[Path | None] = ()
) -> None:
    """Name the files written, on standard error, and end with the status that the result deserves."""
    for path in written:
        if path is not None:
            say(f"wrote {path}")
    if not answered:
        raise typer.Exit(NO_ANSWER)
    raise typer.Exit(WARNED if strict and tuple(warnings) else DONE)


@contextmanager
def progress_bars() -> Iterator[Callable[[str], "Progress | None"]]:
    """Yield a function that makes a bar of a name on a terminal's standard error, and none where nobody watches."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(console=Console(stderr=True), transient=True) as bars:

        def bar(name: str) -> "Progress":
            task = bars.add_task(name, total=None)
            return lambda done, total: bars.update(task, completed=done, total=total)

        yield bar
