"""What is wrong with a configuration, in one sentence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scalefit.errors import OptionError

if TYPE_CHECKING:
    from toy_models.teacher_student.config import SweepConfig

__all__ = ["KINDS", "check", "one_of", "positive"]

KINDS = ("tied", "independent")
LOSSES = ("mse", "kl")
INTEGRATORS = ("euler", "rk2")
SCHEDULES = ("constant", "linear-tail", "cosine")
HEADS = ("learned", "given")
SIDES = ("teacher", "both")
TARGETS = ("teacher", "flow")
DEVICES = ("cpu", "cuda")

GRID = ("depths", "widths", "seeds", "teachers", "losses", "integrators", "horizons")
"""Fields whose values are crossed with each other."""


def one_of(what: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise OptionError(f"{what} is {value!r} and must be one of {', '.join(allowed)}")


def positive(what: str, value: float, least: float | None = None) -> None:
    if not math.isfinite(value) or value <= 0 or (least is not None and value < least):
        raise OptionError(f"{what} is {value!r} and must be {'positive' if least is None else f'at least {least}'}")


def whole(what: str, value: object, least: int) -> None:
    # 1e3 in JSON is a float: it would train like 1000 under another hash.
    if not isinstance(value, int) or isinstance(value, bool):
        raise OptionError(f"{what} is {value!r} and must be a whole number")
    if value < least:
        raise OptionError(f"{what} is {value!r} and must be at least {least}")


def check(config: SweepConfig) -> None:
    """Raise the first sentence that says what is wrong with a configuration."""
    _check_lists(config)
    _check_numbers(config)
    _check_choices(config)
    _check_combinations(config)


def _check_lists(config: SweepConfig) -> None:
    for what in (*GRID, "temperatures"):
        values = getattr(config, what)
        if not isinstance(values, tuple):
            raise OptionError(f"{what} is {values!r} and must be a list, in Python a tuple")
        if (not values and what in GRID) or len(set(values)) < len(values):
            raise OptionError(f"{what} is {list(values)!r} and must hold at least one value, each once")


def _check_numbers(config: SweepConfig) -> None:
    for what, least in (("depths", 1), ("widths", 1), ("seeds", 0)):
        for value in getattr(config, what):
            whole(what[:-1], value, least)
    for what in ("teacher_depth", "batch", "vocabulary", "hidden_ratio", "evaluations"):
        whole(what, getattr(config, what), 1)
    for what in ("samples", "hidden_reference", "total_units"):
        if getattr(config, what) is not None:
            whole(what, getattr(config, what), 1)
    whole("steps", config.steps, 0)
    whole("eval_samples", config.eval_samples, 2)
    for what in ("eval_samples", "samples"):
        if (value := getattr(config, what)) is not None and value % config.batch:
            raise OptionError(f"{what} is {value} and must be a multiple of the batch, {config.batch}")
    positive("learning_rate", config.learning_rate)
    if config.depth_factor is not None:
        positive("depth_factor", config.depth_factor)


def _check_choices(config: SweepConfig) -> None:
    for loss in config.losses:
        one_of("loss", loss, LOSSES)
    for integrator in config.integrators:
        one_of("integrator", integrator, INTEGRATORS)
    choices = {
        "schedule": SCHEDULES,
        "head": HEADS,
        "temperature_side": SIDES,
        "target": TARGETS,
        "device": DEVICES,
    }
    for what, allowed in choices.items():
        one_of(what, getattr(config, what), allowed)
    for temperature in config.temperatures:
        positive("temperature", temperature)
    for horizon in config.horizons:
        if not 0 < horizon <= 1:
            raise OptionError(f"horizon is {horizon!r} and must lie in (0, 1]: it is a fraction of the steps")


def _check_combinations(config: SweepConfig) -> None:
    if ("kl" in config.losses) != bool(config.temperatures):
        raise OptionError(
            f"losses are {list(config.losses)} with temperatures {list(config.temperatures)}; "
            "give temperatures exactly when a loss is kl"
        )
    lengths = [config.horizon_steps(horizon) for horizon in config.horizons]
    if len(set(lengths)) < len(lengths):
        raise OptionError(
            f"horizons {list(config.horizons)} of {config.steps} steps end at steps {lengths}; each must end elsewhere"
        )
    if config.total_units is not None:
        for depth in config.depths:
            if config.total_units % depth:
                raise OptionError(f"total_units is {config.total_units} and must be a multiple of depth {depth}")
    if config.steps == 0:
        _check_untrained(config)
    elif config.target == "flow":
        raise OptionError(f"target is flow with steps {config.steps}; only untrained students (steps 0) support it")


def _check_untrained(config: SweepConfig) -> None:
    if config.total_units is not None:
        raise OptionError("untrained students have the teacher's hidden units; drop total_units or set steps")
    if config.losses != ("mse",):
        raise OptionError(f"untrained students have losses {list(config.losses)}; they are measured by mse only")
    if config.target == "flow" or "rk2" in config.integrators:
        if any(teacher.kind != "tied" for teacher in config.teachers):
            raise OptionError("untrained rk2 students and the flow need tied teachers; drop the independent ones")
    elif bad := [depth for depth in config.depths if config.teacher_depth % depth]:
        raise OptionError(f"depth {bad[0]} does not divide the {config.teacher_depth} layers that are sub-sampled")
