"""Keyed random draws: every tensor depends on its key alone, never on what else is trained."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from toy_models._torch import require_torch

require_torch("training the toy models")

import torch  # noqa: E402

from toy_models.teacher_student.config import Teacher  # noqa: E402

__all__ = ["Layers", "generator", "head_weights", "inputs", "student_layers", "sub_sampled", "teacher_layers"]


@dataclass(frozen=True)
class Layers:
    """Weights of perceptrons in a row, ``f(u) = w2 @ relu(w1 @ u + b)**2``.

    Attributes
    ----------
    w1 : (n_layers, hidden, width) tensor
    b : (n_layers, hidden) tensor
    w2 : (n_layers, width, hidden) tensor
    """

    w1: torch.Tensor
    b: torch.Tensor
    w2: torch.Tensor

    def __len__(self) -> int:
        return self.w1.shape[0]


def generator(seed: int, role: str, *key: int) -> torch.Generator:
    """Return a CPU generator that is a function of its key.

    A hash, not a sum, keeps the streams of neighbouring seeds and steps apart.
    """
    text = repr((seed, role, *key)).encode()
    return torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1)


def inputs(seed: int, role: str, *key: int, samples: int, width: int) -> torch.Tensor:
    """Draw standard normal inputs, one fixed-shape draw a key; (samples, width) float32."""
    return torch.randn(samples, width, generator=generator(seed, role, *key))


def _uniform(shape: tuple[int, ...], fan_in: int, rng: torch.Generator) -> torch.Tensor:
    """Uniform on +-1/sqrt(fan_in), the default of a linear layer."""
    return torch.rand(shape, generator=rng).mul_(2).sub_(1).div_(math.sqrt(fan_in))


def _perceptrons(count: int, width: int, hidden: int, rng: torch.Generator) -> Layers:
    w1 = _uniform((count, hidden, width), width, rng)
    b = _uniform((count, hidden), width, rng)
    return Layers(w1, b, _uniform((count, width, hidden), hidden, rng))


def teacher_layers(teacher: Teacher, seed: int, *, depth: int, width: int, hidden: int) -> Layers:
    """Draw a teacher; w2 is scaled by gain / sqrt(depth) (arXiv 2602.05970, Appendix C).

    Returns
    -------
    Layers
        ``depth`` of them; a tied teacher repeats its first layer without copying it. Both kinds share
        the first layer at equal seed.
    """
    rng = generator(seed, "teacher", depth, width, hidden)
    layers = _perceptrons(depth, width, hidden, rng)
    w2 = layers.w2 * (teacher.gain / math.sqrt(depth))
    if teacher.kind == "independent":
        return Layers(layers.w1, layers.b, w2)
    first = (layers.w1[:1], layers.b[:1], w2[:1])
    return Layers(*(tensor.expand(depth, *tensor.shape[1:]) for tensor in first))


def student_layers(seed: int, *, depth: int, perceptrons: int, width: int, hidden: int) -> Layers:
    """Draw a student at the start of training: a linear layer's default weights, w2 zero."""
    rng = generator(seed, "student", depth, perceptrons, width, hidden)
    layers = _perceptrons(perceptrons, width, hidden, rng)
    return Layers(layers.w1, layers.b, torch.zeros_like(layers.w2))


def sub_sampled(layers: Layers, depth: int, *, perceptrons: int = 1) -> Layers:
    """Make a student of evenly spaced layers of its teacher, each standing for teacher_depth / depth of them.

    With two perceptrons a block both are the same layer, as in the midpoint rule for a tied teacher.
    """
    kept = torch.arange(depth).mul(len(layers)).div(depth, rounding_mode="floor").repeat_interleave(perceptrons)
    return Layers(layers.w1[kept], layers.b[kept], layers.w2[kept] * (len(layers) / depth))


def head_weights(seed: int, *, vocabulary: int, width: int) -> torch.Tensor:
    """Draw the teacher's head, normal of variance 1/width: logits of order one; (vocabulary, width)."""
    rng = generator(seed, "head", vocabulary, width)
    return torch.randn(vocabulary, width, generator=rng) / math.sqrt(width)
