"""The gradient descent with which a published fit of the width-depth-tokens law was made, for comparison.

Source of the procedure and of the figures it is compared with: arXiv 2602.05970, Figure 2f, and the settings
of its repository: Adam on 100 times the mean squared difference of ln loss; parameters ln c of width, of
100 x depth and of tokens / 1e6 from (ln 200, ln 200, ln 10), exponents from (1, 1, 0.33), L0 from 1.69;
learning rates 0.005 (ln c), 0.0005 (exponents), 0.005 (L0); 50,000 steps.

``python benchmarks/published_procedure.py`` runs all steps and writes the trajectory as CSV;
``python benchmarks/published_procedure.py FIGURE.png`` draws the shipped trajectory beside the optimum.
"""

from __future__ import annotations

import math
import sys

import harness
import numpy as np
import torch

import scalefit as sf
from scalefit.datasets import load_dataset, read_table

STEPS = 50_000
RECORD_EVERY = 500
START = {"ln_c": (math.log(200), math.log(200), math.log(10)), "alpha": (1.0, 1.0, 0.33), "L0": (1.69,)}
LEARNING_RATES = {"ln_c": 0.005, "alpha": 0.0005, "L0": 0.005}
UNITS = (1.0, 0.01, 1e6)  # width as it is, 100 x depth, tokens in millions
PUBLISHED_ALPHA_DEPTH = (0.98, 1.02, 1.20)  # after 1,000, 10,000 and 50,000 steps, in three of its scripts
COLUMNS = ("step", "log_mse", "alpha_width", "alpha_depth", "alpha_tokens", "L0")


def descend(runs: sf.Runs, steps: int, record_every: int = RECORD_EVERY) -> list[tuple[float, ...]]:
    """Take `steps` steps of Adam in float64 and record the way.

    Returns
    -------
    list of tuples
        Values of `COLUMNS` before the first step and after every `record_every` steps.
    """
    columns = np.stack([runs[name] / unit for name, unit in zip(("width", "depth", "tokens"), UNITS, strict=True)])
    log_columns, log_loss = torch.tensor(np.log(columns)), torch.tensor(np.log(runs["loss"]))
    parameters = {name: torch.tensor(start, dtype=torch.float64, requires_grad=True) for name, start in START.items()}
    optimiser = torch.optim.Adam([{"params": [parameters[name]], "lr": rate} for name, rate in LEARNING_RATES.items()])
    trajectory = []
    for step in range(steps + 1):
        terms = torch.exp(parameters["ln_c"][:, None] - parameters["alpha"][:, None] * log_columns)
        log_mse = torch.mean((torch.log(terms.sum(0) + parameters["L0"]) - log_loss) ** 2)
        if step % record_every == 0:
            values = [float(v) for v in (*parameters["alpha"].detach(), *parameters["L0"].detach())]
            trajectory.append((step, float(log_mse.detach()), *values))
        if step < steps:
            optimiser.zero_grad()
            (100 * log_mse).backward()
            optimiser.step()
    return trajectory


def draw(path: str) -> None:
    """Draw the depth exponent and the objective along the shipped trajectory, with the optimum of the same fit."""
    from matplotlib.figure import Figure

    trajectory = read_table("published_procedure")
    optimum = sf.fit(load_dataset("chinchilla").drop_worst(40))
    figure = Figure(figsize=(8, 3), layout="constrained")
    exponent, excess = figure.subplots(1, 2)
    thousands = trajectory["step"] / 1000
    exponent.plot(thousands, trajectory["alpha_depth"], label="published descent")
    exponent.axhline(optimum.params["alpha_depth"], color="black", linestyle="--", label="optimum")
    exponent.plot([1, 10, 50], PUBLISHED_ALPHA_DEPTH, "o", color="C3", label="published values")
    exponent.set(xlabel="thousand steps", ylabel="alpha_depth", ylim=(0.9, 1.4))
    exponent.legend()
    excess.semilogy(thousands, trajectory["log_mse"] / optimum.objective_value - 1)
    excess.set(xlabel="thousand steps", ylabel="excess of the objective")
    figure.savefig(path, dpi=110, metadata={"Software": None})


def print_trajectory() -> None:
    """Write the whole trajectory on the 203 Chinchilla rows to standard output."""
    torch.set_num_threads(1)
    lines = [",".join(COLUMNS)]
    for step, log_mse, *values in descend(load_dataset("chinchilla").drop_worst(40), STEPS):
        lines.append(f"{step},{log_mse:.6e}," + ",".join(f"{value:.5f}" for value in values))
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    harness.on_one_thread()
    draw(sys.argv[1]) if len(sys.argv) == 2 else print_trajectory()
