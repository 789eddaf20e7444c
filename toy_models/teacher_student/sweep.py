"""Run a sweep into a folder, finish one that was interrupted, or help others with theirs.

The folder holds ``config.json``, ``results.csv`` (the last row of every student), ``history.csv`` (the
rows before) and ``packs/``: a job folder for every pack, see `toy_models.jobs`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import torch

from scalefit.errors import OptionError
from scalefit.files import write_atomically
from scalefit.numbers import json_text
from toy_models.crew import StopSign, run_crew
from toy_models.jobs import LEASE_SECONDS, JobState, work_through
from toy_models.teacher_student.config import SweepConfig
from toy_models.teacher_student.packrun import PackFolder, run_pack
from toy_models.teacher_student.rows import count_diverged, merge_rows

__all__ = ["SweepProgress", "SweepResult", "load_config", "run_sweep"]

MERGE_SECONDS = 5.0


@dataclass(frozen=True)
class SweepProgress:
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
    failed : mapping of str to str
        Packs that were given up, with the end of their last attempt.
    diverged : int
        Students that diverged, in the rows so far.
    seconds : float
        Wall time of this run.
    """

    folder: Path
    results: Path
    history: Path
    finished: bool
    failed: Mapping[str, str]
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
    executor: Executor | None = None,
    checkpoint_steps: int | None = None,
    retry: bool = True,
    lease: float = LEASE_SECONDS,
    report: Callable[[SweepProgress], None] = lambda _: None,
) -> SweepResult:
    """Run what is left of a sweep, beside any number of other processes that do the same.

    Interrupt and termination signals are answered by saving every pack and returning.

    Parameters
    ----------
    config : SweepConfig
    folder : path
        Created if missing; a folder of the same configuration is continued.
    workers : int or None
        Processes, see `scalefit.execute.open_executor`.
    executor : Executor, optional
        Any executor whose workers see the folder under the same path, in place of own processes; `workers` is the
        number of jobs it gets.
    checkpoint_steps : int or None
        Steps between checkpoints; ``None`` saves every ten seconds.
    retry : bool
        Give packs that failed before their attempts again.
    lease : float
        Seconds after which a pack is taken from a worker that does not answer.
    report : callable
        Called about five times a second.

    Raises
    ------
    OptionError
        The folder holds another configuration or other files, or a value is not allowed.
    """
    if checkpoint_steps is not None and checkpoint_steps < 1:
        raise OptionError(f"checkpoint_steps is {checkpoint_steps} and must be at least 1")
    if workers is not None and workers < 0:
        raise OptionError(f"workers is {workers} and must be 0 (this process) or more; leave it out for one a core")
    if config.device == "cuda" and not torch.cuda.is_available():
        raise OptionError("device is cuda and torch finds no CUDA device; use cpu, or a CUDA build of torch on a GPU")
    folder = Path(folder).absolute()
    _prepare(config, folder)
    packs = [PackFolder(folder, pack, lease) for pack in config.packs()]
    if retry:
        for pack in packs:
            pack.forget_failures()
    watch = _Watch(folder, packs, report)
    arguments = (str(folder), checkpoint_steps, lease)
    finished = run_crew(run_packs, arguments, folder, packs, workers=workers, executor=executor, tick=watch.tick)
    watch.tick()
    merge_tables(folder, packs)
    results, history = folder / "results.csv", folder / "history.csv"
    failed = {pack.pack.id: pack.error for pack in packs if pack.state is JobState.FAILED}
    return SweepResult(folder, results, history, finished, failed, count_diverged(results), watch.seconds)


def run_packs(
    folder: str, checkpoint_steps: int | None, lease: float, sign: str, tick: Callable[[], None] = lambda: None
) -> bool:
    """Work through the packs of a folder until none is left or the sign says stop; one member of a crew."""
    config, stop = load_config(folder), StopSign(sign)
    packs = [PackFolder(Path(folder), pack, lease) for pack in config.packs()]
    return work_through(
        packs,
        lambda index, claim: run_pack(config, packs[index], claim, checkpoint_steps=checkpoint_steps, stop=stop),
        tick=tick,
        stop=stop,
    )


def _prepare(config: SweepConfig, folder: Path) -> None:
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
    write_atomically(folder / "config.json", json_text(config.to_dict()))


def merge_tables(folder: Path, packs: Sequence[PackFolder]) -> None:
    """Write both tables anew from the packs that are done, whoever did them."""
    while True:
        done = [pack for pack in packs if pack.is_done]
        results, history = merge_rows(pack.rows for pack in done)
        write_atomically(folder / "results.csv", results)
        write_atomically(folder / "history.csv", history)
        # Another process may have written more rows just before: who writes last looks again.
        if sum(pack.is_done for pack in packs) == len(done):
            return


class _Watch:
    """Turns the packs' progress files into one fraction and an estimate, and keeps the tables fresh."""

    def __init__(self, folder: Path, packs: Sequence[PackFolder], report: Callable[[SweepProgress], None]) -> None:
        self._folder, self._packs, self._report = folder, packs, report
        self._total = sum(pack.pack.work for pack in packs)
        self._start, self._before = time.monotonic(), self._done()
        self._merged, self._n_merged = time.monotonic(), -1

    def _done(self) -> float:
        return sum(pack.fraction_done * pack.pack.work for pack in self._packs) / self._total

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    def tick(self) -> None:
        done, seconds = self._done(), self.seconds
        gained = done - self._before
        left = seconds * (1 - done) / gained if gained > 0 else float("nan")
        self._report(SweepProgress(done, seconds, left))
        if time.monotonic() - self._merged > MERGE_SECONDS:
            self._merged = time.monotonic()
            n_done = sum(pack.is_done for pack in self._packs)
            if n_done > self._n_merged:
                self._n_merged = n_done
                merge_tables(self._folder, self._packs)
