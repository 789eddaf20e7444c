"""The table of known truth that many tests build on, and draws of a known distribution."""

from __future__ import annotations

import itertools
import math

import numpy as np

from scalefit.fitting.fit import Fit
from scalefit.uncertainty.samples import Samples

T27_LAW = {
    "c_width": 300.0,
    "alpha_width": 1.0,
    "c_depth": 10.0,
    "alpha_depth": 1.0,
    "c_tokens": 504.7659,
    "alpha_tokens": 0.3,
    "L0": 1.7,
}


def t27_columns(noise: float = 0.0, seed: int = 0) -> dict[str, np.ndarray]:
    """27 runs of `T27_LAW` on a 3 x 3 x 3 grid, with relative normal noise of the given size."""
    grid = itertools.product([512, 1024, 2048], [8, 16, 32], [1e9, 1e10, 1e11])
    width, depth, tokens = (np.array(x, dtype=float) for x in zip(*grid, strict=True))
    loss = 1.7 + 300 / width + 10 / depth + 504.7659 / tokens**0.3
    rng = np.random.default_rng(seed)
    return {
        "width": width,
        "depth": depth,
        "tokens": tokens,
        "loss": loss * np.exp(noise * rng.standard_normal(len(loss))),
    }


def normal_draws(fitted: Fit, n: int = 400, seed: int = 0) -> Samples:
    """Draws of the normal approximation: ln c, alpha and L0 around the fit."""
    rng = np.random.default_rng(seed)
    names = fitted.law.parameter_names
    center = [math.log(fitted.params[n]) if n.startswith("c_") else fitted.params[n] for n in names]
    draws = rng.multivariate_normal(center, fitted.covariance, n)
    columns = [i for i, name in enumerate(names) if name.startswith("c_")]
    draws[:, columns] = np.exp(draws[:, columns])
    return Samples(fitted.law, names, draws, "normal", fitted.params)
