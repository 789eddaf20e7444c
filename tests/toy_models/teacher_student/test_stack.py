"""The stack against the reference networks, and each student against its neighbours."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from toy_models.teacher_student.config import Pack, SweepConfig, Teacher
from toy_models.teacher_student.networks import ResidualNet, kl_divergence, state_error
from toy_models.teacher_student.trainer import Trainer
from toy_models.teacher_student.weights import head_weights, inputs, teacher_layers

SMALL = SweepConfig(
    name="small",
    depths=(1, 2, 4),
    steps=120,
    widths=(8,),
    teacher_depth=8,
    seeds=(3,),
    batch=64,
    eval_samples=128,
    learning_rate=3e-3,
    depth_factor=2.0,
)
VARIANTS = {
    "mse-euler": SMALL,
    "mse-rk2": replace(SMALL, integrators=("rk2",)),
    "kl-given": replace(SMALL, losses=("kl",), temperatures=(0.3, 1.0), vocabulary=16),
    "kl-learned": replace(
        SMALL, losses=("kl",), temperatures=(0.3, 1.0), vocabulary=16, head="learned", temperature_side="teacher"
    ),
}  # fmt: skip


def randomised(config: SweepConfig, dtype: torch.dtype) -> Trainer:
    """A trainer whose students have left the zero start, where most gradients vanish."""
    trainer = Trainer(config, config.packs()[0], dtype)
    noise = torch.randn(trainer.stack.flat.shape, dtype=dtype, generator=torch.Generator().manual_seed(1))
    trainer.stack.flat.copy_(0.3 * noise)
    return trainer


def reference_loss(trainer: Trainer, student: int, net: ResidualNet, head: torch.Tensor) -> torch.Tensor:
    """The loss of one student at step 0, from the reference modules alone."""
    config, pack = trainer.config, trainer.pack
    group = pack.groups[student % trainer.stack.columns]
    x = inputs(group.seed, "fresh", 0, samples=config.batch, width=pack.width).double()
    layers = teacher_layers(
        group.teacher, group.seed, depth=config.teacher_depth, width=pack.width, hidden=4 * pack.width
    )
    target = ResidualNet(layers).double()(x).detach()
    if pack.loss == "mse":
        return state_error(net(x), target).mean()
    target_head = head_weights(group.seed, vocabulary=config.vocabulary, width=pack.width).double()
    temperature = group.temperature if config.temperature_side == "both" else 1.0
    head = head if config.head == "learned" else target_head
    return kl_divergence(net(x), target, head, target_head, (temperature, group.temperature)).mean()


@pytest.mark.parametrize("name", VARIANTS)
def test_gradients_match_autograd_on_the_reference(name: str) -> None:
    trainer = randomised(VARIANTS[name], torch.float64)
    batch = trainer.source.batch(0)
    trainer.stack.backward(trainer.loss.gradient(trainer.stack.forward(batch.h0), batch.target))
    for student in range(trainer.stack.count):
        net = ResidualNet(trainer.stack.student(student), trainer.pack.integrator)
        head = trainer.stack.head[student].clone().requires_grad_()
        reference_loss(trainer, student, net, head).backward()
        for j, perceptron in enumerate(net.perceptrons):
            found = trainer.stack.grads[j]
            for ours, theirs in (
                (found.w1[student], perceptron.w1.grad),
                (found.b[student, :, 0], perceptron.b.grad),
                (found.w2[student], perceptron.w2.grad),
            ):
                torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9 * theirs.abs().max().item())
        if trainer.config.head == "learned" and trainer.pack.loss == "kl":
            scale = head.grad.abs().max().item()
            torch.testing.assert_close(trainer.stack.head_grad[student], head.grad, rtol=0, atol=1e-9 * scale)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_stack_of_one_equals_a_stack_of_many_to_the_bit(name: str) -> None:
    config = VARIANTS[name]
    many = Trainer(config, config.packs()[0])
    for _ in range(100):
        many.train_step()
    loss = many.measure().loss
    for student in range(many.stack.count):
        pack = many.pack
        depth, group = pack.depths[student // many.stack.columns], pack.groups[student % many.stack.columns]
        alone = Trainer(config, replace(pack, depths=(depth,), groups=(group,)))
        for _ in range(100):
            alone.train_step()
        for part in ("w1", "b", "w2"):
            assert torch.equal(getattr(alone.stack.student(0), part), getattr(many.stack.student(student), part))
        assert alone.measure().loss[0] == loss[student]


def test_a_diverged_student_leaves_its_neighbours_unchanged_to_the_bit() -> None:
    pack = SMALL.packs()[0]
    clean, hurt = Trainer(SMALL, pack), Trainer(SMALL, pack)
    victim = 2
    hurt.stack.layers[0].w1[victim, 0, 0] = torch.nan
    for trainer in (clean, hurt):
        for _ in range(110):
            trainer.train_step()
    found, expected = hurt.measure(), clean.measure()
    others = [student for student in range(clean.stack.count) if student != victim]
    assert torch.equal(found.loss[others], expected.loss[others])
    assert torch.isnan(found.loss[victim])
    assert torch.isnan(found.students.displacement[victim])
    assert found.alive.tolist() == [student != victim for student in range(clean.stack.count)]
    assert torch.isfinite(hurt.stack.flat).all()


def test_training_matches_the_reference_with_the_library_optimiser() -> None:
    config = replace(SMALL, schedule="constant", teachers=(Teacher("tied"),))
    pack = Pack(8, 32, (4,), config.packs()[0].groups, "mse", "euler", 120)
    trainer = Trainer(config, pack, torch.float64)
    net = ResidualNet(trainer.stack.student(0))
    optimiser = torch.optim.Adam(net.parameters(), lr=config.rate(4, 32))
    for _ in range(20):
        batch = trainer.source.batch(trainer.step)
        optimiser.zero_grad()
        # The stack's batches are normalised already; normalising again changes them by the norm's eps only.
        state_error(net(batch.h0[0].T), batch.target[0].T).mean().backward()
        optimiser.step()
        trainer.train_step()
    ours = trainer.stack.student(0)
    for j, perceptron in enumerate(net.perceptrons):
        # Adam turns a gradient near zero into a step of full size, so rounding differences can grow.
        torch.testing.assert_close(ours.w1[j], perceptron.w1.data, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(ours.w2[j], perceptron.w2.data, rtol=1e-4, atol=1e-6)
