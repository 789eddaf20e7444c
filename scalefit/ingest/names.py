"""What names say: the ones people give to width, depth, tokens, loss and the like, and the numbers in run names."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any

from scalefit.errors import DataError, OptionError

__all__ = [
    "DISGUISED_LOSS",
    "HINTS",
    "LETTERS",
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
    "tokens": """tokens training_tokens train_tokens total_tokens num_tokens n_tokens tokens_seen all_tokens
        num_input_tokens_seen token_count tokens_total tokens_trained consumed_tokens seen_tokens token_num""",
    "params": """params n_params num_params nparams parameters n_parameters num_parameters param_count
        parameter_count total_params model_params""",
    "flops": """flops train_flops training_flops total_flops flop train_flop training_flop total_flop compute
        train_compute training_compute flops_budget flop_budget compute_budget""",
    "run": """run run_name name model_name experiment experiment_name exp_name model trial run_id uuid lauf""",
}

SYNONYMS: Mapping[str, tuple[str, ...]] = {role: tuple(names.split()) for role, names in _NAMES.items()}
"""Role -> the normalised names that mean it, the usual one first."""

ROLES = (*SYNONYMS, "loss")

NON_EMBEDDING = ("non_embedding_params", "nonembedding_params", "non_emb_params", "non_embedding_parameters")
"""Names of a count of parameters that is taken where no other is given."""

LETTERS: Mapping[str, str] = {"N": "params", "D": "tokens", "C": "flops", "h": "width", "l": "depth"}
"""The letters of the literature, as they are written -> the role they may mean."""

HINTS: Mapping[str, str] = {
    **dict.fromkeys(["numl", "num_l", "nl", "n_l", "blocks"], "depth"),
    **dict.fromkeys(
        ["model_size", "size", "param", "n_param", "num_param", "parameter", "model_size_params"], "params"
    ),
    **dict.fromkeys(["token", "n_token", "num_token", "training_token", "data_size", "dataset_size", "data"], "tokens"),
    **dict.fromkeys(["hid", "h_size", "hsize", "emb", "embd"], "width"),
    **dict.fromkeys(["budget", "flops_spent"], "flops"),
}
"""Names that may mean a role but also something else: proposed, never taken."""

_LOSS_WORDS = frozenset(["loss", "losses", "nll", "xent", "crossentropy", "verlust", "ce"])
_LEADS = "train|training|val|valid|validation|eval|test|lm|ce|total|final|mean|avg|dev|nll"
_JOINED_LOSS = re.compile(rf"(?:{_LEADS})+loss(?:es)?")
_NO_LOSS_WORDS = """std stderr se sem sd var variance min max err error errors scale weight coef coefficient
    ratio aux balance delta diff target initial init ema count n id spike bound bits bit bpb ppl perplexity byte
    bytes log2 unit name type fn function auxiliary z kl lb router regularization regularisation"""
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

_CASE_CHANGE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def normal_name(name: str) -> str:
    """Return a name in lower case, its words apart: "ValLoss", "val/loss" and "val loss" are "val_loss"."""
    split = _CASE_CHANGE.sub("_", re.sub(r"F[Ll][Oo][Pp]s", "Flops", name))
    return re.sub(r"[^a-z0-9]+", "_", split.lower()).strip("_")


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
    return [i for i, name in enumerate(names) if role == "params" and _last(name) in NON_EMBEDDING]


def loss_candidates(names: Sequence[str]) -> list[int]:
    """Return the columns that look like a loss: a word of the name says so and none says otherwise.

    A smoothed loss is one where there is no other.
    """
    kinds = [_loss_kind(name) for name in names]
    return [i for i, kind in enumerate(kinds) if kind == "plain"] or [
        i for i, kind in enumerate(kinds) if kind == "smoothed"
    ]


def _loss_kind(name: str) -> str | None:
    """Return "plain" or "smoothed" for a loss in nats, None for anything else."""
    words = re.sub(r"(?<=[a-z])\d+(?=_|$)", "", normal_name(name)).split("_")
    last = re.sub(r"(?<=[a-z])\d+(?=_|$)", "", _last(name))
    if re.search(r"(?:^|_)log_?(?:perplexity|ppl)$|negative_log_likelihood", last):
        return "plain"
    found = set(words)
    named = found & _LOSS_WORDS or {"cross", "entropy"} <= found or any(map(_JOINED_LOSS.fullmatch, words))
    if not named or found & (_NOT_A_LOSS - {"ema"}) or "log" in last.split("_"):
        return None
    return "smoothed" if "ema" in found else "plain"


MAX_LENGTH = 1000
PATTERN_SECONDS = 2.0
"""Time that a pattern may take on all run names together; a usual one takes microseconds a name."""

_KNOWN = (
    r"w(?P<width>\d+)-d(?P<depth>\d+)",
    r"w(?P<width>\d+)_d(?P<depth>\d+)",
    r"d(?P<width>\d+)-l(?P<depth>\d+)",
    r"d(?P<width>\d+)_l(?P<depth>\d+)",
    r"width(?P<width>\d+).depth(?P<depth>\d+)",
    r"(?P<width>\d+)x(?P<depth>\d+)",
)


def compile_pattern(pattern: str) -> Any:
    """Compile a pattern with named groups, for searches with a limit of time."""
    import regex

    if len(pattern) > MAX_LENGTH:
        raise OptionError(f"pattern of {len(pattern)} characters is too long: at most {MAX_LENGTH} are read")
    try:
        compiled = regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError, MemoryError) as error:
        raise OptionError(f"pattern {pattern!r} is no regular expression: {error}") from None
    if not compiled.groupindex:
        raise OptionError(
            rf"pattern {pattern!r} names no group; name each number, as in w(?P<width>\d+)-d(?P<depth>\d+)"
        )
    return compiled


def groups_of(
    pattern: str, labels: Sequence[str], name: str, others: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Return the groups of every label: group name -> (n,) texts, "" where the group is absent.

    Parameters
    ----------
    pattern, labels, name
        The pattern, the run of each row, the file for messages.
    others : mapping of str to sequence of str
        Columns of text that may hold the run names instead.

    Raises
    ------
    DataError
        If no label matches.
    OptionError
        If the search takes longer than `PATTERN_SECONDS`.
    """
    compiled = compile_pattern(pattern)
    end = time.monotonic() + PATTERN_SECONDS

    def searched(label: str) -> Any:
        try:
            return compiled.search(label, timeout=max(1e-3, end - time.monotonic()))
        except TimeoutError:
            raise OptionError(
                f"pattern {pattern!r} takes longer than {PATTERN_SECONDS:g} s on the run names of {name}; write each "
                r"number out, as in w(?P<width>\d+)-d(?P<depth>\d+)"
            ) from None

    known = {label: searched(label) for label in dict.fromkeys(labels)}
    if not any(known.values()):
        fits = next((column for column, cells in others.items() if any(map(searched, dict.fromkeys(cells)))), None)
        remedy = f"; it matches the column {fits}: say --column {shlex.quote(f'run={fits}')}" if fits else ""
        raise DataError(f"{name}: pattern {pattern!r} matches no run name; the first is {labels[0][:60]!r}{remedy}")
    out: dict[str, list[str]] = {group: [] for group in compiled.groupindex}
    for label in labels:
        match = known[label]
        for group, texts in out.items():
            texts.append((match.group(group) or "") if match else "")
    return out


def suggest_pattern(labels: Sequence[str]) -> str | None:
    """Return a usual pattern for width and depth that matches every label, for a hint."""
    distinct = set(labels)
    return next((p for p in _KNOWN if distinct and all(re.search(p, label) for label in distinct)), None)
