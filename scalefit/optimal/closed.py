"""The best shape in closed form, where the cost is one monomial.

Minimise sum_k c_k x_k^-alpha_k where K prod_k x_k^p_k = B. With the multiplier lambda the first-order conditions are

    alpha_k c_k x_k^-alpha_k = p_k lambda    for every k,                                       (1)

so that ln x_k = (ln(alpha_k c_k / p_k) - ln lambda) / alpha_k, and the constraint gives

    ln lambda = [sum_k p_k ln(alpha_k c_k / p_k) / alpha_k + ln K - ln B] / sum_k (p_k / alpha_k).      (2)

In ln x this is a convex problem (a geometric program), hence the solution is unique. From (2), x_k grows as

    x_k ~ B^e_k,    e_k = (1 / alpha_k) / sum_j (p_j / alpha_j).                                (3)

For parameters 12 m^2 l: p = (2, 1), K = 12. For compute 72 m^2 l D: p = (2, 1, 1), K = 72.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scalefit.optimal.terms import Term

__all__ = ["minimise_on_monomial"]

Array = NDArray[np.float64]


def minimise_on_monomial(terms: Sequence[Term], powers: Sequence[float], log_bound: float) -> list[Array]:
    """Equations (1) and (2).

    Parameters
    ----------
    terms : sequence of Term
        One for each variable, for B draws each; shifts are left out of account.
    powers : sequence of float
        p_k, of each variable.
    log_bound : float
        ln(B / K).

    Returns
    -------
    list of (B,) float arrays
        ln x_k; -inf where the term vanished.
    """
    sizes = [t.log_c + np.log(t.alpha) - np.log(p) for t, p in zip(terms, powers, strict=True)]
    rates = [p / t.alpha for t, p in zip(terms, powers, strict=True)]
    with np.errstate(invalid="ignore"):
        total = np.asarray(sum(r * s for r, s in zip(rates, sizes, strict=True)))
        log_lambda = (total - log_bound) / np.asarray(sum(rates))
        return [np.asarray((s - log_lambda) / t.alpha) for s, t in zip(sizes, terms, strict=True)]
