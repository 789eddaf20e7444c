"""Adam over one flat buffer of many students, each with its own learning rate."""

from __future__ import annotations

import torch

__all__ = ["Adam"]

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
