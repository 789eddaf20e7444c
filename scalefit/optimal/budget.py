"""What the next model may cost, in training and where it is served, and the shapes that this leaves.

A served model costs memory of weights and cache, and time of a generated token,

    bytes   = b_w N + b_c C_kv T B                                                             (1)
    seconds = bytes / bandwidth + l t_layer                                                     (2)

with N parameters, C_kv cached numbers per token of context, T tokens of context, B sequences at once and l layers.
Equation (2) is the time to read everything once, which bounds decoding at small batches (Pope et al. 2022,
section 2), plus a fixed time per layer that the next layer waits for. It leaves arithmetic and networks out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError
from scalefit.ingest.numbers import Locale, parse_number
from scalefit.optimal.counts import BLOCKS, Count, parse_settings
from scalefit.optimal.sizes import Posynomial, Size, add_sizes

__all__ = ["Budget", "Limit", "Serving", "Space", "parse_budgets", "parse_serving", "parse_values", "read_number"]

Array = NDArray[np.float64]
Range = tuple[float, float]

MOST_VALUES = 100_000


@dataclass(frozen=True)
class Budget:
    """Limits of the next model; at least one of the first four is needed.

    Parameters
    ----------
    params : float, optional
        Most parameters.
    flops : float, optional
        Training compute, floating-point operations; it is spent whole.
    memory : float, optional
        Most bytes where the model is served.
    latency : float, optional
        Most seconds per generated token.
    tokens : float, optional
        Training tokens. Left out, they follow from the compute; without compute the loss is that of
        unlimited tokens.

    Raises
    ------
    OptionError
        If a limit is not a positive number or there is none.

    Examples
    --------
    >>> Budget(params=1e9).given
    {'params': 1000000000.0}
    """

    params: float | None = None
    flops: float | None = None
    memory: float | None = None
    latency: float | None = None
    tokens: float | None = None

    def __post_init__(self) -> None:
        for name, value in self.given.items():
            if not (math.isfinite(value) and value > 0):
                raise OptionError(f"the budget {name} is {value:g} and must be a positive number")
        if not self.given.keys() - {"tokens"}:
            raise OptionError("no budget is given; give params, flops, memory or latency")

    @property
    def given(self) -> dict[str, float]:
        """The limits that are set."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}

    @property
    def main(self) -> str:
        """The limit against which exponents are taken: compute where it is given, else the first."""
        return "flops" if self.flops is not None else next(iter(self.given))

    def times(self, factor: float) -> Budget:
        """The same with the main limit multiplied."""
        return replace(self, **{self.main: getattr(self, self.main) * factor})

    def __str__(self) -> str:
        return ", ".join(f"{name} {value:.6g}" for name, value in self.given.items())


@dataclass(frozen=True)
class Serving:
    """Where and how a model is served.

    Parameters
    ----------
    bytes_per_param, bytes_per_cached : float
        2 for 16-bit numbers.
    context : float
        Tokens of context held in the cache of each sequence.
    batch : float
        Sequences decoded at once.
    bandwidth : float
        Bytes read per second.
    layer_seconds : float
        Time per layer that does not shrink with its width, seconds.

    Examples
    --------
    >>> from scalefit.optimal.counts import BLOCKS
    >>> round(Serving(context=8192).memory(BLOCKS)(4096, 32).item() / 1e9, 2)
    17.18
    """

    bytes_per_param: float = 2.0
    bytes_per_cached: float = 2.0
    context: float = 0.0
    batch: float = 1.0
    bandwidth: float = 2e12
    layer_seconds: float = 1e-5

    def __post_init__(self) -> None:
        for f in fields(self):
            value, zero = getattr(self, f.name), f.name in ("context", "layer_seconds")
            if not (math.isfinite(value) and (value > 0 or (zero and value == 0))):
                raise OptionError(f"serving: {f.name} is {value:g} and must be {'zero or ' if zero else ''}positive")

    def __str__(self) -> str:
        return ", ".join(f"{f.name}={getattr(self, f.name):g}" for f in fields(self))

    def memory(self, count: Count) -> Size:
        """Bytes of weights and cache, equation (1)."""
        weights = count.params.scaled(self.bytes_per_param)
        if self.context == 0:
            return weights
        return add_sizes([weights, count.cache.scaled(self.bytes_per_cached * self.context * self.batch)])

    def latency(self, count: Count) -> Size:
        """Seconds per generated token, equation (2)."""
        reading = self.memory(count).scaled(1 / self.bandwidth)
        if self.layer_seconds == 0:
            return reading
        return add_sizes([reading, Posynomial(((self.layer_seconds, 0, 1),))])


@dataclass(frozen=True)
class Limit:
    """size(width, depth) <= bound."""

    name: str
    size: Size
    bound: float

    def excess(self, v: Array, u: Array) -> Array:
        """ln(size / bound): positive where the limit is broken."""
        return self.size.log(v, u) - math.log(self.bound)


@dataclass(frozen=True)
class Space:
    """Everything about the next model that does not depend on the law.

    Parameters
    ----------
    count : Count
    serving : Serving
    width, depth, tokens : (float, float)
        Ranges to stay within.
    """

    count: Count = BLOCKS
    serving: Serving = field(default_factory=Serving)
    width: Range = (1.0, 1e8)
    depth: Range = (1.0, 1e6)
    tokens: Range = (1.0, 1e30)

    def __post_init__(self) -> None:
        for name in ("width", "depth", "tokens"):
            low, high = getattr(self, name)
            if not (0 < low <= high and math.isfinite(high)):
                raise OptionError(f"the range of {name} is {low:g} to {high:g}; it needs 0 < lower <= upper")

    def limits(self, budget: Budget) -> tuple[Limit, ...]:
        """The limits on width and depth that a budget means.

        Compute is one only at fixed tokens, D F(m, l) <= C, and otherwise through the fewest tokens allowed.
        """
        limits = []
        if budget.params is not None:
            limits.append(Limit("params", self.count.params, budget.params))
        if budget.memory is not None:
            limits.append(Limit("memory", self.serving.memory(self.count), budget.memory))
        if budget.latency is not None:
            limits.append(Limit("latency", self.serving.latency(self.count), budget.latency))
        if budget.flops is not None:
            fewest = self.tokens[0] if budget.tokens is None else budget.tokens
            limits.append(Limit("flops", self.count.training_flops, budget.flops / fewest))
        v, u = np.log(self.width[0]), np.log(self.depth[0])
        for limit in limits:
            if limit.excess(v, u) > 0:
                smallest = float(limit.size(self.width[0], self.depth[0]))
                raise OptionError(
                    f"the budget {limit.name} is {limit.bound:.4g}, below the {smallest:.4g} of the smallest model "
                    f"allowed (width {self.width[0]:g}, depth {self.depth[0]:g}, count {self.count.name}); "
                    "raise the budget, or lower the ranges"
                )
        return tuple(limits)

    @property
    def convex(self) -> bool:
        """Whether every size is known to be convex in logarithms."""
        sizes = (self.count.params, self.count.training_flops, self.serving.memory(self.count))
        return all(size.convex for size in sizes)


def parse_serving(text: str) -> Serving:
    """Read settings such as ``"context=8192,batch=4,bandwidth=3.35e12"``."""
    return Serving(**parse_settings(text, Serving(), "serving"))


def parse_budgets(text: str, name: str) -> tuple[float, ...]:
    """Read budgets as `parse_values` does.

    Examples
    --------
    >>> parse_budgets("1B:1e11:3", "params")
    (1000000000.0, 10000000000.0, 100000000000.0)
    """
    return parse_values(text, f"budget {name}")


def parse_values(text: str, what: str) -> tuple[float, ...]:
    """Read one number, several with commas, or a sweep ``FROM:TO:HOW_MANY`` in equal ratios.

    Parameters
    ----------
    text : str
        Numbers may end in K, M, B or T.
    what : str
        What the numbers are, for complaints.

    Raises
    ------
    OptionError
        If it is none of these.
    """
    parts = text.split(":")
    try:
        if len(parts) == 3:
            low, high, n = read_number(parts[0]), read_number(parts[1]), int(parts[2])
            if not (0 < low <= high and math.isfinite(high) and 2 <= n <= MOST_VALUES):
                raise ValueError
            return tuple(np.logspace(math.log10(low), math.log10(high), n).tolist())
        if len(parts) == 1:
            return tuple(read_number(part) for part in text.split(","))
    except ValueError:
        pass
    raise OptionError(
        f"{what} {text!r} is not understood; write a number such as 7e9 or 7B, numbers with commas, or a sweep "
        f"FROM:TO:HOW_MANY of 2 to {MOST_VALUES} such as 1e9:1e12:13"
    )


def read_number(text: str) -> float:
    """Read a number such as 7e9 or 7B.

    Raises
    ------
    ValueError
        If it is no finite number.
    """
    value = parse_number(text.strip(), Locale())
    if value is None or math.isnan(value):
        raise ValueError(text)
    return value
