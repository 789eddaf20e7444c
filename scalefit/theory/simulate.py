"""Monte Carlo of a linear residual stack: laws of its tokens, the same weights and tokens for every norm compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, stats

from scalefit.errors import OptionError
from scalefit.theory.norms import Norm, validate_depth
from scalefit.theory.streams import BlockStatistics

__all__ = [
    "INPUT_LAWS",
    "InputLaw",
    "Recorder",
    "StackSetting",
    "draw_tokens",
    "input_law",
    "seed_generators",
    "simulate_stack",
    "three_point_law",
]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class InputLaw:
    """A law of independent entries, or one that puts a single large entry into each token.

    Attributes
    ----------
    name : str
    distribution : scipy.stats frozen distribution
        Law of an ordinary entry.
    outlier : float
        Size of one extra entry a token, in units of sqrt(width); 0 for none.
    """

    name: str
    distribution: Any
    outlier: float = 0.0

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw entries of shape (..., width)."""
        entries = np.asarray(self.distribution.rvs(size=shape, random_state=rng), dtype=float)
        if self.outlier:
            entries[..., 0] = self.outlier * np.sqrt(shape[-1])
        return entries

    def tanh_second_moment(self, scale: float) -> float:
        """Return E tanh^2(scale X) of an ordinary entry X, by adaptive quadrature.

        An independent route to `moments.tanh_second_moment`.
        """

        def weighted(x: float) -> float:
            return float(np.tanh(scale * x) ** 2 * self.distribution.pdf(x))

        # symmetric laws: twice the half line, cut where tanh saturates so that no feature is missed
        knee = 4.0 / scale
        near = min(4.0, knee)
        ends = ((0.0, near), (near, near + knee), (near + knee, np.inf))
        pieces = [integrate.quad(weighted, *piece, epsabs=1e-13, epsrel=1e-11, limit=200) for piece in ends]
        return 2.0 * float(sum(value for value, _ in pieces))


def three_point_law(kappa: float) -> tuple[FloatArray, FloatArray]:
    """Return values and probabilities of the law for which Chebyshev's inequality is an equality.

    P(X = 0) = 1 - 1/kappa^2 and P(X = +-kappa) = 1/(2 kappa^2): mean 0, variance 1, P(abs(X) >= kappa) = 1/kappa^2.
    """
    tail = 0.5 / kappa**2
    return np.array([-kappa, 0.0, kappa]), np.array([tail, 1.0 - 2.0 * tail, tail])


INPUT_LAWS = {
    law.name: law
    for law in (
        InputLaw("normal", stats.norm()),
        InputLaw("laplace", stats.laplace(scale=1 / np.sqrt(2))),
        InputLaw("student-t3", stats.t(3, scale=1 / np.sqrt(3))),
        InputLaw("cauchy", stats.cauchy()),
        InputLaw("one-outlier", stats.norm(), outlier=1.0),
    )
}


def input_law(name: str) -> InputLaw:
    """Return a law of `INPUT_LAWS` by name."""
    if name not in INPUT_LAWS:
        raise OptionError(f"input law {name!r} is unknown; use one of {', '.join(INPUT_LAWS)}")
    return INPUT_LAWS[name]


SEEDS_AT_ONCE = 8
"""Seeds per batch: large enough to vectorise over, small enough to stay in the cache."""


@dataclass(frozen=True)
class StackSetting:
    """A stack x_{l+1} = x_l + f_l(n_l(x_l)) with linear f_l, one sublayer a block.

    Attributes
    ----------
    depth, width, tokens : int
        Blocks L, features d, independent tokens a seed.
    start, gain : float
        v_1 = E mean x_1^2, and g: weights are independent normal with variance g / d.
    alignment : mapping from norm name to float
        rho by norm, 0 where absent. f = sqrt(V) (rho x / rms(x) + sqrt(1 - rho^2) noise), with the V of rho = 0.
    law, mean : str, float
        Law of the embedding's entries (`INPUT_LAWS`), and its mean in standard deviations.
    """

    depth: int
    width: int = 128
    tokens: int = 32
    start: float = 1.0
    gain: float = 1.0
    alignment: Mapping[str, float] = field(default_factory=dict)
    law: str = "normal"
    mean: float = 0.0

    def __post_init__(self) -> None:
        validate_depth(self.depth)
        input_law(self.law)
        if min(self.width, self.tokens) < 2 or not (self.start > 0 and self.gain > 0):
            raise OptionError(
                f"width is {self.width}, tokens {self.tokens}, start {self.start}, gain {self.gain}: "
                "width and tokens must be at least 2, start and gain positive"
            )
        if any(abs(rho) > 1 for rho in self.alignment.values()):
            raise OptionError(f"alignments are {dict(self.alignment)} and must lie in [-1, 1]")


def seed_generators(seed: int, n_seeds: int) -> list[np.random.Generator]:
    """Return one independent generator a seed; the k-th does not depend on how many there are."""
    if n_seeds < 1:
        raise OptionError(f"the number of seeds is {n_seeds} and must be at least 1")
    return [np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(k,))) for k in range(n_seeds)]


def draw_tokens(rng: np.random.Generator, setting: StackSetting) -> FloatArray:
    """Draw (tokens, width) embeddings, each scaled to mean square `start` so that v_1 carries no noise."""
    x = input_law(setting.law).sample(rng, (setting.tokens, setting.width)) + setting.mean
    square = np.mean(x**2, axis=-1, keepdims=True)
    return np.asarray(x * np.sqrt(setting.start / square))


class Recorder:
    """Collects per-site means while a batch of seeds passes through the network."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        n_norms, n_seeds, n_sites = shape
        self.variance = np.empty((n_norms, n_seeds, n_sites + 1))
        self.second_moment, self.increment, self.inner = (np.empty(shape) for _ in range(3))
        self.ratio = np.ones(shape)

    def site(self, at: int, rows: slice, x: FloatArray, normed: FloatArray, added: FloatArray) -> None:
        """Record a site for arrays of shape (n_norms, batch, tokens, width)."""
        self.variance[:, rows, at] = _mean_product(x, x)
        self.second_moment[:, rows, at] = _mean_product(normed, normed)
        self.increment[:, rows, at] = _mean_product(added, added)
        self.inner[:, rows, at] = _mean_product(x, added)

    def finish(self, rows: slice, x: FloatArray) -> None:
        """Record the stream after the last site."""
        self.variance[:, rows, -1] = _mean_product(x, x)

    def statistics(self, block: NDArray[np.int64], index: int) -> BlockStatistics:
        """Return the sample of one norm."""
        V = self.increment[index]
        return BlockStatistics(
            block=block,
            variance=self.variance[index],
            second_moment=self.second_moment[index],
            increment_variance=V,
            alignment=self.inner[index] / np.sqrt(self.variance[index, :, :-1] * V),
            variance_ratio=self.ratio[index],
        )


def _mean_product(x: FloatArray, y: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("nstd,nstd->ns", x, y) / (x.shape[-1] * x.shape[-2]))


def simulate_stack(
    norms: Sequence[Norm], setting: StackSetting, *, n_seeds: int, seed: int = 0
) -> dict[str, BlockStatistics]:
    """Simulate the stack under every norm, with the same weights and tokens seed by seed.

    Returns
    -------
    dict from norm name to BlockStatistics
        Arrays of shape (n_seeds, depth): differences between norms, taken seed by seed, have far smaller errors than
        the norms themselves.
    """
    generators = seed_generators(seed, n_seeds)
    record = Recorder((len(norms), n_seeds, setting.depth))
    for first in range(0, n_seeds, SEEDS_AT_ONCE):
        batch = generators[first : first + SEEDS_AT_ONCE]
        _simulate_batch(norms, setting, batch, record, slice(first, first + len(batch)))
    block = np.arange(1, setting.depth + 1)
    return {norm.name: record.statistics(block, i) for i, norm in enumerate(norms)}


def _simulate_batch(
    norms: Sequence[Norm],
    setting: StackSetting,
    generators: list[np.random.Generator],
    record: Recorder,
    rows: slice,
) -> None:
    tokens = np.stack([draw_tokens(rng, setting) for rng in generators])
    x = np.repeat(tokens[None], len(norms), axis=0)
    d = setting.width
    scale = np.sqrt(setting.gain / d)
    for block in range(1, setting.depth + 1):
        weights = scale * np.stack([rng.standard_normal((d, d)) for rng in generators])
        normed = np.stack([norm.apply(x[i], block) for i, norm in enumerate(norms)])
        added = normed @ weights
        for i, norm in enumerate(norms):
            added[i] = _finish_update(norm, x[i], added[i], setting.alignment.get(norm.name, 0.0))
        record.site(block - 1, rows, x, normed, added)
        x = x + added
    record.finish(rows, x)


def _finish_update(norm: Norm, x: FloatArray, update: FloatArray, rho: float) -> FloatArray:
    """Normalise the output where the norm does, then turn the update towards the stream by the alignment."""
    if norm.normalises_output:
        update = update / np.sqrt(np.mean(update**2, axis=-1, keepdims=True))
    if rho == 0:
        return update
    square = np.mean(x**2, axis=-1, keepdims=True)
    size = np.sqrt(np.mean(update**2, axis=(-2, -1), keepdims=True) / square)
    return np.asarray(rho * size * x + np.sqrt(1 - rho**2) * update)
