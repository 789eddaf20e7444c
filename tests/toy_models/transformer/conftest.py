"""Devices the same tests run on, and torch settings that hold for all of them."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the transformer needs torch")


@pytest.fixture(
    params=[
        "cpu",
        pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")),
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
