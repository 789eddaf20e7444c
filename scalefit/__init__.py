"""Scaling laws of neural networks in width, depth and tokens: fit them, and plan the next run."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scalefit.datasets import list_datasets as list_datasets
    from scalefit.datasets import load_dataset as load_dataset
    from scalefit.design import suggest_runs as suggest_runs
    from scalefit.errors import DataError as DataError
    from scalefit.errors import FitError as FitError
    from scalefit.errors import OptionError as OptionError
    from scalefit.errors import ScalefitError as ScalefitError
    from scalefit.errors import ScalefitWarning as ScalefitWarning
    from scalefit.fitting.file import load_fit as load_fit
    from scalefit.fitting.file import save_fit as save_fit
    from scalefit.fitting.fit import Fit as Fit
    from scalefit.fitting.fit import FitStatus as FitStatus
    from scalefit.fitting.fit import fit as fit
    from scalefit.fitting.objective import Objective as Objective
    from scalefit.identifiability import Verdict as Verdict
    from scalefit.laws.constraints import Constraints as Constraints
    from scalefit.laws.law import Law as Law
    from scalefit.laws.law import PowerTerm as PowerTerm
    from scalefit.laws.lmfit import lmfit_model as lmfit_model
    from scalefit.optimal import optimal_shape as optimal_shape
    from scalefit.prediction import prediction_interval as prediction_interval
    from scalefit.report import describe as describe
    from scalefit.runs import Runs as Runs
    from scalefit.simulation import simulate as simulate
    from scalefit.uncertainty.bootstrap import bootstrap as bootstrap
    from scalefit.uncertainty.posterior.importance import importance_sample as importance_sample
    from scalefit.uncertainty.posterior.posterior import sample_posterior as sample_posterior
    from scalefit.uncertainty.profile import profile as profile
    from scalefit.uncertainty.samples import Samples as Samples

__version__ = "0.1.0"

_HOMES = {
    "Constraints": "laws.constraints",
    "DataError": "errors",
    "Fit": "fitting.fit",
    "FitError": "errors",
    "FitStatus": "fitting.fit",
    "Law": "laws.law",
    "Objective": "fitting.objective",
    "OptionError": "errors",
    "PowerTerm": "laws.law",
    "Runs": "runs",
    "Samples": "uncertainty.samples",
    "ScalefitError": "errors",
    "ScalefitWarning": "errors",
    "Verdict": "identifiability",
    "bootstrap": "uncertainty.bootstrap",
    "describe": "report",
    "fit": "fitting.fit",
    "importance_sample": "uncertainty.posterior.importance",
    "list_datasets": "datasets",
    "lmfit_model": "laws.lmfit",
    "load_dataset": "datasets",
    "load_fit": "fitting.file",
    "optimal_shape": "optimal",
    "prediction_interval": "prediction",
    "profile": "uncertainty.profile",
    "sample_posterior": "uncertainty.posterior.posterior",
    "save_fit": "fitting.file",
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
