"""Values that are possible and rarely meant: each gives a warning with a stable code."""

from __future__ import annotations

import math

import numpy as np

from scalefit.errors import ScalefitWarning
from scalefit.ingest.table import Table
from scalefit.numbers import show_number

__all__ = ["suspicious"]

FEW_TOKENS = 1e4
"""Below so many training tokens a count is more likely in other units."""

VOCABULARY = 1e6
"""No tokenizer in use has more entries; a loss above its logarithm is worse than guessing."""


def suspicious(table: Table) -> tuple[ScalefitWarning, ...]:
    """Return warnings about the values of the known roles."""
    found = (_few_tokens(table), _high_loss(table))
    return tuple(warning for warning in found if warning is not None)


def _few_tokens(table: Table) -> ScalefitWarning | None:
    tokens = table.columns.get("tokens")
    if tokens is None:
        return None
    few = np.flatnonzero((tokens < FEW_TOKENS) & (tokens > 0))
    if not len(few):
        return None
    i, low, high = int(few[0]), float(np.nanmin(tokens)), float(np.nanmax(tokens))
    return ScalefitWarning(
        "tokens-small",
        f"tokens is below 10000 in {len(few)} rows, first in {table.places.name(i)}: {show_number(tokens[i])}; "
        f"the column runs from {show_number(low)} to {show_number(high)}.",
        "If it counts billions or is a logarithm, say --column 'tokens=tokens*1e9' or --column 'tokens=10**tokens'.",
        {"rows": len(few), "line": int(table.places.lines[i]), "min": low, "max": high},
    )


def _high_loss(table: Table) -> ScalefitWarning | None:
    loss, limit = table.columns["loss"], math.log(VOCABULARY)
    high = np.flatnonzero(loss > limit)
    if not len(high):
        return None
    i = int(high[0])
    seen = f"first in {table.places.name(i)}: {show_number(loss[i])}"
    numbers = {"rows": len(high), "line": int(table.places.lines[i]), "limit": limit}
    if 2 * len(high) > len(loss):
        return ScalefitWarning(
            "loss-like-perplexity",
            f"loss is above {limit:.1f} (ln of a vocabulary of 1e6) in {len(high)} of {len(loss)} rows, {seen}.",
            "If it is a perplexity, say --loss-unit perplexity.",
            numbers,
        )
    return ScalefitWarning(
        "loss-above-chance",
        f"loss is above {limit:.1f} (ln of a vocabulary of 1e6) in {len(high)} of {len(loss)} rows, {seen}.",
        f"If these runs diverged, leave them out with --where 'loss < {limit:.1f}'.",
        numbers,
    )
