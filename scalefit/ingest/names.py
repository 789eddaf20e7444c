"""Which column plays which role: the names people give to width, depth, tokens, loss and the like."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

__all__ = ["DISGUISED_LOSS", "ROLES", "SYNONYMS", "loss_candidates", "normal_name", "role_candidates"]

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

    For `run` the best synonym alone is returned: a label is needed, any will do.
    """
    wanted = SYNONYMS[role]
    for form in (normal_name, _last):
        found = [i for i, name in enumerate(names) if name and form(name) in wanted]
        if form is _last:
            found = [i for i in found if not _is_of_something_else(names[i], role)]
        if found:
            if role == "run":
                return [min(found, key=lambda i: wanted.index(form(names[i])))]
            return found
    return []


def _is_of_something_else(name: str, role: str) -> bool:
    """Whether the parts before the last one say that a column is no run label, or no training tokens."""
    if role == "run":
        return _last(name) in _ALONE
    return role == "tokens" and bool(set(normal_name(name).split("_")) & _OTHER_TOKENS)


def loss_candidates(names: Sequence[str]) -> list[int]:
    """Return the columns that look like a loss: a word of the name says so and none says otherwise."""
    found = []
    for i, name in enumerate(names):
        words = set(normal_name(name).split("_"))
        crossed = {"cross", "entropy"} <= words
        if (words & _LOSS_WORDS or crossed) and not words & _NOT_A_LOSS:
            found.append(i)
    return found
