"""Teacher-student sweeps: stacked students against the reference modules, whole machine, in one run.

``python benchmarks/bench_toy.py [REPEATS]`` prints seconds a sweep-step (one step of every student of a teacher)
with every core busy, ratios, and the share of the floor that matrix products alone would allow. The naive
arrangements train one `ResidualNet` after the other with autograd and the library's fused Adam, as one process a
core and, where they compute the teacher anew, also as one process with all threads. The stack runs as one process
a core.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import harness
import torch

from scalefit.execute import ProcessExecutor, available_cores
from toy_models.teacher_student.config import SweepConfig, Teacher
from toy_models.teacher_student.networks import ResidualNet, kl_divergence, state_error
from toy_models.teacher_student.presets import PRESETS
from toy_models.teacher_student.trainer import Trainer
from toy_models.teacher_student.weights import head_weights, inputs, student_layers, teacher_layers

REPEATS = 5
ONE_KIND = (Teacher("independent"),)


def configuration(name: str) -> SweepConfig:
    """One teacher, six students: the paper's KL with one or four temperatures, or the laptop preset's."""
    if name == "laptop":
        return replace(PRESETS["laptop"], teachers=ONE_KIND, seeds=(0,), horizons=(1.0,), samples=16_384)
    temperatures = {"paper, 1 temperature": (1.0,), "paper, 4 temperatures": (0.01, 0.1, 0.5, 1.0)}[name]
    return replace(PRESETS["paper-kl-independent"], seeds=(0,), temperatures=temperatures)


class Naive:
    """All students of one teacher as modules, one after the other.

    Parameters
    ----------
    config : SweepConfig
    cached : bool
        Use stored outputs of the teacher; without it every student's step runs the teacher.
    """

    def __init__(self, config: SweepConfig, *, cached: bool) -> None:
        (width,), self.config, self.cached = config.widths, config, cached
        shape = {"width": width, "hidden": config.hidden_ratio * width}
        layers = teacher_layers(config.teachers[0], 0, depth=config.teacher_depth, **shape)
        self.teacher = ResidualNet(layers)
        self.temperatures = config.temperatures or (None,)
        self.target_head = head_weights(0, vocabulary=config.vocabulary, width=width)
        self.students = [
            (self.student(depth, shape), temperature) for depth in config.depths for temperature in self.temperatures
        ]
        x = inputs(0, "fixed", 0, samples=16 * config.batch, width=width)
        with torch.no_grad():
            self.stored = (x, self.teacher(x))

    def student(self, depth: int, shape: dict[str, int]) -> tuple[ResidualNet, torch.Tensor, torch.optim.Adam]:
        """A network, its head (unused by mse) and its optimiser."""
        net = ResidualNet(student_layers(0, depth=depth, perceptrons=depth, **shape))
        head = torch.zeros_like(self.target_head, requires_grad=bool(self.config.temperatures))
        parameters = [*net.parameters(), *([head] if head.requires_grad else [])]
        return net, head, torch.optim.Adam(parameters, lr=self.config.rate(depth, shape["hidden"]), fused=True)

    def step(self, number: int) -> None:
        """One step of every student."""
        batch = self.config.batch
        for (net, head, optimiser), temperature in self.students:
            if self.cached:
                piece = slice(number % 16 * batch, (number % 16 + 1) * batch)
                x, target = self.stored[0][piece], self.stored[1][piece]
            else:
                x = inputs(0, "fresh", number, samples=batch, width=self.config.widths[0])
                with torch.no_grad():
                    target = self.teacher(x)
            optimiser.zero_grad()
            if temperature is None:
                loss = state_error(net(x), target).mean()
            else:
                loss = kl_divergence(net(x), target, head, self.target_head, (1.0, temperature)).mean()
            loss.backward()
            optimiser.step()


class Stacked:
    """The package's trainer."""

    def __init__(self, config: SweepConfig) -> None:
        self.trainer = Trainer(config, config.packs()[0])

    def step(self, _number: int) -> None:
        """One step of every student."""
        self.trainer.train_step()


class Products:
    """The matrix products of one step of a student layer, alone: the floor under the stack."""

    def __init__(self, config: SweepConfig) -> None:
        (width,), hidden, n = config.widths, config.hidden_ratio * config.widths[0], len(config.depths)
        self.narrow, self.wide = torch.randn(n, width, config.batch), torch.randn(n, hidden, config.batch)
        self.up, self.down = torch.randn(n, hidden, width), torch.randn(n, width, hidden)
        self.results = [torch.empty_like(part) for part in (self.narrow, self.wide, self.up, self.down)]

    def step(self, _number: int) -> None:
        """Two products forward and four backward of one layer of every student."""
        narrow, wide, up, down = self.results
        for _ in range(2):
            torch.bmm(self.up, self.narrow, out=wide)
            torch.bmm(self.down, self.wide, out=narrow)
        torch.bmm(self.wide, self.narrow.mT, out=up)
        torch.bmm(self.narrow, self.wide.mT, out=down)


@cache
def contestant(kind: str, name: str) -> Naive | Stacked | Products:
    """Build a contestant once a process."""
    config = configuration(name)
    if kind == "stacked":
        return Stacked(config)
    return Products(config) if kind == "products" else Naive(config, cached=kind == "cached")


def take_steps(kind: str, name: str, steps: int, threads: int) -> None:
    """Job of a worker: some steps of one contestant."""
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    one = contestant(kind, name)
    for number in range(steps):
        one.step(number)


def on_all_cores(executor: ProcessExecutor, kind: str, name: str, steps: int, cores: int) -> None:
    """The same steps in one single-thread process a core."""
    for job in [executor.submit(take_steps, kind, name, steps, 1) for _ in range(cores)]:
        job.result()


def in_one_process(executor: ProcessExecutor, kind: str, name: str, steps: int, cores: int) -> None:
    """All steps of `on_all_cores` in one process with a thread a core."""
    executor.submit(take_steps, kind, name, steps * cores, cores).result()


def products_per_step(config: SweepConfig) -> float:
    """Student layers' products of a sweep-step, the teacher's share included, in units of `Products.step`."""
    layers = sum(config.depths) * max(1, len(config.temperatures))
    teacher = 0 if config.samples else config.teacher_depth * 2 / 6
    return (layers + teacher) / len(config.depths)


def compare(executor: ProcessExecutor, name: str, steps: dict[str, int], repeats: int, cores: int) -> str:
    """Time the contestants of one configuration and lay them out."""
    ways: dict[str, Callable[[], None]] = {}
    for kind, count in steps.items():
        ways[f"{kind}, {cores} processes"] = partial(on_all_cores, executor, kind, name, count, cores)
        if kind == "naive":
            ways[f"{kind}, {cores} threads"] = partial(in_one_process, executor, kind, name, count, cores)
    timings = harness.interleave(ways, repeats)
    scaled = []
    for timing in timings:
        kind = timing.name.split(",")[0]
        units = 1 / products_per_step(configuration(name)) if kind == "products" else 1
        scaled.append(harness.scaled(timing, 1 / (steps[kind] * cores * units), timing.name, None))
    ours, floor = f"stacked, {cores} processes", f"products, {cores} processes"
    median = {timing.name: timing.median for timing in scaled}
    lines = [f"\n{name}: seconds a sweep-step, whole machine", harness.ratio_table(scaled, reference=ours)]
    lines.append(f"share of the floor of matrix products: {median[floor] / median[ours]:.0%}")
    return "\n".join(lines)


def main() -> None:
    """Compare on the paper's sizes and on the laptop preset."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS
    cores, begun = available_cores(), time.perf_counter()
    sys.stdout.write(f"{harness.machine()}; torch {torch.__version__}, {cores} cores\n")
    plans = {
        "paper, 1 temperature": {"stacked": 4, "naive": 2, "products": 200},
        "paper, 4 temperatures": {"stacked": 2, "naive": 1, "products": 200},
        "laptop": {"stacked": 100, "naive": 10, "cached": 30, "products": 1000},
    }
    with ProcessExecutor(cores) as executor:
        for name, steps in plans.items():
            sys.stdout.write(compare(executor, name, steps, repeats, cores) + "\n")
            sys.stdout.flush()
    sys.stdout.write(f"\n{time.perf_counter() - begun:.0f} s in all\n")


if __name__ == "__main__":
    main()
