"""One sweep is one frozen configuration: its fields, its checks, its JSON and its content hash."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

from scalefit.errors import OptionError
from toy_models.teacher_student.checks import KINDS, check, one_of, positive

__all__ = ["Group", "Pack", "SweepConfig", "Teacher"]


@dataclass(frozen=True)
class Teacher:
    """A random residual network to imitate.

    Attributes
    ----------
    kind : str
        ``tied``: one layer copied to every depth, a smooth trajectory; ``independent``: layers drawn
        independently, a random walk.
    gain : float
        Factor on the last weights of every layer, hence on the displacement.
    """

    kind: str
    gain: float = 1.0

    def __post_init__(self) -> None:
        one_of("teacher kind", self.kind, KINDS)
        positive("teacher gain", self.gain)


@dataclass(frozen=True)
class Group:
    """What the students of all depths in a pack share: the teacher, its seed and the temperature."""

    seed: int
    teacher: Teacher
    temperature: float


@dataclass(frozen=True)
class Pack:
    """Students trained together in one process: every depth for every group.

    Attributes
    ----------
    width, hidden : int
        Size of the state and hidden units of one student layer.
    depths : tuple of int
        Descending, so that the students that reach a layer are always the first ones.
    groups : tuple of Group
        One column of students each.
    loss, integrator : str
        ``mse`` or ``kl``; ``euler`` or ``rk2``.
    steps : int
        Training horizon; the schedule ends there.
    """

    width: int
    hidden: int
    depths: tuple[int, ...]
    groups: tuple[Group, ...]
    loss: str
    integrator: str
    steps: int

    @property
    def id(self) -> str:
        """Name of the pack within its sweep, usable as a file name: a pack holds one seed or all."""
        first, *others = dict.fromkeys(group.seed for group in self.groups)
        seeds = f"{first}-and-{len(others)}-more" if others else first
        return f"w{self.width}-h{self.hidden}-{self.loss}-{self.integrator}-t{self.steps}-s{seeds}"

    @property
    def work(self) -> int:
        """Multiplications of training per sample, up to a factor: the unit of the progress estimate."""
        return max(self.steps, 1) * sum(self.depths) * len(self.groups) * self.hidden * self.width


@dataclass(frozen=True)
class SweepConfig:
    """A grid of students and the way they are trained.

    Attributes
    ----------
    name : str
        Human name; it stands in the results but not in the hash.
    teachers : tuple of Teacher
    widths : tuple of int
        Sizes of the state; a layer has ``hidden_ratio`` times as many hidden units.
    teacher_depth : int
        Layers of the teacher.
    depths : tuple of int
        Depths of the students (blocks; an RK2 block holds two perceptrons).
    seeds : tuple of int
        One teacher, one set of students and one stream of data a seed.
    losses, integrators : tuple of str
        ``mse`` of the final normalised state or ``kl`` of the softmax of a head; ``euler`` or ``rk2``.
    temperatures : tuple of float
        Of the softmax; empty unless a loss is ``kl``.
    temperature_side : str
        ``both`` logits are divided by the temperature, or the ``teacher``'s only.
    head, vocabulary : str, int
        The student's head is ``learned`` from zero, or ``given``: the teacher's; its number of outputs.
    steps, horizons : int, tuple of float
        Optimiser steps, and the fractions of them that are trained separately, each with its own anneal.
    batch, samples : int, int or None
        Samples a step; size of the fixed data set, ``None`` for fresh samples at every step.
    learning_rate, depth_factor, hidden_reference : float, float or None, int or None
        The rate of a student of depth d with H hidden units is
        ``learning_rate * depth_factor / sqrt(d) * sqrt(hidden_reference / H)``; ``None`` drops a factor.
    schedule : str
        ``constant``, ``linear-tail`` (the last fifth falls to a tenth) or ``cosine`` (to zero).
    hidden_ratio : int
        Hidden units of a layer over the width.
    total_units : int or None
        When given, a student of depth d has ``total_units // d`` hidden units a layer.
    target : str
        What untrained students (``steps = 0``) are measured against: the ``teacher`` or its ``flow``.
    eval_samples, evaluations : int
        Fresh samples that a loss is measured on; points of the training curve, evenly spaced in log steps.
    device : str
        ``cpu`` (one pack a seed) or ``cuda`` (all seeds in one stack).
    """

    name: str
    depths: tuple[int, ...]
    steps: int
    teachers: tuple[Teacher, ...] = (Teacher("tied"), Teacher("independent"))
    widths: tuple[int, ...] = (32,)
    teacher_depth: int = 128
    seeds: tuple[int, ...] = (0, 1, 2)
    losses: tuple[str, ...] = ("mse",)
    integrators: tuple[str, ...] = ("euler",)
    temperatures: tuple[float, ...] = ()
    temperature_side: str = "both"
    head: str = "given"
    vocabulary: int = 128
    horizons: tuple[float, ...] = (1.0,)
    batch: int = 1024
    samples: int | None = None
    learning_rate: float = 6e-4
    depth_factor: float | None = None
    hidden_reference: int | None = None
    schedule: str = "linear-tail"
    hidden_ratio: int = 4
    total_units: int | None = None
    target: str = "teacher"
    eval_samples: int = 16_384
    evaluations: int = 12
    device: str = "cpu"

    def __post_init__(self) -> None:
        check(self)

    @property
    def id(self) -> str:
        """Content hash: twelve hexadecimal digits of everything but the name."""
        content = {key: value for key, value in self.to_dict().items() if key != "name"}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def annealed(self) -> bool:
        """Whether the schedule ends low, so that the last losses can be compared between depths."""
        return self.steps == 0 or self.schedule != "constant"

    def hidden(self, depth: int, width: int) -> int:
        """Hidden units of one layer of a student."""
        return self.hidden_ratio * width if self.total_units is None else self.total_units // depth

    def horizon_steps(self, fraction: float) -> int:
        """Steps of a horizon: the nearest whole number, at least one where there is training."""
        return max(round(self.steps * fraction), min(self.steps, 1))

    def rate(self, depth: int, hidden: int) -> float:
        """Peak learning rate of a student."""
        rate = self.learning_rate
        if self.depth_factor is not None:
            rate *= self.depth_factor / math.sqrt(depth)
        if self.hidden_reference is not None:
            rate *= math.sqrt(self.hidden_reference / hidden)
        return rate

    def packs(self) -> tuple[Pack, ...]:
        """Packs of the sweep, the longest first; fixed by the configuration, never by the machine."""
        seed_sets = (self.seeds,) if self.device == "cuda" else tuple((seed,) for seed in self.seeds)
        grid = product(seed_sets, self.widths, self.losses, self.integrators, self.horizons)
        packs = [
            Pack(
                width,
                hidden,
                depths,
                self._groups(seeds, loss),
                loss,
                integrator,
                self.horizon_steps(f),
            )
            for seeds, width, loss, integrator, f in grid
            for hidden, depths in self._depths_by_hidden(width)
        ]
        return tuple(sorted(packs, key=lambda pack: (-pack.work, pack.id)))

    def _groups(self, seeds: tuple[int, ...], loss: str) -> tuple[Group, ...]:
        temperatures = self.temperatures if loss == "kl" else (math.nan,)
        return tuple(Group(*item) for item in product(seeds, self.teachers, temperatures))

    def _depths_by_hidden(self, width: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        by_hidden: dict[int, list[int]] = {}
        for depth in sorted(self.depths, reverse=True):
            by_hidden.setdefault(self.hidden(depth, width), []).append(depth)
        return ((hidden, tuple(depths)) for hidden, depths in by_hidden.items())

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready content, tuples as lists."""
        content: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return content

    @classmethod
    def from_file(cls, path: Path) -> SweepConfig:
        """Read a configuration's JSON file.

        Raises
        ------
        OptionError
            The file is no JSON, or as for `from_dict`.
        """
        try:
            content = json.loads(path.read_bytes())
        except json.JSONDecodeError as error:
            raise OptionError(f"{path} is not JSON: line {error.lineno}, {error.msg}; correct or restore it") from None
        except UnicodeDecodeError:
            raise OptionError(f"{path} is not JSON: it is not UTF-8 text; correct or restore it") from None
        return cls.from_dict(content)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> SweepConfig:
        """Build a configuration from the content of its JSON.

        Raises
        ------
        OptionError
            A field is unknown or missing, or a value is not allowed.
        """
        if not isinstance(content, Mapping):
            raise OptionError(f"configuration is {content!r} and must be a JSON object; compare a preset's JSON")
        known = {item.name for item in fields(cls)}
        if unknown := sorted(set(content) - known):
            raise OptionError(f"configuration field {unknown[0]!r} is unknown; known are {', '.join(sorted(known))}")
        if missing := [key for key in ("name", "depths", "steps") if key not in content]:
            raise OptionError(f"configuration field {missing[0]!r} is missing; add it to the JSON")
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in content.items()
        }
        try:
            if "teachers" in values:
                values["teachers"] = tuple(Teacher(**teacher) for teacher in values["teachers"])
            return cls(**values)
        except TypeError as error:
            raise OptionError(
                f"configuration has a value of the wrong form: {error}; compare a preset's JSON"
            ) from None
