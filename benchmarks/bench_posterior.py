"""Posterior of CHIN-203: seconds per 1,000 effective draws, ours beside emcee called point by point and lmfit's emcee.

``python benchmarks/bench_posterior.py`` prints medians and ratios. Effective draws are those of the parameter that has
the fewest in its bulk, by the same estimator for everybody; burn-in, start and diagnostics of ours are timed.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping

import emcee
import harness
import lmfit
import numpy as np
import numpy.typing as npt

import scalefit as sf
from scalefit.uncertainty.posterior.diagnostics import chain_diagnostics
from scalefit.uncertainty.posterior.importance import importance_sample
from scalefit.uncertainty.posterior.posterior import sample_posterior
from scalefit.uncertainty.posterior.target import Target, build_target

Floats = npt.NDArray[np.float64]

WALKERS = 32
STEPS = 5_000
BURN = 1_000
THIN = 10
REPEATS = 3

OURS = "scalefit.sample_posterior (emcee)"


class PlainPosterior:
    """The posterior of `target` at one point, as one would write it for emcee by hand."""

    def __init__(self, target: Target) -> None:
        problem = target.centred.problem
        self.logs, self.log_loss, self.typical = problem.logs, problem.target, target.priors.typical_loss

    def __call__(self, point: Floats) -> float:
        sizes, floor, alphas, log_sigma = point[:3], point[3], point[4:7], point[7]
        if min(sizes.min(), floor) <= 0 or alphas.min() < 1e-3 or alphas.max() > 10:
            return -math.inf
        residuals = np.log(sizes @ np.exp(-alphas[:, None] * self.logs) + floor) - self.log_loss
        squares = float(residuals @ residuals)
        log_sizes = np.log(sizes)
        return (
            -len(residuals) * log_sigma
            - 0.5 * squares * math.exp(-2 * log_sigma)
            - 0.5 * float(np.sum(((log_sizes - math.log(0.1 * self.typical)) / 2) ** 2) + log_sizes.sum() * 2)
            - 0.5 * float(alphas @ alphas) / 9
            - 0.5 * (floor / self.typical) ** 2
            - 0.5 * ((log_sigma - math.log(0.01)) / 2) ** 2
        )


def fewest_effective(chain: Floats) -> float:
    """Bulk effective size of the worst parameter of a (steps, walkers, parameters) chain."""
    return float(chain_diagnostics(chain[None])["ess"].min())


def point_by_point(target: Target, moves: object, starts: Floats) -> float:
    """Run emcee with a function of one point."""
    sampler = emcee.EnsembleSampler(WALKERS, target.n_dim, PlainPosterior(target), moves=moves)
    generator = np.random.RandomState(np.random.MT19937(0))
    state = emcee.State(starts, random_state=generator.get_state())
    sampler.run_mcmc(state, STEPS // THIN, thin_by=THIN)
    return fewest_effective(sampler.get_chain(discard=BURN // THIN))


def lmfit_front_end(fit: sf.Fit) -> float:
    """Run `lmfit.Minimizer.emcee`, which samples sigma too, in the coordinates of its users."""
    runs = fit.runs
    columns = [np.asarray(runs[name]) for name in fit.law.columns]
    log_loss = np.log(runs["loss"])
    parameters = lmfit.Parameters()
    for name, value in fit.params.items():
        if name.startswith("c_"):
            parameters.add(f"ln_{name}", value=math.log(value))
        else:
            parameters.add(name, value=value, min=0.0, max=10.0)
    names = [(f"ln_{t.coefficient}", t.exponent) for t in fit.law.terms]

    def residuals(p: lmfit.Parameters) -> Floats:
        terms = [math.exp(p[c].value) * x ** -p[a].value for (c, a), x in zip(names, columns, strict=True)]
        return np.log(sum(terms) + p["L0"].value) - log_loss

    parameters.add("__lnsigma", value=math.log(fit.objective_value) / 2, min=-15, max=0)
    minimizer = lmfit.Minimizer(residuals, parameters)
    minimizer.emcee(steps=STEPS, nwalkers=WALKERS, burn=BURN, thin=THIN, is_weighted=False, progress=False, seed=0)
    return fewest_effective(minimizer.sampler.get_chain(discard=BURN, thin=THIN))


def per_thousand(run: Callable[[], float], repeats: int) -> tuple[tuple[float, ...], float]:
    """Seconds per 1,000 effective draws, once a repeat, and the last effective size."""
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        effective = run()
        seconds.append((time.perf_counter() - begin) / effective * 1000)
    return tuple(seconds), effective


def compare(repeats: int = REPEATS) -> list[harness.Timing]:
    """Time all of them."""
    fit = sf.fit(sf.load_dataset("chinchilla").drop_worst(40))
    target = build_target(fit)
    starts = target.point_of(fit) * (1 + 1e-3 * np.random.default_rng(0).standard_normal((WALKERS, target.n_dim)))
    ours = [(emcee.moves.DEMove(), 0.9), (emcee.moves.DEMove(gamma0=1.0), 0.1)]
    contestants: Mapping[str, Callable[[], float]] = {
        OURS: lambda: min(sample_posterior(fit).diagnostics["ess"].values()),
        "scalefit.importance_sample": lambda: min(importance_sample(fit).diagnostics["ess"].values()),
        "emcee point by point, our moves": lambda: point_by_point(target, ours, starts),
        "emcee point by point, stretch move": lambda: point_by_point(target, emcee.moves.StretchMove(), starts),
        "lmfit Minimizer.emcee": lambda: lmfit_front_end(fit),
    }
    importance_sample(fit)  # imports
    return [harness.Timing(name, *per_thousand(run, repeats)) for name, run in contestants.items()]


def main() -> None:
    """Print the comparison."""
    harness.on_one_thread()
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS
    table = harness.ratio_table(compare(repeats), OURS, "effective draws")
    sys.stdout.write(f"{harness.machine()}\nper 1,000 effective draws:\n{table}\n")


if __name__ == "__main__":
    main()
