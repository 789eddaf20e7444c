"""The same law and objective as other tools would be asked to fit them, each in the way that suits it.

All minimise the mean squared difference of ln loss for

    L = c_m / m^alpha_m + c_l / l^alpha_l + c_D / D^alpha_D + L0

from the same random starts. SciPy's two get the form with centred columns and the analytic Jacobian, in which
they are fastest; lmfit gets the formula in plain units, as its users write it.
"""

from __future__ import annotations

from dataclasses import dataclass

import lmfit
import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares, leastsq

from scalefit.runs import Runs

COLUMNS = ("width", "depth", "tokens")
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CentredProblem:
    """Residuals r = ln(sum_k exp(b_k - alpha_k z_k) + L0) - ln L at theta = (b, alpha, L0).

    z_k is ln of column k less its mean, so exp(b_k) is the term's size at the geometric mean.
    """

    z: Floats
    log_loss: Floats

    @classmethod
    def of(cls, runs: Runs) -> CentredProblem:
        logs = np.log(np.stack([runs[name] for name in COLUMNS]))
        return cls(logs - logs.mean(axis=1, keepdims=True), np.log(runs["loss"]))

    def residuals(self, theta: Floats) -> Floats:
        return np.log(self._terms(theta).sum(axis=0) + theta[6]) - self.log_loss

    def jacobian(self, theta: Floats) -> Floats:
        terms = self._terms(theta)
        slopes = np.concatenate([terms, -terms * self.z, np.ones((1, self.log_loss.size))])
        return (slopes / (terms.sum(axis=0) + theta[6])).T

    def value(self, theta: Floats) -> float:
        return float(np.mean(self.residuals(theta) ** 2))

    def _terms(self, theta: Floats) -> Floats:
        return np.exp(theta[:3, None] - theta[3:6, None] * self.z)


def random_starts(count: int, seed: int) -> Floats:
    """Draw starts: terms of 0.05 to 1 nat at the table's centre, exponents of 0.1 to 2, L0 of 0.5 to 2."""
    rng = np.random.default_rng(seed)
    log_sizes = rng.uniform(np.log(0.05), 0.0, (count, 3))
    return np.hstack([log_sizes, rng.uniform(0.1, 2.0, (count, 3)), rng.uniform(0.5, 2.0, (count, 1))])


def scipy_trf(problem: CentredProblem, starts: Floats) -> float:
    """Best objective of scipy.optimize.least_squares, method trf, over the starts."""
    ends = (least_squares(problem.residuals, x0, jac=problem.jacobian, method="trf").x for x0 in starts)
    return min(problem.value(end) for end in ends)


def minpack_lm(problem: CentredProblem, starts: Floats) -> float:
    """Best objective of MINPACK's lmder through scipy.optimize.leastsq, its thinnest wrapper."""
    ends = (leastsq(problem.residuals, x0, Dfun=problem.jacobian)[0] for x0 in starts)
    return min(problem.value(end) for end in ends)


def lmfit_model(runs: Runs, starts: Floats) -> float:
    """Best objective of an lmfit Model of ln loss in plain units."""
    model = lmfit.Model(_plain_log_law, independent_vars=list(COLUMNS))
    columns = {name: runs[name] for name in COLUMNS}
    centre = np.array([np.log(column).mean() for column in columns.values()])
    log_loss = np.log(runs["loss"])
    best = np.inf
    for theta in starts:
        values = np.concatenate([np.exp(theta[:3] + theta[3:6] * centre), theta[3:]])
        parameters = model.make_params(**dict(zip(model.param_names, values, strict=True)))
        for name in model.param_names[:3]:
            parameters[name].set(min=0)
        best = min(best, float(np.mean(model.fit(log_loss, parameters, **columns).residual ** 2)))
    return best


def _plain_log_law(width, depth, tokens, c_m, c_l, c_D, alpha_m, alpha_l, alpha_D, L0):
    return np.log(c_m / width**alpha_m + c_l / depth**alpha_l + c_D / tokens**alpha_D + L0)
