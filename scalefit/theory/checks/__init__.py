"""Every check of the theory, by name."""

from scalefit.errors import OptionError
from scalefit.theory.checks import attention, breaks, depth, moments, simulated
from scalefit.theory.checks.bound import BoundSetting, bound_streams, check_bhyt_bound, simulate_bound
from scalefit.theory.checks.registry import Finding, Sampling, TheoremCheck, theorem_check

__all__ = [
    "CHECKS",
    "BoundSetting",
    "Finding",
    "Sampling",
    "TheoremCheck",
    "bound_streams",
    "check_bhyt_bound",
    "find_check",
    "simulate_bound",
    "theorem_check",
]

CHECKS: dict[str, TheoremCheck] = {
    check.name: check
    for check in (
        check_bhyt_bound(),
        *moments.CHECKS,
        *depth.CHECKS,
        *breaks.CHECKS,
        *simulated.CHECKS,
        *attention.CHECKS,
    )
}
"""The checks in the order in which `scalefit theory all` runs them."""


def find_check(name: str) -> TheoremCheck:
    """Return a check by name."""
    if name not in CHECKS:
        raise OptionError(f"check {name!r} is unknown; use one of {', '.join(CHECKS)}")
    return CHECKS[name]
