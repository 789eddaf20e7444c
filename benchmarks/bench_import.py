"""What starting costs: ``import scalefit`` beside ``import pandas``, and the main command beside its imports.

Each contestant is a fresh interpreter, all of them in turn.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import harness

REPEATS = 15
HEAVY = ("torch", "matplotlib", "lmfit", "scipy.optimize")


def process(*command: str, statuses: tuple[int, ...] = (0,)) -> Callable[[], None]:
    """Make a contestant that runs a command in an empty folder, its output thrown away."""

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if done.returncode not in statuses:
            raise RuntimeError(f"{' '.join(command)} ended with status {done.returncode}")

    return run


def loaded_by_import() -> list[str]:
    """List the heavy modules that ``import scalefit`` brings in; there should be none."""
    probe = f"import scalefit, sys; print(*[name for name in {HEAVY} if name in sys.modules])"
    return subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True).stdout.split()


def main() -> None:
    """Print both comparisons."""
    harness.on_one_thread()
    imports = {f"import {name}": process(sys.executable, "-c", f"import {name}") for name in ("pandas", "scalefit")}
    scalefit = str(Path(sys.executable).parent / "scalefit")
    libraries = "import numpy, pandas, scipy.optimize"
    shell = {
        libraries: process(sys.executable, "-c", libraries),
        # status 3 is a full fit too: all 245 rows, the outliers among them, do not determine every parameter
        "scalefit fit chinchilla": process(scalefit, "fit", "chinchilla", statuses=(0, 3)),
    }
    timings = harness.interleave({**imports, **shell}, REPEATS)
    sys.stdout.write(f"{harness.machine()}\n{harness.ratio_table(timings[:2], 'import pandas')}\n")
    sys.stdout.write(f"{harness.ratio_table(timings[2:], libraries)}\n")
    sys.stdout.write(f"heavy modules loaded by import scalefit: {', '.join(loaded_by_import()) or 'none'}\n")


if __name__ == "__main__":
    main()
