"""The posterior by Markov chains: independent ensembles of emcee's walkers, run until they are long enough.

Moves are differential evolution (ter Braak 2006): with the jump scaled for the dimension nine times in ten, and with
gamma = 1, which hops along and between ridges, once in ten. (emcee's snooker move is left out: in release 3.1.6 its
draws of a seven-dimensional normal are a third too narrow, which a test of ours shows.)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import FitError, OptionError
from scalefit.execute import Progress
from scalefit.fitting.starts import check_seed
from scalefit.uncertainty.posterior.chains import Chain, fingerprint, load_chains, random_state, save_chains
from scalefit.uncertainty.posterior.conditional import Conditional, build_conditional
from scalefit.uncertainty.posterior.diagnostics import Convergence, assess, is_check, prior_influence, prior_warnings
from scalefit.uncertainty.posterior.importance import Proposal, build_proposal
from scalefit.uncertainty.posterior.priors import Prior
from scalefit.uncertainty.posterior.target import Target, build_target, varying_names
from scalefit.uncertainty.samples import Samples

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["sample_posterior"]

Array = NDArray[np.float64]

THIN = 10
"""Steps from one stored step to the next."""

SEGMENT = 50
"""Stored steps between two chances to be interrupted and saved."""

FIRST_CHECK = 100
"""Stored steps after which the chains are judged for the first time."""

BURN_IN = 0.25
"""Share of the chain that is left out at its start."""

FEWEST_ENSEMBLES = 4

FEWEST_WALKERS = 64
"""In an ensemble: half of them share one call of the likelihood, whose cost hardly grows up to here."""


def sample_posterior(
    fit: Fit,
    *,
    n_ensembles: int = 4,
    seed: int = 0,
    priors: Mapping[str, Prior] | None = None,
    noise: str | None = None,
    by: str = "run",
    max_steps: int = 20_000,
    backend: str | Path | None = None,
    progress: Progress | None = None,
) -> Samples:
    """Draw from the posterior of a fitted law with emcee (Foreman-Mackey et al. 2013).

    The ensembles are extended until each is 50 autocorrelation times long, R-hat between them is below 1.01 and the
    bulk and tail of every parameter hold 1,000 effective draws, or until `max_steps`.

    Parameters
    ----------
    fit : Fit
    n_ensembles : int
        Independent ensembles, at least 4, each from its own random numbers and starting points.
    seed : int
    priors : mapping of str to Prior, optional
        In place of the defaults listed at `scalefit.uncertainty.posterior.priors`.
    noise : str, optional
        ``"gaussian"`` or ``"student-t"``; by default the former for squared, the latter for robust objectives.
    by : str
        Rows that share an effect: those of a ``"run"``, of a ``"shape"``, of one value of a column, or none but the
        ``"row"`` itself.
    max_steps : int
        Of each ensemble.
    backend : str or path, optional
        File (.npz) in which the chains are kept. Called again with the same file and the same arguments after Ctrl-C or
        a crash, the function goes on from there and returns the numbers of an unbroken run.
    progress : callable, optional
        Called with the steps made and `max_steps`, every 500 steps.

    Returns
    -------
    Samples
        Of the law's parameters and the noise, one ensemble after the other. ``diagnostics`` holds ``rhat``, ``ess``,
        ``ess_tail`` and ``tau`` by name, the acceptance and the influence of the priors. Where `max_steps` ended the
        chains too early every interval carries a reservation.

    Raises
    ------
    OptionError
        If an option is unknown, a prior improper, or `backend` belongs to another posterior.
    FitError
        If no walker finds a starting point.
    """
    if n_ensembles < FEWEST_ENSEMBLES:
        raise OptionError(
            f"n_ensembles is {n_ensembles} and must be at least {FEWEST_ENSEMBLES} for R-hat to mean much"
        )
    if max_steps < THIN * FIRST_CHECK:
        raise OptionError(f"max_steps is {max_steps} and must be at least {THIN * FIRST_CHECK}")
    check_seed(seed)
    if backend is not None and not Path(backend).parent.is_dir():
        raise OptionError(f"the folder of {backend} does not exist; create it, or name a file elsewhere")
    target = build_target(fit, priors, noise, by)
    start = target.point_of(fit)
    conditional = build_conditional(target, start)
    n_walkers = max(FEWEST_WALKERS, 4 * target.n_dim)
    path = None if backend is None else Path(backend)
    digest = fingerprint(conditional, seed, n_ensembles, n_walkers, THIN, SEGMENT)
    chains = load_chains(path, digest) if path else []
    if not chains:
        chains = first_chains(conditional, start, n_ensembles, n_walkers, seed)
    saved = len(chains[0])
    try:
        while (found := convergence_at(conditional, chains, max_steps)) is None:
            chains = [chain.followed_by(advanced(conditional, chain)) for chain in chains]
            if progress is not None:
                progress(_n_steps(chains), max_steps)
            if path and len(chains[0]) - saved >= max(SEGMENT, 0.1 * saved):
                save_chains(path, chains, digest)
                saved = len(chains[0])
    finally:
        if path:
            save_chains(path, chains, digest)
    return _samples(fit, conditional, chains, found)


def first_chains(conditional: Conditional, start: Array, n_ensembles: int, n_walkers: int, seed: int) -> list[Chain]:
    """Chains of one stored step: the starting points, drawn anew for each ensemble."""
    target = conditional.target
    proposal = build_proposal(target, start)
    chains = []
    for sequence in np.random.SeedSequence(seed).spawn(n_ensembles):
        points_of, moves_of = sequence.spawn(2)
        points = _start(target, start, proposal, n_walkers, np.random.default_rng(points_of))
        state = random_state(moves_of)
        coords = conditional.sheared(points)
        log_prob = conditional.log_posterior(coords)
        chains.append(Chain(coords[None], log_prob[None], np.zeros(n_walkers), state))
    return chains


def _start(target: Target, start: Array, proposal: Proposal, n_walkers: int, rng: np.random.Generator) -> Array:
    """Starting points from the curvature of the posterior at its mode, the Bayesian form of the fit's covariance."""
    found = np.empty((0, target.n_dim))
    for attempt in range(20):
        points = proposal.draw(4 * n_walkers, rng)[0] if attempt < 10 else around(target, start, 4 * n_walkers, rng)
        possible = np.isfinite(points).all(axis=1) & np.isfinite(target.log_posterior(points))
        found = np.concatenate([found, points[possible]])
        if len(found) >= n_walkers:
            return found[:n_walkers]
    raise FitError(
        f"only {len(found)} starting points of {n_walkers} walkers have a posterior probability; "
        "widen the bounds or the priors"
    )


def around(target: Target, start: Array, n_points: int, rng: np.random.Generator) -> Array:
    """Points around the fit, for tables that do not determine the law, where the curvature says nothing."""
    sizes = np.where(np.arange(target.n_dim) < target.n_free, 0.1 * np.abs(start) + 0.01, 0.3)
    points = start + sizes * rng.standard_normal((n_points, target.n_dim))
    lower, upper = target.centred.problem.lower, target.centred.problem.upper
    inside = points[:, : target.n_free]
    inside[:] = np.where(inside < lower, 2 * lower - inside, inside)
    inside[:] = np.where(inside > upper, 2 * upper - inside, inside)
    return points


def advanced(conditional: Conditional, chain: Chain) -> Chain:
    """Continue a chain by one segment, from its own random state."""
    import emcee

    _, n_walkers, n_dim = chain.coords.shape
    sampler = emcee.EnsembleSampler(n_walkers, n_dim, conditional.log_posterior, moves=moves(), vectorize=True)
    # emcee's wrapper answers any exception, Ctrl-C included, by printing all walkers to standard output.
    sampler.log_prob_fn = conditional.log_posterior
    state = emcee.State(chain.coords[-1], log_prob=chain.log_prob[-1], random_state=chain.random_state)
    end = sampler.run_mcmc(state, SEGMENT, thin_by=THIN, skip_initial_state_check=True)
    return Chain(sampler.get_chain(), sampler.get_log_prob(), sampler.backend.accepted, end.random_state)


def moves() -> list[tuple[Any, float]]:
    import emcee

    return [(emcee.moves.DEMove(), 0.9), (emcee.moves.DEMove(gamma0=1.0), 0.1)]


def convergence_at(conditional: Conditional, chains: list[Chain], max_steps: int) -> Convergence | None:
    """Diagnose the chains at a check and at the limit; None where they go on."""
    at_limit = _n_steps(chains) >= max_steps
    if not (at_limit or is_check(len(chains[0]) - 1, FIRST_CHECK, SEGMENT)):
        return None
    target, names = conditional.target, varying_names(conditional.target)
    coords = _kept(chains)
    values = target.plain(conditional.unsheared(coords.reshape(-1, target.n_dim))).reshape(*coords.shape[:3], -1)
    values = values[..., [target.names.index(name) for name in names]]
    found = assess(values, THIN * autocorrelation_times(values), names, THIN * coords.shape[1])
    return found if at_limit or not found.missing else None


def _n_steps(chains: list[Chain]) -> int:
    return THIN * (len(chains[0]) - 1)


def _kept(chains: list[Chain]) -> Array:
    """(n_ensembles, n_kept, n_walkers, n_dim) stored points after the burn-in."""
    first = int(np.ceil(BURN_IN * len(chains[0])))
    return np.stack([chain.coords[first:] for chain in chains])


def autocorrelation_times(values: Array) -> Array:
    """Integrated autocorrelation times in stored steps, averaged over all walkers (Sokal 1997).

    At least one; the length of the chain where a walker never moved.
    """
    from emcee.autocorr import integrated_time

    n_ensembles, n_steps, n_walkers, n_values = values.shape
    walkers = values.transpose(1, 0, 2, 3).reshape(n_steps, n_ensembles * n_walkers, n_values)
    with np.errstate(invalid="ignore", divide="ignore"):
        times = integrated_time(walkers, tol=0)
    return np.where(np.isnan(times), float(n_steps), np.maximum(times, 1.0))


def _samples(fit: Fit, conditional: Conditional, chains: list[Chain], found: Convergence) -> Samples:
    """Collect the draws, half an autocorrelation time apart: ensemble after ensemble, walker after walker."""
    target, kept = conditional.target, _kept(chains)
    stride = int(np.clip(found.largest_tau / (2 * THIN), 1, kept.shape[1] / 50))
    points = conditional.unsheared(kept[:, ::stride].transpose(0, 2, 1, 3).reshape(-1, target.n_dim))
    names = varying_names(target)
    influence, open_names = prior_influence(target, points, names)
    warning = found.warning(_n_steps(chains))
    return Samples(
        law=fit.law,
        names=target.names,
        draws=target.plain(points),
        method="posterior",
        estimate=fit.params,
        n_chains=len(chains),
        reservations=dict.fromkeys(names, warning.message) if warning else {},
        diagnostics={
            **found.diagnostics,
            "n_ensembles": len(chains),
            "n_walkers": kept.shape[2],
            "n_steps": _n_steps(chains),
            "acceptance": float(np.mean([chain.accepted.mean() / (len(chain) - 1) for chain in chains])),
            **target.description,
            **influence,
        },
        warnings=(*([warning] if warning else []), *prior_warnings(influence, open_names)),
    )
