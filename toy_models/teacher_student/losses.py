"""The two losses over a stack's outputs, with their gradients: `networks` has them one network at a time."""

from __future__ import annotations

import math
from typing import Protocol

import torch

from toy_models.teacher_student.config import Pack, SweepConfig
from toy_models.teacher_student.stack import Stack
from toy_models.teacher_student.weights import head_weights

__all__ = ["HeadLoss", "Loss", "StateLoss", "make_loss"]


class Loss(Protocol):
    """Compares a stack's outputs (count, width, samples) with targets (columns, width, samples)."""

    def values(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Loss of every student and sample; (count, samples)."""

    def gradient(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Gradient of the mean over samples with respect to `output`; head gradients go into the stack."""


class StateLoss:
    """Mean square difference of final normalised states over the width."""

    def __init__(self, stack: Stack) -> None:
        self._work = torch.empty_like(stack.output)

    def values(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Loss of every student and sample; (count, samples)."""
        return self._difference(output, target).square().mean(1)

    def gradient(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """2 (y - t) / (width * samples)."""
        return self._difference(output, target).mul_(2 / math.prod(output.shape[1:]))

    def _difference(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        shape = (-1, *target.shape)
        torch.sub(output.view(shape), target, out=self._work.view(shape))
        return self._work


class HeadLoss:
    """KL divergence of the student's from the teacher's softmax, nats per sample.

    Parameters
    ----------
    stack : Stack
        With a learned head where its vocabulary is positive; otherwise students use `head`.
    head : (columns, vocabulary, width) tensor
        The teacher's head of every column.
    temperature : (columns,) tensor
        Divides the teacher's logits, and the student's too where `both`.
    both : bool
    """

    def __init__(self, stack: Stack, head: torch.Tensor, temperature: torch.Tensor, *, both: bool) -> None:
        self._learned = stack.vocabulary > 0
        self._head_grad = stack.head_grad
        repeated = temperature.repeat(len(stack.depths))[:, None, None]
        self._target_head = head / temperature[:, None, None]
        self._divisor = repeated if both else torch.ones_like(repeated)
        self._head = stack.head if self._learned else head.repeat(len(stack.depths), 1, 1)

    def _logits(self, output: torch.Tensor) -> torch.Tensor:
        return torch.bmm(self._head, output).div_(self._divisor)

    def values(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Loss of every student and sample; (count, samples)."""
        log_p = torch.bmm(self._target_head, target).log_softmax(1)
        log_q = self._logits(output).log_softmax(1)
        log_ratio = log_p - log_q.view(-1, *log_p.shape)
        return log_ratio.mul_(log_p.exp()).sum(2).view(len(output), -1)

    def second_order(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Half the variance, under the teacher's softmax, of the difference of logits; (count, samples)."""
        goal = torch.bmm(self._target_head, target)
        p = goal.softmax(1)
        delta = self._logits(output).view(-1, *goal.shape) - goal
        delta = delta - (p * delta).sum(2, keepdim=True)
        return (p * delta.square()).sum(2).view(len(output), -1) / 2

    def gradient(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """With logits H y / T: d_logits = (q - p) / (T samples), d_y = H^T d_logits, d_H = d_logits y^T."""
        p = torch.bmm(self._target_head, target).softmax(1)
        d_logits = self._logits(output).softmax(1)
        d_logits.view(-1, *p.shape).sub_(p)
        d_logits.div_(self._divisor * output.shape[2])
        if self._learned:
            torch.bmm(d_logits, output.mT, out=self._head_grad)
        return torch.bmm(self._head.mT, d_logits)


def make_loss(config: SweepConfig, pack: Pack, stack: Stack) -> Loss:
    """Build the loss of a pack."""
    if pack.loss == "mse":
        return StateLoss(stack)
    device, dtype = stack.flat.device, stack.flat.dtype
    heads = {
        seed: head_weights(seed, vocabulary=config.vocabulary, width=pack.width)
        for seed in {group.seed for group in pack.groups}
    }
    head = torch.stack([heads[group.seed] for group in pack.groups]).to(device, dtype)
    temperature = torch.tensor([group.temperature for group in pack.groups], device=device, dtype=dtype)
    return HeadLoss(stack, head, temperature, both=config.temperature_side == "both")
