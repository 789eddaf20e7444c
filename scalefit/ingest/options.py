"""What a user may say about reading a file, and the names and marks of the formats."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError

__all__ = [
    "CHART_SEPARATOR",
    "FORMATS",
    "OWN_FORMAT",
    "OWN_MARK",
    "UNITS",
    "ReadOptions",
    "protect",
    "to_nats",
    "unprotect",
]

FORMATS: Mapping[str, str] = {
    "csv": "delimited text (commas, semicolons, tabs, bars or spaces)",
    "json": "one JSON document: a list of objects, an object of columns, or a run table of this package",
    "jsonl": "one JSON object a line",
    "parquet": "Apache Parquet",
    "excel": "an Excel workbook, first sheet",
    "yaml": "YAML: a list of mappings, or what JSON may hold",
    "log": "a training log, names and numbers on each line ('step: 100 | lm loss: 6.51')",
    "wide": "one column of steps or tokens and one column a run that holds its loss",
    "wandb-runs": "Weights & Biases runs table, one row a run",
    "wandb-chart": "Weights & Biases chart export, one column a run",
    "tensorboard": "TensorBoard scalar download (Wall time, Step, Value)",
    "trainer-state": "trainer_state.json of the Hugging Face Trainer",
    "lightning": "metrics.csv of Lightning's CSVLogger",
}
"""Name of a format, as in `--format` -> what it is."""

CHART_SEPARATOR = " - "
"""Between run and metric in the column names of a W&B chart."""

OWN_MARK = "# scalefit-runs 1"
"""How the first line of the tidy CSV starts."""

OWN_FORMAT = "scalefit-runs"
"""Value of "format" in the tidy JSON document."""

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

UNITS: Mapping[str, str] = {
    "nats": "nats per token",
    "bits": "bits per token; times ln 2",
    "perplexity": "exp of nats per token; its logarithm is taken",
    "nats-per-byte": "nats per byte; times B with nats-per-byte:B for B bytes a token",
    "bits-per-byte": "bits per byte; times ln 2, and times B with bits-per-byte:B for B bytes a token",
}
"""Name of a unit, as in `--loss-unit` -> what it means."""

_ALIASES = {"nat": "nats", "bit": "bits", "ppl": "perplexity", "bpb": "bits-per-byte", "npb": "nats-per-byte"}
_MARKS = {".": ".", ",": ",", "point": ".", "dot": ".", "comma": ",", " ": " ", "space": " ", "'": "'"}


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file; every field is optional, and what is left out is recognised or refused.

    Attributes
    ----------
    columns : mapping of str to str
        Name here -> column name of the file, or an expression of such names.
    loss : str or None
        Column of the file that holds the loss.
    loss_unit : str or None
        Unit of that column: see `UNITS`.
    format : str or None
        One of `FORMATS`.
    pattern : str or None
        Regular expression with named groups, searched in the run name (in the file name when there is no
        run column); each group becomes a column.
    names : tuple of str
        Column names of a file without a header line.
    decimal, thousands : str or None
        The marks of the file's numbers.
    delimiter : str or None
        What separates the cells of a line.
    keep_unfinished : bool
        Keep runs that a tracker marks as crashed, failed or running.
    keep_duplicates : bool
        Count rows and files that equal another one as measurements of their own.
    fill_down : tuple of str
        Columns in which a blank cell means the cell above.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    loss: str | None = None
    loss_unit: str | None = None
    format: str | None = None
    pattern: str | None = None
    names: tuple[str, ...] = ()
    decimal: str | None = None
    thousands: str | None = None
    delimiter: str | None = None
    keep_unfinished: bool = False
    keep_duplicates: bool = False
    fill_down: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in FORMATS:
            raise OptionError(f"format {self.format!r} is unknown; the formats are {', '.join(FORMATS)}")
        for name in ("decimal", "thousands"):
            mark = getattr(self, name)
            allowed = ".," if name == "decimal" else "., '"
            if mark is not None:
                if _MARKS.get(mark, "") not in tuple(allowed):
                    raise OptionError(f"{name} mark {mark!r} is not possible; give one of {' '.join(allowed)!r}")
                object.__setattr__(self, name, _MARKS[mark])
        if self.decimal is not None and self.decimal == self.thousands:
            raise OptionError(f"the decimal mark and the thousands mark are both {self.decimal!r}")
        if self.delimiter is not None:
            object.__setattr__(self, "delimiter", {"tab": "\t", "\\t": "\t", "space": " "}.get(*[self.delimiter] * 2))
            if self.delimiter not in {",", ";", "\t", "|", " ", ":"}:
                raise OptionError(f"delimiter {self.delimiter!r} is not possible; give one of , ; | : tab space")

    def with_columns(self, columns: Mapping[str, str] | None) -> ReadOptions:
        """Return the options with more column definitions."""
        return self if not columns else replace(self, columns={**self.columns, **columns})


def to_nats(loss: NDArray[np.float64], unit: str) -> tuple[NDArray[np.float64], str]:
    """Convert a loss to nats.

    Parameters
    ----------
    loss : (n,) float array
    unit : str
        One of `UNITS`, or an alias; the units per byte take ``:B``, the mean number of bytes a token.

    Returns
    -------
    loss : (n,) float array
        In nats per token, or in nats per byte when B is unknown.
    unit : str
        "nats per token" or "nats per byte".
    """
    name, _, count = unit.lower().partition(":")
    name = _ALIASES.get(name, name)
    per_byte = name.endswith("-per-byte")
    if name not in UNITS or (count and not per_byte):
        raise OptionError(f"loss unit {unit!r} is unknown; the units are {', '.join(UNITS)}")
    if name == "perplexity":
        with np.errstate(all="ignore"):
            return np.log(loss), "nats per token"
    scale = math.log(2.0) if name.startswith("bits") else 1.0
    if not per_byte:
        return (loss if scale == 1.0 else loss * scale), "nats per token"
    if not count:
        return (loss if scale == 1.0 else loss * scale), "nats per byte"
    return loss * (scale * _bytes_per_token(unit, count)), "nats per token"


def _bytes_per_token(unit: str, count: str) -> float:
    try:
        value = float(count)
    except ValueError:
        value = math.nan
    if not 0.1 <= value <= 100.0:
        raise OptionError(f"loss unit {unit!r}: bytes per token is {count!r} and must be between 0.1 and 100")
    return value


def protect(text: str) -> str:
    """Return text that no spreadsheet takes for a formula: an apostrophe goes before = + - @ at the start.

    A text that already starts with an apostrophe gets one more, so that reading can take exactly one away.
    """
    return "'" + text if text.startswith((*_FORMULA_STARTS, "'")) else text


def unprotect(text: str) -> str:
    """Undo `protect`."""
    return text.removeprefix("'")
