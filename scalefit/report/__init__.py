"""Results in words: what the command line prints, and what `describe` returns in Python."""

from scalefit.report.text import describe, document, layout, print_visibly, render

__all__ = ["describe", "document", "layout", "print_visibly", "render"]
