"""Devices the same tests run on, and torch settings that hold for all of them."""

from __future__ import annotations

import importlib.util

import pytest

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    import torch


def has_cuda() -> bool:
    return "torch" in globals() and torch.cuda.is_available()


@pytest.fixture(
    params=[
        "cpu",
        pytest.param("cuda", marks=pytest.mark.skipif(not has_cuda(), reason="no CUDA device here")),
    ]
)
def device(request: pytest.FixtureRequest) -> str:
    """Give each device that is present."""
    return str(request.param)


@pytest.fixture(autouse=True)
def one_thread():
    """Run on one thread: tests run in parallel, and sums keep their order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
