"""The tables of a sweep: one row a student and measurement, written as text that is the same every time."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from scalefit import __version__
from toy_models.teacher_student.config import SweepConfig
from toy_models.teacher_student.trainer import Measurement, Trainer

__all__ = ["COLUMNS", "TIMES", "count_diverged", "merge_rows", "student_rows", "to_csv"]

KEY = (
    "kind", "gain", "seed", "width", "hidden_units", "depth", "objective", "temperature", "integrator",
    "horizon", "step",
)  # fmt: skip
"""Columns that tell rows of one sweep apart; tables are sorted by them."""

TIMES = ("seconds",)
"""Columns that differ between two runs of the same configuration."""

COLUMNS = (
    "run", "config", *KEY, "annealed", "status", "loss", "loss_se", "params", "samples", "teacher_depth", "target",
    "displacement", "angle", "coherence", "teacher_displacement", "teacher_angle", "teacher_coherence",
    "device", "version", "torch", "seconds",
)  # fmt: skip


def student_rows(trainer: Trainer, found: Measurement, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield one row a student of a measurement; `seconds` is the computing time of the pack so far."""
    pack, columns = trainer.pack, trainer.stack.columns
    temperatures = trainer.teachers.temperatures
    for student in range(trainer.stack.count):
        group, depth = pack.groups[student % columns], pack.depths[student // columns]
        teacher = student % columns // temperatures
        perceptrons = depth * trainer.stack.per_block
        settings = {
            "kind": group.teacher.kind,
            "gain": group.teacher.gain,
            "seed": group.seed,
            "temperature": group.temperature,
            "integrator": pack.integrator,
            "depth": depth,
            "width": pack.width,
            "hidden_units": pack.hidden,
            "objective": pack.loss,
            "horizon": pack.steps,
            "params": perceptrons * pack.hidden * (2 * pack.width + 1) + trainer.stack.head[student].numel(),
        }
        yield {
            **common_columns(trainer.config, settings),
            "step": trainer.step,
            "samples": trainer.step * trainer.config.batch,
            "annealed": trainer.step == pack.steps and trainer.config.annealed,
            "status": "ok" if found.alive[student] else "diverged",
            "loss": found.loss[student].item(),
            "loss_se": found.loss_se[student].item(),
            "displacement": found.students.displacement[student].item(),
            "angle": found.students.angle[student].item(),
            "coherence": found.students.coherence[student].item(),
            "teacher_displacement": found.teachers.displacement[teacher].item(),
            "teacher_angle": found.teachers.angle[teacher].item(),
            "teacher_coherence": found.teachers.coherence[teacher].item(),
            "seconds": round(seconds, 3),
        }


def common_columns(config: SweepConfig, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of a student that do not change while it trains, its run name among them."""
    parts = [f"{key}={settings[key]:g}" for key in ("gain", "seed", "width", "hidden_units", "horizon", "depth")]
    if not math.isnan(settings["temperature"]):
        parts.append(f"temperature={settings['temperature']:.6g}")
    names = [config.id, settings["kind"], settings["objective"], settings["integrator"]]
    return {
        **settings,
        "run": " ".join(names + parts),
        "config": config.id,
        "teacher_depth": config.teacher_depth,
        "target": config.target,
        "device": config.device,
        "version": __version__,
        "torch": torch.__version__,
    }


def to_csv(rows: Iterable[Mapping[str, Any]], *, header: bool) -> str:
    """Format rows; numbers as the shortest text that reads back the same, not-a-number as an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if header:
        writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([_cell(row[name]) for name in COLUMNS])
    return text.getvalue()


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    return str(value)


def merge_rows(parts: Iterable[Path]) -> tuple[str, str]:
    """Merge the row files of packs into two tables, sorted by key.

    Returns
    -------
    (str, str)
        The last row of every student, and the history before it.
    """
    rows: list[dict[str, str]] = []
    for part in parts:
        rows.extend(csv.DictReader(part.read_text().splitlines(), fieldnames=COLUMNS))
    rows.sort(key=lambda row: tuple(_ordered(row[name]) for name in KEY))
    last = [row for row in rows if row["step"] == row["horizon"]]
    history = [row for row in rows if row["step"] != row["horizon"]]
    return to_csv(last, header=True), to_csv(history, header=True)


def count_diverged(results: Path) -> int:
    """Count the students of a results table that diverged."""
    with results.open(newline="") as lines:
        return sum(row["status"] == "diverged" for row in csv.DictReader(lines))


def _ordered(text: str) -> tuple[float, str]:
    """Sort key of a cell: numbers by value, before names."""
    try:
        return float(text), ""
    except ValueError:
        return math.inf, text
