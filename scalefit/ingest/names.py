"""What names say: the ones people give to width, depth, tokens, loss and the like, and the numbers in run names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from scalefit.errors import DataError, OptionError

__all__ = [
    "DISGUISED_LOSS",
    "ROLES",
    "SYNONYMS",
    "compile_pattern",
    "groups_of",
    "loss_candidates",
    "normal_name",
    "role_candidates",
    "suggest_pattern",
]

_NAMES = {
    "width": """width d_model dmodel model_dim dim_model hidden_size hidden_dim hidden hidden_width n_embd embed_dim
        embedding_dim embedding_size emb_dim model_width layer_width d_hidden dim breite""",
    "depth": """depth n_layers n_layer nlayers num_layers num_layer num_hidden_layers n_hidden_layers layers
        layer_count model_depth n_blocks num_blocks tiefe""",
    "tokens": """tokens training_tokens train_tokens total_tokens num_tokens n_tokens tokens_seen
        num_input_tokens_seen token_count tokens_total tokens_trained consumed_tokens seen_tokens""",
    "params": """params n_params num_params nparams parameters n_parameters num_parameters param_count
        parameter_count total_params model_params""",
    "flops": """flops train_flops training_flops total_flops flop train_flop training_flop total_flop compute
        train_compute training_compute""",
    "run": """run run_name name model_name experiment experiment_name exp_name model trial run_id uuid lauf""",
}

SYNONYMS: Mapping[str, tuple[str, ...]] = {role: tuple(names.split()) for role, names in _NAMES.items()}
"""Role -> the normalised names that mean it, the usual one first."""

ROLES = (*SYNONYMS, "loss")

_LOSS_WORDS = frozenset(["loss", "nll", "xent", "crossentropy", "verlust"])
_NO_LOSS_WORDS = """std stderr se sem sd var variance min max err error errors scale weight coef coefficient
    ratio aux balance delta diff target initial init ema count n id spike bound bits bit bpb ppl perplexity byte
    bytes log log2 unit name type fn function auxiliary z kl lb router regularization regularisation"""
_NOT_A_LOSS = frozenset(_NO_LOSS_WORDS.split())
DISGUISED_LOSS: Mapping[str, str] = {
    "ppl": "perplexity",
    "perplexity": "perplexity",
    "bpb": "bits-per-byte",
    "bits_per_byte": "bits-per-byte",
    "bits": "bits",
    "loss_bits": "bits",
}
"""Last words of a name that hold the loss in another unit -> that unit."""


_ALONE = frozenset(["name", "model", "trial", "uuid"])
"""Names of a run only as the whole name of a column: `optimizer.name` names no run."""

_OTHER_TOKENS = frozenset(
    ["eval", "val", "valid", "validation", "test", "batch", "per", "params", "param", "loss", "flops"]
)
"""Words before "tokens" that make it something else than the tokens seen in training."""


def normal_name(name: str) -> str:
    """Return a name in lower case with one underscore for every run of other marks."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _last(name: str) -> str:
    """Return the last dotted or slashed part of a name, normalised."""
    return normal_name(re.split(r"[./]", name.rstrip("./ "))[-1])


def role_candidates(names: Sequence[str], role: str) -> list[int]:
    """Return the columns that may play a role (not the loss): the whole name decides before its last part.

    For `run` the best synonym comes first: a label is needed, any will do.
    """
    wanted = SYNONYMS[role]
    for form in (normal_name, _last):
        found = [i for i, name in enumerate(names) if name and form(name) in wanted]
        if form is _last and role == "run":
            found = [i for i in found if _last(names[i]) not in _ALONE]
        elif form is _last and role == "tokens":
            found = [i for i in found if not set(normal_name(names[i]).split("_")) & _OTHER_TOKENS]
        if found:
            if role == "run":
                return sorted(found, key=lambda i: wanted.index(form(names[i])))
            return found
    return []


def loss_candidates(names: Sequence[str]) -> list[int]:
    """Return the columns that look like a loss: a word of the name says so and none says otherwise."""
    found = []
    for i, name in enumerate(names):
        words = set(normal_name(name).split("_"))
        crossed = {"cross", "entropy"} <= words
        if (words & _LOSS_WORDS or crossed) and not words & _NOT_A_LOSS:
            found.append(i)
    return found


MAX_LENGTH = 160
MAX_REPEATS = 5
MAX_WIDE_REPEATS = 2
"""Repeats of anything but digits: the time grows with the length of a name to their number."""

_KNOWN = (
    r"w(?P<width>\d+)-d(?P<depth>\d+)",
    r"w(?P<width>\d+)_d(?P<depth>\d+)",
    r"d(?P<width>\d+)-l(?P<depth>\d+)",
    r"d(?P<width>\d+)_l(?P<depth>\d+)",
    r"width(?P<width>\d+).depth(?P<depth>\d+)",
    r"(?P<width>\d+)x(?P<depth>\d+)",
)
_REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{\d*,\d*\}|\{\d+\})")


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern with named groups that cannot run for ever.

    A repeated group, a back reference, or more than five open-ended repeats could take time exponential in
    the length of a name; no run name needs them, so they are refused.
    """
    if len(pattern) > MAX_LENGTH:
        raise OptionError(f"pattern of {len(pattern)} characters is too long: at most {MAX_LENGTH} are read")
    bare = re.sub(r"\\.", "x", re.sub(r"\[\^?\]?[^\]]*\]", "x", pattern))
    repeats = len(re.findall(r"[*+]|\{\d*,\d*\}", bare))
    wide = repeats - len(re.findall(r"(?:\\d|\[0-9\])(?:[*+]|\{\d*,\d*\})", pattern))
    too_many = repeats > MAX_REPEATS or wide > MAX_WIDE_REPEATS
    if too_many or _REPEATED_GROUP.search(bare) or re.search(r"\\[1-9]|\(\?P=|\(\?\(", pattern):
        raise OptionError(
            f"pattern {pattern!r} repeats a group, refers back, or has more than {MAX_REPEATS} repeats "
            f"({MAX_WIDE_REPEATS} of anything but digits), and might "
            r"never end; write each number out, as in w(?P<width>\d+)-d(?P<depth>\d+)"
        )
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise OptionError(f"pattern {pattern!r} is no regular expression: {error}") from None
    if not compiled.groupindex:
        raise OptionError(
            rf"pattern {pattern!r} names no group; name each number, as in w(?P<width>\d+)-d(?P<depth>\d+)"
        )
    return compiled


def groups_of(pattern: str, labels: Sequence[str], name: str) -> dict[str, list[str]]:
    """Return the groups of every label: group name -> (n,) texts, "" where the group is absent.

    Raises
    ------
    DataError
        If no label matches.
    """
    compiled = compile_pattern(pattern)
    known = {label: compiled.search(label[:MAX_LENGTH]) for label in set(labels)}
    if not any(known.values()):
        raise DataError(f"{name}: pattern {pattern!r} matches no run name; the first is {labels[0]!r}")
    out: dict[str, list[str]] = {group: [] for group in compiled.groupindex}
    for label in labels:
        match = known[label]
        for group, texts in out.items():
            texts.append((match.group(group) or "") if match else "")
    return out


def suggest_pattern(labels: Sequence[str]) -> str | None:
    """Return a usual pattern for width and depth that matches every label, for a hint."""
    distinct = set(labels)
    return next((p for p in _KNOWN if distinct and all(re.search(p, label[:MAX_LENGTH]) for label in distinct)), None)
