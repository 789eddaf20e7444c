"""What commands that take RUNS, or RUNS or a FIT, are asked: the shared arguments and options, declared once."""

# Annotations are read when the program runs: by Typer, in the files of the commands that inherit them.

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit
    from scalefit.ingest import ReadOptions
    from scalefit.runs import Runs

__all__ = ["FitRequest", "RunsRequest"]

_READING = "Reading the table"
_SELECTING = "Selecting rows (in this order)"
_FITTING = "The law and how it is fitted"


def _in(
    panel: str, text: str, *names: str, metavar: str | None = None, least: int | None = None
) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(*names, rich_help_panel=panel, help=text, metavar=metavar, min=least)
    return option


@dataclass(frozen=True)
class RunsRequest:
    """The words in which a user asked for a table; `load` reads it."""

    sources: Annotated[
        list[str],
        typer.Argument(metavar="RUNS", help="A file, several files or a folder (one run each), or a shipped dataset"),
    ]
    column: Annotated[
        list[str] | None, _in(_READING, "Column NAME is EXPR of the file", "--column", metavar="NAME=EXPR")
    ] = None
    loss: Annotated[str | None, _in(_READING, "Column of the file that holds the loss")] = None
    loss_unit: Annotated[str | None, _in(_READING, "nats, bits, perplexity, nats-per-byte[:B], bits-per-byte[:B]")] = (
        None
    )
    form: Annotated[str | None, _in(_READING, "Format of the file, instead of recognising it", "--format")] = None
    pattern: Annotated[
        str | None, _in(_READING, r"Numbers in the run name, such as 'w(?P<width>\d+)-d(?P<depth>\d+)'")
    ] = None
    names: Annotated[str | None, _in(_READING, "Column names of a file without a header: a,b,c")] = None
    decimal: Annotated[str | None, _in(_READING, "Decimal mark of the file: . or ,")] = None
    thousands: Annotated[str | None, _in(_READING, "Thousands mark: . , ' or space")] = None
    delimiter: Annotated[str | None, _in(_READING, "Cell separator: , ; | tab space")] = None
    keep_unfinished: Annotated[bool, _in(_READING, "Keep crashed, failed and running runs", "--keep-unfinished")] = (
        False
    )
    keep_duplicates: Annotated[bool, _in(_READING, "Count equal rows and files each", "--keep-duplicates")] = False
    fill_down: Annotated[
        str | None, _in(_READING, "Columns whose blank cells mean the cell above: width,depth", metavar="NAMES")
    ] = None
    where: Annotated[
        list[str] | None, _in(_SELECTING, "Keep rows where it holds, such as 'depth >= 4'", metavar="CONDITION")
    ] = None
    min_tokens: Annotated[str | None, _in(_SELECTING, "Keep rows with at least N tokens (1B)", metavar="N")] = None
    select: Annotated[str | None, _in(_SELECTING, "last or best row of each run, or best-per-shape of a sweep")] = None
    drop_worst: Annotated[str, _in(_SELECTING, "Drop the K largest losses, ties included, or 10%", metavar="K")] = "0"

    def load(self) -> "Runs":
        """Read the table and apply the selection: where, min-tokens, select, drop-worst."""
        least = _tokens(self.min_tokens)
        runs = _read(self.sources, self._options())
        for condition in self.where or ():
            runs = runs.where(condition)
        if least is not None:
            runs = runs.min_tokens(least)
        if self.select is not None:
            runs = runs.select(self.select)
        return runs.drop_worst(self.drop_worst)

    def _options(self) -> "ReadOptions":
        from scalefit.ingest import ReadOptions

        return ReadOptions(
            columns=dict(_definition(text) for text in self.column or ()),
            loss=self.loss,
            loss_unit=self.loss_unit,
            format=self.form,
            pattern=self.pattern,
            names=tuple(name.strip() for name in self.names.split(",")) if self.names else (),
            decimal=self.decimal,
            thousands=self.thousands,
            delimiter=self.delimiter,
            keep_unfinished=self.keep_unfinished,
            keep_duplicates=self.keep_duplicates,
            fill_down=tuple(name.strip() for name in self.fill_down.split(",")) if self.fill_down else (),
        )


@dataclass(frozen=True)
class FitRequest(RunsRequest):
    """The words in which a user asked for a fit, new or from a file; `open` makes or reads it."""

    law: Annotated[str, _in(_FITTING, "Columns joined by +, such as params+tokens, (depth-2), depth+0")] = (
        "width+depth+tokens"
    )
    objective: Annotated[str, _in(_FITTING, "log-mse, log-huber:DELTA, mse or huber:DELTA")] = "log-mse"
    fix: Annotated[list[str] | None, _in(_FITTING, "Fix: L0=1.7", metavar="NAME=VALUE")] = None
    tie: Annotated[list[str] | None, _in(_FITTING, "Tie exponents: alpha_depth=alpha_width", metavar="NAME=OTHER")] = (
        None
    )
    bound: Annotated[list[str] | None, _in(_FITTING, "Bound: alpha_depth=0.5:2", metavar="NAME=LOW:HIGH")] = None
    weights: Annotated[str | None, _in(_FITTING, "Column of row weights")] = None
    starts: Annotated[int, _in(_FITTING, "Random starts behind the certificate")] = 32
    seed: Annotated[int, _in(_FITTING, "Seed of everything random", least=0)] = 0
    errors: Annotated[str, _in(_FITTING, "Errors by: auto, rows (even noise), row, run, shape or a column")] = "auto"

    def open(self) -> "Fit":
        """Fit the law to the table, or read the fit where the argument is a file that `fit -o` wrote.

        Raises
        ------
        OptionError
            If options about reading or fitting accompany a finished fit.
        """
        from scalefit.fitting.file import is_fit_file, load_fit
        from scalefit.fitting.fit import fit

        if len(self.sources) == 1 and is_fit_file(self.sources[0]):
            self._refuse_options()
            return load_fit(self.sources[0])
        from scalefit.laws.constraints import Constraints

        return fit(
            self.load(),
            self.law,
            self.objective,
            constraints=Constraints.parse(self.fix or (), self.tie or (), self.bound or ()),
            weights=self.weights,
            n_starts=self.starts,
            seed=self.seed,
            errors=self.errors,
        )

    def _refuse_options(self) -> None:
        from scalefit.errors import OptionError

        shared = [f for f in fields(FitRequest) if f.name not in ("sources", "seed")]
        given = [
            "format" if f.name == "form" else f.name for f in shared if getattr(self, f.name) not in (f.default, [])
        ]
        if given:
            raise OptionError(
                f"{self.sources[0]} is a finished fit, which {', '.join('--' + n.replace('_', '-') for n in given)} "
                "cannot change; fit the table again with these options"
            )


def _definition(text: str) -> tuple[str, str]:
    from scalefit.errors import OptionError

    name, equals, expression = (part.strip() for part in text.partition("="))
    if not (name and equals and expression):
        raise OptionError(f"--column {text!r} is not NAME=EXPR; write for example --column tokens=iter*batch_tokens")
    return name, expression


def _tokens(text: str | None) -> float | None:
    """Read a number such as 1e9 or 1B."""
    from scalefit.errors import OptionError
    from scalefit.ingest.numbers import Locale, parse_number

    value = None if text is None else parse_number(text.strip(), Locale())
    if text is not None and (value is None or not value >= 0):
        raise OptionError(f"--min-tokens {text!r} is no number of tokens; write for example 1e9 or 1B")
    return value


def _read(sources: list[str], options: "ReadOptions") -> "Runs":
    """Read a shipped dataset by its name, anything else from the file system."""
    from scalefit.errors import DataError
    from scalefit.expressions import did_you_mean
    from scalefit.ingest import ReadOptions, read_table
    from scalefit.runs import Runs

    missing = [s for s in sources if not (Path(s).exists() or s == "-" or "://" in s or set("*?[") & set(s))]
    if not missing:
        return Runs(read_table(tuple(sources) if len(sources) > 1 else sources[0], options))
    from scalefit.datasets import dataset_path, list_datasets, load_dataset

    name = missing[0]
    if len(sources) == 1 and name in list_datasets():
        return load_dataset(name) if options == ReadOptions() else Runs(read_table(dataset_path(name), options))
    raise DataError(
        f"there is no file or folder {name!r}{did_you_mean(name, list_datasets())}; name a file, or one of the "
        f"shipped datasets {', '.join(list_datasets())}"
    )
