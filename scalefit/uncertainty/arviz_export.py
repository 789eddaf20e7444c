"""Draws in ArviZ' container, for its tables and plots."""

from __future__ import annotations

from typing import Any

from scalefit.errors import MissingExtraError
from scalefit.uncertainty.samples import Samples

__all__ = ["to_arviz"]


def to_arviz(samples: Samples) -> Any:
    """Put draws into an `xarray.DataTree` with the group ``posterior``, dimensions chain and draw.

    A chain is an independent ensemble, its draws ordered walker after walker, so that ArviZ' effective sizes see the
    autocorrelation of each walker.

    Parameters
    ----------
    samples : Samples

    Raises
    ------
    MissingExtraError
        If arviz-base is not installed.
    """
    try:
        import arviz_base
    except ModuleNotFoundError:
        raise MissingExtraError("arviz-base", "the export to ArviZ", "arviz") from None
    draws = {name: samples[name].reshape(samples.n_chains, -1) for name in samples.names}
    return arviz_base.from_dict({"posterior": draws}, attrs={"posterior": {"law": str(samples.law)}})
