"""The public names and where they live: for type checkers, and for the lazy import in `__init__.py`."""

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
from scalefit.laws.lmfit import lmfit_model as lmfit_model
from scalefit.laws.terms import PowerTerm as PowerTerm
from scalefit.optimal import isoflop as isoflop
from scalefit.optimal import needed_for_loss as needed_for_loss
from scalefit.optimal import optimal_allocation as optimal_allocation
from scalefit.optimal import optimal_shape as optimal_shape
from scalefit.optimal import speed_up as speed_up
from scalefit.prediction import prediction_interval as prediction_interval
from scalefit.report import describe as describe
from scalefit.runs import Runs as Runs
from scalefit.simulation import simulate as simulate
from scalefit.uncertainty.bootstrap import bootstrap as bootstrap
from scalefit.uncertainty.posterior.importance import importance_sample as importance_sample
from scalefit.uncertainty.posterior.posterior import sample_posterior as sample_posterior
from scalefit.uncertainty.profile import profile as profile
from scalefit.uncertainty.samples import Samples as Samples

__version__: str
