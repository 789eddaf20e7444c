"""Several processes that work through one folder of jobs, watched by this one."""

from __future__ import annotations

import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, wait
from contextlib import contextmanager, nullcontext
from pathlib import Path

from scalefit.errors import OptionError
from scalefit.execute import (
    ATTEMPTS,
    GRACE_SECONDS,
    ProcessExecutor,
    SerialExecutor,
    available_cores,
    open_executor,
    stop_requested,
)
from toy_models.jobs import JobFolder, JobState

__all__ = ["StopSign", "run_crew"]

WATCH_SECONDS = 0.2
LOOK_SECONDS = 1.0


class StopSign:
    """Whether the work is to be given up: asked by this process's executor, or by a file that the crew's head writes.

    The file reaches workers on other machines, of any executor.
    """

    def __init__(self, path: str) -> None:
        self._path, self._looked, self._seen = Path(path), 0.0, False

    def __call__(self) -> bool:
        if time.monotonic() - self._looked > LOOK_SECONDS:
            self._looked = time.monotonic()
            self._seen = self._path.exists()
        return self._seen or stop_requested()


class _Head:
    """Answers SIGINT and SIGTERM by asking the crew to save and return."""

    def __init__(self, folder: Path) -> None:
        self.sign = folder / f".stop-{secrets.token_hex(4)}"
        self.asked: float | None = None
        self.pool: Executor | None = None

    def stop(self, *_: object) -> None:
        self.asked = self.asked or time.monotonic()
        if isinstance(self.pool, (ProcessExecutor, SerialExecutor)):
            self.pool.request_stop()
        else:
            self.sign.touch()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take over the signals of the main thread; others get none."""
        numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        before = {number: signal.signal(number, self.stop) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self.sign.unlink(missing_ok=True)


def run_crew(
    member: Callable[..., bool],
    arguments: tuple[object, ...],
    folder: Path,
    jobs: Sequence[JobFolder],
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    tick: Callable[[], None],
) -> bool:
    """Run ``member(*arguments, sign)`` in several processes until every job is finished or failed.

    A process that is lost, or hangs beyond the lease, is replaced; the jobs count their attempts themselves.

    Parameters
    ----------
    member : callable
        At the top of a module; works through the folder, see `toy_models.jobs.work_through`, until a `StopSign` of
        `sign` says no, calling its optional argument `tick` now and then; returns whether nothing is left.
    arguments : tuple
        Picklable.
    folder : Path
        Where the jobs are.
    jobs : sequence of JobFolder
    workers : int or None
        Processes, see `scalefit.execute.open_executor`; with `executor`, members handed to it.
    executor : Executor, optional
        Any executor, used as it is and left open.
    tick : callable
        Called several times a second.

    Returns
    -------
    bool
        Whether nothing is left to do; False after an interrupt or a termination signal.

    Raises
    ------
    OptionError
        Processes are lost before they can begin a job.
    """
    head, lost = _Head(folder), 0
    with head.listening():
        while True:
            before = _tally(jobs)
            try:
                with nullcontext(executor) if executor is not None else open_executor(workers) as pool:
                    head.pool = pool
                    left = sum(job.state in (JobState.OPEN, JobState.HELD) for job in jobs)
                    n = 1 if isinstance(pool, SerialExecutor) else min(workers or available_cores(), left)
                    # here the member itself says how far it is; others are watched
                    told = {"tick": tick} if isinstance(pool, SerialExecutor) else {}
                    futures = [pool.submit(member, *arguments, str(head.sign), **told) for _ in range(n)]
                    return _follow(futures, head, jobs, tick)
            except BrokenExecutor:
                if executor is not None or head.asked:
                    return False
                lost = lost + 1 if _tally(jobs) == before else 0
                if lost == ATTEMPTS:
                    raise OptionError(
                        "worker processes were killed before they could begin, perhaps for lack of memory; what was "
                        "saved stays: continue with fewer --workers"
                    ) from None


def _tally(jobs: Sequence[JobFolder]) -> int:
    """A number that grows whenever a job is begun."""
    return sum(job.n_claims for job in jobs)


def _follow(futures: Sequence[Future[bool]], head: _Head, jobs: Sequence[JobFolder], tick: Callable[[], None]) -> bool:
    pending, looked, begun = set(futures), time.monotonic(), time.time()
    while pending:
        _, pending = wait(pending, timeout=WATCH_SECONDS)
        tick()
        if head.asked and time.monotonic() - head.asked > GRACE_SECONDS:
            if isinstance(head.pool, ProcessExecutor):
                head.pool.give_up()
            for future in pending:
                future.cancel()
            return False
        if isinstance(head.pool, ProcessExecutor) and time.monotonic() - looked > LOOK_SECONDS:
            looked = time.monotonic()
            for job in jobs:
                for pid in job.overdue(begun):
                    head.pool.end_worker(pid)
    finished = [future.result() for future in futures]  # all of them, to hear of every loss
    return all(finished)
