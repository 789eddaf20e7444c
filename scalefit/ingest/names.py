"""Which column plays which role: the names people give to width, depth, tokens, loss and the like."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["ROLES", "SYNONYMS", "normal_name"]

SYNONYMS: Mapping[str, frozenset[str]] = {
    "width": frozenset(
        ["width", "d_model", "dmodel", "hidden_size", "hidden_dim", "n_embd", "model_dim", "embed_dim"]
    ),
    "depth": frozenset(["depth", "n_layers", "n_layer", "num_layers", "num_hidden_layers", "layers"]),
    "tokens": frozenset(
        ["tokens", "training_tokens", "train_tokens", "total_tokens", "num_tokens", "n_tokens"]
    ),
    "params": frozenset(["params", "n_params", "num_params", "parameters", "num_parameters"]),
    "flops": frozenset(["flops", "train_flops", "training_flops", "total_flops", "compute"]),
    "loss": frozenset(
        ["loss", "val_loss", "eval_loss", "valid_loss", "validation_loss", "test_loss", "final_loss"]
    ),
    "run": frozenset(["run", "run_name", "run_id", "name", "model_name", "lauf"]),
}
"""Role -> the normalised names that mean it."""

ROLES = tuple(SYNONYMS)


def normal_name(name: str) -> str:
    """Return a name in lower case, its last dotted or slashed part, with underscores for other marks."""
    last = re.split(r"[./]", name.strip())[-1]
    return re.sub(r"[^a-z0-9]+", "_", last.lower()).strip("_")
