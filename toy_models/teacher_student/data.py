"""Inputs and targets of a pack: fresh at every step, or a fixed set that is shuffled at every epoch."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from toy_models.teacher_student.config import Pack, SweepConfig
from toy_models.teacher_student.stack import Observer, Stack, normalise
from toy_models.teacher_student.weights import generator, inputs, sub_sampled, teacher_layers

__all__ = ["Batch", "Source", "Teachers"]

FLOW_STEPS = 512
"""Midpoint steps that stand for the flow of a tied layer: at 32 steps and below a student's error is at
least 256 times larger."""


@dataclass(frozen=True)
class Batch:
    """Normalised inputs and final states of the teacher, one of each a column of the pack.

    Attributes
    ----------
    h0, target : (columns, width, samples) tensor
    """

    h0: torch.Tensor
    target: torch.Tensor


class Teachers:
    """The teachers of a pack, each run once for all its students and temperatures."""

    def __init__(self, config: SweepConfig, pack: Pack, dtype: torch.dtype = torch.float32) -> None:
        self.seeds = list(dict.fromkeys(group.seed for group in pack.groups))
        self.pairs = list(dict.fromkeys((group.seed, group.teacher) for group in pack.groups))
        self.temperatures = len(pack.groups) // len(self.pairs)
        flow = config.target == "flow"
        self.stack = Stack(
            (FLOW_STEPS if flow else config.teacher_depth,),
            columns=len(self.pairs),
            width=pack.width,
            hidden=config.hidden_ratio * pack.width,
            samples=config.batch,
            integrator="rk2" if flow else "euler",
            dtype=dtype,
            device=config.device,
            differentiable=False,
        )
        for column, (seed, teacher) in enumerate(self.pairs):
            shape = {"depth": config.teacher_depth, "width": pack.width, "hidden": self.stack.hidden}
            layers = teacher_layers(teacher, seed, **shape)
            self.stack.load(column, sub_sampled(layers, FLOW_STEPS, perceptrons=2) if flow else layers)

    def start(self, x: torch.Tensor) -> torch.Tensor:
        """Normalised inputs of every teacher from x, (seeds, width, samples): one set of samples a seed."""
        h0 = normalise(x, torch.empty_like(x), torch.empty_like(x[:, :1]))
        return h0.repeat_interleave(len(self.pairs) // len(self.seeds), 0)

    def batch(self, h0: torch.Tensor, observe: Observer | None = None) -> Batch:
        """Run the teachers from their normalised inputs."""
        return self.spread(h0, self.stack.forward(h0, observe).clone())

    def spread(self, h0: torch.Tensor, target: torch.Tensor) -> Batch:
        """Repeat one entry a teacher for every temperature."""
        if self.temperatures == 1:
            return Batch(h0, target)
        return Batch(*(tensor.repeat_interleave(self.temperatures, 0) for tensor in (h0, target)))


class Source:
    """Batches by step number: nothing to save, a resumed run asks for the same step again."""

    def __init__(self, config: SweepConfig, pack: Pack, teachers: Teachers) -> None:
        self._config, self._width, self._teachers = config, pack.width, teachers
        self._evaluation: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._epoch = -1
        self._shuffled: tuple[torch.Tensor, torch.Tensor] | None = None
        self._fixed = None if config.samples is None else self._fixed_set(config.samples)

    def draw(self, role: str, index: int) -> torch.Tensor:
        """Draw one batch of normalised inputs of every teacher; (teachers, width, samples)."""
        rows = [
            inputs(seed, role, index, samples=self._config.batch, width=self._width) for seed in self._teachers.seeds
        ]
        # Drawn on the CPU for every device: a key then means the same numbers everywhere.
        return self._teachers.start(torch.stack(rows).mT.contiguous().to(self._teachers.stack.flat))

    def batch(self, step: int) -> Batch:
        """Batch of a training step, counted from 0."""
        if self._fixed is None:
            return self._teachers.batch(self.draw("fresh", step))
        per_epoch = self._fixed[0].shape[1] // self._config.batch
        h0, target = self._shuffle(step // per_epoch)
        start = step % per_epoch * self._config.batch
        piece = slice(start, start + self._config.batch)
        return self._teachers.spread(h0[..., piece], target[..., piece])

    def evaluation(self, index: int) -> Batch:
        """Batch of the evaluation set, which is the same at every step; kept after its first use."""
        if index not in self._evaluation:
            batch = self._teachers.batch(self.draw("evaluation", index))
            step = self._teachers.temperatures
            self._evaluation[index] = (batch.h0[::step].clone(), batch.target[::step].clone())
        return self._teachers.spread(*self._evaluation[index])

    def _fixed_set(self, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of the whole set, samples first so that shuffling moves rows."""
        found = [self._teachers.batch(self.draw("fixed", i)) for i in range(samples // self._config.batch)]
        step = self._teachers.temperatures
        return (
            torch.cat([batch.h0[::step].mT for batch in found], 1),
            torch.cat([batch.target[::step].mT for batch in found], 1),
        )

    def _shuffle(self, epoch: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The fixed set in the order of an epoch; (teachers, width, n)."""
        if self._shuffled is None or epoch != self._epoch:
            assert self._fixed is not None
            rows = self._fixed[0].shape[1]
            orders = {
                seed: torch.randperm(rows, generator=generator(seed, "order", epoch)).to(self._fixed[0].device)
                for seed in self._teachers.seeds
            }
            h0, target = (
                torch.stack([part[orders[seed]].T for part, (seed, _) in zip(whole, self._teachers.pairs, strict=True)])
                for whole in self._fixed
            )
            self._shuffled, self._epoch = (h0, target), epoch
        return self._shuffled
