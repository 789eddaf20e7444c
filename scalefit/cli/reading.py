"""How every command that takes RUNS reads them: the shared options, declared once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from scalefit.ingest import ReadOptions
    from scalefit.runs import Runs

__all__ = ["RunsRequest", "reads_runs"]

_READING = "Reading the table"
_SELECTING = "Selecting rows (in this order)"

Sources = Annotated[
    list[str],
    typer.Argument(metavar="RUNS", help="A file, several files or a folder (one run each), or a shipped dataset"),
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="NAME=EXPR", rich_help_panel=_READING, help="Column NAME is EXPR of the file"),
]
Loss = Annotated[str | None, typer.Option(rich_help_panel=_READING, help="Column of the file that holds the loss")]
LossUnit = Annotated[
    str | None,
    typer.Option(rich_help_panel=_READING, help="nats, bits, perplexity, nats-per-byte[:B], bits-per-byte[:B]"),
]
Format = Annotated[
    str | None, typer.Option("--format", rich_help_panel=_READING, help="Format of the file, instead of recognising it")
]
Pattern = Annotated[
    str | None,
    typer.Option(rich_help_panel=_READING, help=r"Numbers in the run name, such as 'w(?P<width>\d+)-d(?P<depth>\d+)'"),
]
Names = Annotated[
    str | None, typer.Option(rich_help_panel=_READING, help="Column names of a file without a header: a,b,c")
]
Decimal = Annotated[str | None, typer.Option(rich_help_panel=_READING, help="Decimal mark of the file: . or ,")]
Thousands = Annotated[str | None, typer.Option(rich_help_panel=_READING, help="Thousands mark: . , ' or space")]
Delimiter = Annotated[str | None, typer.Option(rich_help_panel=_READING, help="Cell separator: , ; | tab space")]
KeepUnfinished = Annotated[
    bool, typer.Option("--keep-unfinished", rich_help_panel=_READING, help="Keep crashed, failed and running runs")
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION", rich_help_panel=_SELECTING, help="Keep rows where it holds, such as 'depth >= 4'"
    ),
]
MinTokens = Annotated[
    str | None, typer.Option(metavar="N", rich_help_panel=_SELECTING, help="Keep rows with at least N tokens (1B)")
]
Select = Annotated[
    str | None,
    typer.Option(rich_help_panel=_SELECTING, help="last or best row of each run, or best-per-shape of a sweep"),
]
DropWorst = Annotated[
    int, typer.Option(metavar="K", rich_help_panel=_SELECTING, help="Drop the K largest losses, ties included")
]


@dataclass(frozen=True)
class RunsRequest:
    """What a user asked to read; `load` does it.

    Attributes
    ----------
    sources : tuple of str
        Files, folders, or the name of a shipped dataset.
    options : ReadOptions
    where : tuple of str
    min_tokens : float or None
    select : str or None
    drop_worst : int
    """

    sources: tuple[str, ...]
    options: ReadOptions
    where: tuple[str, ...] = ()
    min_tokens: float | None = None
    select: str | None = None
    drop_worst: int = 0

    def load(self) -> Runs:
        """Read the table and apply the selection: where, min-tokens, select, drop-worst."""
        runs = _read(self.sources, self.options)
        for condition in self.where:
            runs = runs.where(condition)
        if self.min_tokens is not None:
            runs = runs.min_tokens(self.min_tokens)
        if self.select is not None:
            runs = runs.select(self.select)
        return runs.drop_worst(self.drop_worst)


def reads_runs(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the argument RUNS and the options of reading and selecting.

    The command's parameter `request` is replaced by them; it receives a `RunsRequest`. Its own parameters
    follow.
    """
    shared = inspect.signature(_request, eval_str=True).parameters
    hints = get_type_hints(command, include_extras=True)
    own = [
        parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(command).parameters.items()
        if name != "request"
    ]

    def wrapper(**given: Any) -> None:
        request = _request(**{name: given.pop(name) for name in shared})
        command(request=request, **given)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in shared.values()]
    wrapper.__name__ = command.__name__
    wrapper.__doc__ = command.__doc__
    wrapper.__signature__ = inspect.Signature([*parameters, *own])  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in [*parameters, *own]}
    return wrapper


def _request(
    sources: Sources,
    column: Columns = None,
    loss: Loss = None,
    loss_unit: LossUnit = None,
    form: Format = None,
    pattern: Pattern = None,
    names: Names = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    delimiter: Delimiter = None,
    keep_unfinished: KeepUnfinished = False,
    where: Where = None,
    min_tokens: MinTokens = None,
    select: Select = None,
    drop_worst: DropWorst = 0,
) -> RunsRequest:
    """Turn the words of the command line into a request; its signature is the shared one."""
    from scalefit.ingest import ReadOptions

    options = ReadOptions(
        columns=dict(_definition(text) for text in column or ()),
        loss=loss,
        loss_unit=loss_unit,
        format=form,
        pattern=pattern,
        names=tuple(name.strip() for name in names.split(",")) if names else (),
        decimal=decimal,
        thousands=thousands,
        delimiter=delimiter,
        keep_unfinished=keep_unfinished,
    )
    return RunsRequest(tuple(sources), options, tuple(where or ()), _count(min_tokens), select, drop_worst)


def _definition(text: str) -> tuple[str, str]:
    from scalefit.errors import OptionError

    name, equals, expression = (part.strip() for part in text.partition("="))
    if not (name and equals and expression):
        raise OptionError(f"--column {text!r} is not NAME=EXPR; write for example --column tokens=iter*batch_tokens")
    return name, expression


def _count(text: str | None) -> float | None:
    """Read a number such as 1e9 or 1B."""
    from scalefit.errors import OptionError
    from scalefit.ingest.numbers import Locale, parse_number

    value = None if text is None else parse_number(text.strip(), Locale())
    if text is not None and (value is None or not value >= 0):
        raise OptionError(f"--min-tokens {text!r} is no number of tokens; write for example 1e9 or 1B")
    return value


def _read(sources: tuple[str, ...], options: ReadOptions) -> Runs:
    """Read a shipped dataset by its name, anything else from the file system."""
    from pathlib import Path

    from scalefit.errors import DataError
    from scalefit.expressions import did_you_mean
    from scalefit.ingest import ReadOptions, read_table
    from scalefit.runs import Runs

    missing = [source for source in sources if not Path(source).exists()]
    if not missing:
        return Runs(read_table(sources if len(sources) > 1 else sources[0], options))
    from scalefit.datasets import dataset_path, list_datasets, load_dataset

    name = missing[0]
    if len(sources) == 1 and name in list_datasets():
        return load_dataset(name) if options == ReadOptions() else Runs(read_table(dataset_path(name), options))
    raise DataError(
        f"there is no file or folder {name!r}{did_you_mean(name, list_datasets())}; name a file, or one of the "
        f"shipped datasets {', '.join(list_datasets())}"
    )
