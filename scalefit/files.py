"""Files that we write: whole or not at all, and never over another by accident."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from scalefit.errors import OptionError

__all__ = ["make_folder", "refuse_to_overwrite", "write_atomically"]


def refuse_to_overwrite(overwrite: bool, *paths: str | Path | None) -> None:
    """Complain before any work is done about files that could not, or should not, be written.

    Raises
    ------
    OptionError
        If one exists and `overwrite` is false, is a folder, has no folder to stand in, or two are the same.
    """
    given = [Path(path) for path in paths if path is not None]
    if len({path.resolve() for path in given}) < len(given):
        raise OptionError(f"{given[0]} is named for two files; give each a name of its own")
    for path in given:
        if path.is_dir():
            raise OptionError(f"{path} is a folder; name a file in it")
        if not path.parent.is_dir():
            raise OptionError(f"{path}: the folder {path.parent} does not exist; make it first, or name another")
        if path.exists() and not overwrite:
            raise OptionError(f"{path} exists; choose another name or overwrite it with --force")


def make_folder(path: str | Path) -> Path:
    """Make a folder for several files where there is none; the one that it stands in must exist.

    Raises
    ------
    OptionError
        If it is a file, or cannot be made.
    """
    path = Path(path)
    try:
        path.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise OptionError(f"{path}: the folder {path.parent} does not exist; make it first, or name another") from None
    except OSError as error:
        raise OptionError(f"the folder {path} cannot be made: {error.strerror}; name another folder") from None
    return path


def write_atomically(path: str | Path, content: str | bytes | Callable[[Path], object]) -> Path:
    """Write a file so that everybody sees the old content or the new, whatever happens in between.

    The content goes to a new file in the same folder, reaches the disk, and takes the place of the old one by one
    rename. A kill leaves at most a file ``.scalefit-*`` behind, which may be deleted; an error, such as a full disk,
    leaves nothing.

    Parameters
    ----------
    path : str or Path
        Its folder must exist. A link is followed; a device or a pipe, which holds no old content, is written to.
    content : str, bytes or callable
        Text is written as UTF-8 with its own line ends. A callable is given the path of the new file, whose suffix
        is that of `path`, and writes it.

    Returns
    -------
    Path
        As given.

    Raises
    ------
    OSError
        With the name of the file that was asked for.
    """
    path = Path(path)
    try:
        target = Path(os.path.realpath(path))
        if not target.exists() or target.is_file():
            _replace(target, content)
        elif callable(content):
            raise OSError(22, "cannot be written piece by piece", str(path))
        else:
            target.write_bytes(_encoded(content))
    except OSError as error:
        # the name of the new file beside it would tell the user nothing
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    return path


def _replace(target: Path, content: str | bytes | Callable[[Path], object]) -> None:
    # a short name of its own: one made of the target's could be longer than the file system allows
    new = target.with_name(f".scalefit-{secrets.token_hex(8)}{target.suffix}")
    try:
        # "x" gives it the permissions that the user's mask says; those of an old file are kept
        with new.open("xb") as file:
            if target.exists():
                new.chmod(target.stat().st_mode & 0o777)
            if not callable(content):
                file.write(_encoded(content))
        if callable(content):
            content(new)
        _sync(new)
        new.replace(target)
    finally:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
    if os.name == "posix":  # elsewhere folders cannot be opened
        _sync(target.parent)


def _encoded(content: str | bytes) -> bytes:
    return content.encode(errors="backslashreplace") if isinstance(content, str) else content


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, have reached the disk."""
    number = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(number)
    finally:
        os.close(number)
