"""The benchmark compares like with like: the function written by hand is the posterior that we sample."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import scalefit as sf
from scalefit.uncertainty.posterior.target import build_target

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("the benchmarks are not part of an installed package", allow_module_level=True)

sys.path.insert(0, str(BENCHMARKS))
import bench_posterior  # noqa: E402


def test_the_hand_written_posterior_is_ours_up_to_a_constant():
    fitted = sf.fit(sf.load_dataset("chinchilla").drop_worst(40))
    target = build_target(fitted)
    by_hand = bench_posterior.PlainPosterior(target)
    points = target.point_of(fitted) * (1 + 0.02 * np.random.default_rng(0).standard_normal((20, target.n_dim)))
    gaps = target.log_posterior(points) - [by_hand(point) for point in points]
    assert np.ptp(gaps) < 1e-8
    outside = points[0] * np.array([-1.0, *[1.0] * 7])
    assert by_hand(outside) == target.log_posterior(outside[None])[0] == -np.inf
