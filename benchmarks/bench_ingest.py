"""Reading and checking a table of a million rows beside pandas' own reading of the same file.

``python benchmarks/bench_ingest.py [ROWS]`` writes the table to a temporary folder, times the three in turn,
and prints medians, ratios and the peak memory of a process that only reads.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import harness

REPEATS = 9

# VmHWM belongs to the process alone; ru_maxrss would count what its parent held when it started
PEAK = """
import sys
{code}
lines = open("/proc/self/status").read().splitlines()
print(next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")))
"""
READERS = {
    "pandas": "import pandas; table = pandas.read_csv(sys.argv[1])",
    "runs": "import pandas; from scalefit.runs import Runs; table = Runs.from_csv(sys.argv[1])",
}


def write_table(path: Path, n_rows: int, seed: int = 0) -> None:
    """Write runs of a known law: few widths and depths, tokens and losses all different."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(seed)
    width = rng.choice([256, 512, 768, 1024, 1536, 2048], n_rows)
    depth = rng.choice([4, 8, 12, 16, 24, 32], n_rows)
    tokens = np.rint(10 ** rng.uniform(8, 11, n_rows)).astype(np.int64)
    loss = 300 / width + 10 / depth + 504.7659 / tokens**0.3 + 1.7
    pd.DataFrame({"width": width, "depth": depth, "tokens": tokens, "loss": loss}).to_csv(path, index=False)


def peak_mb(code: str, path: Path) -> float:
    """Peak memory of a process that runs `code` on the file, in MB."""
    command = [sys.executable, "-c", PEAK.format(code=code), str(path)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main(n_rows: int) -> None:
    """Time and print."""
    import pandas as pd

    from scalefit.identifiability.inspection import inspect_runs
    from scalefit.runs import Runs

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.csv"
        write_table(path, n_rows)
        contestants = {
            "pandas.read_csv": lambda: float(len(pd.read_csv(path))),
            "Runs.from_csv": lambda: float(len(Runs.from_csv(path))),
            "read and inspect": lambda: float(len(inspect_runs(Runs.from_csv(path)).repetitions.duplicates)),
        }
        timings = harness.interleave(contestants, REPEATS)
        sys.stdout.write(f"{harness.machine()}\n{n_rows} rows, {path.stat().st_size / 1e6:.0f} MB\n")
        sys.stdout.write(harness.ratio_table(timings, "pandas.read_csv") + "\n")
        for name, code in READERS.items():
            sys.stdout.write(f"peak memory, {name}: {peak_mb(code, path):.0f} MB\n")


if __name__ == "__main__":
    harness.on_one_thread()
    main(int(sys.argv[1]) if len(sys.argv) == 2 else 1_000_000)
