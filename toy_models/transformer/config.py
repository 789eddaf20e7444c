"""The depth experiment's configurations."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scalefit.errors import OptionError
from toy_models.transformer.build import NORMS, NormConfig
from toy_models.transformer.model import ModelConfig

__all__ = ["PRESETS", "ExperimentConfig"]


@dataclass(frozen=True)
class ExperimentConfig:
    """Which models are trained, and how.

    Attributes
    ----------
    model : ModelConfig
        Sizes; its norm gives the constants, not the name.
    norms : tuple of str
        Names from `NORMS`.
    seeds : tuple of int
        Seeds of weights and batches; every norm is trained with each.
    steps, batch : int
        Optimiser steps, and sequences a step.
    learning_rate, weight_decay : float
        Peak rate of AdamW, and decay of the matrices.
    warmup : int
        Steps of linear warm-up.
    device : str
        ``"cpu"`` or ``"cuda"``.
    precision : str
        ``"float32"``, or ``"bfloat16"`` for products in bfloat16 with float32 weights and statistics.
    compile : str
        Backend of torch.compile; empty for none.
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    norms: tuple[str, ...] = tuple(NORMS)
    seeds: tuple[int, ...] = (0, 1, 2)
    steps: int = 200
    batch: int = 8
    learning_rate: float = 6e-3
    weight_decay: float = 0.1
    warmup: int = 20
    device: str = "cpu"
    precision: str = "float32"
    compile: str = ""

    def __post_init__(self) -> None:
        for norm in self.norms:
            NormConfig(norm)
        for name in ("steps", "batch"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} is {getattr(self, name)} and must be at least 1")
        for name, allowed in (("device", ("cpu", "cuda")), ("precision", ("float32", "bfloat16"))):
            if getattr(self, name) not in allowed:
                raise OptionError(f"{name} is {getattr(self, name)!r} and must be {' or '.join(allowed)}")

    @classmethod
    def from_file(cls, path: Path) -> ExperimentConfig:
        """Read the configuration that an experiment's folder holds.

        Raises
        ------
        OptionError
            There is none, it is no JSON, or a field or value is not allowed.
        """
        if not path.is_file():
            raise OptionError(f"{path.parent} holds no experiment ({path.name} is missing); start one with a preset")
        try:
            content = json.loads(path.read_bytes())
            norm = NormConfig(**content["model"].pop("norm"))
            model = ModelConfig(norm=norm, **content.pop("model"))
            lists: dict[str, Any] = {name: tuple(content.pop(name)) for name in ("norms", "seeds")}
            return cls(model=model, **lists, **content)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise OptionError(f"{path} is no configuration of an experiment: {error}; restore it") from None

    def describe(self) -> str:
        """Say in one line what is run and on what."""
        model = self.model
        return (
            f"{len(self.norms)} norms x {len(self.seeds)} seeds, width {model.width}, depth {model.depth}, "
            f"{self.steps} steps of {self.batch} x {model.sequence_length} bytes, {self.precision} on {self.device}"
        )


# Of 1e-3, 3e-3, 6e-3 and 1e-2 the rate with RMSNorm's lowest held-out loss (2.23, 2.02, 1.93, 1.95; seed 0).
LAPTOP = ExperimentConfig()

PRESETS = {
    "laptop": LAPTOP,
    "smoke": replace(
        LAPTOP,
        model=ModelConfig(width=32, depth=6, hidden=88, sequence_length=32),
        seeds=(0,),
        steps=10,
        batch=4,
        warmup=2,
    ),
    "gpu": replace(
        LAPTOP,
        model=ModelConfig(width=512, depth=48, hidden=1376, n_heads=8, n_kv_heads=4, sequence_length=512),
        steps=3000,
        batch=64,
        learning_rate=1e-3,
        warmup=100,
        device="cuda",
        precision="bfloat16",
        compile="inductor",
    ),
}
"""``laptop``: ten minutes on two cores; ``smoke``: seconds; ``gpu``: the same code on one CUDA device."""
