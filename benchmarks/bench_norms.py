"""Training and generation throughput of every norm against RMSNorm, in one run on one thread.

``python benchmarks/bench_norms.py [REPEATS]`` prints times and their ratio to RMSNorm's, on the CPU and, where
there is one, on a CUDA device. The model is the depth experiment's, 24 blocks of width 64: its maps are so small
that a norm's share of the time is far larger than in a model of use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

import harness
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from toy_models.transformer import NORMS, Transformer
from toy_models.transformer.config import PRESETS

REPEATS = 9
TRAIN_STEPS = 2
GENERATED = 96

Contestants = dict[str, Callable[[], None]]


def contestants(device: str) -> tuple[Contestants, Contestants]:
    """Return, by norm, what takes training steps and what generates tokens."""
    config = PRESETS["laptop"]
    rng = torch.Generator().manual_seed(0)
    tokens = torch.randint(256, (config.batch, config.model.sequence_length), generator=rng).to(device)
    training, generating = {}, {}
    for name in NORMS:
        sizes = replace(config.model, norm=replace(config.model.norm, name=name))
        training[name] = training_of(Transformer(sizes, seed=0).to(device), tokens)
        generating[name] = generation_of(Transformer(sizes, seed=0).to(device).eval(), tokens[:1, :32])
    return training, generating


def training_of(model: Transformer, tokens: Tensor) -> Callable[[], None]:
    """Return a function that takes training steps with AdamW."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def train() -> None:
        for _ in range(TRAIN_STEPS):
            logits = model(tokens[:, :-1])
            cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
            optimiser.step()
            optimiser.zero_grad()
        model.lm_head.weight[0, 0].item()  # waits for the device

    return train


def generation_of(model: Transformer, prompt: Tensor) -> Callable[[], None]:
    """Return a function that generates tokens, one after the other, with a cache."""

    def generate() -> None:
        model.generate(prompt, GENERATED)[0, -1].item()

    return generate


def main(repeats: int) -> None:
    """Print the tables of every device."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    sys.stdout.write(f"{harness.machine()}; torch {torch.__version__}; above 1: slower than RMSNorm\n")
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        titles = (f"{TRAIN_STEPS} training steps of 8 x 127 bytes", f"{GENERATED} tokens generated, batch of one")
        for title, ways in zip(titles, contestants(device), strict=True):
            table = harness.ratio_table(harness.interleave(ways, repeats), "rmsnorm")
            sys.stdout.write(f"\n{device}: {title}\n{table}\n")


if __name__ == "__main__":
    harness.on_one_thread()
    main(int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS)
