"""Measurements beside the sweeps: displacement of a teacher, gains that equalise it, KL against its expansion.

The controls that are sweeps themselves are presets: ``total-units``, ``equal-displacement``, ``untrained`` and
``untrained-flow``.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from scipy.optimize import brentq

from scalefit.errors import OptionError
from toy_models.teacher_student.config import Pack, SweepConfig, Teacher
from toy_models.teacher_student.data import BatchSource, Teachers
from toy_models.teacher_student.losses import HeadLoss
from toy_models.teacher_student.paths import Paths
from toy_models.teacher_student.trainer import Trainer

__all__ = ["kl_over_second_order", "matched_gain", "teacher_paths"]


def teacher_paths(config: SweepConfig, teacher: Teacher) -> Paths:
    """Paths of one kind of teacher over the first evaluation block, one entry a seed."""
    alone = replace(config, teachers=(teacher,), samples=None)
    groups = tuple(group for pack in _one_horizon(alone) for group in pack.groups)
    pack = replace(alone.packs()[0], groups=groups)
    teachers = Teachers(alone, pack)
    return teachers.paths(BatchSource(alone, pack, teachers).draw("evaluation", 0))


def _one_horizon(config: SweepConfig) -> tuple[Pack, ...]:
    """Packs of the full horizon and the first sizes: one a seed."""
    first = config.packs()[0]
    return tuple(pack for pack in config.packs() if (pack.steps, pack.hidden) == (first.steps, first.hidden))


def matched_gain(config: SweepConfig, kind: str, reference: Teacher) -> float:
    """Gain at which teachers of a kind move the state as far as the reference does, in the mean over seeds.

    Raises
    ------
    OptionError
        No gain between 1e-3 and 1e3 does.
    """
    goal = teacher_paths(config, reference).displacement.mean().item()

    def excess(gain: float) -> float:
        return teacher_paths(config, Teacher(kind, gain)).displacement.mean().item() - goal

    if excess(1e-3) > 0 or excess(1e3) < 0:
        raise OptionError(f"no gain of {kind} teachers between 0.001 and 1000 moves the state by {goal:.3g}")
    return float(brentq(excess, 1e-3, 1e3, xtol=1e-4))


def kl_over_second_order(trainer: Trainer) -> torch.Tensor:
    """Ratio of KL to its second-order form for every student, on the evaluation set.

    With logit differences delta at temperature T, KL = Var_p(delta) / 2 + third order, p the teacher's softmax.

    Parameters
    ----------
    trainer : Trainer
        Of a ``kl`` pack with the teacher's head given and both logits divided by T.

    Returns
    -------
    (count,) tensor
        1 for students that are near their teacher.
    """
    if not isinstance(trainer.loss, HeadLoss):
        raise TypeError(f"the pack's loss is {trainer.pack.loss} and must be kl")
    kl = torch.zeros(trainer.stack.count, dtype=torch.float64, device=trainer.config.device)
    second = torch.zeros_like(kl)
    for i in range(trainer.config.eval_samples // trainer.config.batch):
        batch = trainer.source.evaluation(i)
        output = trainer.stack.forward(batch.h0)
        kl += trainer.loss.values(output, batch.target).double().sum(1)
        second += trainer.loss.second_order(output, batch.target).double().sum(1)
    return kl / second
