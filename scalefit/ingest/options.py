"""What a user may say about reading a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scalefit.errors import OptionError

__all__ = ["FORMATS", "ReadOptions"]

FORMATS: Mapping[str, str] = {
    "csv": "delimited text (commas, semicolons, tabs, bars or spaces)",
    "json": "one JSON document: a list of objects, an object of columns, or a run table of this package",
    "jsonl": "one JSON object a line",
    "parquet": "Apache Parquet",
    "excel": "an Excel workbook, first sheet",
    "wandb-runs": "Weights & Biases runs table, one row a run",
    "wandb-chart": "Weights & Biases chart export, one column a run",
    "tensorboard": "TensorBoard scalar download (Wall time, Step, Value)",
    "trainer-state": "trainer_state.json of the Hugging Face Trainer",
    "lightning": "metrics.csv of Lightning's CSVLogger",
}
"""Name of a format, as in `--format` -> what it is."""

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
        Unit of that column: see `scalefit.ingest.units`.
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
