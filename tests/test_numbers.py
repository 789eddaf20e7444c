"""One form of every result in JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from scalefit.numbers import json_text, to_json


class Colour(StrEnum):
    RED = "red"


class Size(Enum):
    LARGE = 3


@dataclass(frozen=True)
class Part:
    value: float
    others: MappingProxyType[str, object]
    _cache: object = None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (float("inf"), None),
        (-np.inf, None),
        (np.float64("nan"), None),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.array([[1.0, np.inf], [np.nan, -0.5]]), [[1.0, None], [None, -0.5]]),
        (np.array(["a", "b"]), ["a", "b"]),
        (Colour.RED, "red"),
        (Size.LARGE, 3),
        ({Colour.RED: (1, float("nan"))}, {"red": [1, None]}),
        ({2: {"b"}}, {"2": ["b"]}),
        (Path("a/b"), "a/b"),
        (Part(np.inf, MappingProxyType({"x": np.float64(2)}), 1j), {"value": None, "others": {"x": 2.0}}),
    ],
)
def test_everything_a_result_holds_has_a_form(value: object, expected: object) -> None:
    found = to_json(value)
    assert found == expected
    assert type(found) is type(expected)
    assert json.loads(json_text(value)) == expected


def test_a_bool_stays_one_and_the_unknown_is_refused() -> None:
    assert to_json([True, np.False_]) == [True, False]
    with pytest.raises(TypeError, match="complex has no form"):
        to_json({"z": 1j})
    with pytest.raises(TypeError, match="type has no form"):
        to_json(Part)
