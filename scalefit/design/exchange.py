"""Choose the runs that leave the least variance of one quantity: greedy, then exchange.

With the information M of what is known and g_i the derivative of run i's prediction over its noise, a set S leaves

    var_S = a' (M + sum_S g_i g_i')^-1 a                                                        (1)

of the quantity whose derivative is a (c-optimality; Atkinson, Donev & Tobias 2007, section 10.3). Adding one run to
V = M^-1 takes (a' V g)^2 / (1 + g' V g) off a' V a, so that all candidates are compared by two products. Exchange puts
every chosen run in turn to the test against all others until none is better (Fedorov 1972).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Choice", "choose_runs", "variance_after"]

Array = NDArray[np.float64]
Indices = list[int]

_PASSES = 100
_RANDOM_STARTS = 8
_IMPROVES = 1 - 1e-10


@dataclass(frozen=True, eq=False)
class Choice:
    """What there is to choose from.

    Parameters
    ----------
    covariance : (p, p) float array
        V, of the parameters as they are known.
    gradients : (n, p) float array
        g_i.
    direction : (p,) float array
        a.
    costs : (n,) float array
    budget : float
        Most that the chosen runs may cost together.
    """

    covariance: Array
    gradients: Array
    direction: Array
    costs: Array
    budget: float


def choose_runs(choice: Choice, n_runs: int, seed: int = 0) -> Indices:
    """Choose up to `n_runs` different runs; the order is the one in which they help most.

    The best of exchanges from two greedy choices, by gain and by gain for its cost, and from random ones.
    """
    rng = np.random.default_rng(seed)
    starts = [_greedy(choice, n_runs, by_cost) for by_cost in (False, True)]
    starts += [_random(choice, n_runs, rng) for _ in range(_RANDOM_STARTS)]
    ends = [_exchange(choice, start, n_runs) for start in starts]
    best = min(ends, key=lambda chosen: variance_after(choice, chosen))
    return _ordered(choice, best)


def variance_after(choice: Choice, chosen: Indices) -> float:
    """Equation (1)."""
    covariance = _covariance(choice, chosen)
    return float(choice.direction @ covariance @ choice.direction)


def _covariance(choice: Choice, chosen: Indices) -> Array:
    """V after the chosen runs, by the Woodbury identity."""
    g, v = choice.gradients[chosen], choice.covariance
    gv = g @ v
    return np.asarray(v - gv.T @ np.linalg.solve(np.eye(len(chosen)) + gv @ g.T, gv))


def _gains(choice: Choice, covariance: Array) -> Array:
    """What each run would take off the variance."""
    towards = choice.gradients @ covariance
    gains: Array = (towards @ choice.direction) ** 2 / (1 + np.einsum("np,np->n", towards, choice.gradients))
    return gains


def _free(choice: Choice, chosen: Indices) -> NDArray[np.bool_]:
    """Which runs can be added within the budget."""
    free: NDArray[np.bool_] = choice.costs <= (choice.budget - choice.costs[chosen].sum()) * (1 + 1e-9)
    free[chosen] = False
    return free


def _greedy(choice: Choice, n_runs: int, by_cost: bool) -> Indices:
    chosen: Indices = []
    while len(chosen) < n_runs and (free := _free(choice, chosen)).any():
        gains = _gains(choice, _covariance(choice, chosen))
        score = gains / choice.costs if by_cost else gains
        chosen.append(int(np.argmax(np.where(free, score, -1.0))))
    return chosen


def _random(choice: Choice, n_runs: int, rng: np.random.Generator) -> Indices:
    chosen: Indices = []
    while len(chosen) < n_runs and (free := _free(choice, chosen)).any():
        chosen.append(int(rng.choice(np.flatnonzero(free))))
    return chosen


def _exchange(choice: Choice, chosen: Indices, n_runs: int) -> Indices:
    chosen = list(chosen)
    variance = variance_after(choice, chosen)
    for _ in range(_PASSES):
        before = variance
        for place in range(len(chosen)):
            others = chosen[:place] + chosen[place + 1 :]
            covariance = _covariance(choice, others)
            without = float(choice.direction @ covariance @ choice.direction)
            gains = np.where(_free(choice, others), _gains(choice, covariance), -1.0)
            best = int(np.argmax(gains))
            if without - gains[best] < variance * _IMPROVES:
                chosen[place], variance = best, without - float(gains[best])
        # a cheaper exchange may have made room for one more run
        if len(chosen) < n_runs and (free := _free(choice, chosen)).any():
            gains = np.where(free, _gains(choice, _covariance(choice, chosen)), -1.0)
            chosen.append(int(np.argmax(gains)))
            variance = variance_after(choice, chosen)
        if variance >= before * _IMPROVES:
            break
    return chosen


def _ordered(choice: Choice, chosen: Indices) -> Indices:
    """The chosen runs, each next one the most helpful of those left."""
    left, order = list(chosen), list[int]()
    while left:
        gains = _gains(choice, _covariance(choice, order))
        order.append(left.pop(int(np.argmax(gains[left]))))
    return order
