"""The option --method, which may be repeated, hold names with commas, or both."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["method_names"]


def method_names(texts: Sequence[str]) -> list[str]:
    """Names in the order written, each once."""
    return list(dict.fromkeys(name.strip() for text in texts for name in text.split(",")))
