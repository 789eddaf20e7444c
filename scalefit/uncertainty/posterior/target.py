"""The posterior of a law's parameters as one function of points: what emcee and the importance sampler both draw from.

A point holds the free parameters of the centred law (sizes C_k, L0, exponents alpha_k), then ln sigma and what else the
noise has. In these coordinates, linear in C and L0, the posterior is far closer to normal than in ln c: the sum of
the terms is fixed by the data ten times more sharply than each term, which in logarithms is a bent ridge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import FitError, OptionError
from scalefit.fitting.centred import CentredLaw
from scalefit.fitting.groups import group_labels
from scalefit.fitting.problem import predict
from scalefit.uncertainty.posterior.likelihood import Likelihood, Noise
from scalefit.uncertainty.posterior.priors import Prior, Priors

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["Target", "build_target", "varying_names"]

Array = NDArray[np.float64]

ROW_POINTS = 16_000
"""Rows x points evaluated together: bounds the memory, and keeps the arrays in the processor's cache."""

NOISE_FREE = 1e-8
"""Residuals below this share of the loss are rounding."""

_NO_RUNS = np.empty(0, dtype=np.intp)


@dataclass(frozen=True)
class Target:
    """ln posterior = ln likelihood + ln prior, up to the prior's truncation by the bounds.

    Attributes
    ----------
    centred : CentredLaw
        On the rows of the fit, sorted by run where runs share an effect.
    likelihood : Likelihood
    priors : Priors
    """

    centred: CentredLaw
    likelihood: Likelihood
    priors: Priors

    @property
    def n_free(self) -> int:
        """Free parameters of the law; the rest of a point are logarithms of noise parameters."""
        return len(self.centred.free_names)

    @property
    def n_dim(self) -> int:
        """Numbers in a point."""
        return self.n_free + len(self.likelihood.names)

    @property
    def names(self) -> tuple[str, ...]:
        """What `plain` returns: the parameters of the law, then those of the noise."""
        return (*self.centred.law.parameter_names, *self.likelihood.names)

    @property
    def prior_names(self) -> tuple[str, ...]:
        """Name of the prior of each coordinate; a coefficient has its prior on the size of its term."""
        free = self.centred.free_parameters
        sizes = (f"size_{p.column}" if p.is_coefficient else p.name for p in free)
        return (*sizes, *self.likelihood.names)

    @property
    def description(self) -> dict[str, object]:
        """What is assumed: noise, effect and priors, as text."""
        priors = {name: str(self.priors[name]) for name in self.prior_names}
        return {"noise": str(self.likelihood.noise), "effect": self.likelihood.effect, "priors": priors}

    def log_posterior(self, points: Array) -> Array:
        """Ln of the unnormalised posterior at (B, n_dim) points, -inf outside the bounds."""
        with np.errstate(all="ignore"):
            if (n_blocks := self.n_blocks(len(points))) == 1:
                density = self.log_prior(points) + self.log_likelihood(points)
            else:
                density = np.concatenate(
                    [self.log_prior(b) + self.log_likelihood(b) for b in np.array_split(points, n_blocks)]
                )
        return np.where(np.isnan(density), -np.inf, density)

    def n_blocks(self, n_points: int) -> int:
        """Into how many parts so many points are divided."""
        at_once = max(1, int(ROW_POINTS // self.centred.problem.logs.shape[1]))
        return -(-n_points // at_once)

    def log_likelihood(self, points: Array) -> Array:
        """Ln of the likelihood at (B, n_dim) points; nan or -inf where the law predicts no positive loss."""
        problem = self.centred.problem
        with np.errstate(all="ignore"):
            residuals = problem.objective.transform(predict(problem, points[:, : self.n_free])) - problem.target
            return self.likelihood.log_density(residuals, points[:, self.n_free :])

    def log_prior(self, points: Array) -> Array:
        """Ln of the prior density of the coordinates at (B, n_dim) points."""
        problem = self.centred.problem
        free = points[:, : self.n_free]
        arguments, log_jacobian = self.prior_arguments(points)
        density = log_jacobian + self.prior_densities(arguments).sum(axis=1)
        outside = ((free < problem.lower) | (free > problem.upper)).any(axis=1)
        return np.where(outside, -np.inf, density)

    def prior_densities(self, arguments: Array) -> Array:
        """Ln of each prior at its argument: (B, n_dim) in, (B, n_dim) out."""
        densities = np.empty_like(arguments)
        for prior, columns in self._distinct_priors:
            densities[:, columns] = prior.log_density(arguments[:, columns])
        return densities

    def prior_arguments(self, points: Array) -> tuple[Array, Array]:
        """The quantities that carry the priors, (B, n_dim), and ln of their Jacobian by the coordinates.

        The size of term k at its columns' geometric means is C_k exp(-sum_j alpha_j m_j) with m_j the mean of the
        centred ln column, zero unless the user bounds c_k; a noise parameter is the exponential of its coordinate.
        """
        values = points.copy()
        n_free = self.n_free
        np.exp(points[:, n_free:], out=values[:, n_free:])
        log_jacobian = points[:, n_free:].sum(axis=1)
        for j, centre_k in self._off_centre:
            shift = -self.centred.problem.exponents(self.centred.problem.all_parameters(points[:, :n_free])) @ centre_k
            values[:, j] *= np.exp(shift)
            log_jacobian = log_jacobian + shift
        return values, log_jacobian

    @cached_property
    def _distinct_priors(self) -> list[tuple[Prior, NDArray[np.intp]]]:
        """Each distribution with the coordinates it is the prior of: one call for all of them."""
        priors = [self.priors[name] for name in self.prior_names]
        distinct = [p for i, p in enumerate(priors) if p not in priors[:i]]
        return [(p, np.flatnonzero([q == p for q in priors])) for p in distinct]

    @cached_property
    def _off_centre(self) -> list[tuple[int, Array]]:
        """Free coefficients that stand in plain units: their coordinate, and m_j of the factors of their terms."""
        problem = self.centred.problem
        found = []
        for j, k in enumerate(self.centred.free_terms):
            centres = np.where(problem.owners == k, problem.mean_logs, 0.0)
            if centres.any():
                found.append((j, centres))
        return found

    def plain(self, points: Array) -> Array:
        """Values of `names` in plain units, (B, n_names), fixed and tied parameters included."""
        noise = np.exp(points[:, self.n_free :])
        return np.concatenate([self.centred.plain(points[:, : self.n_free]), noise], axis=1)

    def point_of(self, fit: Fit) -> Array:
        """The point of a fit's estimates, with the noise at the size of its residuals."""
        log_sigma = 0.5 * np.log(np.mean(fit.residuals**2))
        scales = {"sigma": log_sigma, "nu": np.log(10.0), self.likelihood.effect: log_sigma}
        return np.array([*self.centred.free(fit.params), *(scales[n] for n in self.likelihood.names)])


def build_target(
    fit: Fit, priors: Mapping[str, Prior] | None = None, noise: str | None = None, by: str = "run"
) -> Target:
    """Write the posterior of a fitted law.

    Parameters
    ----------
    fit : Fit
    priors : mapping of str to Prior, optional
        In place of the defaults of `scalefit.uncertainty.posterior.priors`.
    noise : str, optional
        ``"gaussian"`` or ``"student-t"``; by default Gaussian for squared objectives and Student-t for robust ones,
        whose penalty is no likelihood with a scale of its own.
    by : str
        Rows that share an effect: those of a ``"run"``, of a ``"shape"``, of one value of a column, or none but the
        ``"row"`` itself.

    Raises
    ------
    OptionError
        If an option is unknown, or Student-t rows are asked to share an effect.
    FitError
        If the table has no noise.
    """
    objective = fit.objective
    if fit.law.coupling is not None:
        raise OptionError(
            f"the law {fit.law} is coupled, and posteriors are drawn for sums only; take a bootstrap or the profile"
        )
    typical = float(np.exp(np.log(fit.runs["loss"]).mean()))
    noise_unit = 1.0 if objective.log else typical
    largest = float(np.abs(fit.residuals).max())
    if largest < NOISE_FREE * noise_unit:
        raise FitError(
            f"{fit.runs.origin.name}: the law meets every row within {largest:.0e}, so that there is no noise whose "
            "size could be drawn; a posterior needs measured losses",
            partial=fit,
        )
    labels = group_labels(fit.runs, fit.law, by)
    shared = len(np.unique(labels)) < len(labels)
    chosen = choose_noise(fit, noise, by if shared else "")
    centred = CentredLaw.of(fit)
    first_rows = _NO_RUNS
    if shared:
        order = np.argsort(labels, kind="stable")
        centred = replace(centred, problem=centred.problem.subsample(order))
        first_rows = np.flatnonzero(np.diff(labels[order], prepend=-1))
    problem = centred.problem
    root_weights = np.ones(len(labels)) if problem.weights is None else np.sqrt(problem.weights)
    likelihood = Likelihood(chosen, root_weights, f"sigma_{by}" if shared else "", first_rows)
    target = Target(centred, likelihood, Priors(priors or {}, typical, noise_unit))
    target.priors.require_known(target.prior_names)
    for name, low in zip(target.prior_names, problem.lower[: problem.n_linear], strict=False):
        # A coefficient or L0 whose bounds reach below zero has a prior that does so too.
        if low < 0:
            target = replace(target, priors=target.priors.signed(name))
    return target


def choose_noise(fit: Fit, asked: str | None, shared_by: str) -> Noise:
    """The noise asked for, or that which suits the objective, if it can be had with the effect."""
    if asked not in (None, *Noise):
        raise OptionError(f"unknown noise {asked!r}; choose {' or '.join(Noise)}")
    noise = Noise(asked) if asked else (Noise.GAUSSIAN if fit.objective.delta is None else Noise.STUDENT_T)
    if shared_by and noise is Noise.STUDENT_T:
        raise OptionError(
            f"{fit.runs.origin.name} has several rows per {shared_by}, and Student-t noise with a {shared_by} effect "
            f"has no closed form; take noise gaussian, keep one row of each, or trust the bootstrap by {shared_by}"
        )
    return noise


def varying_names(target: Target) -> tuple[str, ...]:
    """Names of the plain quantities that are not fixed."""
    fixed = [n for n in target.centred.law.parameter_names if target.centred.free_index(n) is None]
    return tuple(name for name in target.names if name not in fixed)
