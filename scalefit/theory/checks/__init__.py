"""Every check of the theory; the modules enter theirs into the table, in this order."""

from scalefit.theory.checks import bound, sites, depth  # noqa: I001, F401 - the order in which checks run
from scalefit.theory.checks.bound import BoundSetting, check_bhyt_bound
from scalefit.theory.checks.registry import CHECKS, Sampling, TheoremCheck, find_check

__all__ = ["CHECKS", "BoundSetting", "Sampling", "TheoremCheck", "check_bhyt_bound", "find_check"]
