"""What needs no training: teachers' paths, untrained students, the second order of KL, schedules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from scalefit.errors import OptionError
from scalefit.experiments.depth_exponents import depth_exponents, read_sweep
from toy_models.teacher_student.config import SweepConfig, Teacher
from toy_models.teacher_student.controls import kl_over_second_order, matched_gain, teacher_paths
from toy_models.teacher_student.networks import ResidualNet
from toy_models.teacher_student.paths import PathObserver
from toy_models.teacher_student.presets import PRESETS
from toy_models.teacher_student.stack import Stack
from toy_models.teacher_student.sweep import run_sweep
from toy_models.teacher_student.trainer import Trainer, evaluation_steps, schedule_factor
from toy_models.teacher_student.weights import generator, inputs, student_layers, sub_sampled, teacher_layers


def test_teachers_turn_by_the_published_angles() -> None:
    config = replace(PRESETS["paper-mse"], seeds=(0, 1))
    tied, independent = (teacher_paths(config, Teacher(kind)) for kind in ("tied", "independent"))
    # Width 32, 128 layers: 0.7 degrees along a smooth path, a right angle in a random walk.
    assert tied.angle.mean().item() == pytest.approx(0.7, abs=0.1)
    assert independent.angle.mean().item() == pytest.approx(90, abs=1)
    assert 2.2 < tied.displacement.mean() < 2.8
    assert independent.displacement.mean().item() == pytest.approx(0.24, abs=0.02)
    assert tied.coherence.mean() > 0.9
    assert independent.coherence.mean().item() == pytest.approx(1 / np.sqrt(128), abs=0.02)


def test_the_equal_displacement_preset_has_equal_displacement() -> None:
    config = PRESETS["equal-displacement"]
    tied, independent = config.teachers
    assert matched_gain(config, "tied", independent) == pytest.approx(tied.gain, abs=1e-3)


def test_a_displacement_out_of_reach_is_said() -> None:
    config = replace(PRESETS["smoke"], seeds=(0,))
    with pytest.raises(OptionError, match="no gain of independent teachers between"):
        matched_gain(config, "independent", Teacher("tied", 1e6))


def untrained(name: str, folder: Path) -> dict[str, float]:
    config = PRESETS[name]
    run_sweep(replace(config, seeds=(0, 1), eval_samples=2 * config.batch), folder / "run", workers=0)
    return {item.label: item.alpha for item in depth_exponents(read_sweep(folder / "run"))}


def test_sub_sampled_teachers_fall_as_measured(tmp_path: Path) -> None:
    found = untrained("untrained", tmp_path)
    assert 1.9 < found["tied"] < 2.4
    assert 0.6 < found["independent"] < 1.2


@pytest.mark.slow
def test_euler_and_midpoint_steps_have_their_orders_against_the_flow(tmp_path: Path) -> None:
    found = untrained("untrained-flow", tmp_path)
    # Orders one and two: mean square errors of order 2 and 4, from below at finite depth.
    assert 1.9 < found["tied euler"] < 2.0
    assert 3.8 < found["tied rk2"] < 4.0


def test_a_sub_sampled_student_as_deep_as_its_teacher_is_the_teacher() -> None:
    layers = teacher_layers(Teacher("independent"), 0, depth=8, width=8, hidden=32)
    again = sub_sampled(layers, 8)
    for part in ("w1", "b", "w2"):
        assert torch.equal(getattr(again, part), getattr(layers, part))


def test_kl_of_near_students_is_its_second_order() -> None:
    config = SweepConfig(
        name="near",
        depths=(4,),
        steps=1,
        widths=(16,),
        teacher_depth=8,
        seeds=(0, 1),
        losses=("kl",),
        temperatures=(1.0, 2.0),
        batch=256,
        eval_samples=1024,
    )
    trainer = Trainer(replace(config, seeds=(0,)), config.packs()[0], torch.float64)
    for column, group in enumerate(config.packs()[0].groups):
        layers = teacher_layers(group.teacher, group.seed, depth=8, width=16, hidden=64)
        trainer.stack.load(column, sub_sampled(layers, 4))
    ratios = kl_over_second_order(trainer)
    assert ratios.tolist() == pytest.approx([1.0] * len(ratios), abs=0.01)


def test_paths_follow_from_their_definitions() -> None:
    layers = student_layers(2, depth=3, perceptrons=3, width=8, hidden=32)
    layers.w2.copy_(torch.randn(layers.w2.shape, generator=generator(0, "test")) / 6)
    stack = Stack((3,), columns=1, width=8, hidden=32, samples=64, dtype=torch.float64)
    stack.load(0, layers)
    x = inputs(0, "test", samples=64, width=8).double()
    h0 = x / x.square().mean(1, keepdim=True).sqrt()
    seen = PathObserver(stack, h0.T[None])
    stack.forward(h0.T[None].contiguous(), seen)
    updates = torch.stack(ResidualNet(layers).double().updates(h0)).detach()
    unit = updates / updates.norm(dim=-1, keepdim=True)
    angles = torch.rad2deg(torch.arccos((unit[:-1] * unit[1:]).sum(-1))).mean()
    moved = updates.sum(0)
    torch.testing.assert_close(seen.paths.angle[0], angles)
    torch.testing.assert_close(seen.paths.displacement[0], moved.square().mean().sqrt())
    coherence = (moved.norm(dim=-1) / updates.norm(dim=-1).sum(0)).mean()
    torch.testing.assert_close(seen.paths.coherence[0], coherence)


def test_schedules_start_at_one_and_end_where_they_say() -> None:
    for name in ("constant", "linear-tail", "cosine"):
        assert schedule_factor(name, 0, 1000) == 1
    assert schedule_factor("cosine", 1000, 1000) == pytest.approx(0)
    assert schedule_factor("linear-tail", 800, 1000) == 1
    assert schedule_factor("linear-tail", 1000, 1000) == pytest.approx(0.1)
    assert schedule_factor("constant", 1000, 1000) == 1


def test_evaluations_include_both_ends() -> None:
    assert evaluation_steps(1000, 4) == [0, 1, 10, 100, 1000]
    assert evaluation_steps(0, 12) == [0]
    assert evaluation_steps(50, 1) == [0, 50]


def test_draws_depend_on_every_part_of_their_key() -> None:
    keys = [(0, "a"), (1, "a"), (0, "b"), (0, "a", 0), (0, "a", 1), (0, "a", 1, 0)]
    first = {torch.rand(1, generator=generator(*key)).item() for key in keys}
    assert len(first) == len(keys)
    assert torch.equal(torch.rand(3, generator=generator(0, "a")), torch.rand(3, generator=generator(0, "a")))
