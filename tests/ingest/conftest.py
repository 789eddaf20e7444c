"""The known law, and the means to write its table in any layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scalefit.runs import Runs

ROWS = [(m, n, D) for m in (512, 1024, 2048) for n in (8, 16, 32) for D in (10**9, 10**10, 10**11)]


def law(width: np.ndarray, depth: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """The law every test table follows."""
    return 300 / width + 10 / depth + 504.7659 / tokens**0.3 + 1.7


@pytest.fixture
def table() -> list[tuple[int, int, int, float]]:
    """27 rows of width, depth, tokens, loss."""
    return [(m, n, D, float(law(np.float64(m), np.float64(n), np.float64(D)))) for m, n, D in ROWS]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write text to a file of the temporary folder."""

    def writer(text: str, name: str = "runs.csv", encoding: str = "utf-8") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode(encoding))
        return path

    return writer


@pytest.fixture
def assert_law() -> Callable[..., None]:
    """Check that runs hold n rows of the law, to the digits their file has."""

    def check(runs: Runs, n: int = 27, tolerance: float = 1e-12) -> None:
        assert len(runs) == n
        expected = law(runs["width"], runs["depth"], runs["tokens"])
        np.testing.assert_allclose(runs["loss"], expected, rtol=tolerance)

    return check
