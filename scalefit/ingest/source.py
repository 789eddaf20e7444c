"""Bytes and text of a file: its hash, its compression, its encoding."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path

from scalefit.errors import DataError, ScalefitWarning

__all__ = ["Source", "as_utf8", "load_source"]

MAX_BYTES = 4 * 1024**3


@dataclass(frozen=True)
class Source:
    """A file in memory: its name for messages, suffix without ".gz", decompressed bytes, hash of the file on disk."""

    name: str
    suffix: str
    data: bytes
    sha256: str


def load_source(path: Path) -> Source:
    """Read a file, decompressing gzip by its first bytes.

    Raises
    ------
    DataError
        If it cannot be opened, is empty, or is damaged gzip.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataError(f"{path.name} is larger than 4 GB; select the rows you need first")
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    data = gunzip(raw, path.name) if raw.startswith(b"\x1f\x8b") else raw
    if not data or (data[:4096].isspace() and data.isspace()):
        raise DataError(f"{path.name} is empty; export the runs again")
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    suffix = suffixes[-1] if suffixes else ""
    return Source(path.name, suffix, data, hashlib.sha256(raw).hexdigest())


def gunzip(raw: bytes, name: str) -> bytes:
    inflater = zlib.decompressobj(wbits=31)
    try:
        data = inflater.decompress(raw, MAX_BYTES)
        if inflater.eof and inflater.unused_data:
            data = gzip.decompress(raw)
    except (zlib.error, gzip.BadGzipFile, EOFError) as error:
        raise DataError(f"{name} is damaged gzip ({error}); copy it again") from None
    if not inflater.eof:
        raise DataError(f"{name} is gzip that ends too early (or holds over 4 GB); copy it again")
    return data


def as_utf8(source: Source) -> tuple[bytes, tuple[ScalefitWarning, ...]]:
    """Return the text of a source as UTF-8: from UTF-8 or UTF-16 with their marks, else from Windows-1252 and said."""
    data = source.data
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            try:
                return data.decode(encoding).encode(errors="surrogatepass"), ()
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{source.name}: byte {error.start} is no {encoding} text; save the file as UTF-8"
                ) from None
    if b"\x00" in data:
        raise DataError(f"{source.name} holds NUL bytes and is no text; save it as CSV in UTF-8")
    try:
        if not data.isascii():
            data.decode()
        return data, ()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        warning = ScalefitWarning(
            "encoding-assumed",
            f"line {line} of {source.name} is not UTF-8; the file was read as Windows-1252.",
            "Check the names and labels, or save the file as UTF-8.",
            {"line": line},
        )
        return data.decode("cp1252", errors="replace").encode(), (warning,)
