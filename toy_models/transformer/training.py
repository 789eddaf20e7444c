"""Train one transformer with one norm on bytes, and measure its residual stream before and after."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

from scalefit.errors import OptionError
from scalefit.files import write_atomically
from toy_models.transformer.config import ExperimentConfig
from toy_models.transformer.model import Transformer
from toy_models.transformer.monitor import ResidualMonitor, ResidualStatistics
from toy_models.transformer.text import ByteText

__all__ = ["Keeper", "RunResult", "require_device", "train_run"]

MEASURED_BATCH = 16
"""Held-out sequences on which the stream is measured: the same for every norm and seed."""


SAVE_SECONDS = 10.0


@dataclass(frozen=True)
class RunResult:
    """What one training run gave.

    Attributes
    ----------
    norm : str
        Name of the norm.
    seed : int
        Of the initial weights and the batches.
    status : str
        ``"trained"``, or ``"diverged"`` when the loss stopped being finite.
    steps : int
        Optimiser steps taken.
    loss, held_out_loss : float
        Mean of the last tenth of the training losses, and loss on held-out text, nats per byte.
    start, trained : ResidualStatistics
        The stream at the start and at the end; `trained` is None after divergence.
    train_rate, generate_rate : float
        Tokens per second in training and in generation with a cache.
    """

    norm: str
    seed: int
    status: str
    steps: int
    loss: float
    held_out_loss: float
    start: ResidualStatistics
    trained: ResidualStatistics | None
    train_rate: float
    generate_rate: float


def train_run(
    config: ExperimentConfig,
    text: ByteText,
    norm: str,
    seed: int,
    *,
    keeper: Keeper | None = None,
) -> RunResult | None:
    """Train one model and measure it.

    The initial weights and the batches depend on the seed alone, so that norms are compared in pairs.

    Parameters
    ----------
    config : ExperimentConfig
    text : ByteText
    norm, seed : str, int
        Of the run.
    keeper : Keeper, optional
        Keeps the state of the run, to the bit, and says when to stop.

    Returns
    -------
    RunResult or None
        None if the run was stopped and its state saved.
    """
    keeper = keeper or Keeper()
    device = require_device(config)
    sizes = replace(config.model, norm=replace(config.model.norm, name=norm))
    model = Transformer(sizes, seed=seed).to(device)
    held_out = _sample(text.held_out, MEASURED_BATCH, sizes.sequence_length, np.random.default_rng(0)).to(device)
    start = _measure(model, held_out, config)
    losses, seconds, stopped = _optimise(model, config, text, seed, keeper)
    if stopped:
        return None
    status = "trained" if math.isfinite(losses[-1]) else "diverged"
    loss, held_out_loss, trained = math.nan, math.nan, None
    if status == "trained":
        loss = float(np.mean(losses[-max(1, len(losses) // 10) :]))
        with torch.no_grad(), _precision(config):
            held_out_loss = float(_loss(model.eval(), held_out))
        trained = _measure(model, held_out, config)
    tokens = len(losses) * config.batch * sizes.sequence_length
    return RunResult(
        norm=norm,
        seed=seed,
        status=status,
        steps=len(losses),
        loss=loss,
        held_out_loss=held_out_loss,
        start=start,
        trained=trained,
        train_rate=tokens / seconds,
        generate_rate=_generation_rate(model, held_out, config),
    )


def learning_rate(config: ExperimentConfig, step: int) -> float:
    """Return the rate at a step: linear warm-up, then a cosine to a tenth."""
    if step < config.warmup:
        return config.learning_rate * (step + 1) / config.warmup
    share = (step - config.warmup) / max(1, config.steps - config.warmup)
    return config.learning_rate * (0.55 + 0.45 * math.cos(math.pi * share))


class Keeper:
    """Keeps the state of a run in a file, often enough that little is lost, seldom enough that it costs little.

    Parameters
    ----------
    path : Path, optional
        None keeps nothing.
    alive : callable
        Called at every step, to say that the work goes on.
    saved : callable
        Called after every save.
    stop : callable
        Asked at every step whether to save and return.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        alive: Callable[[], None] = lambda: None,
        saved: Callable[[], None] = lambda: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.path, self.alive, self.saved, self.stop = path, alive, saved, stop
        self._last, self._cost = time.monotonic(), 0.0

    @property
    def is_due(self) -> bool:
        """Whether ten seconds of work, and twenty times the cost of saving it, have passed."""
        return self.path is not None and time.monotonic() - self._last > max(SAVE_SECONDS, 20 * self._cost)

    def save(self, state: Mapping[str, Any]) -> None:
        """Write the state whole or not at all."""
        if self.path is None:
            return
        begun = time.monotonic()
        write_atomically(self.path, lambda path: torch.save(state, path))
        self._last = time.monotonic()
        self._cost = self._last - begun
        self.saved()

    def load(self, device: torch.device) -> dict[str, Any] | None:
        """Return the last state, if there is one."""
        if self.path is None or not self.path.exists():
            return None
        state: dict[str, Any] = torch.load(self.path, map_location=device, weights_only=True)
        return state


def _optimise(
    model: Transformer, config: ExperimentConfig, text: ByteText, seed: int, keeper: Keeper
) -> tuple[list[float], float, bool]:
    """Train in place; return the loss of every step, the seconds after the first step, and whether it was stopped.

    The first step is left out of the time (and counted back in pro rata), since it compiles.
    """
    device = next(model.parameters()).device
    compiled = torch.compile(model, backend=config.compile) if config.compile else model
    matrices = [weight for weight in model.parameters() if weight.ndim == 2]
    others = [weight for weight in model.parameters() if weight.ndim != 2]
    optimiser = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}],
        betas=(0.9, 0.95),
        fused=True,
    )
    model.train()
    losses: list[Tensor] = []
    before = 0.0
    if (state := keeper.load(device)) is not None:
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        losses, before = list(state["losses"]), state["seconds"]
    first = len(losses)
    begun = time.perf_counter()

    def save() -> None:
        told = {"losses": torch.stack(losses) if losses else torch.empty(0)}
        seconds = before + time.perf_counter() - begun
        keeper.save({"model": model.state_dict(), "optimiser": optimiser.state_dict(), "seconds": seconds, **told})

    for step, tokens in islice(enumerate(_batches(config, text, seed)), first, None):
        keeper.alive()
        if keeper.stop():
            save()
            return [], 0.0, True
        if keeper.is_due:
            save()
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(config, step)
        with _precision(config):
            loss = _loss(compiled, tokens.to(device, non_blocking=True))
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        # Looking at the loss waits for the device, so it is looked at only now and then.
        if step % 20 == 0 and not math.isfinite(float(losses[-1])):
            break
        if step == first:
            float(losses[-1])
            begun = time.perf_counter()
    values = [float(loss) for loss in losses]
    seconds = before + time.perf_counter() - begun
    return values, seconds * len(values) / max(1, len(values) - 1), False


def _batches(config: ExperimentConfig, text: ByteText, seed: int) -> Iterator[Tensor]:
    rng = np.random.default_rng([seed, 1])
    for _ in range(config.steps):
        yield _sample(text.train, config.batch, config.model.sequence_length, rng)


def _sample(data: NDArray[np.uint8], batch: int, length: int, rng: np.random.Generator) -> Tensor:
    """Draw (batch, length + 1) consecutive bytes."""
    starts = rng.integers(0, len(data) - length, size=batch)
    rows = data[starts[:, None] + np.arange(length + 1)]
    return torch.from_numpy(rows.astype(np.int64))


def _loss(model: Callable[[Tensor], Tensor], tokens: Tensor) -> Tensor:
    """Return the mean cross-entropy of the next byte, nats, in float32."""
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())


def _measure(model: Transformer, tokens: Tensor, config: ExperimentConfig) -> ResidualStatistics:
    with ResidualMonitor(model.eval()) as monitor, torch.no_grad(), _precision(config):
        model(tokens[:, :-1])
    return monitor.statistics()


def _generation_rate(model: Transformer, tokens: Tensor, config: ExperimentConfig) -> float:
    """Return generated tokens per second, batch of one, cache included, first token left out."""
    model.eval()
    prompt = tokens[:1, : max(1, config.model.sequence_length // 4)]
    n_tokens = config.model.sequence_length - prompt.shape[1]
    with _precision(config):
        model.generate(prompt, 1)
        begun = time.perf_counter()
        model.generate(prompt, n_tokens)[0, -1].item()
        return n_tokens / (time.perf_counter() - begun)


def _precision(config: ExperimentConfig) -> torch.autocast:
    """Return the context in which matrix products run in bfloat16 where the configuration says so."""
    half = config.precision == "bfloat16"
    return torch.autocast(config.device, dtype=torch.bfloat16, enabled=half)


def require_device(config: ExperimentConfig) -> torch.device:
    """Return the device of a configuration, or say that it is not there."""
    if config.device == "cuda" and not torch.cuda.is_available():
        raise OptionError("this preset needs a CUDA device and torch sees none; use the preset 'laptop'")
    return torch.device(config.device)
