"""Training and generation throughput of every norm against RMSNorm, in one run on one thread.

    python benchmarks/bench_norms.py [REPEATS]

The model is the depth experiment's (24 blocks of width 64): small maps, so that a norm's share of the time
is far larger than in a model of use. With a CUDA device the same is measured there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

from harness import interleave, machine, on_one_thread, ratio_table

REFERENCE = "rmsnorm"
TRAIN_STEPS = 2
GENERATED = 96


def contestants(device: str) -> tuple[dict[str, Callable[[], None]], dict[str, Callable[[], None]]]:
    """Return, by norm, what takes training steps and what generates tokens."""
    import torch

    from toy_models.transformer import NORMS, Transformer
    from toy_models.transformer.config import PRESETS

    config = PRESETS["laptop"]
    rng = torch.Generator().manual_seed(0)
    tokens = torch.randint(256, (config.batch, config.model.sequence_length), generator=rng).to(device)
    training, generating = {}, {}
    for name in NORMS:
        sizes = replace(config.model, norm=replace(config.model.norm, name=name))
        training[name] = train_steps(Transformer(sizes, seed=0).to(device), tokens)
        generating[name] = generation(Transformer(sizes, seed=0).to(device).eval(), tokens[:1, :32])
    return training, generating


def train_steps(model, tokens) -> Callable[[], None]:
    """Return a function that takes training steps with AdamW."""
    import torch
    import torch.nn.functional as F

    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def steps() -> None:
        for _ in range(TRAIN_STEPS):
            logits = model(tokens[:, :-1])
            F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
            optimiser.step()
            optimiser.zero_grad()
        next(model.parameters()).sum().item()  # waits for the device

    return steps


def generation(model, prompt) -> Callable[[], None]:
    """Return a function that generates tokens, one after the other, with a cache."""

    def generate() -> None:
        model.generate(prompt, GENERATED)[0, -1].item()

    return generate


def main() -> None:
    """Print both tables: times, and their ratio to RMSNorm's."""
    import torch

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    print(f"{machine()}; torch {torch.__version__}, one thread")
    for device in devices:
        training, generating = contestants(device)
        print(f"\n{device}: {TRAIN_STEPS} training steps of 8 x 127 bytes (ratio above 1: slower than RMSNorm)")
        print(ratio_table(interleave(training, repeats), REFERENCE))
        print(f"\n{device}: {GENERATED} tokens generated, batch of one")
        print(ratio_table(interleave(generating, repeats), REFERENCE))


if __name__ == "__main__":
    on_one_thread()
    main()
