"""Remarks on a table: roles that no column plays with what the file offers instead, and values rarely meant."""

from __future__ import annotations

import difflib
import math
import shlex
from collections import Counter
from dataclasses import dataclass

import numpy as np

from scalefit.errors import ScalefitWarning
from scalefit.expressions import reference
from scalefit.ingest.names import HINTS, LETTERS, SYNONYMS, normal_name, suggest_pattern
from scalefit.ingest.table import Table
from scalefit.numbers import show_number

__all__ = ["missing_roles", "suspicious"]

LEAST = {"tokens": 1e4, "params": 1e3, "flops": 1e6}
"""Smaller counts are more likely in other units, or logarithms."""

VOCABULARY = 1e6
"""No tokenizer in use has more entries; a loss above its logarithm is worse than guessing."""

_FLAGS = frozenset(["holdout", "held_out", "hold_out", "heldout"])
_TRUE = frozenset(["true", "yes", "1", "1.0", "holdout", "y"])
_SPLITS = frozenset(["split", "subset", "partition", "fold", "usage", "set"])
_HELD_OUT = frozenset(["holdout", "held-out", "heldout", "hold-out", "test", "val", "valid", "validation", "eval"])
_SAMPLED = 500
_STEPS = frozenset(["step", "steps", "iter", "iters", "iteration", "iterations", "global_step", "train_step"])
_PER_STEP = frozenset(["batch_tokens", "tokens_per_batch", "tokens_per_step", "tokens_per_iter", "batch_size_tokens"])

_FACTORS = {
    **dict.fromkeys(["k", "thousand", "thousands"], "1e3"),
    **dict.fromkeys(["m", "mn", "million", "millions"], "1e6"),
    **dict.fromkeys(["b", "bn", "g", "billion", "billions"], "1e9"),
    **dict.fromkeys(["t", "tn", "trillion", "trillions"], "1e12"),
}
"""Word of a name -> what a count in that unit is multiplied by."""

_LOGS = {"log10": "10**", "log2": "2**", "log": "exp", "ln": "exp"}
_LAWS = (
    "width+depth+tokens",
    "params+tokens",
    "width+tokens",
    "depth+tokens",
    "width+depth",
    "tokens",
    "params",
    "flops",
)


def missing_roles(table: Table) -> tuple[ScalefitWarning, ...]:
    """Return a warning for each role that is missing where the file has a likely source.

    Where names alone suggest several roles, or a law other than the usual one, the remedy is the whole command.
    """
    shape = {"width", "depth"} <= set(table.columns)
    roles = ("width", "depth", "tokens") if shape else ("width", "depth", "tokens", "params", "flops")
    found = {role: source_of_role(table, role) for role in roles if role not in table.columns}
    named = {role: source for role, source in found.items() if source is not None and source.column}
    columns = {*table.columns, *named}
    law = next((law for law in _LAWS if set(law.split("+")) <= columns), None)
    whole = ""
    if law is not None and law != _LAWS[0] and set(law.split("+")) & set(named):
        options = [named[role].option for role in law.split("+") if role in named]
        whole = f"If so, say --law {law} {' '.join(options)}."
    warnings = []
    for role, source in found.items():
        if source is None:
            continue
        action = whole if law is not None and role in law.split("+") and role in named and whole else source.action
        message = f"{table.origin.name} has no column {role}, but {source.seen}."
        warnings.append(ScalefitWarning("role-not-found", message, action, {"role": role}))
    return tuple(warnings)


@dataclass(frozen=True)
class _Source:
    """Where a missing role may come from: what was seen, the option that says so, the column if a name says it."""

    seen: str
    option: str
    column: str = ""

    @property
    def action(self) -> str:
        return f"{'If so, say' if 'may be meant' in self.seen else 'Say'} {self.option}."


def source_of_role(table: Table, role: str) -> _Source | None:
    """Return what may give a role: a name with a unit, a logarithm, a letter, steps, run names, a near name."""
    names = [table.origin.columns.get(name, name) for name in table.columns if name not in (*SYNONYMS, "loss")]
    for name in names:
        words = normal_name(name).split("_")
        log = next((call for word, call in _LOGS.items() if words[0] == word), "")
        factor = "" if log else next((_FACTORS[word] for word in words if word in _FACTORS), "")
        bare = "_".join(words[1:] if log else [word for word in words if word not in _FACTORS or not factor])
        means = LETTERS.get(name.strip()) == role or HINTS.get(bare) == role or bare in SYNONYMS[role]
        if means and log:
            call = f"exp({reference(name)})" if log == "exp" else f"{log}{reference(name)}"
            return _Source(f"{name} looks like its logarithm", _column(role, call), name)
        if means:
            unit = f", its unit {factor}" if factor else ""
            definition = f"{reference(name)}*{factor}" if factor else name
            return _Source(f"{name} may be meant{unit}", _column(role, definition), name)
    normal = {normal_name(name): name for name in names}
    if role == "tokens":
        steps, sizes = [n for s, n in normal.items() if s in _STEPS], [n for s, n in normal.items() if s in _PER_STEP]
        if steps and sizes:
            product = f"{reference(steps[0])}*{reference(sizes[0])}"
            return _Source(f"{steps[0]} and {sizes[0]} may give it", _column(role, product))
        if steps:
            return _Source(f"{steps[0]} counts steps", _column(role, f"{reference(steps[0])}*TOKENS_PER_STEP"))
    elif role in ("width", "depth") and "run" in table.texts:
        pattern = suggest_pattern(table.texts["run"].tolist())
        if pattern is not None:
            return _Source("the run names seem to hold it", f"--pattern {shlex.quote(pattern)}")
    near = difflib.get_close_matches(role, list(normal), n=1, cutoff=0.75) or [
        short for short in normal if difflib.get_close_matches(short, SYNONYMS[role], n=1, cutoff=0.85)
    ]
    if near and role in ("width", "depth", "tokens"):
        name = normal[near[0]]
        return _Source(f"{name} may be meant", _column(role, reference(name)), name)
    return None


def _column(role: str, definition: str) -> str:
    """Return the option that defines a role, quoted for a shell."""
    return f"--column {shlex.quote(f'{role}={definition}')}"


def suspicious(table: Table) -> tuple[ScalefitWarning, ...]:
    """Return warnings about the values of the known roles."""
    counts = [small_count(table, role, least) for role, least in LEAST.items()]
    found = (*counts, high_loss(table), held_out(table), sampled_history(table))
    return tuple(warning for warning in found if warning is not None)


def held_out(table: Table) -> ScalefitWarning | None:
    """Return a warning about a column that keeps rows apart: a fit takes them all."""
    for name, cells in (*table.texts.items(), *table.columns.items()):
        flag = normal_name(name).removeprefix("is_") in _FLAGS
        if not flag and normal_name(name) not in _SPLITS:
            continue
        words = Counter(show_number(cell) if isinstance(cell, float) else cell for cell in cells.tolist())
        apart = [word for word in words if word.lower() in (_TRUE if flag else _HELD_OUT)]
        kept = [word for word in words if word not in apart]
        if not apart or not kept or len(words) > 6:
            continue
        n = sum(words[word] for word in apart)
        value = f"{kept[0]!r}" if name in table.texts else kept[0]
        condition = f"{reference(name)} == {value}"
        said = f"{name} of {table.origin.name} says {' or '.join(apart)} in {n} of {len(table)} rows"
        quoted = shlex.quote(condition) if set('"$`\\!') & set(condition) else f'"{condition}"'
        action = f"Keep those rows out of a fit with --where {quoted}."
        return ScalefitWarning("held-out-rows", f"{said}; a fit takes all rows.", action, {"column": name, "rows": n})
    return None


def sampled_history(table: Table) -> ScalefitWarning | None:
    """Return a remark where runs have exactly 500 rows: a tracker's export then is a sample of the history."""
    if "run" not in table.texts or len(table) < _SAMPLED:
        return None
    n = sum(count == _SAMPLED for count in Counter(table.texts["run"].tolist()).values())
    if not n:
        return None
    message = (
        f"{n} {'run has' if n == 1 else 'runs have'} exactly {_SAMPLED} rows: trackers export a sample of so many."
    )
    action = "Export the full history (scan_history of Weights & Biases) if the last rows count."
    return ScalefitWarning("sampled-history", message, action, {"runs": n})


def small_count(table: Table, role: str, least: float) -> ScalefitWarning | None:
    """Return a warning about tokens, params or flops that no run has: a logarithm, or another unit."""
    values = table.columns.get(role)
    if values is None or (role != "tokens" and table.origin.format == "memory"):
        return None
    few = np.flatnonzero((values < least) & (values > 0))
    if not len(few):
        return None
    i, low, high = int(few[0]), float(np.nanmin(values)), float(np.nanmax(values))
    numbers = {"role": role, "rows": len(few), "line": int(table.places.lines[i]), "min": low, "max": high}
    ranges = (
        f"{role} is below {show_number(least)} in {len(few)} rows, first in {table.places.name(i)}: "
        f"{show_number(values[i])}; the column runs from {show_number(low)} to {show_number(high)}"
    )
    source = reference(table.origin.columns.get(role, role))
    if role == "flops" and low >= 8 and high <= 40:
        action = f"Say {_column(role, f'10**{source}')}."
        return ScalefitWarning("flops-small", f"{ranges}: it looks like log10 of the count.", action, numbers)
    units = "quintillions (1e18)" if role == "flops" else "billions"
    scaled, power = _column(role, f"{source}*{'1e18' if role == 'flops' else '1e9'}"), _column(role, f"10**{source}")
    return ScalefitWarning(
        f"{role}-small", f"{ranges}.", f"If it counts {units} or is a logarithm, say {scaled} or {power}.", numbers
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
