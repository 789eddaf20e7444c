"""Run many independent jobs: here, on a pool of single-thread processes, or on any executor of the caller's.

The interface is the standard library's `concurrent.futures.Executor`, so that a cluster's client can stand in.
Jobs are functions at the top of a module with picklable arguments; what a job computes must depend on its
arguments alone, and then the results are the same for any number of workers.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from multiprocessing.synchronize import Event as ProcessEvent
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from scalefit.errors import OptionError, ScalefitError

__all__ = [
    "ATTEMPTS",
    "GRACE_SECONDS",
    "ProcessExecutor",
    "Progress",
    "SerialExecutor",
    "available_cores",
    "open_executor",
    "run_jobs",
    "stop_requested",
]

_P = ParamSpec("_P")
_T = TypeVar("_T")

Progress = Callable[[int, int], None]
"""What a long piece of work tells how far it is: called with the units done, and all of them."""

ATTEMPTS = 3
"""How often a job is begun that fails, or whose worker is lost, before it is reported and left."""

GRACE_SECONDS = 1.5
"""Time that running jobs have to save their state when work is given up; then their processes are ended."""

_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)

# What a running job looks at; in a worker process the pool's event joins the process's own.
_stop_events: list[threading.Event | ProcessEvent] = [threading.Event()]


def stop_requested() -> bool:
    """Say whether a job should save its state and return early; cheap enough for every step."""
    return any(event.is_set() for event in _stop_events)


def available_cores() -> int:
    """Number of cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


class SerialExecutor(Executor):
    """Runs a job in this process at the moment it is submitted."""

    def __enter__(self) -> SerialExecutor:
        _stop_events[0].clear()
        return self

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Run the job and return its finished future."""
        future: Future[_T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

    def request_stop(self) -> None:
        """Ask the running job, and those to come, to save and return."""
        _stop_events[0].set()


class ProcessExecutor(ProcessPoolExecutor):
    """A pool of processes with one thread each.

    Workers start by spawning, which is safe beside threads and accelerators. They ignore Ctrl-C, which a
    terminal sends to everybody: the parent decides, through `request_stop`. They end with the
    parent even when that is killed.

    Parameters
    ----------
    workers : int or None
        Number of processes; one a core by default.
    """

    def __init__(self, workers: int | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        self._stop_event = context.Event()
        super().__init__(
            max_workers=workers or available_cores(),
            mp_context=context,
            initializer=_start_worker,
            initargs=(self._stop_event,),
        )
        self._workers: dict[int, Any] = {}

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Queue a job; a worker is started if none is idle."""
        with _worker_surroundings():
            future = super().submit(fn, *args, **kwargs)
        # the pool forgets its processes when it breaks, those that hang among them
        self._workers.update(self._processes or {})
        return future

    def request_stop(self) -> None:
        """Ask every job that looks at `stop_requested` to save and return."""
        self._stop_event.set()

    def end_worker(self, pid: int) -> None:
        """Kill one worker, if it is one; the pool is broken then, as if the system had done it."""
        if (process := self._workers.get(pid)) is not None:
            process.kill()

    def give_up(self) -> None:
        """Drop what is queued, let running jobs save for `GRACE_SECONDS`, and end the workers."""
        self.request_stop()
        processes = list(self._workers.values())
        self.shutdown(wait=False, cancel_futures=True)
        until = time.monotonic() + GRACE_SECONDS
        for process in processes:
            process.join(max(0.0, until - time.monotonic()))
        for process in processes:
            if process.is_alive():
                process.kill()
        for process in processes:
            process.join()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for all jobs; after an error, Ctrl-C among them, nobody waits for their results: give them up."""
        if kind is not None:
            self.give_up()
        self.shutdown()


def open_executor(workers: int | None = None) -> SerialExecutor | ProcessExecutor:
    """Return an executor, to be used in a ``with`` statement.

    Parameters
    ----------
    workers : int or None
        Number of processes, one a core by default; 0 runs the jobs in this process.

    Raises
    ------
    OptionError
        The number is negative.
    """
    if workers is not None and workers < 0:
        raise OptionError(f"workers is {workers} and must be 0 (this process) or more; leave it out for one a core")
    return SerialExecutor() if workers == 0 else ProcessExecutor(workers)


def run_jobs(
    function: Callable[[Any], _T],
    jobs: Sequence[Any],
    workers: int | None = 0,
    progress: Progress | None = None,
    *,
    executor: Executor | None = None,
) -> list[_T]:
    """Run a function on every job and return the results in the order of the jobs.

    Ctrl-C drops what is queued and keeps the first results that are complete, if there are any. A job whose worker
    process is lost (killed, out of memory) is begun again, up to `ATTEMPTS` times.

    Parameters
    ----------
    function : callable
        At the top of a module.
    jobs : sequence
        Picklable arguments of `function`, one a job.
    workers : int or None
        As in `open_executor`.
    progress : callable, optional
        Called with the jobs done and their number.
    executor : Executor, optional
        Any executor of the standard library's interface, used as it is and left open, in place of `workers`.

    Raises
    ------
    ScalefitError
        If a job's worker is lost every time.
    """
    done: list[_T] = []
    lost = 0
    while len(done) < len(jobs):
        before = len(done)
        try:
            with contextlib.nullcontext(executor) if executor is not None else open_executor(workers) as pool:
                _collect(pool, function, jobs, done, progress)
        except BrokenExecutor:
            if executor is not None:  # a pool of the caller's is the caller's to make anew
                raise
            lost = lost + 1 if len(done) == before else 1
            if lost == ATTEMPTS:
                raise ScalefitError(
                    f"job {len(done) + 1} of {len(jobs)} could not be finished: its worker process was lost "
                    f"{ATTEMPTS} times, perhaps for lack of memory; use fewer workers"
                ) from None
        except KeyboardInterrupt:
            if not done:
                raise
            break
    return done


def _collect(
    pool: Executor, function: Callable[[Any], _T], jobs: Sequence[Any], done: list[_T], progress: Progress | None
) -> None:
    """Add to `done` the results of the jobs that are not in it yet."""
    submitted = (pool.submit(function, job) for job in jobs[len(done) :])
    # The serial executor works when a job is submitted: one at a time leaves room for progress and Ctrl-C.
    futures = submitted if isinstance(pool, SerialExecutor) else list(submitted)
    try:
        for future in futures:
            done.append(future.result())
            if progress is not None:
                progress(len(done), len(jobs))
    except BaseException:
        for future in futures if isinstance(futures, list) else ():
            future.cancel()
        raise


@contextlib.contextmanager
def _worker_surroundings() -> Iterator[None]:
    """What a process started inside inherits: one thread a library, and signals held back at first."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    # Numerical libraries read these once, when they are loaded: they must stand before the worker starts.
    os.environ.update(_ONE_THREAD)
    # A signal that arrives while a worker is still importing would kill it with a traceback.
    held = signal.pthread_sigmask(signal.SIG_BLOCK, _signals()) if hasattr(signal, "pthread_sigmask") else None
    try:
        yield
    finally:
        if held is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _signals() -> set[signal.Signals]:
    return {signal.SIGINT, signal.SIGTERM}


def _start_worker(stop: ProcessEvent) -> None:
    """Prepare a worker process: its signals, its stop event, its end when the parent ends."""
    _stop_events.append(stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _stop_this_worker)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _signals())
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _stop_this_worker(*_: Any) -> None:
    _stop_events[0].set()


def _end_with_parent() -> None:
    # Without this a worker outlives a killed parent and goes on writing into its folder.
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
