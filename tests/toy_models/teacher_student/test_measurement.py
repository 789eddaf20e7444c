"""What an evaluation reports: the mean over its samples and the standard error of that mean."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from toy_models.teacher_student.config import SweepConfig
from toy_models.teacher_student.trainer import Trainer

SMALL = SweepConfig(
    name="small", depths=(1, 2), steps=20, widths=(8,), teacher_depth=8, seeds=(3, 4), batch=16, eval_samples=48,
    learning_rate=3e-3, depth_factor=2.0,
)  # fmt: skip


@pytest.mark.parametrize("loss", ["mse", "kl"])
def test_losses_and_their_errors_are_those_of_the_samples(loss: str) -> None:
    config = replace(SMALL, losses=(loss,), **({"vocabulary": 16, "temperatures": (1.0,)} if loss == "kl" else {}))
    trainer = Trainer(config, config.packs()[0], torch.float64)
    noise = torch.randn(trainer.stack.flat.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    trainer.stack.flat.copy_(0.3 * noise)
    batches = [trainer.source.evaluation(i) for i in range(3)]
    values = torch.cat([trainer.loss.values(trainer.stack.forward(b.h0), b.target).clone() for b in batches], dim=1)
    found = trainer.measure()
    assert values.shape == (trainer.stack.count, 48)
    torch.testing.assert_close(found.loss, values.mean(1), rtol=1e-10, atol=0)
    # differences of squares keep ten of sixteen digits here
    torch.testing.assert_close(found.loss_se, values.std(1, correction=1) / 48**0.5, rtol=1e-6, atol=0)
