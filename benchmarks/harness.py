"""Time several ways of doing one thing, fairly: interleaved, in one process, on one thread, by ratio."""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

TURN_S = 0.1


@dataclass(frozen=True)
class Timing:
    """Seconds that one way took, once a repeat, and the value it returned at last."""

    name: str
    seconds: tuple[float, ...]
    value: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def on_one_thread() -> None:
    """Start this script again with one BLAS thread, unless that is how it was started.

    The variables work only before NumPy is imported, hence the restart.
    """
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ONE_THREAD})


def interleave(contestants: Mapping[str, Callable[[], float | None]], repeats: int) -> list[Timing]:
    """Run every contestant once to warm up, then all of them in turn, `repeats` times.

    Turns spread a slow spell of the machine over all contestants, and the median drops it. What takes less than
    `TURN_S` is called again until a turn is full, as timeit does, so that no time is that of cold caches only.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    values = {name: contestant() for name, contestant in contestants.items()}
    for _ in range(repeats):
        for name, contestant in contestants.items():
            seconds[name].append(_mean_seconds(contestant))
    return [Timing(name, tuple(seconds[name]), values[name]) for name in contestants]


def _mean_seconds(contestant: Callable[[], float | None]) -> float:
    start, calls = time.perf_counter(), 0
    while True:
        contestant()
        calls += 1
        elapsed = time.perf_counter() - start
        if elapsed >= TURN_S:
            return elapsed / calls


def scaled(timing: Timing, factor: float, name: str, value: float | None) -> Timing:
    """Extrapolate a timing of part of the work to the whole, whose value is known from elsewhere."""
    return Timing(name, tuple(factor * second for second in timing.seconds), value)


def ratio_table(timings: list[Timing], reference: str, value_name: str = "") -> str:
    """Lay out medians, their ratio to the reference, and the values, one line a contestant."""
    base = next(timing.median for timing in timings if timing.name == reference)
    width = max(len(timing.name) for timing in timings)
    header = f"{'':{width}}  {'median':>11}  {'ratio':>9}" + (f"  {value_name}" if value_name else "")
    lines = [header]
    for timing in timings:
        line = f"{timing.name:{width}}  {_duration(timing.median):>11}  {timing.median / base:9.2f}"
        lines.append(line + (f"  {timing.value:.6e}" if value_name and timing.value is not None else ""))
    return "\n".join(lines)


def machine() -> str:
    """Name the processor, the interpreter and the platform."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = models[0] if models else platform.processor() or "unknown processor"
    return f"{processor}; Python {platform.python_version()}, {platform.system()}"


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds < 1 else f"{seconds:.3f} s"
