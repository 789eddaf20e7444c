"""The probability of a table's residuals: Gaussian or Student-t rows, and an effect that rows of a run share.

With r the residuals of the objective (differences of ln loss or of the loss) and w the row weights, of mean one,

    r_i = b_g(i) + e_i,    e_i ~ N(0, sigma^2 / w_i),    b_g ~ N(0, sigma_run^2),                     (1)

so that the residuals of a run have the covariance sigma^2 diag(1 / w) + sigma_run^2 1 1'. The effect b is integrated
out in closed form: with rho = (sigma_run / sigma)^2, W = sum w over the run and u = sqrt(w),

    V^(-1/2) r = (I - kappa u u' / W) (u r) / sigma,    kappa = 1 - (1 + rho W)^(-1/2),               (2)
    ln |V| = n ln sigma^2 - sum ln w + sum_runs ln(1 + rho W),                                        (3)

by the matrix determinant lemma (Harville 1997, section 18.1). Without runs rho is 0. Student-t rows have the density
of t with nu degrees of freedom, scale sigma / sqrt(w); no effect can be integrated out of them in closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

__all__ = ["Likelihood", "Noise"]

Array = NDArray[np.float64]

_LN_2PI = math.log(2 * math.pi)


class Noise(StrEnum):
    """Distribution of a row's noise."""

    GAUSSIAN = "gaussian"
    STUDENT_T = "student-t"


@dataclass(frozen=True)
class Likelihood:
    """Probability of residuals, for many points at once.

    Parameters
    ----------
    noise : Noise
    root_weights : (n,) float array
        sqrt(w) of equation (1).
    effect : str
        Name of the standard deviation of the shared effect, such as ``"sigma_run"``; empty without one.
    first_rows : (n_runs,) int array
        First row of each run, where there is an effect: the rows of a run stand together.
    """

    noise: Noise
    root_weights: Array
    effect: str
    first_rows: NDArray[np.intp]

    @property
    def names(self) -> tuple[str, ...]:
        """Parameters of the noise; the functions below take their logarithms."""
        if self.effect:
            return ("sigma", self.effect)
        return ("sigma", "nu") if self.noise is Noise.STUDENT_T else ("sigma",)

    def log_density(self, residuals: Array, log_scales: Array) -> Array:
        """ln of the joint density of the residuals.

        Parameters
        ----------
        residuals : (B, n) float array
        log_scales : (B, n_names) float array
            Logarithms of the parameters in `names`.

        Returns
        -------
        (B,) float array
        """
        n = residuals.shape[1]
        white = self.whiten(residuals[:, None], log_scales)[:, 0]
        constant = float(np.log(self.root_weights).sum())
        if self.noise is Noise.STUDENT_T:
            nu = np.exp(log_scales[:, 1])
            constants = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(np.pi * nu) - log_scales[:, 0]
            tails = np.log1p(white * white / nu[:, None]).sum(axis=1)
            return np.asarray(n * constants - 0.5 * (nu + 1) * tails + constant)
        density = constant - n * (log_scales[:, 0] + 0.5 * _LN_2PI) - 0.5 * np.einsum("bn,bn->b", white, white)
        if self.effect:
            density = density - 0.5 * np.log1p(self._loads(log_scales)).sum(axis=1)
        return np.asarray(density)

    def whiten(self, rows: Array, log_scales: Array) -> Array:
        """V^(-1/2) of equation (2) applied along the last axis of a (B, k, n) array; for t rows sqrt(w) / sigma."""
        white = rows * (self.root_weights * np.exp(-log_scales[:, :1]))[:, None]
        if self.effect:
            loads = self._loads(log_scales)
            share = (1 - 1 / np.sqrt(1 + loads)) / self._run_weights
            sums = np.add.reduceat(white * self.root_weights, self.first_rows, axis=-1) * share[:, None]
            white -= np.repeat(sums, self._run_lengths, axis=-1) * self.root_weights
        return white

    def reweighting(self, white: Array, log_scales: Array) -> Array | float:
        """Weights of iteratively reweighted least squares (Lange et al. 1989) of whitened residuals: 1 for Gaussian."""
        if self.noise is Noise.GAUSSIAN:
            return 1.0
        nu = np.exp(log_scales[:, 1:2])
        return (nu + 1) / (nu + white * white)

    def _loads(self, log_scales: Array) -> Array:
        """rho W of equation (2): (B, n_runs)."""
        return np.exp(2 * (log_scales[:, 1] - log_scales[:, 0]))[:, None] * self._run_weights

    @cached_property
    def _run_weights(self) -> Array:
        return np.asarray(np.add.reduceat(self.root_weights**2, self.first_rows))

    @cached_property
    def _run_lengths(self) -> NDArray[np.intp]:
        return np.diff(self.first_rows, append=len(self.root_weights))
