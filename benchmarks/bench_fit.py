"""Our whole fit of CHIN-203, certificate included, beside other tools from 32 random starts.

``python benchmarks/bench_fit.py`` prints medians, ratios and the objective that each reached. The published
gradient descent is timed over part of its 50,000 steps and scaled.
"""

from __future__ import annotations

import sys

import alternatives
import harness
import published_procedure
import torch

import scalefit as sf
from scalefit.datasets import read_table

STARTS = 32
REPEATS = 11
TIMED_STEPS = 1_000


def compare(repeats: int = REPEATS) -> list[harness.Timing]:
    """Time all of them in one run, interleaved."""
    torch.set_num_threads(1)
    runs = sf.load_dataset("chinchilla").drop_worst(40)
    problem = alternatives.CentredProblem.of(runs)
    starts = alternatives.random_starts(STARTS, seed=0)
    quick = {
        "scalefit.fit": lambda: sf.fit(runs).objective_value,
        f"scipy least_squares trf, {STARTS} starts": lambda: alternatives.scipy_trf(problem, starts),
        f"MINPACK lm, {STARTS} starts": lambda: alternatives.minpack_lm(problem, starts),
        f"lmfit Model, {STARTS} starts": lambda: alternatives.lmfit_model(runs, starts),
        "descent": lambda: published_procedure.descend(runs, TIMED_STEPS)[-1][1],
    }
    *others, descent = harness.interleave(quick, repeats)
    scale = published_procedure.STEPS / TIMED_STEPS
    after_all_steps = float(read_table("published_procedure")["log_mse"].iloc[-1])
    name = f"published descent, {published_procedure.STEPS} steps"
    return [*others, harness.scaled(descent, scale, name, after_all_steps)]


def main() -> None:
    """Print the comparison."""
    harness.on_one_thread()
    timings = compare()
    sys.stdout.write(f"{harness.machine()}\n{harness.ratio_table(timings, 'scalefit.fit', 'log-mse')}\n")
    sys.stdout.write(
        f"The descent was timed over {TIMED_STEPS} steps and scaled; its objective is that of the full run "
        "in data/published_procedure.csv.\n"
    )


if __name__ == "__main__":
    main()
