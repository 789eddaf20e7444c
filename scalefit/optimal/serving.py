"""What a model costs where it is served: memory of weights and cache, time of a generated token.

    bytes   = b_w N + b_c C_kv T B                                                             (1)
    seconds = bytes / bandwidth + l t_layer                                                     (2)

with N parameters, C_kv cached numbers per token of context, T tokens of context, B sequences at once and l layers.
Equation (2) is the time to read everything once, which bounds decoding at small batches (Pope et al. 2022,
section 2), plus a fixed time per layer that the next layer waits for. It leaves arithmetic and networks out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from scalefit.errors import OptionError
from scalefit.expressions import did_you_mean
from scalefit.optimal.counts import Count
from scalefit.optimal.sizes import Posynomial, Size, add_sizes

__all__ = ["Serving", "parse_serving"]


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


def parse_serving(text: str) -> Serving:
    """Read settings such as ``"context=8192,batch=4,bandwidth=3.35e12"``.

    Raises
    ------
    OptionError
        If a setting is unknown or not a number.
    """
    known = [f.name for f in fields(Serving)]
    values = {}
    for setting in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (part.strip() for part in setting.partition("="))
        if name not in known:
            raise OptionError(
                f"serving: there is no setting {name!r}{did_you_mean(name, known)}; there are {', '.join(known)}"
            )
        try:
            values[name] = float(value)
        except ValueError:
            raise OptionError(f"serving: {name} is {value!r} and must be a number") from None
    return Serving(**values)
