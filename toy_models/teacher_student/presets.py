"""The named sweeps: two for a laptop, the controls, and every published experiment."""

from __future__ import annotations

from dataclasses import replace

from scalefit.errors import OptionError
from toy_models.teacher_student.config import SweepConfig, Teacher

__all__ = ["ABOUT", "PRESETS", "preset"]

_LAPTOP = SweepConfig(
    name="laptop",
    widths=(16,),
    teacher_depth=64,
    depths=(2, 3, 4, 6, 8, 12),
    seeds=(0, 1, 2, 3),
    steps=14_000,
    horizons=(1.0, 0.5, 0.1),
    batch=256,
    samples=262_144,
    learning_rate=3e-3,
    depth_factor=2.0,
    schedule="cosine",
)

_KL_TEMPERATURES = tuple(10.0 ** (-2 + 2 * i / 15) for i in range(16))

_PAPER = SweepConfig(name="paper", depths=(6, 12, 16, 24, 32, 48), steps=40_000)
_PAPER_KL = replace(
    _PAPER,
    losses=("kl",),
    temperatures=_KL_TEMPERATURES,
    temperature_side="teacher",
    head="learned",
    schedule="constant",
)
_PAPER_MSE = replace(_PAPER, name="paper-mse", depth_factor=2.0, horizons=(1.0, 0.5))

_ALL = (
    replace(
        _LAPTOP,
        name="smoke",
        teacher_depth=32,
        depths=(1, 2, 3, 4),
        seeds=(0, 1, 2, 3, 4),
        steps=1_000,
        horizons=(1.0,),
        batch=128,
        samples=None,
        learning_rate=5e-3,
        eval_samples=8_192,
        evaluations=8,
    ),
    _LAPTOP,
    replace(
        _LAPTOP,
        name="total-units",
        depths=(1, 2, 4, 8),
        total_units=512,
        hidden_reference=64,
        steps=3_000,
        horizons=(1.0,),
        samples=None,
    ),
    replace(
        _LAPTOP,
        name="equal-displacement",
        teachers=(Teacher("tied", 0.118), Teacher("independent", 1.0)),
        horizons=(0.5, 0.25),
    ),
    replace(_LAPTOP, name="untrained", steps=0, depths=(2, 4, 8, 16), horizons=(1.0,), samples=None),
    replace(
        _LAPTOP,
        name="untrained-flow",
        steps=0,
        teachers=(Teacher("tied"),),
        integrators=("euler", "rk2"),
        target="flow",
        depths=(4, 6, 8, 12, 16, 24, 32),
        horizons=(1.0,),
        eval_samples=1_024,
        samples=None,
    ),
    replace(_PAPER_KL, name="paper-kl-independent", teachers=(Teacher("independent"),)),
    replace(_PAPER_KL, name="paper-kl-tied", teachers=(Teacher("tied"),)),
    replace(
        _PAPER_KL,
        name="paper-kl-long",
        teachers=(Teacher("tied"),),
        temperature_side="both",
        head="given",
        depth_factor=4.0,
        schedule="linear-tail",
        steps=80_000,
        horizons=(1.0, 0.5),
    ),
    _PAPER_MSE,
    replace(_PAPER_MSE, name="paper-mse-long", steps=80_000),
    replace(_PAPER_MSE, name="paper-rk2", steps=80_000, integrators=("rk2",), depths=(3, 6, 8, 12, 16, 24)),
)

PRESETS = {config.name: config for config in _ALL}

ABOUT = {
    "smoke": "five seeds in seconds: the tied exponent is already the steeper",
    "laptop": "four seeds, three horizons in minutes: tied is not converged, independent is",
    "total-units": "depth times hidden units fixed: flat for independent, steep for tied",
    "equal-displacement": "both kinds move the state equally far: tied is still steeper",
    "untrained": "layers of the teacher sub-sampled, no training",
    "untrained-flow": "Euler and RK2 steps of a tied layer against its flow, no training",
    "paper-kl-independent": "arXiv 2602.05970, Figure 3b: KL, learned head, 16 temperatures",
    "paper-kl-tied": "arXiv 2602.05970, Figure 4c: KL, learned head, 16 temperatures",
    "paper-kl-long": "arXiv 2602.05970, Figure 4a and b: KL, given head, annealed",
    "paper-mse": "arXiv 2602.05970, Figure 5: MSE, 40,000 steps",
    "paper-mse-long": "arXiv 2602.05970, Figure 5: MSE, 80,000 steps",
    "paper-rk2": "arXiv 2602.05970, Appendix C.3: RK2 students",
}


def preset(name: str) -> SweepConfig:
    """Return a named configuration.

    Raises
    ------
    OptionError
        No preset has this name; the text lists them.
    """
    if name not in PRESETS:
        raise OptionError(f"preset {name!r} is unknown; known are {', '.join(PRESETS)}")
    return PRESETS[name]
