"""Run `scalefit` as a user does, in this process, on a table written to a folder."""

from __future__ import annotations

import contextlib
import csv
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
from known_tables import t27_columns

from scalefit.cli import main


def run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `scalefit` with some words in a folder, in this process."""
    out, err, status = io.StringIO(), io.StringIO(), 0
    before, sys.argv = sys.argv, ["scalefit", *words]
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        status = int(end.code or 0)
    finally:
        sys.argv = before
    return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())


def write(folder: Path, name: str = "runs.csv", **changes: np.ndarray) -> Path:
    """Write the T27 table with some columns replaced."""
    columns = {**t27_columns(), **changes}
    path = folder / name
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(values.tolist() for values in columns.values()), strict=True))
    return path
