"""Remarks on a table: roles that no column plays with what the file offers instead, and values rarely meant."""

from __future__ import annotations

import difflib
import math
import re
import shlex

import numpy as np

from scalefit.errors import ScalefitWarning
from scalefit.expressions import reference
from scalefit.ingest.names import SYNONYMS, normal_name, suggest_pattern
from scalefit.ingest.table import Table
from scalefit.numbers import show_number

__all__ = ["missing_roles", "suspicious"]

FEW_TOKENS = 1e4
"""Below so many training tokens a count is more likely in other units."""

VOCABULARY = 1e6
"""No tokenizer in use has more entries; a loss above its logarithm is worse than guessing."""

_STEPS = frozenset(["step", "steps", "iter", "iters", "iteration", "iterations", "global_step", "train_step"])
_PER_STEP = frozenset(["batch_tokens", "tokens_per_batch", "tokens_per_step", "tokens_per_iter", "batch_size_tokens"])

_FACTORS = {
    **dict.fromkeys(["k", "thousand", "thousands"], "*1e3"),
    **dict.fromkeys(["m", "mn", "million", "millions"], "*1e6"),
    **dict.fromkeys(["b", "bn", "g", "billion", "billions"], "*1e9"),
    **dict.fromkeys(["t", "tn", "trillion", "trillions"], "*1e12"),
}
"""Last word of a name -> what a count in that unit is multiplied by."""


def missing_roles(table: Table) -> tuple[ScalefitWarning, ...]:
    """Return a warning for each of width, depth and tokens that is missing where the file has a likely source."""
    warnings = []
    for role in ("width", "depth", "tokens"):
        if role in table.columns:
            continue
        hint = source_of_role(table, role)
        if hint is not None:
            seen, action = hint
            warnings.append(
                ScalefitWarning(
                    "role-not-found", f"{table.origin.name} has no column {role}, but {seen}.", action, {"role": role}
                )
            )
    return tuple(warnings)


def source_of_role(table: Table, role: str) -> tuple[str, str] | None:
    names = [table.origin.columns.get(name, name) for name in table.columns if name != "loss"]
    normal = {normal_name(name): name for name in names}
    for short, name in normal.items():
        log = re.fullmatch(r"(log10|log2|log|ln)_?(.*)", short)
        if log and log.group(2) in SYNONYMS[role]:
            base = {"log10": "10**", "log2": "2**"}.get(log.group(1))
            call = f"{base}{reference(name)}" if base else f"exp({reference(name)})"
            return f"{name} looks like its logarithm", f"Say {_column(role, call)}."
    if role == "tokens":
        steps, sizes = [n for s, n in normal.items() if s in _STEPS], [n for s, n in normal.items() if s in _PER_STEP]
        if steps and sizes:
            product = f"{reference(steps[0])}*{reference(sizes[0])}"
            return f"{steps[0]} and {sizes[0]} may give it", f"Say {_column(role, product)}."
        if steps:
            return f"{steps[0]} counts steps", f"Say {_column(role, reference(steps[0]) + '*TOKENS_PER_STEP')}."
    elif "run" in table.texts and (pattern := suggest_pattern(table.texts["run"].tolist())) is not None:
        return "the run names seem to hold it", f"Say --pattern {shlex.quote(pattern)}."
    near = difflib.get_close_matches(role, list(normal), n=1, cutoff=0.75) or [
        short for short in normal if difflib.get_close_matches(short, SYNONYMS[role], n=1, cutoff=0.85)
    ]
    if near:
        name = normal[near[0]]
        factor = _FACTORS.get(near[0].rpartition("_")[2], "") if role == "tokens" else ""
        unit = f", its unit {factor[1:]}" if factor else ""
        return f"{name} may be meant{unit}", f"If so, say {_column(role, reference(name) + factor)}."
    return None


def _column(role: str, definition: str) -> str:
    """Return the option that defines a role, quoted for a shell."""
    return f"--column {shlex.quote(f'{role}={definition}')}"


def suspicious(table: Table) -> tuple[ScalefitWarning, ...]:
    """Return warnings about the values of the known roles."""
    found = (few_tokens(table), high_loss(table))
    return tuple(warning for warning in found if warning is not None)


def few_tokens(table: Table) -> ScalefitWarning | None:
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


def high_loss(table: Table) -> ScalefitWarning | None:
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
