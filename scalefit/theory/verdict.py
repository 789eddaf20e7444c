"""Verdicts on claims: what was claimed, what was found, and whether the data can tell.

Margins are judged simultaneously over layers: with S independent seeds and n layers the mean margin of a layer
is compared with z standard errors, z = t_{S-1}(1 - alpha / (2 n)) (Bonferroni with Student's t). Equalities need the
difference within `EQUALITY_Z` standard errors *and* a standard error below a stated size; they are violated only
beyond z standard errors, which is further out where few seeds make the standard error itself a guess.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

__all__ = [
    "EQUALITY_Z",
    "MIN_SEEDS",
    "Assumption",
    "Judgement",
    "Outcome",
    "judge_above",
    "judge_equality",
    "judge_every_sample",
    "judge_margin",
    "judge_sampled_above",
    "judge_sampled_equality",
    "judge_sampled_margin",
    "simultaneous_z",
    "standard_error",
    "worst",
]

FloatArray = NDArray[np.float64]

MIN_SEEDS = 8
"""Fewer independent seeds than this never decide a claim: a standard error from them is itself a guess."""

EQUALITY_Z = 4.0
"""Standard errors within which a sampled mean must lie of its prediction."""

FALSE_ALARM = 1e-4
"""Chance alpha that noise alone decides one sampled comparison, over all its layers together."""


class Outcome(StrEnum):
    """Outcome of a check; a claim is never called true because the simulation was too noisy to refute it."""

    HOLDS = "HOLDS"
    VIOLATED = "VIOLATED"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True)
class Assumption:
    """One assumption of a claim: `holds` is None where the samples do not decide it (noise or too few seeds)."""

    name: str
    text: str
    holds: bool | None = None
    layer: int | None = None

    @property
    def state(self) -> str:
        """Say in a word or two what was found."""
        where = "" if self.layer is None else f" (first at layer {self.layer})"
        return {None: "undecided", True: "holds", False: "broken"}[self.holds] + where

    def __str__(self) -> str:
        return f"{self.name}: {self.text}: {self.state}"


@dataclass(frozen=True)
class Judgement:
    """A verdict with the numbers behind it.

    Attributes
    ----------
    verdict : Outcome
    predicted, estimated : float
        The claimed and the found number; for margins, the claimed limit and the found value at the layer of least
        evidence.
    standard_error : float
        Of estimated - predicted; 0 for exact arithmetic, NaN where there is none: one seed, or a largest value.
    layer : int or None
        First layer that violates the claim, else the first that leaves it undecided.
    n_samples : int
        Independent seeds; 0 for exact arithmetic.
    """

    verdict: Outcome
    predicted: float
    estimated: float
    standard_error: float = 0.0
    layer: int | None = None
    n_samples: int = 0


def worst(verdicts: list[Outcome]) -> Outcome:
    """Return VIOLATED if any is, else INCONCLUSIVE if any is, else HOLDS."""
    for verdict in (Outcome.VIOLATED, Outcome.INCONCLUSIVE):
        if verdict in verdicts:
            return verdict
    return Outcome.HOLDS


def judge_equality(predicted: float, estimated: float, *, rtol: float) -> Judgement:
    """Judge two deterministic numbers: HOLDS if abs(estimated - predicted) <= rtol abs(predicted)."""
    same = abs(estimated - predicted) <= rtol * abs(predicted)
    return Judgement(Outcome.HOLDS if same else Outcome.VIOLATED, float(predicted), float(estimated))


def judge_margin(limits: ArrayLike, values: ArrayLike, layers: ArrayLike) -> Judgement:
    """Judge the strict claim values < limits in exact arithmetic.

    Parameters
    ----------
    limits, values, layers : (n,) arrays
        Claimed upper limit, value, and the layer number of each.
    """
    limit, value = np.broadcast_arrays(np.asarray(limits, float), np.asarray(values, float))
    margin = np.atleast_1d(limit - value)
    broken = ~(margin > 0)
    at = int(np.argmax(broken)) if broken.any() else int(np.argmin(margin))
    layer = int(np.atleast_1d(layers)[at]) if broken.any() else None
    verdict = Outcome.VIOLATED if broken.any() else Outcome.HOLDS
    return Judgement(verdict, float(np.atleast_1d(limit)[at]), float(np.atleast_1d(value)[at]), layer=layer)


def judge_above(limits: ArrayLike, values: ArrayLike, layers: ArrayLike) -> Judgement:
    """Judge the strict claim values > limits in exact arithmetic, see `judge_margin`."""
    return _mirrored(judge_margin(np.negative(limits), np.negative(values), layers))


def _mirrored(found: Judgement) -> Judgement:
    return replace(found, predicted=-found.predicted, estimated=-found.estimated)


def simultaneous_z(n_seeds: int, n_layers: int) -> float:
    """Return the number of standard errors that decides a layer, Bonferroni over layers, Student's t over seeds."""
    return float(stats.t.isf(FALSE_ALARM / (2 * n_layers), max(n_seeds - 1, 1)))


def judge_sampled_margin(limits: ArrayLike, values: ArrayLike, layers: ArrayLike) -> Judgement:
    """Judge values < limits from independent seeds, simultaneously over layers.

    Parameters
    ----------
    limits, values : (n_seeds, n_layers) arrays
        Paired by seed: the noise that both share cancels in the margin limits - values.
    layers : (n_layers,) int array
    """
    limit, value = np.broadcast_arrays(np.asarray(limits, float), np.asarray(values, float))
    n_seeds, n_layers = value.shape
    margin = limit - value
    mean, error = margin.mean(axis=0), standard_error(margin)
    if n_seeds < MIN_SEEDS:
        verdict, at = Outcome.INCONCLUSIVE, 0
    else:
        z = simultaneous_z(n_seeds, n_layers)
        # a margin of exactly zero without noise is no strict inequality: violated, not undecided
        violated = (mean < -z * error) | ((error == 0) & (mean <= 0))
        undecided = ~violated & ~(mean > z * error)
        if violated.any():
            verdict, at = Outcome.VIOLATED, int(np.argmax(violated))
        elif undecided.any():
            verdict, at = Outcome.INCONCLUSIVE, int(np.argmax(undecided))
        else:
            verdict, at = Outcome.HOLDS, int(np.argmin(mean))
    layer = None if verdict is Outcome.HOLDS else int(np.asarray(layers)[at])
    found = (float(limit[:, at].mean()), float(value[:, at].mean()), float(error[at]))
    return Judgement(verdict, *found, layer=layer, n_samples=n_seeds)


def judge_sampled_above(limits: ArrayLike, values: ArrayLike, layers: ArrayLike) -> Judgement:
    """Judge values > limits from independent seeds, see `judge_sampled_margin`."""
    return _mirrored(judge_sampled_margin(np.negative(limits), np.negative(values), layers))


def judge_every_sample(limit: float, largest: ArrayLike) -> Judgement:
    """Judge the claim that everything drawn stays below `limit`: one sample that does not refutes it.

    Parameters
    ----------
    largest : (n_seeds,) array
        Largest value that each independent seed drew.
    """
    value = np.asarray(largest, float)
    if not (value < limit).all():
        verdict = Outcome.VIOLATED
    else:
        verdict = Outcome.HOLDS if value.size >= MIN_SEEDS else Outcome.INCONCLUSIVE
    return Judgement(verdict, float(limit), float(value.max()), float("nan"), n_samples=value.size)


def judge_sampled_equality(predicted: float, values: ArrayLike, *, largest_error: float) -> Judgement:
    """Judge whether the mean of `values` is `predicted`.

    Parameters
    ----------
    values : (n_seeds,) array
        Independent estimates.
    largest_error : float
        Standard error above which agreement proves nothing and the verdict is INCONCLUSIVE.
    """
    value = np.asarray(values, float)
    error = float(standard_error(value[:, None])[0])
    mean, n_seeds = float(value.mean()), value.size
    distance = abs(mean - predicted)
    if n_seeds < MIN_SEEDS:
        verdict = Outcome.INCONCLUSIVE
    elif distance > max(EQUALITY_Z, simultaneous_z(n_seeds, 1)) * error:
        verdict = Outcome.VIOLATED
    else:
        agrees = distance <= EQUALITY_Z * error and error <= largest_error
        verdict = Outcome.HOLDS if agrees else Outcome.INCONCLUSIVE
    return Judgement(verdict, float(predicted), mean, error, n_samples=n_seeds)


def standard_error(samples: FloatArray) -> FloatArray:
    """Return the standard error of the mean over the first axis, NaN for a single sample."""
    n_seeds = samples.shape[0]
    if n_seeds < 2:
        return np.full(samples.shape[1:], np.nan)
    return np.asarray(samples.std(axis=0, ddof=1) / math.sqrt(n_seeds))
