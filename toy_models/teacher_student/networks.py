"""The readable reference: one module a network, autograd for the gradients.

`stack` trains many of these at once and must agree with them to rounding; read this file to know what
is computed, that one to know how it is computed fast.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from toy_models.teacher_student.weights import Layers

__all__ = ["EPS", "Perceptron", "ResidualNet", "kl_divergence", "rms_norm", "state_error"]

EPS = torch.finfo(torch.float32).eps
"""Added to the mean square under the root, in every precision."""


def rms_norm(h: torch.Tensor) -> torch.Tensor:
    """Divide each state by its root mean square, without gain; (..., width)."""
    return functional.rms_norm(h, h.shape[-1:], eps=EPS)


class Perceptron(nn.Module):
    """Residual branch ``w2 relu(w1 rms_norm(h) + b)^2`` of one layer."""

    def __init__(self, w1: torch.Tensor, b: torch.Tensor, w2: torch.Tensor) -> None:
        super().__init__()
        self.w1 = nn.Parameter(w1.clone())
        self.b = nn.Parameter(b.clone())
        self.w2 = nn.Parameter(w2.clone())

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        """Return the update of a state; (..., width)."""
        hidden = functional.linear(rms_norm(h), self.w1, self.b)
        return functional.linear(functional.relu(hidden).square(), self.w2)


class ResidualNet(nn.Module):
    """A residual network over the state: ``h_0 = rms_norm(x)``, output ``rms_norm(h_last)``.

    Parameters
    ----------
    layers : Layers
        Weights of its perceptrons: one a block for Euler, two for RK2.
    integrator : str
        ``euler``: ``h += f(h)``. ``rk2``, the midpoint rule with two perceptrons:
        ``h += f_2(h + f_1(h) / 2)`` (arXiv 2602.05970, Appendix C.3).
    """

    def __init__(self, layers: Layers, integrator: str = "euler") -> None:
        super().__init__()
        weights = zip(layers.w1, layers.b, layers.w2, strict=True)
        self.perceptrons = nn.ModuleList(Perceptron(*weight) for weight in weights)
        self.integrator = integrator

    def updates(self, h: torch.Tensor) -> list[torch.Tensor]:
        """Return the update of every block along the trajectory of a normalised input."""
        found = []
        blocks = list(self.perceptrons)
        while blocks:
            if self.integrator == "rk2":
                update = blocks[1](h + blocks[0](h) / 2)
                blocks = blocks[2:]
            else:
                update = blocks[0](h)
                blocks = blocks[1:]
            h = h + update
            found.append(update)
        return found

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map inputs (..., width) to the final normalised state, same shape."""
        h = rms_norm(x)
        for update in self.updates(h):
            h = h + update
        return rms_norm(h)


def state_error(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean square difference of final states over the width; (samples,)."""
    return (output - target).square().mean(-1)


def kl_divergence(
    output: torch.Tensor,
    target: torch.Tensor,
    head: torch.Tensor,
    target_head: torch.Tensor,
    temperatures: tuple[float, float],
) -> torch.Tensor:
    """KL divergence of the student's from the teacher's softmax, nats per sample; (samples,).

    Parameters
    ----------
    output, target : (samples, width) tensor
        Final states of student and teacher.
    head, target_head : (vocabulary, width) tensor
    temperatures : (float, float)
        Divisors of the student's and of the teacher's logits.
    """
    log_q = functional.log_softmax(output @ head.T / temperatures[0], -1)
    log_p = functional.log_softmax(target @ target_head.T / temperatures[1], -1)
    return (log_p.exp() * (log_p - log_q)).sum(-1)
