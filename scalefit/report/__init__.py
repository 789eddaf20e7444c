"""Results in words: what the command line prints, and what `describe` returns in Python."""

from __future__ import annotations

from scalefit.fitting.fit import Fit
from scalefit.report.fit import fit_report
from scalefit.report.text import render

__all__ = ["describe"]


def describe(result: Fit) -> str:
    """Return a result as the command line prints it.

    Examples
    --------
    >>> import scalefit as sf
    >>> text = sf.describe(sf.fit(sf.load_dataset("chinchilla").drop_worst(40)))
    >>> text.splitlines()[0]
    'loss = c_width/width^alpha_width + c_depth/depth^alpha_depth + c_tokens/tokens^alpha_tokens + L0'
    """
    return render(fit_report(result))
