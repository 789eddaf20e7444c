"""Capturing, against a stand-in for CUDA's graphs: no GPU is needed to check the order of calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from toy_models.teacher_student.stack import captured


def test_a_cpu_function_is_returned_as_it_is() -> None:
    def function() -> None: ...

    assert captured(function, "cpu") is function


def test_every_call_takes_effect_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # A capture records without computing, a replay computes what was recorded.
    effects: list[str] = []
    recording = False

    class Graph:
        def replay(self) -> None:
            effects.append("replayed")

    @contextmanager
    def graph(_: Graph) -> Iterator[None]:
        nonlocal recording
        recording = True
        yield
        recording = False

    def function() -> None:
        if not recording:
            effects.append("ran")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    step = captured(function, "cuda")
    for _ in range(4):
        step()
    assert effects == ["ran", "replayed", "replayed", "replayed"]
