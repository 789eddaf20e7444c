"""Best shapes for 1,000 budgets and 4,000 draws of the Chinchilla law, with intervals, beside SciPy one by one.

``python benchmarks/bench_optimal.py`` prints seconds, ratios and the peak of memory. The draws are those of a pairs
bootstrap. SciPy's bounded scalar minimiser is timed over a few of the draws and scaled. The values are the best width /
depth of the fitted law at the largest budget.
"""

from __future__ import annotations

import sys
import tracemalloc

import harness
import numpy as np
from scipy.optimize import brentq, minimize_scalar

import scalefit as sf
from scalefit.fitting.fit import Fit
from scalefit.optimal import Budget, Count, Space, parse_count, sweep_shapes
from scalefit.uncertainty.bootstrap import bootstrap
from scalefit.uncertainty.samples import Samples

N_BUDGETS, N_DRAWS, TIMED = 1000, 4000, 20
EXACT = "llama:vocabulary=128256,heads_per_kv=4"
BUDGETS = [Budget(params=x) for x in np.geomspace(1e8, 1e12, N_BUDGETS)]


def ours(fit: Fit, draws: Samples, count: str) -> float:
    """Width over depth at the largest budget, after all of them."""
    return float(sweep_shapes(fit, BUDGETS, draws, space=Space(count=parse_count(count))).estimate["ratio"][-1])


def theirs(fit: Fit, draws: Samples, count: Count) -> float:
    """Width over depth at the largest budget by SciPy, after some draws at the same budget."""
    bound = float(np.log(BUDGETS[-1].params or 1.0))
    ratio = float("nan")
    for p in [*(draws.params(i) for i in range(TIMED - 1)), dict(fit.params)]:

        def width(u: float) -> float:
            return float(brentq(lambda v: count.params.log(np.array(v), np.array(u)) - bound, -5, 40))

        def loss(u: float, p: dict[str, float] = p) -> float:
            by_width = p["c_width"] * np.exp(-p["alpha_width"] * width(u))
            return float(by_width + p["c_depth"] * np.exp(-p["alpha_depth"] * u))

        best = minimize_scalar(loss, bounds=(0, 10), method="bounded", options={"xatol": 1e-9}).x
        ratio = float(np.exp(width(best) - best))
    return ratio


def main() -> None:
    """Print the comparison."""
    harness.on_one_thread()
    fit = sf.fit(sf.load_dataset("chinchilla").drop_worst(40))
    draws = bootstrap(fit, N_DRAWS, method="pairs")
    exact = parse_count(EXACT)
    *own, scipy = harness.interleave(
        {
            "closed form": lambda: ours(fit, draws, "12m2l"),
            "exact counts": lambda: ours(fit, draws, EXACT),
            "scipy": lambda: theirs(fit, draws, exact),
        },
        repeats=3,
    )
    factor = N_BUDGETS * len(draws) / TIMED
    timings = [*own, harness.scaled(scipy, factor, f"SciPy, exact counts, {TIMED} timed", scipy.value)]
    sys.stdout.write(f"{harness.machine()}\n{harness.ratio_table(timings, 'exact counts', 'm/l at 1e12')}\n")
    tracemalloc.start()
    ours(fit, draws, EXACT)
    sys.stdout.write(f"peak of memory, exact counts: {tracemalloc.get_traced_memory()[1] / 1e6:.1f} MB\n")


if __name__ == "__main__":
    main()
