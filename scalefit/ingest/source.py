"""Bytes and text of a file: its hash, its compression, its encoding."""

from __future__ import annotations

import bz2
import hashlib
import io
import lzma
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalefit.errors import DataError, MissingExtraError, ScalefitWarning

__all__ = ["Source", "as_utf8", "load_source"]

MAX_BYTES = 4 * 1024**3


@dataclass(frozen=True)
class Source:
    """A file in memory: its name for messages, suffix without ".gz", its bytes unfolded, hash as it stands."""

    name: str
    suffix: str
    data: bytes
    sha256: str


def load_source(where: str | Path) -> Source:
    """Read a file, standard input ("-") or an address ("s3://..."), decompressing by the first bytes.

    Raises
    ------
    DataError
        If it cannot be opened, is no file, is empty, damaged, or unfolds to more than such a file holds.
    """
    name = Path(str(where)).name if str(where) != "-" else "standard input"
    try:
        raw = _raw(where)
    except OSError as error:
        raise DataError(f"{where} cannot be read: {error.strerror or error}") from None
    if len(raw) > MAX_BYTES:
        raise DataError(f"{name} is larger than 4 GB; select the rows you need first")
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    data = raw
    if raw.startswith(b"PK\x03\x04"):
        data, suffixes = _unzip(raw, name, suffixes)
    for mark, ending, unfold in _COMPRESSED:
        if raw.startswith(mark):
            data = unfold(raw, name)
            suffixes = [suffix for suffix in suffixes if suffix != ending]
    if not data or (data[:4096].isspace() and data.isspace()):
        raise DataError(f"{name} is empty; export the runs again")
    return Source(name, suffixes[-1] if suffixes else "", data, hashlib.sha256(raw).hexdigest())


def _raw(where: str | Path) -> bytes:
    if str(where) == "-":
        return _drained(sys.stdin.buffer)
    if "://" in str(where):
        try:
            import fsspec
        except ImportError:
            raise MissingExtraError("fsspec", f"reading {where}", "remote") from None
        try:
            with fsspec.open(str(where), "rb") as opened:
                return _drained(opened)
        except (ImportError, ValueError) as error:
            raise DataError(f"{where} cannot be read: {error}") from None
        except Exception as error:  # each protocol raises what its client does
            raise DataError(f"{where} cannot be read: {type(error).__name__}: {error}") from None
    path = Path(where)
    found = path.stat()
    if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
        raise DataError(f"{path} is a device and no file; name a file")
    if found.st_size > MAX_BYTES:
        raise DataError(f"{path.name} is larger than 4 GB; select the rows you need first")
    with path.open("rb") as opened:
        return opened.read() if stat.S_ISREG(found.st_mode) else _drained(opened)


def _drained(stream: Any) -> bytes:
    """Read a stream of unknown length, up to the bound; one large request would claim all of it at once."""
    parts, held = [], 0
    while held <= MAX_BYTES and (part := stream.read(1 << 20)):
        parts.append(part)
        held += len(part)
    return b"".join(parts)


def _bound(raw: bytes) -> int:
    """Bytes that compressed text may unfold to; tables shrink by less than 300 times."""
    return int(min(MAX_BYTES, 64 * 1024**2 + 300 * len(raw)))


def _too_large(name: str, kind: str) -> DataError:
    return DataError(f"{name} is {kind} that unfolds to more than a table of its size can; copy or unpack it again")


def _unzip(raw: bytes, name: str, suffixes: list[str]) -> tuple[bytes, list[str]]:
    """Return the one file of an archive, or the bytes themselves where they are a workbook."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir() and "__MACOSX" not in entry.filename]
            if any(entry.filename.startswith("xl/") for entry in entries):
                return raw, suffixes
            if len(entries) != 1:
                shown = ", ".join(entry.filename for entry in entries[:3])
                raise DataError(f"{name} holds {len(entries)} files ({shown}); unpack it and name a file or the folder")
            if entries[0].file_size > _bound(raw):
                raise _too_large(name, "a zip archive")
            return archive.read(entries[0]), [suffix.lower() for suffix in Path(entries[0].filename).suffixes]
    except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError) as error:
        if ".xlsx" in suffixes:
            return raw, suffixes
        raise DataError(f"{name} is a damaged zip archive ({error}); copy it again") from None


def _gunzip(raw: bytes, name: str) -> bytes:
    """Unfold gzip, its members one after the other."""
    parts, rest, bound = [], raw, _bound(raw)
    while rest:
        inflater = zlib.decompressobj(wbits=31)
        try:
            parts.append(inflater.decompress(rest, bound + 1))
        except zlib.error as error:
            if parts and not rest.startswith(b"\x1f\x8b"):
                break  # padding after the last member
            raise DataError(f"{name} is damaged gzip ({error}); copy it again") from None
        bound -= len(parts[-1])
        if bound < 0:
            raise _too_large(name, "gzip")
        if not inflater.eof:
            raise DataError(f"{name} is gzip that ends too early; copy it again")
        rest = inflater.unused_data.lstrip(b"\0")
    return b"".join(parts)


def _unfold(raw: bytes, name: str, kind: str, decompressor: Any) -> bytes:
    try:
        data = bytes(decompressor.decompress(raw, _bound(raw) + 1))
    except (OSError, ValueError, EOFError, lzma.LZMAError) as error:
        raise DataError(f"{name} is damaged {kind} ({error}); copy it again") from None
    if len(data) > _bound(raw):
        raise _too_large(name, kind)
    if not decompressor.eof:
        raise DataError(f"{name} is {kind} that ends too early; copy it again")
    return data


def _unzstd(raw: bytes, name: str) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError("zstandard", "reading .zst files", "remote") from None
    try:
        with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(raw), read_across_frames=True) as reader:
            data = reader.read(_bound(raw) + 1)
    except zstandard.ZstdError as error:
        raise DataError(f"{name} is damaged zstd ({error}); copy it again") from None
    if len(data) > _bound(raw):
        raise _too_large(name, "zstd")
    return bytes(data)


_COMPRESSED: tuple[tuple[bytes, str, Callable[[bytes, str], bytes]], ...] = (
    (b"\x1f\x8b", ".gz", _gunzip),
    (b"\x28\xb5\x2f\xfd", ".zst", _unzstd),
    (b"BZh", ".bz2", lambda raw, name: _unfold(raw, name, "bzip2", bz2.BZ2Decompressor())),
    (b"\xfd7zXZ\0", ".xz", lambda raw, name: _unfold(raw, name, "xz", lzma.LZMADecompressor())),
)
"""First bytes, usual ending, what unfolds the rest."""


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
