"""Configurations: JSON, hash, packs, presets, and a sentence for everything that is wrong."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from scalefit.errors import OptionError
from toy_models.teacher_student.config import SweepConfig, Teacher
from toy_models.teacher_student.presets import ABOUT, PRESETS, preset


@pytest.mark.parametrize("name", PRESETS)
def test_a_configuration_survives_json(name: str) -> None:
    config = PRESETS[name]
    assert SweepConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_the_id_depends_on_the_content_and_not_on_the_name() -> None:
    config = PRESETS["smoke"]
    assert replace(config, name="other").id == config.id
    assert replace(config, batch=256).id != config.id
    assert len({config.id for config in PRESETS.values()}) == len(PRESETS)


def test_every_preset_is_described() -> None:
    assert ABOUT.keys() == PRESETS.keys()


@pytest.mark.parametrize("name", PRESETS)
def test_packs_hold_every_student_once(name: str) -> None:
    config = PRESETS[name]
    packs = config.packs()
    assert len({pack.id for pack in packs}) == len(packs)
    students = [
        (pack.width, pack.integrator, pack.loss, pack.steps, depth, group.seed, group.teacher, str(group.temperature))
        for pack in packs
        for depth in pack.depths
        for group in pack.groups
    ]
    columns = len(config.teachers) * max(1, len(config.temperatures)) * len(config.seeds)
    grid = len(config.widths) * len(config.integrators) * len(config.losses) * len(config.horizons)
    assert len(set(students)) == len(students) == columns * grid * len(config.depths)


def test_cuda_stacks_all_seeds_of_a_figure() -> None:
    (pack,) = replace(PRESETS["paper-kl-independent"], device="cuda").packs()
    assert len(pack.depths) * len(pack.groups) == 288


def test_a_pack_of_many_seeds_has_a_name_that_a_file_can_have() -> None:
    (pack,) = replace(PRESETS["smoke"], seeds=tuple(range(500)), device="cuda").packs()
    assert len(pack.id) < 100


def test_rates_follow_their_law() -> None:
    config = PRESETS["total-units"]
    assert config.hidden(4, 16) == 128
    assert config.rate(4, 128) == pytest.approx(3e-3 * 2 / math.sqrt(4) * math.sqrt(64 / 128))
    assert PRESETS["paper-kl-tied"].rate(48, 128) == 6e-4


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"depths": (0, 2)}, "depth is 0 and must be at least 1"),
        ({"depths": ()}, "depths is .* at least one value"),
        ({"depths": (2, 2)}, "depths is .* each once"),
        ({"losses": ("kl",), "temperatures": (0.0,)}, "temperature is 0.0 and must be positive"),
        ({"losses": ("kl",), "temperatures": (-1.0,)}, "temperature is -1.0 and must be positive"),
        ({"losses": ("kl",)}, "give temperatures exactly when a loss is kl"),
        ({"temperatures": (1.0,)}, "give temperatures exactly when a loss is kl"),
        ({"losses": ("mae",)}, "loss is 'mae' and must be one of mse, kl"),
        ({"integrators": ("rk4",)}, "integrator is 'rk4'"),
        ({"schedule": "step"}, "schedule is 'step'"),
        ({"device": "tpu"}, "device is 'tpu'"),
        ({"horizons": (1.5,)}, "horizon is 1.5"),
        ({"samples": 1000}, "samples is 1000 and must be a multiple of the batch"),
        ({"eval_samples": 1000}, "eval_samples is 1000 and must be a multiple of the batch"),
        ({"steps": -1}, "steps is -1"),
        ({"steps": 1e3}, "steps is 1000.0 and must be a whole number"),
        ({"depths": 4}, "depths is 4 and must be a list"),
        ({"depths": (1.5, 2)}, "depth is 1.5 and must be a whole number"),
        ({"seeds": ("a",)}, "seed is 'a' and must be a whole number"),
        ({"temperatures": None}, "temperatures is None and must be a list"),
        ({"depth_factor": -2.0}, "depth_factor is -2.0 and must be positive"),
        ({"hidden_reference": 0}, "hidden_reference is 0 and must be at least 1"),
        ({"steps": 2, "horizons": (1.0, 0.9)}, r"end at steps \[2, 2\]; each must end elsewhere"),
        ({"steps": 0, "horizons": (1.0, 0.5)}, r"end at steps \[0, 0\]"),
        ({"total_units": 7}, "total_units is 7 and must be a multiple of depth 2"),
        ({"learning_rate": math.nan}, "learning_rate is nan"),
        ({"target": "flow"}, "target is flow"),
        ({"steps": 0, "depths": (3,)}, "depth 3 does not divide the 32 layers"),
        ({"steps": 0, "integrators": ("rk2",)}, "need tied teachers"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        replace(PRESETS["smoke"], **changes)


def test_unknown_kinds_gains_presets_and_fields_are_named() -> None:
    with pytest.raises(OptionError, match="teacher kind is 'wild' and must be one of tied, independent"):
        Teacher("wild")
    with pytest.raises(OptionError, match="teacher gain is 0"):
        Teacher("tied", 0)
    with pytest.raises(OptionError, match="preset 'huge' is unknown; known are smoke, laptop"):
        preset("huge")
    with pytest.raises(OptionError, match="field 'depht' is unknown"):
        SweepConfig.from_dict({"name": "x", "depht": [1], "steps": 1})
    with pytest.raises(OptionError, match="field 'steps' is missing"):
        SweepConfig.from_dict({"name": "x", "depths": [1]})


def test_a_horizon_is_rounded_to_the_nearest_step() -> None:
    # 100 * 0.07 is 7.000000000000001.
    config = replace(PRESETS["smoke"], steps=100, horizons=(1.0, 0.07, 0.001))
    assert [config.horizon_steps(horizon) for horizon in config.horizons] == [100, 7, 1]


@pytest.mark.parametrize(("content", "sentence"), [(b"{", "line 1"), (b"\xff\xfe\xff", "it is not UTF-8 text")])
def test_a_file_that_is_no_json_is_named(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "mine.json").write_bytes(content)
    with pytest.raises(OptionError, match=f"mine.json is not JSON: {sentence}"):
        SweepConfig.from_file(tmp_path / "mine.json")


def test_json_that_is_no_object_is_refused() -> None:
    with pytest.raises(OptionError, match=r"configuration is \[1\] and must be a JSON object"):
        SweepConfig.from_dict([1])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change", [{"learning_rate": "high"}, {"teachers": 3}, {"teachers": [{"sort": "tied"}]}, {"teachers": [1]}]
)
def test_values_of_the_wrong_form_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(OptionError, match="value of the wrong form"):
        SweepConfig.from_dict({"name": "x", "depths": [1, 2], "steps": 5, **change})
