"""The one place that says what to do when torch is missing."""

from __future__ import annotations

from importlib.util import find_spec

from scalefit.errors import MissingExtraError

__all__ = ["require_torch"]


def require_torch(purpose: str) -> None:
    """Raise one sentence with the pip command when torch is not installed.

    Parameters
    ----------
    purpose : str
        What needs torch; it opens the sentence, e.g. ``"training the toy models"``.

    Raises
    ------
    MissingExtraError
        If torch cannot be found.
    """
    # find_spec raises ValueError, rather than answering None, for a module that stands as None in
    # sys.modules, which is how an import is commonly blocked.
    try:
        found = find_spec("torch") is not None
    except ValueError:
        found = False
    if not found:
        raise MissingExtraError("torch", purpose, "toy")
