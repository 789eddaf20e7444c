"""One pack as a job of its folder: train, keep the rows, save, resume to the bit."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch

from scalefit.files import write_atomically
from toy_models.jobs import LEASE_SECONDS, Claim, JobFolder
from toy_models.teacher_student.config import Pack, SweepConfig
from toy_models.teacher_student.rows import student_rows, to_csv
from toy_models.teacher_student.trainer import Trainer, evaluation_steps

__all__ = ["PackFolder", "run_pack"]

CHECKPOINT_SECONDS = 10.0
"""Least time between two checkpoints: what a kill costs."""

CHECKPOINT_SHARE = 0.05
"""Most of the time that checkpoints may take; where saving is slow they are rarer."""

PROGRESS_SECONDS = 1.0


class PackFolder(JobFolder):
    """The folder of one pack.

    Attributes
    ----------
    pack : Pack
    rows, checkpoint, progress : Path
        Rows of the finished pack, without header; the last saved state, rows so far included; the number of the
        current step.
    """

    def __init__(self, folder: Path, pack: Pack, lease: float = LEASE_SECONDS) -> None:
        super().__init__(folder / "packs" / pack.id, lease)
        self.pack = pack
        self.rows = self.path / "rows.csv"
        self.checkpoint = self.path / "checkpoint.pt"
        self.progress = self.path / "progress"

    @property
    def fraction_done(self) -> float:
        """Fraction of the steps, from what the progress file tells."""
        if self.is_done:
            return 1.0
        text = self.progress.read_text() if self.progress.exists() else ""
        return int(text) / self.pack.steps if text.isdigit() and self.pack.steps else 0.0


def run_pack(
    config: SweepConfig,
    files: PackFolder,
    claim: Claim,
    *,
    checkpoint_steps: int | None = None,
    stop: Callable[[], bool],
) -> bool:
    """Train one pack from its last checkpoint on.

    Parameters
    ----------
    config : SweepConfig
    files : PackFolder
    claim : Claim
        The right to do so, renewed at every step.
    checkpoint_steps : int or None
        Steps between checkpoints; ``None`` saves every ten seconds instead.
    stop : callable
        Asked at every step whether to save and return.

    Returns
    -------
    bool
        True when the horizon was reached, False when a stop was requested and the state saved.
    """
    # One thread a process; denormal numbers, which a converging Adam is full of, cost a hundredfold.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        return _PackRun(config, files, claim, checkpoint_steps).run(stop)
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(False)


class _PackRun:
    """The loop around a trainer; `measured` is the last step whose rows are in `rows`."""

    def __init__(self, config: SweepConfig, files: PackFolder, claim: Claim, checkpoint_steps: int | None) -> None:
        self.files, self.claim, self.checkpoint_steps = files, claim, checkpoint_steps
        self.trainer = Trainer(config, files.pack, torch.float64 if files.pack.steps == 0 else torch.float32)
        self.measured, self.seconds_before, self.rows = -1, 0.0, ""
        if files.checkpoint.exists():
            state = torch.load(files.checkpoint, map_location=config.device, weights_only=True)
            self.trainer.restore(state)
            self.measured, self.seconds_before = state["measured"], state["seconds"]
            # Version 0.1 kept the rows in their file and the length of those that belong to the state.
            self.rows = state["rows"] if "rows" in state else files.rows.read_text()[: state["rows_length"]]
        self.start = self.saved = time.monotonic()
        self.saving = 0.0

    def run(self, stop: Callable[[], bool]) -> bool:
        trainer, steps = self.trainer, self.trainer.pack.steps
        due = set(evaluation_steps(steps, trainer.config.evaluations))
        told = 0.0
        while True:
            if trainer.step in due and trainer.step > self.measured:
                found = trainer.measure()
                self.measured = trainer.step
                self.rows += to_csv(student_rows(trainer, found, self.seconds), header=False)
            self.claim.renew()
            if trainer.step >= steps:
                break
            if stop():
                self._save()
                return False
            if self._save_is_due():
                self._save()
            trainer.train_step()
            if time.monotonic() - told > PROGRESS_SECONDS:
                told = time.monotonic()
                self.files.progress.write_text(str(trainer.step))
        self._save()
        # Whole rows in one piece: a worker that lost its claim can write nothing else than the next one.
        write_atomically(self.files.rows, self.rows)
        return True

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.start

    def _save_is_due(self) -> bool:
        if self.checkpoint_steps is not None:
            return self.trainer.step > 0 and self.trainer.step % self.checkpoint_steps == 0
        return time.monotonic() - self.saved > max(CHECKPOINT_SECONDS, self.saving / CHECKPOINT_SHARE)

    def _save(self) -> None:
        begun = time.monotonic()
        state = {**self.trainer.state(), "measured": self.measured, "rows": self.rows, "seconds": self.seconds}
        write_atomically(self.files.checkpoint, lambda path: torch.save(state, path))
        self.claim.progressed()
        self.saved = time.monotonic()
        self.saving = self.saved - begun
