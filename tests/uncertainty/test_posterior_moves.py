"""The moves draw what they should: a normal distribution of known variance."""

from __future__ import annotations

import emcee
import numpy as np
import pytest

from scalefit.uncertainty.posterior.diagnostics import chain_diagnostics
from scalefit.uncertainty.posterior.posterior import moves

DIM, WALKERS, STEPS, SD = 7, 32, 6000, 0.1


def draw_normal(moves, seed):
    """Draws of a 7-dimensional normal of standard deviation 0.1, started from it: (1, steps, walkers, 7)."""
    rng = np.random.default_rng(seed)
    sampler = emcee.EnsembleSampler(
        WALKERS, DIM, lambda x: -0.5 * np.sum((x / SD) ** 2, axis=1), moves=moves, vectorize=True
    )
    generator = np.random.RandomState(np.random.MT19937(seed))
    state = emcee.State(SD * rng.standard_normal((WALKERS, DIM)), random_state=generator.get_state())
    sampler.run_mcmc(state, STEPS // 10, thin_by=10)
    return sampler.get_chain()[None]


def relative_sd(chain):
    """Standard deviation over the truth, and its standard error from the effective number of squares."""
    ess = chain_diagnostics(chain**2)["ess"].sum()
    return np.sqrt(np.mean(chain**2)) / SD, 1 / np.sqrt(2 * ess)


def test_our_moves_have_the_right_variance():
    ratio, error = relative_sd(draw_normal(moves(), seed=1))
    assert error < 0.01
    assert ratio == pytest.approx(1.0, abs=4 * error)


def test_this_would_find_a_biased_move():
    """The released snooker move: a third too narrow."""
    ratio, error = relative_sd(draw_normal([(emcee.moves.DESnookerMove(), 1.0)], seed=1))
    assert ratio < 1 - 10 * error
    assert ratio < 0.8
