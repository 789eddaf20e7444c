"""Inputs and targets of a pack: fresh at every step, or a fixed set that is shuffled at every epoch."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from toy_models.teacher_student.config import Pack, SweepConfig
from toy_models.teacher_student.paths import PathObserver, Paths
from toy_models.teacher_student.stack import Stack, captured, normalise
from toy_models.teacher_student.weights import generator, inputs, sub_sampled, teacher_layers

__all__ = ["Batch", "BatchSource", "Teachers"]

FLOW_STEPS = 512
"""Midpoint steps that stand for the flow of a tied layer: at 32 steps and below a student's error is at
least 256 times larger."""

TEACHER_SAMPLES = 1024
"""Samples that the teachers see at once, at least: with fewer, their many layers cost mostly calls."""


@dataclass(frozen=True)
class Batch:
    """Normalised inputs and final states of the teacher.

    Attributes
    ----------
    h0, target : (columns, width, samples) tensor
        One entry a column of the pack, or one a teacher where that is said.
    """

    h0: torch.Tensor
    target: torch.Tensor

    def part(self, index: int, samples: int) -> Batch:
        """Views of the index-th piece along the samples."""
        piece = slice(index * samples, (index + 1) * samples)
        return Batch(self.h0[..., piece], self.target[..., piece])


class Teachers:
    """The teachers of a pack, each run once for all its students and temperatures.

    Attributes
    ----------
    pairs : list of (int, Teacher)
        Seed and teacher, in the order of the pack's columns.
    temperatures : int
        Columns that share a teacher.
    block : int
        Training batches that are computed together.
    """

    def __init__(self, config: SweepConfig, pack: Pack, dtype: torch.dtype = torch.float32) -> None:
        self.seeds = list(dict.fromkeys(group.seed for group in pack.groups))
        self.pairs = list(dict.fromkeys((group.seed, group.teacher) for group in pack.groups))
        self.temperatures = len(pack.groups) // len(self.pairs)
        self.block = max(1, TEACHER_SAMPLES // config.batch)
        flow = config.target == "flow"
        self.stack = Stack(
            (FLOW_STEPS if flow else config.teacher_depth,),
            columns=len(self.pairs),
            width=pack.width,
            hidden=config.hidden_ratio * pack.width,
            samples=config.batch * self.block,
            integrator="rk2" if flow else "euler",
            dtype=dtype,
            device=config.device,
            differentiable=False,
        )
        for column, (seed, teacher) in enumerate(self.pairs):
            shape = {"depth": config.teacher_depth, "width": pack.width, "hidden": self.stack.hidden}
            layers = teacher_layers(teacher, seed, **shape)
            self.stack.load(column, sub_sampled(layers, FLOW_STEPS, perceptrons=2) if flow else layers)
        self._allocate()
        self._forward = captured(self._run_fixed_buffers, config.device)

    def _allocate(self) -> None:
        shape = self.stack.output.shape
        self._x = self.stack.flat.new_empty(len(self.seeds), *shape[1:])
        self._u, self._scale = torch.empty_like(self._x), torch.empty_like(self._x[:, :1])
        self._h0 = torch.empty_like(self.stack.output)

    def run(self, x: torch.Tensor) -> Batch:
        """Run all teachers on x, (seeds, width, samples): one set of samples a seed.

        Returns
        -------
        Batch
            One entry a teacher; new tensors.
        """
        self._x.copy_(x)
        self._forward()
        return Batch(self._h0.clone(), self.stack.output.clone())

    def paths(self, x: torch.Tensor) -> Paths:
        """How the states of the teachers move on x."""
        self._x.copy_(x)
        self._start()
        seen = PathObserver(self.stack, self._h0)
        self.stack.forward(self._h0, seen)
        return seen.paths

    def _start(self) -> None:
        normalise(self._x, self._u, self._scale)
        self._h0.copy_(self._u.repeat_interleave(len(self.pairs) // len(self.seeds), 0))

    def _run_fixed_buffers(self) -> None:
        self._start()
        self.stack.forward(self._h0)

    def spread(self, batch: Batch) -> Batch:
        """Repeat one entry a teacher for every temperature."""
        if self.temperatures == 1:
            return batch
        return Batch(*(part.repeat_interleave(self.temperatures, 0) for part in (batch.h0, batch.target)))


class BatchSource:
    """Batches by step number: nothing to save, a resumed run asks for the same step again."""

    def __init__(self, config: SweepConfig, pack: Pack, teachers: Teachers) -> None:
        self._config, self._width, self._teachers = config, pack.width, teachers
        self._evaluation: dict[int, Batch] = {}
        # The block or the epoch that the last step was in, by its number.
        self._recent: tuple[int, Batch] | None = None
        self._fixed = None if config.samples is None else self._fixed_set(config.samples)

    def draw(self, role: str, block: int) -> torch.Tensor:
        """Draw the inputs of the batches of a block; (seeds, width, samples).

        Drawn on the CPU for every device, one fixed-shape draw a key: a key means the same numbers everywhere.
        """
        shape = {"samples": self._config.batch, "width": self._width}
        first, count = block * self._teachers.block, self._teachers.block
        rows = [
            torch.cat([inputs(seed, role, first + i, **shape) for i in range(count)]) for seed in self._teachers.seeds
        ]
        return torch.stack(rows).mT.contiguous().to(self._teachers.stack.flat)

    def batch(self, step: int) -> Batch:
        """Batch of a training step, counted from 0."""
        size = self._teachers.block if self._fixed is None else self._fixed.h0.shape[1] // self._config.batch
        number, index = divmod(step, size)
        if self._recent is None or self._recent[0] != number:
            fresh = self._fixed is None
            found = self._teachers.run(self.draw("fresh", number)) if fresh else self._epoch(number)
            self._recent = (number, found)
        return self._teachers.spread(self._recent[1].part(index, self._config.batch))

    def evaluation(self, index: int) -> Batch:
        """Batch of the evaluation set, which is the same at every step; kept after its first use."""
        number, part = divmod(index, self._teachers.block)
        if number not in self._evaluation:
            self._evaluation[number] = self._teachers.run(self.draw("evaluation", number))
        return self._teachers.spread(self._evaluation[number].part(part, self._config.batch))

    def _fixed_set(self, samples: int) -> Batch:
        """Inputs and targets of the whole set, (teachers, samples, width): shuffling then moves rows."""
        blocks = -(-samples // (self._config.batch * self._teachers.block))
        found = [self._teachers.run(self.draw("fixed", i)) for i in range(blocks)]
        return Batch(
            torch.cat([block.h0.mT for block in found], 1)[:, :samples],
            torch.cat([block.target.mT for block in found], 1)[:, :samples],
        )

    def _epoch(self, number: int) -> Batch:
        """The fixed set in the order of an epoch; (teachers, width, samples)."""
        assert self._fixed is not None
        rows, device = self._fixed.h0.shape[1], self._fixed.h0.device
        orders = {
            seed: torch.randperm(rows, generator=generator(seed, "order", number)).to(device)
            for seed in self._teachers.seeds
        }
        which = [orders[seed] for seed, _ in self._teachers.pairs]
        h0, target = (
            torch.stack([part[order].T for part, order in zip(whole, which, strict=True)])
            for whole in (self._fixed.h0, self._fixed.target)
        )
        return Batch(h0, target)
