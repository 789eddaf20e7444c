"""Scaling laws of neural networks in width, depth and tokens: fit them, and plan the next run."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from typing import Any

__version__ = "0.1.0"

# The names and their homes stand once, in the stub beside this file, where type checkers look for them, too.
_HOMES = {
    alias.name: str(line.module)
    for line in ast.parse(pkgutil.get_data(__name__, "__init__.pyi") or b"").body
    if isinstance(line, ast.ImportFrom)
    for alias in line.names
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    """Import a public name where it lives at its first use (PEP 562): `import scalefit` alone costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'scalefit' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
