"""Run many independent jobs: here, or on a pool of single-thread processes.

Both executors have the interface of `concurrent.futures.Executor`, so that a cluster's client can stand
in for them. Jobs are functions at the top of a module with picklable arguments; what a job computes must
depend on its arguments alone, and then the results are the same for any number of workers.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing.synchronize import Event as ProcessEvent
from typing import Any, ParamSpec, TypeVar

from scalefit.errors import OptionError

__all__ = ["ProcessExecutor", "Progress", "SerialExecutor", "available_cores", "open_executor", "stop_requested"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

Progress = Callable[[int, int], None]
"""What a long piece of work tells how far it is: called with the units done, and all of them."""

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

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Queue a job; a worker is started if none is idle."""
        with _worker_surroundings():
            return super().submit(fn, *args, **kwargs)

    def request_stop(self) -> None:
        """Ask every job that looks at `stop_requested` to save and return."""
        self._stop_event.set()


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
