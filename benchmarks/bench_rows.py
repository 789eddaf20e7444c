"""Cost and memory of one fit against the number of rows, 1e3 to 1e6.

``python benchmarks/bench_rows.py`` prints seconds, the largest error of an exponent and the peak memory of a
process that makes the table, fits it and ends. The tables follow a known law with 1 % noise.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import harness
import numpy as np

import scalefit as sf

ROWS = (1_000, 10_000, 100_000, 1_000_000)
REPEATS = 3


def noisy_table(n_rows: int, seed: int = 0) -> sf.Runs:
    """Draw widths, depths and tokens log-uniformly and losses from T27's law with 1 % noise."""
    rng = np.random.default_rng(seed)
    lowest, highest = np.log([[512], [8], [1e9]]), np.log([[4096], [64], [1e11]])
    width, depth, tokens = np.rint(np.exp(rng.uniform(lowest, highest, (3, n_rows))))
    loss = 1.7 + 300 / width + 10 / depth + 504.7659 / tokens**0.3
    noise = np.exp(0.01 * rng.standard_normal(n_rows))
    return sf.Runs.from_columns({"width": width, "depth": depth, "tokens": tokens, "loss": loss * noise})


def measure_one(n_rows: int) -> None:
    """Fit one table; print rows, median seconds, the largest error of an exponent and the peak memory in MB."""
    runs = noisy_table(n_rows)
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        fit = sf.fit(runs)
        seconds.append(time.perf_counter() - start)
    truth = {"alpha_width": 1.0, "alpha_depth": 1.0, "alpha_tokens": 0.3}
    error = max(abs(fit.params[name] - value) for name, value in truth.items())
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(f"{n_rows} {np.median(seconds)} {error} {peak_mb}\n")


def measure_all() -> None:
    """Measure each size in a process of its own and print the table."""
    sys.stdout.write(f"{harness.machine()}\n{'rows':>9}  {'fit':>10}  {'us a row':>9}  {'error':>8}  {'peak':>8}\n")
    for n_rows in ROWS:
        command = [sys.executable, __file__, str(n_rows)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        _, seconds, error, peak_mb = map(float, printed.split())
        cost = f"{seconds * 1e3:7.1f} ms  {seconds / n_rows * 1e6:9.3f}"
        sys.stdout.write(f"{n_rows:9d}  {cost}  {error:8.1e}  {peak_mb:5.0f} MB\n")


if __name__ == "__main__":
    harness.on_one_thread()
    if len(sys.argv) == 2:
        measure_one(int(sys.argv[1]))
    else:
        measure_all()
