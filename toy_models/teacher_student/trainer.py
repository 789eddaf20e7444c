"""Training of one pack: the step, the schedule, what is measured, and what a checkpoint holds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from toy_models.teacher_student.config import Group, Pack, SweepConfig
from toy_models.teacher_student.data import Batch, BatchSource, Teachers
from toy_models.teacher_student.losses import make_loss
from toy_models.teacher_student.paths import PathObserver, Paths
from toy_models.teacher_student.stack import Stack, captured
from toy_models.teacher_student.weights import Layers, student_layers, sub_sampled, teacher_layers

__all__ = ["Adam", "Measurement", "Trainer", "evaluation_steps", "schedule_factor"]

CHECK_EVERY = 100
"""Steps between looks for diverged students; part of what a run means, so no option."""


def schedule_factor(schedule: str, step: int, steps: int) -> float:
    """Factor on the peak rate at a step counted from 0: cosine to 0, or a last fifth that falls to 0.1."""
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * step / steps))
    if schedule == "linear-tail":
        return 1 - 0.9 * max(0.0, (step / steps - 0.8) / 0.2)
    return 1.0


def evaluation_steps(steps: int, count: int) -> list[int]:
    """Steps to measure at: 0, then up to `count` evenly spaced in log steps, the last included."""
    if count == 1 or steps <= 1:
        return sorted({0, steps})
    return sorted({0, *(round(steps ** (i / (count - 1))) for i in range(count))})


@dataclass(frozen=True)
class Measurement:
    """What one evaluation found, one entry a student of the stack.

    Attributes
    ----------
    loss, loss_se : (count,) tensor
        Mean over the evaluation set and its standard error; NaN for a diverged student.
    students, teachers : Paths
        Of the students, NaN for diverged ones, and of the teachers in the order of the columns.
    alive : (count,) bool tensor
    """

    loss: torch.Tensor
    loss_se: torch.Tensor
    students: Paths
    teachers: Paths
    alive: torch.Tensor


BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """The optimiser of Kingma and Ba (2015), Algorithm 1, in place.

    Parameters
    ----------
    parameters, gradients : (size,) tensor
    rates : (size,) tensor
        Peak learning rate of every parameter.

    Notes
    -----
    What changes with the step is written into two one-element tensors, so that the same sequence of
    operations can be captured in a CUDA graph.
    """

    def __init__(self, parameters: torch.Tensor, gradients: torch.Tensor, rates: torch.Tensor) -> None:
        self.parameters, self.gradients, self.rates = parameters, gradients, rates
        self.mean = torch.zeros_like(parameters)
        self.square = torch.zeros_like(parameters)
        self._work = torch.empty_like(parameters)
        self._step_size = torch.zeros(1, dtype=parameters.dtype, device=parameters.device)
        self._unbias = torch.ones_like(self._step_size)

    def prepare(self, step: int, factor: float) -> None:
        """Set the schedule's factor on the rates for the given step, counted from 1."""
        self._step_size.fill_(-factor / (1 - BETA1**step))
        self._unbias.fill_((1 - BETA2**step) ** -0.5)

    def apply(self) -> None:
        """Move the parameters along the current gradients."""
        self.mean.lerp_(self.gradients, 1 - BETA1)
        self.square.mul_(BETA2).addcmul_(self.gradients, self.gradients, value=1 - BETA2)
        work = torch.sqrt(self.square, out=self._work)
        work.mul_(self._unbias).add_(EPSILON)
        torch.div(self.mean, work, out=work)
        self.parameters.addcmul_(work.mul_(self._step_size), self.rates)


class Trainer:
    """One pack in training.

    Parameters
    ----------
    config : SweepConfig
    pack : Pack
    dtype : torch.dtype
        float32 for everything that is reported; float64 serves the tests of gradients.

    Attributes
    ----------
    step : int
        Steps taken so far.
    """

    def __init__(self, config: SweepConfig, pack: Pack, dtype: torch.dtype = torch.float32) -> None:
        self.config, self.pack = config, pack
        self.teachers = Teachers(config, pack, dtype)
        self.stack = Stack(
            pack.depths,
            columns=len(pack.groups),
            width=pack.width,
            hidden=pack.hidden,
            samples=config.batch,
            integrator=pack.integrator,
            vocabulary=config.vocabulary if pack.loss == "kl" and config.head == "learned" else 0,
            dtype=dtype,
            device=config.device,
        )
        self._load_students()
        self.adam = Adam(self.stack.flat, self.stack.grad, self._rates())
        self.loss = make_loss(config, pack, self.stack)
        self.source = BatchSource(config, pack, self.teachers)
        self._teacher_paths = self.teachers.paths(self.source.draw("evaluation", 0))
        self.step = 0
        self.alive = torch.ones(self.stack.count, dtype=torch.bool, device=config.device)
        shape = (self.stack.columns, pack.width, config.batch)
        self._batch = Batch(*(torch.empty(shape, dtype=dtype, device=config.device) for _ in range(2)))
        self._learn = captured(self._learn_from_batch, config.device)

    def _load_students(self) -> None:
        for i, depth in enumerate(self.pack.depths):
            for j, group in enumerate(self.pack.groups):
                self.stack.load(i * self.stack.columns + j, self._first_layers(depth, group))

    def _first_layers(self, depth: int, group: Group) -> Layers:
        """Weights before the first step: fresh ones, or the teacher's where there is no training."""
        width, hidden, per_block = self.pack.width, self.pack.hidden, self.stack.per_block
        if self.pack.steps > 0:
            shape = {"perceptrons": depth * per_block, "width": width, "hidden": hidden}
            return student_layers(group.seed, depth=depth, **shape)
        teacher = teacher_layers(group.teacher, group.seed, depth=self.config.teacher_depth, width=width, hidden=hidden)
        return sub_sampled(teacher, depth, perceptrons=per_block)

    def _rates(self) -> torch.Tensor:
        rates = torch.empty_like(self.stack.flat)
        for student in range(self.stack.count):
            depth = self.pack.depths[student // self.stack.columns]
            self._fill(rates, student, self.config.rate(depth, self.pack.hidden))
        return rates

    def _fill(self, flat: torch.Tensor, student: int, value: float) -> None:
        """Set one student's part of a flat buffer."""
        layers, head = self.stack.views(flat)
        for view in layers:
            if student < len(view.b):
                for part in (view.w1, view.b, view.w2):
                    part[student].fill_(value)
        head[student].fill_(value)

    def train_step(self) -> None:
        """Take one step of all students."""
        batch = self.source.batch(self.step)
        self._batch.h0.copy_(batch.h0)
        self._batch.target.copy_(batch.target)
        factor = schedule_factor(self.config.schedule, self.step, self.pack.steps)
        self.step += 1
        self.adam.prepare(self.step, factor)
        self._learn()
        if self.step % CHECK_EVERY == 0:
            self.freeze_diverged(self.stack.output)

    def _learn_from_batch(self) -> None:
        output = self.stack.forward(self._batch.h0)
        self.stack.backward(self.loss.gradient(output, self._batch.target))
        self.adam.apply()

    def freeze_diverged(self, output: torch.Tensor) -> None:
        """Set students whose output is not finite to zero, rates included; they never move again.

        Values are assigned, not multiplied by a mask: 0 * NaN is NaN.
        """
        finite = torch.isfinite(output).flatten(1).all(1)
        for student in torch.nonzero(self.alive & ~finite).flatten().tolist():
            self.alive[student] = False
            for flat in (self.stack.flat, self.adam.mean, self.adam.square, self.adam.rates):
                self._fill(flat, student, 0.0)

    def measure(self) -> Measurement:
        """Measure all students on the evaluation set, which is common to all depths of a seed."""
        students = self._watch()
        total = torch.zeros(self.stack.count, dtype=torch.float64, device=self.config.device)
        square = torch.zeros_like(total)
        for i in range(self.config.eval_samples // self.config.batch):
            batch = self.source.evaluation(i)
            values = self.loss.values(self.stack.forward(batch.h0), batch.target).double()
            total += values.sum(1)
            square += values.square().sum(1)
        n = self.config.eval_samples
        mean = total / n
        error = ((square / n - mean.square()).clamp_min(0) / (n - 1)).sqrt()
        mean[~self.alive] = error[~self.alive] = math.nan
        return Measurement(mean, error, students, self._teacher_paths, self.alive.clone())

    def _watch(self) -> Paths:
        """Paths of the students over the first evaluation batch; diverged students are found here too."""
        h0 = self.source.evaluation(0).h0
        observer = PathObserver(self.stack, h0)
        self.freeze_diverged(self.stack.forward(h0, observer))
        seen = observer.paths
        return Paths(*(part.where(self.alive, math.nan) for part in (seen.displacement, seen.angle, seen.coherence)))

    def state(self) -> dict[str, Any]:
        """Everything a resumed run needs; random draws are keyed by the step and need nothing."""
        tensors = {
            "flat": self.stack.flat,
            "mean": self.adam.mean,
            "square": self.adam.square,
            "alive": self.alive,
        }
        return {"step": self.step, **tensors, "rates": self.adam.rates}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state of the same configuration."""
        self.step = state["step"]
        for tensor, name in (
            (self.stack.flat, "flat"),
            (self.adam.mean, "mean"),
            (self.adam.square, "square"),
            (self.adam.rates, "rates"),
            (self.alive, "alive"),
        ):
            tensor.copy_(state[name])
