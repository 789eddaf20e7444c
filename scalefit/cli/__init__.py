"""The command line: parse, call the library, print. No logic lives here."""

from scalefit.cli.app import main

__all__ = ["main"]
