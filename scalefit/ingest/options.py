"""What a user may say about reading a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

__all__ = ["ReadOptions"]


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file; every field is optional, and what is left out is recognised or refused.

    Attributes
    ----------
    columns : mapping of str to str
        Name here -> column name or expression of the file.
    """

    columns: Mapping[str, str] | None = None

    def with_columns(self, columns: Mapping[str, str] | None) -> ReadOptions:
        """Return the options with more column definitions."""
        return self if not columns else replace(self, columns={**(self.columns or {}), **columns})
