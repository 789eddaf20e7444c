"""The one place that says what to do when torch is missing."""

from __future__ import annotations

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
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        # A torch that is there but lacks something of its own keeps its own message.
        if error.name != "torch":
            raise
        raise MissingExtraError("torch", purpose, "toy") from None
