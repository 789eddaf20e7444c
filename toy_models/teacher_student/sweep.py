"""Run a sweep into a folder, or finish one that was interrupted.

The folder holds ``config.json``, ``results.csv`` (the last row of every student), ``history.csv`` (the
rows before) and ``packs/``: the state of every pack and its rows as they come.
"""

from __future__ import annotations

import fcntl
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from scalefit.errors import OptionError
from scalefit.execute import ProcessExecutor, SerialExecutor, open_executor
from toy_models.teacher_student.config import Pack, SweepConfig
from toy_models.teacher_student.packrun import PackFiles, run_pack
from toy_models.teacher_student.rows import count_diverged, merge_rows, write_atomically

__all__ = ["Progress", "SweepResult", "load_config", "run_sweep"]

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Progress:
    """Where a sweep stands.

    Attributes
    ----------
    done : float
        Fraction of the work that is done.
    seconds, left : float
        Time since the start (or the resumption), and the estimate of what remains; NaN before there is one.
    """

    done: float
    seconds: float
    left: float


@dataclass(frozen=True)
class SweepResult:
    """What a run left behind.

    Attributes
    ----------
    folder, results, history : Path
    finished : bool
        False when the run was asked to stop; the folder can be resumed.
    diverged : int
        Students that diverged, in the rows so far.
    seconds : float
        Wall time of this run.
    """

    folder: Path
    results: Path
    history: Path
    finished: bool
    diverged: int
    seconds: float


def load_config(folder: str | Path) -> SweepConfig:
    """Read the configuration of a results folder.

    Raises
    ------
    OptionError
        The folder holds no sweep.
    """
    path = Path(folder) / "config.json"
    if not path.is_file():
        raise OptionError(
            f"{folder} holds no sweep (config.json is missing); start one with: scalefit toy PRESET -o {folder}"
        )
    return SweepConfig.from_file(path)


def run_sweep(
    config: SweepConfig,
    folder: str | Path,
    *,
    workers: int | None = None,
    checkpoint_steps: int | None = None,
    report: Callable[[Progress], None] = lambda _: None,
) -> SweepResult:
    """Run what is left of a sweep.

    Interrupt and termination signals are answered by saving every pack and returning.

    Parameters
    ----------
    config : SweepConfig
    folder : path
        Created if missing; a folder of the same configuration is continued.
    workers : int or None
        Processes, see `scalefit.execute.open_executor`.
    checkpoint_steps : int or None
        Steps between checkpoints; ``None`` saves every two minutes.
    report : callable
        Called about twice a second.

    Raises
    ------
    OptionError
        The folder holds another configuration or other files, or is in use, or a value is not allowed.
    """
    if checkpoint_steps is not None and checkpoint_steps < 1:
        raise OptionError(f"checkpoint_steps is {checkpoint_steps} and must be at least 1")
    if config.device == "cuda" and not torch.cuda.is_available():
        raise OptionError("device is cuda and torch finds no CUDA device; use cpu, or a CUDA build of torch on a GPU")
    folder, start = Path(folder), time.monotonic()
    _claim(config, folder)
    with _held(folder):
        finished = _run_packs(config, folder, workers, checkpoint_steps, report)
    results, history = folder / "results.csv", folder / "history.csv"
    return SweepResult(folder, results, history, finished, count_diverged(results), time.monotonic() - start)


def _claim(config: SweepConfig, folder: Path) -> None:
    """Make sure that the folder is this configuration's, without touching anything else's."""
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder} is a file and must be a folder; choose another -o")
    if (folder / "config.json").exists():
        other = load_config(folder)
        if other.id != config.id:
            raise OptionError(
                f"{folder} holds the sweep {other.name!r} ({other.id}), not {config.name!r} ({config.id}); "
                f"choose another folder, or continue that one with: scalefit toy resume {folder}"
            )
        return
    if folder.exists() and any(folder.iterdir()):
        raise OptionError(f"{folder} is not empty and holds no sweep; choose a new or an empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "config.json", json.dumps(config.to_dict(), indent=1) + "\n")


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold the folder against a second run; the system releases it however this process ends."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OptionError(f"{folder} is in use by another run; wait for it or choose another folder") from None
        yield


def _run_packs(
    config: SweepConfig,
    folder: Path,
    workers: int | None,
    checkpoint_steps: int | None,
    report: Callable[[Progress], None],
) -> bool:
    packs = config.packs()
    content = config.to_dict()
    left = [index for index, pack in enumerate(packs) if not PackFiles(folder, pack).is_done]
    meter = _Meter(folder, packs)
    with open_executor(workers) as executor, _stop_on_signals(executor):
        futures = [executor.submit(run_pack, str(folder), content, index, checkpoint_steps) for index in left]
        return _follow(futures, lambda: report(meter.read()), lambda: _merge(folder, packs))


def _follow(futures: list[Future[bool]], tick: Callable[[], None], merge: Callable[[], None]) -> bool:
    """Wait for all jobs; the tables are written anew whenever one ends."""
    pending = set(futures)
    merge()
    while pending:
        done, pending = wait(pending, timeout=POLL_SECONDS)
        tick()
        if done:
            merge()
    try:
        return all(future.result() for future in futures)
    except BrokenProcessPool:
        raise OptionError(
            "a worker process was killed, perhaps for lack of memory; what was saved stays: continue with "
            "scalefit toy resume, with fewer --workers if memory was short"
        ) from None


def _merge(folder: Path, packs: tuple[Pack, ...]) -> None:
    rows = [PackFiles(folder, pack).rows for pack in packs]
    results, history = merge_rows(path for path in rows if path.exists())
    write_atomically(folder / "results.csv", results)
    write_atomically(folder / "history.csv", history)


class _Meter:
    """Turns the packs' progress files into one fraction and an estimate."""

    def __init__(self, folder: Path, packs: tuple[Pack, ...]) -> None:
        self._files = [(PackFiles(folder, pack), pack) for pack in packs]
        self._total = sum(pack.work for pack in packs)
        self._start, self._before = time.monotonic(), self._done()

    def _done(self) -> float:
        return sum(files.fraction_done(pack) * pack.work for files, pack in self._files) / self._total

    def read(self) -> Progress:
        done, seconds = self._done(), time.monotonic() - self._start
        gained = done - self._before
        left = seconds * (1 - done) / gained if gained > 0 else float("nan")
        return Progress(done, seconds, left)


@contextmanager
def _stop_on_signals(executor: SerialExecutor | ProcessExecutor) -> Iterator[None]:
    """Answer SIGINT and SIGTERM by asking the jobs to save and return."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        executor.request_stop()

    before: dict[signal.Signals, Any] = {
        number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
