"""Exponents of loss against depth from a sweep of teacher-student models.

For each teacher (seed) the package's own fitter finds alpha of

    loss = c depth^-alpha                          no-floor (the default),               (1)
    loss = c depth^-alpha + L0                     floor,                                (2)
    loss = c (1/depth - 1/L)^alpha                 finite-teacher, L layers,             (3)

all by least squares of ln loss. A student of depth L can be the teacher, so the law of a finite teacher runs
in 1/depth - 1/L; read by equation (1) it looks steeper by the factor that `finite_teacher_factor` gives.
Chance enters through the teachers: intervals are Student's t over per-teacher exponents, never over points.
A sweep at a fixed total number of hidden units asks for no exponent: `units_controls` compares its losses.
"""

from scalefit.experiments.analysis import depth_exponents
from scalefit.experiments.cells import finite_teacher_factor
from scalefit.experiments.results import (
    DepthExponent,
    Estimate,
    LocalSlope,
    describe,
    longest_horizons,
    to_document,
)
from scalefit.experiments.table import by_condition, read_sweep, total_units
from scalefit.experiments.units import UnitsControl, describe_units, units_controls, units_document

__all__ = [
    "DepthExponent",
    "Estimate",
    "LocalSlope",
    "UnitsControl",
    "by_condition",
    "depth_exponents",
    "describe",
    "describe_units",
    "finite_teacher_factor",
    "longest_horizons",
    "read_sweep",
    "to_document",
    "total_units",
    "units_controls",
    "units_document",
]
