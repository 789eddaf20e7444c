"""The command line: parse, call the library, print. No logic lives here."""

from importlib import import_module
from pkgutil import iter_modules

from scalefit.cli.app import main

for _module in iter_modules(__path__):
    # each file registers its command with the app; none imports anything heavy
    import_module(f"{__name__}.{_module.name}")

__all__ = ["main"]
