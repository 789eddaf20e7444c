"""CUDA graphs: hundreds of small kernels a step, launched at once."""

from __future__ import annotations

from collections.abc import Callable

import torch

__all__ = ["captured"]


def captured(function: Callable[[], None], device: str) -> Callable[[], None]:
    """Return the function itself on a CPU; on CUDA one that replays its kernels as a graph.

    The first call runs as it stands, which lets libraries allocate; the second is recorded. Only a
    function of fixed buffers, without results and without synchronisation, may be captured.
    """
    if device != "cuda":
        return function
    graph = torch.cuda.CUDAGraph()
    calls = 0

    def replay() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            function()
            return
        if calls == 2:
            with torch.cuda.graph(graph):
                function()
        graph.replay()

    return replay
