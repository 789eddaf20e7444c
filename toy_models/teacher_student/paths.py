"""How the state moves through the blocks: displacement, angles between successive updates, coherence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from toy_models.teacher_student.stack import Stack

__all__ = ["PathObserver", "Paths"]


@dataclass(frozen=True)
class Paths:
    """Means over samples, one entry a network.

    Attributes
    ----------
    displacement : (count,) tensor
        Root mean square over samples and width of h_last - h_0 (h_0 has root mean square 1).
    angle : (count,) tensor
        Mean angle between successive updates in degrees; NaN below two blocks.
    coherence : (count,) tensor
        |sum of updates| / sum of |update|: 1 along a line, about 1/sqrt(depth) in a random walk.
    """

    displacement: torch.Tensor
    angle: torch.Tensor
    coherence: torch.Tensor


class PathObserver:
    """Watches one forward pass of a stack; pass it as `observe`, then read `paths`.

    Parameters
    ----------
    stack : Stack
    h0 : (columns, width, samples) tensor
        The normalised inputs of the pass.
    """

    def __init__(self, stack: Stack, h0: torch.Tensor) -> None:
        self._depths = torch.tensor(stack.depths, device=h0.device).repeat_interleave(stack.columns)
        self._start = h0.repeat(len(stack.depths), 1, 1)
        self._last = self._start.clone()
        self._update = torch.zeros_like(self._start)
        self._length = torch.zeros_like(self._start[:, 0])
        self._angles = torch.zeros_like(self._length)

    def __call__(self, block: int, h: torch.Tensor) -> None:
        """Take in the states after a block, (n, width, samples), of the n students that have it."""
        n = len(h)
        update, before = h - self._last[:n], self._update[:n]
        self._length[:n] += update.norm(dim=1)
        if block > 0:
            self._angles[:n] += _angle(before, update)
        self._update[:n] = update
        self._last[:n] = h

    @property
    def paths(self) -> Paths:
        """What was seen."""
        moved = self._last - self._start
        return Paths(
            displacement=moved.square().mean((1, 2)).sqrt(),
            angle=self._angles.mean(1) / (self._depths - 1).where(self._depths > 1, math.nan),
            coherence=(moved.norm(dim=1) / self._length).mean(1),
        )


def _angle(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Angle in degrees over axis 1, accurate near zero where the arc cosine is not (Kahan, 2006, 'How
    futile are mindless assessments of roundoff', section 12): 2 atan2(|a' - b'|, |a' + b'|), unit vectors.
    """
    a, b = (vector / vector.norm(dim=1, keepdim=True) for vector in (a, b))
    return torch.rad2deg(2 * torch.atan2((a - b).norm(dim=1), (a + b).norm(dim=1)))
