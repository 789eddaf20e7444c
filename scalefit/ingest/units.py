"""Units of the loss: everything becomes nats, once, and the result says so."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from scalefit.errors import OptionError
from scalefit.ingest.table import FloatArray

__all__ = ["UNITS", "to_nats"]

UNITS: Mapping[str, str] = {
    "nats": "nats per token",
    "bits": "bits per token; times ln 2",
    "perplexity": "exp of nats per token; its logarithm is taken",
    "nats-per-byte": "nats per byte; times B with nats-per-byte:B for B bytes a token",
    "bits-per-byte": "bits per byte; times ln 2, and times B with bits-per-byte:B for B bytes a token",
}
"""Name of a unit, as in `--loss-unit` -> what it means."""

_ALIASES = {"nat": "nats", "bit": "bits", "ppl": "perplexity", "bpb": "bits-per-byte", "npb": "nats-per-byte"}


def to_nats(loss: FloatArray, unit: str) -> tuple[FloatArray, str]:
    """Convert a loss to nats.

    Parameters
    ----------
    loss : (n,) float array
    unit : str
        One of `UNITS`, or an alias; the units per byte take ``:B``, the mean number of bytes a token.

    Returns
    -------
    loss : (n,) float array
        In nats per token, or in nats per byte when B is unknown.
    unit : str
        "nats per token" or "nats per byte".
    """
    name, _, count = unit.lower().partition(":")
    name = _ALIASES.get(name, name)
    per_byte = name.endswith("-per-byte")
    if name not in UNITS or (count and not per_byte):
        raise OptionError(f"loss unit {unit!r} is unknown; the units are {', '.join(UNITS)}")
    if name == "perplexity":
        with np.errstate(all="ignore"):
            return np.log(loss), "nats per token"
    scale = math.log(2.0) if name.startswith("bits") else 1.0
    if not per_byte:
        return (loss if scale == 1.0 else loss * scale), "nats per token"
    if not count:
        return (loss if scale == 1.0 else loss * scale), "nats per byte"
    return loss * (scale * _bytes_per_token(unit, count)), "nats per token"


def _bytes_per_token(unit: str, count: str) -> float:
    try:
        value = float(count)
    except ValueError:
        value = math.nan
    if not 0.1 <= value <= 100.0:
        raise OptionError(f"loss unit {unit!r}: bytes per token is {count!r} and must be between 0.1 and 100")
    return value
