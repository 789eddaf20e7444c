"""1,000 bootstrap refits of CHIN-203, and their growth with rows, beside MINPACK in a loop.

``python benchmarks/bench_bootstrap.py`` prints medians and ratios. SciPy gets the same resamples, the centred form with
its analytic Jacobian, and our optimum as its start; its two wrappers of MINPACK's lmder are timed at their default
tolerances (1e-8) and at 1e-12, the precision of ours. ``--memory`` prints the largest resident size of 100,000
replicates, and of 50 replicates of 100,000 rows.
"""

from __future__ import annotations

import argparse
import resource
import sys
from dataclasses import dataclass, replace

import alternatives
import harness
import numpy as np
from scipy.optimize import least_squares, leastsq

import scalefit as sf
from scalefit.uncertainty.bootstrap import bootstrap
from scalefit.uncertainty.groups import group_labels
from scalefit.uncertainty.resampling import Refits, plan_resampling, refit

REPLICATES = 1_000
TIMED = 200
"""Replicates of the slow contestants that are timed; their times are scaled."""

REPEATS = 5


@dataclass(frozen=True)
class Weighted:
    """One resample of the centred problem: rows weighted by the roots of their counts."""

    problem: alternatives.CentredProblem
    roots: alternatives.Floats

    def residuals(self, theta: alternatives.Floats) -> alternatives.Floats:
        return self.roots * self.problem.residuals(theta)

    def jacobian(self, theta: alternatives.Floats) -> alternatives.Floats:
        return self.roots[:, None] * self.problem.jacobian(theta)


def optimum(fit: sf.Fit, runs: sf.Runs) -> alternatives.Floats:
    """The fit in the coordinates of `alternatives`."""
    centre = np.array([np.log(runs[name]).mean() for name in alternatives.COLUMNS])
    alphas = np.array([fit.params[f"alpha_{name}"] for name in alternatives.COLUMNS])
    sizes = np.log([fit.params[f"c_{name}"] for name in alternatives.COLUMNS]) - alphas * centre
    return np.concatenate([sizes, alphas, [fit.params["L0"]]])


def with_leastsq(problems: list[Weighted], start: alternatives.Floats, tolerance: float) -> float:
    """Mean objective that MINPACK's lmder reaches through leastsq, its thinnest wrapper."""
    options = {"ftol": tolerance, "xtol": tolerance, "gtol": 0.0, "col_deriv": False}
    ends = [leastsq(p.residuals, start, Dfun=p.jacobian, **options)[0] for p in problems]
    return float(np.mean([np.mean(p.residuals(end) ** 2) for p, end in zip(problems, ends, strict=True)]))


def with_least_squares(problems: list[Weighted], start: alternatives.Floats, tolerance: float) -> float:
    """The same through least_squares(method="lm")."""
    options = {"ftol": tolerance, "xtol": tolerance, "gtol": tolerance}
    ends = [least_squares(p.residuals, start, jac=p.jacobian, method="lm", **options).x for p in problems]
    return float(np.mean([np.mean(p.residuals(end) ** 2) for p, end in zip(problems, ends, strict=True)]))


def compare(repeats: int = REPEATS) -> list[harness.Timing]:
    """Time all on the same resamples, interleaved."""
    runs = sf.load_dataset("chinchilla").drop_worst(40)
    fit = sf.fit(runs)
    refits = Refits.of(fit)
    n = len(runs)
    counts = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=REPLICATES).astype(float)
    problem = plan_resampling(fit, refits, "pairs", group_labels(fit, "row")).reweighted(counts)
    centred = alternatives.CentredProblem.of(runs)
    few = [Weighted(centred, np.sqrt(row)) for row in counts[:TIMED]]
    start = optimum(fit, runs)
    ours = f"scalefit, {REPLICATES} refits"
    quick = {
        ours: lambda: float(refit(refits, problem).value[:TIMED].mean()),
        "least_squares lm 1e-8": lambda: with_least_squares(few, start, 1e-8),
        "leastsq 1e-8": lambda: with_leastsq(few, start, 1e-8),
        "least_squares lm 1e-12": lambda: with_least_squares(few, start, 1e-12),
        "leastsq 1e-12": lambda: with_leastsq(few, start, 1e-12),
    }
    first, *others = harness.interleave(quick, repeats)
    scale = REPLICATES / TIMED
    return [first, *(harness.scaled(t, scale, f"{t.name}, {REPLICATES} refits", t.value) for t in others)]


def growth(repeats: int = 5) -> list[harness.Timing]:
    """Time 200 refits of the table and of its rows 10 and 100 times over."""
    runs = sf.load_dataset("chinchilla").drop_worst(40)
    contestants = {}
    for times in (1, 10, 100):
        rng = np.random.default_rng(times)
        columns = {name: np.tile(runs[name], times) for name in (*alternatives.COLUMNS, "loss")}
        columns["loss"] = columns["loss"] * np.exp(1e-3 * rng.standard_normal(len(columns["loss"])))
        fit = sf.fit(sf.Runs.from_columns(columns))
        contestants[f"{len(fit.runs)} rows"] = lambda fit=fit: len(bootstrap(fit, 200, method="residual"))
    return [replace(timing, value=None) for timing in harness.interleave(contestants, repeats)]


def memory() -> str:
    """Largest resident size after many replicates, and after many rows."""
    fit = sf.fit(sf.load_dataset("chinchilla").drop_worst(40))
    lines = [f"before: {_resident():.0f} MB"]
    bootstrap(fit, 100_000, method="pairs")
    lines.append(f"100,000 replicates of {len(fit.runs)} rows: {_resident():.0f} MB")
    columns = {name: np.tile(fit.runs[name], 493) for name in (*alternatives.COLUMNS, "loss")}
    large = sf.fit(sf.Runs.from_columns(columns))
    bootstrap(large, 50, method="residual")
    lines.append(f"50 replicates of {len(large.runs)} rows: {_resident():.0f} MB")
    return "\n".join(lines)


def _resident() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print the comparison, or the memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", action="store_true")
    harness.on_one_thread()
    if parser.parse_args().memory:
        sys.stdout.write(memory() + "\n")
        return
    timings = compare()
    sys.stdout.write(f"{harness.machine()}\n{harness.ratio_table(timings, timings[0].name, 'mean log-mse')}\n\n")
    rows = growth()
    sys.stdout.write(harness.ratio_table(rows, rows[0].name) + "\n")


if __name__ == "__main__":
    main()
