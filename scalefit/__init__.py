"""Scaling laws of neural networks in width, depth and tokens: fit them, and plan the next run."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scalefit.constraints import Constraints as Constraints
    from scalefit.datasets import list_datasets as list_datasets
    from scalefit.datasets import load_dataset as load_dataset
    from scalefit.design import suggest_runs as suggest_runs
    from scalefit.errors import DataError as DataError
    from scalefit.errors import FitError as FitError
    from scalefit.errors import OptionError as OptionError
    from scalefit.errors import ScalefitError as ScalefitError
    from scalefit.errors import ScalefitWarning as ScalefitWarning
    from scalefit.fit_file import load_fit as load_fit
    from scalefit.fit_file import save_fit as save_fit
    from scalefit.fitting import Fit as Fit
    from scalefit.fitting import FitStatus as FitStatus
    from scalefit.fitting import fit as fit
    from scalefit.identifiability import Verdict as Verdict
    from scalefit.laws import Law as Law
    from scalefit.laws import PowerTerm as PowerTerm
    from scalefit.lmfit_bridge import lmfit_model as lmfit_model
    from scalefit.objectives import Objective as Objective
    from scalefit.optimal import optimal_shape as optimal_shape
    from scalefit.prediction import prediction_interval as prediction_interval
    from scalefit.report import describe as describe
    from scalefit.runs import Runs as Runs
    from scalefit.simulation import simulate as simulate
    from scalefit.uncertainty.bootstrap import bootstrap as bootstrap
    from scalefit.uncertainty.importance import importance_sample as importance_sample
    from scalefit.uncertainty.posterior import sample_posterior as sample_posterior
    from scalefit.uncertainty.profile import profile as profile
    from scalefit.uncertainty.samples import Samples as Samples

__version__ = "0.1.0"

_HOMES = {
    "Constraints": "constraints",
    "DataError": "errors",
    "Fit": "fitting",
    "FitError": "errors",
    "FitStatus": "fitting",
    "Law": "laws",
    "Objective": "objectives",
    "OptionError": "errors",
    "PowerTerm": "laws",
    "Runs": "runs",
    "Samples": "uncertainty.samples",
    "ScalefitError": "errors",
    "ScalefitWarning": "errors",
    "Verdict": "identifiability",
    "bootstrap": "uncertainty.bootstrap",
    "describe": "report",
    "fit": "fitting",
    "importance_sample": "uncertainty.importance",
    "list_datasets": "datasets",
    "lmfit_model": "lmfit_bridge",
    "load_dataset": "datasets",
    "load_fit": "fit_file",
    "optimal_shape": "optimal",
    "prediction_interval": "prediction",
    "profile": "uncertainty.profile",
    "sample_posterior": "uncertainty.posterior",
    "save_fit": "fit_file",
    "simulate": "simulation",
    "suggest_runs": "design",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    """Import a public name where it lives at its first use (PEP 562): `import scalefit` alone costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'scalefit' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"scalefit.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
