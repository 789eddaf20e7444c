"""One pack as a job of an executor: train, append rows, save, resume to the bit."""

from __future__ import annotations

import fcntl
import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from scalefit.execute import stop_requested
from toy_models.teacher_student.config import Pack, SweepConfig
from toy_models.teacher_student.rows import student_rows, to_csv, write_atomically
from toy_models.teacher_student.trainer import Trainer, evaluation_steps

__all__ = ["PackFiles", "run_pack"]

CHECKPOINT_SECONDS = 120.0
PROGRESS_SECONDS = 1.0


class PackFiles:
    """The folder of one pack.

    Attributes
    ----------
    rows, checkpoint, progress : Path
        Rows as they come, without header; the last saved state; the number of the current step.
    """

    def __init__(self, folder: Path, pack: Pack) -> None:
        self.folder = folder / "packs" / pack.id
        self.rows = self.folder / "rows.csv"
        self.checkpoint = self.folder / "checkpoint.pt"
        self.progress = self.folder / "progress"
        self._done = self.folder / "done"

    @property
    def is_done(self) -> bool:
        """Whether the pack has been trained to its horizon."""
        return self._done.exists()

    def mark_done(self) -> None:
        """Record that nothing is left to do."""
        self._done.touch()

    def fraction_done(self, pack: Pack) -> float:
        """Fraction of the steps, from what the progress file tells."""
        if self.is_done:
            return 1.0
        text = self.progress.read_text() if self.progress.exists() else ""
        return int(text) / pack.steps if text.isdigit() and pack.steps else 0.0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder; waits for a worker of a killed run that has not noticed yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def run_pack(folder: str, content: dict[str, Any], index: int, checkpoint_steps: int | None) -> bool:
    """Train one pack from its last checkpoint on.

    Parameters
    ----------
    folder : str
        Results folder.
    content : dict
        The configuration as `SweepConfig.to_dict` gives it.
    index : int
        Position among the configuration's packs.
    checkpoint_steps : int or None
        Steps between checkpoints; ``None`` saves every two minutes instead.

    Returns
    -------
    bool
        True when the horizon was reached, False when a stop was requested and the state saved.
    """
    config = SweepConfig.from_dict(content)
    pack = config.packs()[index]
    files = PackFiles(Path(folder), pack)
    if stop_requested():
        # Packs that still wait when a run is stopped: building a trainer takes seconds.
        return files.is_done
    # One thread a process; denormal numbers, which a converging Adam is full of, cost a hundredfold.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        with files.held():
            return files.is_done or _PackRun(config, pack, files, checkpoint_steps).run()
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(False)


class _PackRun:
    """The loop around a trainer; `measured` is the last step whose rows are written."""

    def __init__(self, config: SweepConfig, pack: Pack, files: PackFiles, checkpoint_steps: int | None) -> None:
        self.files, self.checkpoint_steps = files, checkpoint_steps
        self.trainer = Trainer(config, pack, torch.float64 if pack.steps == 0 else torch.float32)
        self.measured, self.seconds_before, rows_length = -1, 0.0, 0
        if files.checkpoint.exists():
            state = torch.load(files.checkpoint, map_location=config.device, weights_only=True)
            self.trainer.restore(state)
            self.measured, self.seconds_before = state["measured"], state["seconds"]
            rows_length = state["rows_length"]
        with files.rows.open("ab") as rows:
            # Rows written after the checkpoint will be written again.
            rows.truncate(rows_length)
        self.start = self.saved = time.monotonic()

    def run(self) -> bool:
        trainer, steps = self.trainer, self.trainer.pack.steps
        due = set(evaluation_steps(steps, trainer.config.evaluations))
        told = 0.0
        while True:
            if trainer.step in due and trainer.step > self.measured:
                self._measure()
            if trainer.step >= steps:
                break
            if stop_requested():
                self._save()
                return False
            if self._save_is_due():
                self._save()
            trainer.train_step()
            if time.monotonic() - told > PROGRESS_SECONDS:
                told = time.monotonic()
                self.files.progress.write_text(str(trainer.step))
        self._save()
        self.files.mark_done()
        return True

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.start

    def _measure(self) -> None:
        found = self.trainer.measure()
        self.measured = self.trainer.step
        with self.files.rows.open("a") as rows:
            rows.write(to_csv(student_rows(self.trainer, found, self.seconds), header=False))

    def _save_is_due(self) -> bool:
        if self.checkpoint_steps is not None:
            return self.trainer.step > 0 and self.trainer.step % self.checkpoint_steps == 0
        return time.monotonic() - self.saved > CHECKPOINT_SECONDS

    def _save(self) -> None:
        written = {"measured": self.measured, "rows_length": self.files.rows.stat().st_size, "seconds": self.seconds}
        content = io.BytesIO()
        torch.save({**self.trainer.state(), **written}, content)
        write_atomically(self.files.checkpoint, content.getvalue())
        self.saved = time.monotonic()
