"""What stands in the files that we write, checked once when they are read back.

Imported only where a file is read: an import of pydantic costs as much as a fit.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sized
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scalefit.errors import DataError

__all__ = ["FitFile", "SamplesHeader", "read_arrays", "read_document"]

Count = Annotated[int, Field(ge=0, lt=2**63)]
Cell = float | None
"""A number of a table; None where it is missing."""

_M = TypeVar("_M", bound=BaseModel)


class Content(BaseModel):
    """Nothing is converted, no number may be infinite, and what is not known is ignored."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="ignore")


class WarningContent(Content):
    """A remark."""

    code: str
    message: str
    action: str
    numbers: dict[str, Any]


class ObjectiveContent(Content):
    """What was minimised, and the minimum."""

    name: str
    value: float = Field(ge=0)


class CertificateContent(Content):
    """How the optimum was found."""

    starts: Count
    starts_at_best: Count
    gradient: float
    condition: Cell
    start_rows: Count
    others: list[tuple[Count, float]] = []


class ConstraintsContent(Content):
    """What was not free."""

    fixed: dict[str, float]
    ties: dict[str, str]
    bounds: dict[str, tuple[Cell, Cell]]


class SourceContent(Content):
    """Where the table came from."""

    name: str
    format: str
    sha256: str
    columns: dict[str, str]
    units: dict[str, str]


class SelectionContent(Content):
    """One step of the selection."""

    name: str
    before: Count
    after: Count


class RowsContent(Content):
    """The table that was fitted; all its columns are equally long."""

    columns: dict[str, list[Cell]]
    texts: dict[str, list[str]]
    rows: list[Count] = Field(min_length=1)
    lines: list[Count]
    files: list[Count] | None
    names: list[str] = Field(min_length=1)
    dropped: list[tuple[Count, Count, str, str]]
    warnings: list[WarningContent]

    @model_validator(mode="after")
    def _equally_long(self) -> RowsContent:
        named: dict[str, Sized] = {**self.columns, **self.texts, "lines": self.lines}
        if self.files is not None:
            named["files"] = self.files
            if max(self.files) >= len(self.names):
                raise ValueError(f"a row is of file {max(self.files)} of {len(self.names)}")
        for name, values in named.items():
            if len(values) != len(self.rows):
                raise ValueError(f"{name} has {len(values)} entries for {len(self.rows)} rows")
        if not all(loss is not None for loss in self.columns.get("loss", [None])):
            raise ValueError("a row has no loss")
        return self


class FitFile(Content):
    """What ``scalefit fit -o`` writes, as far as it is read: what follows from it is computed anew."""

    schema_: Literal[2, "scalefit-fit/1"] = Field(alias="schema")
    law: str
    objective: ObjectiveContent
    params: dict[str, float]
    status: Literal["converged", "at-bound", "not-identified", "failed"]
    certificate: CertificateContent
    constraints: ConstraintsContent
    weights: str | None
    n_starts: Annotated[int, Field(ge=1)]
    seed: Count
    errors_by: str = "auto"
    source: SourceContent
    selections: list[SelectionContent]
    rows: RowsContent


class OldTerm(Content):
    """A term of a law, as version 0.1 wrote it."""

    column: str
    shift: float = 0.0


class OldLaw(Content):
    """A law, as version 0.1 wrote it."""

    terms: list[OldTerm]
    irreducible: bool


class SamplesHeader(Content):
    """What ``Samples.save`` writes beside the draws; estimates may be nan."""

    model_config = ConfigDict(strict=True, allow_inf_nan=True, extra="ignore")

    format: str
    law: str | OldLaw
    names: list[str] = Field(min_length=1)
    method: str
    estimate: dict[str, float]
    level: Annotated[float, Field(gt=0, lt=1)]
    n_chains: Annotated[int, Field(ge=1)]
    corrections: dict[str, tuple[float, float]]
    reservations: dict[str, str]
    diagnostics: dict[str, Any]
    warnings: list[WarningContent]


def read_document(
    kind: type[_M], text: str | bytes, path: str | Path, remedy: str, known: Mapping[str, str] | None = None
) -> _M:
    """Check a JSON document against its schema.

    Parameters
    ----------
    kind : type
    text : str or bytes
    path : str or Path
        Where it stands, for messages.
    remedy : str
        What makes a good one.
    known : mapping of str to str, optional
        What to say of an entry that is missing or of another kind, in place of what the schema says; "" is all of it.

    Raises
    ------
    DataError
        That names the file, the first entry that is wrong, and the remedy.
    """
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise DataError(f"{path} is not JSON; {remedy}") from None
        place = ".".join(str(part) for part in first["loc"])
        if known is not None and place in known and first["type"] != "value_error":
            raise DataError(f"{path} {known[place]}; {remedy}") from None
        raise DataError(f"{path} is damaged: {place or 'its form'}: {first['msg']}; {remedy}") from None


def read_arrays(path: str | Path, names: tuple[str, ...], held: str, remedy: str) -> dict[str, NDArray[Any]]:
    """Read arrays of an .npz file of ours, which is not compressed: it cannot hold more than its size.

    Raises
    ------
    DataError
        If it is no such file, or lacks one of the names.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise DataError(f"{path} is compressed, which no file of ours is; {remedy}")
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in names}
    except DataError:
        raise
    except Exception as error:  # a damaged archive fails in zipfile, zlib, tokenize, ast and NumPy in ways of their own
        raise DataError(f"{path} does not hold {held} ({type(error).__name__}: {error}); {remedy}") from None
