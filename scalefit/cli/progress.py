"""Progress bars of long commands: on a terminal's standard error, nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress_bars"]

Report = Callable[[int, int], None]


@contextmanager
def progress_bars() -> Iterator[Callable[[str], Report | None]]:
    """Yield a function that makes a bar of a name; where nobody watches it makes none.

    A bar is a function of the work done and all of it.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:

        def bar(name: str) -> Report:
            task = progress.add_task(name, total=None)
            return lambda done, total: progress.update(task, completed=done, total=total)

        yield bar
