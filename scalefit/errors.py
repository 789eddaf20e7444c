"""What can go wrong, and the remarks that accompany a result that went right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["DataError", "FitError", "MissingExtraError", "OptionError", "ScalefitError", "ScalefitWarning"]


class ScalefitError(Exception):
    """Base of every error this package raises on purpose.

    The text names the thing, the value, the limit and the way out, in one or two sentences;
    the command line prints it as it stands and ends with status 2.
    """


class DataError(ScalefitError):
    """The table of runs is wrong: a row, a column or a value."""


class OptionError(ScalefitError):
    """An argument is wrong: a law, an objective, a budget, a name."""


class FitError(ScalefitError):
    """No fit could be reached; what was reached is kept.

    Attributes
    ----------
    partial : object or None
        The best result found before giving up.
    """

    def __init__(self, message: str, partial: object | None = None) -> None:
        super().__init__(message)
        self.partial = partial


class MissingExtraError(ScalefitError):
    """An optional package is missing; the text holds the pip command."""

    def __init__(self, package: str, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs the package {package}: install it with pip install '.[{extra}]'")


@dataclass(frozen=True)
class ScalefitWarning:
    """A remark that belongs to a result and travels with it.

    Attributes
    ----------
    code : str
        Stable kebab-case name, for programs and for the documentation.
    message : str
        What was seen, with its numbers.
    action : str
        What to do about it.
    numbers : mapping
        The numbers behind the message, JSON-ready.
    """

    code: str
    message: str
    action: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.code}: {self.message} {self.action}".rstrip()
