"""The tables that ship with the package, each checked against its registered sha256.

The registry, ``data/registry.toml``, gives every table's columns with units, source and licence, and for
tables that this project produced the command, seed, versions and processor.
"""

from __future__ import annotations

import difflib
import hashlib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from scalefit.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from scalefit.runs import Runs

__all__ = ["Dataset", "dataset_path", "describe_dataset", "list_datasets", "load_dataset", "read_table"]


@dataclass(frozen=True)
class Dataset:
    """What the registry says of one shipped table.

    Attributes
    ----------
    name : str
        The name by which `load_dataset` and the command line know the table.
    kind : str
        ``"runs"``: a table of trained models, ready to fit; ``"table"``: anything else.
    title : str
        One sentence on the content.
    file : str
        File name inside the data folder.
    n_rows : int
        Number of data rows.
    sha256 : str
        Checksum of the file, 64 hexadecimal digits.
    columns : mapping
        Column name to its unit and meaning.
    source : str
        Where the figures come from.
    licence : str
        On what terms they may be used.
    made_by : mapping
        How this project produced the table (command, seed, versions, processor); empty for other tables.
    """

    name: str
    kind: str
    title: str
    file: str
    n_rows: int
    sha256: str
    columns: Mapping[str, str]
    source: str
    licence: str
    made_by: Mapping[str, str]


def list_datasets() -> tuple[str, ...]:
    """Name the shipped tables of runs, the ones that `load_dataset` reads.

    Examples
    --------
    >>> "chinchilla" in list_datasets()
    True
    """
    return tuple(name for name, dataset in _registry().items() if dataset.kind == "runs")


def describe_dataset(name: str) -> Dataset:
    """Give the registry's entry of a shipped table.

    Raises
    ------
    DataError
        If no table has this name.
    """
    registry = _registry()
    if name not in registry:
        raise _unknown(name, registry)
    return registry[name]


def _unknown(name: str, known: Iterable[str]) -> DataError:
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return DataError(f"no dataset is named {name!r}{hint}; the package ships {', '.join(known)}")


def load_dataset(name: str) -> Runs:
    """Load a shipped table of runs.

    Parameters
    ----------
    name : str
        One of `list_datasets`.

    Returns
    -------
    Runs
        All rows of the table, in its order.

    Raises
    ------
    DataError
        If no table has this name, if the table holds no runs, or if the file is not the registered one.

    Examples
    --------
    >>> len(load_dataset("chinchilla"))
    245
    """
    if name not in _registry():
        raise _unknown(name, list_datasets())
    dataset = describe_dataset(name)
    if dataset.kind != "runs":
        raise DataError(
            f"the dataset {name} has no losses to fit ({dataset.title}); "
            f"read it with scalefit.datasets.read_table({name!r})"
        )
    path = dataset_path(name)
    from scalefit.runs import Runs

    return Runs.from_csv(path)


def read_table(name: str) -> pd.DataFrame:
    """Read any shipped table as a pandas data frame, columns as in the file.

    Raises
    ------
    DataError
        If no table has this name or the file is not the registered one.
    """
    import pandas as pd

    return pd.read_csv(dataset_path(name))


def dataset_path(name: str) -> Path:
    """Locate the file of a shipped table and check it against its sha256.

    Raises
    ------
    DataError
        If no table has this name, or the file is missing or not the registered one.
    """
    dataset = describe_dataset(name)
    path = _data_folder() / dataset.file
    if not path.is_file():
        raise DataError(f"the dataset {name} is missing: {path} does not exist; install the package again")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != dataset.sha256:
        raise DataError(
            f"the dataset {name} was changed: {path} has sha256 {found}, registered is {dataset.sha256}; "
            "restore the file, or read the changed one by its path"
        )
    return path


def _data_folder() -> Path:
    """Find the data: inside the installed package, beside it in a checkout."""
    package = Path(__file__).parent
    inside = package / "data"
    return inside if (inside / "registry.toml").is_file() else package.parent / "data"


@cache
def _registry() -> Mapping[str, Dataset]:
    entries = tomllib.loads((_data_folder() / "registry.toml").read_text(encoding="utf-8"))
    return MappingProxyType({name: _dataset(name, entry) for name, entry in entries.items()})


def _dataset(name: str, entry: Mapping[str, Any]) -> Dataset:
    return Dataset(
        name=name,
        kind=entry["kind"],
        title=entry["title"],
        file=entry["file"],
        n_rows=entry["n_rows"],
        sha256=entry["sha256"],
        columns=MappingProxyType(entry["columns"]),
        source=entry["source"],
        licence=entry["licence"],
        made_by=MappingProxyType(entry.get("made_by", {})),
    )
