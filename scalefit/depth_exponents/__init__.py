"""Exponents of loss against depth from a sweep of teacher-student models.

For each teacher (seed) the package's own fitter finds alpha of

    loss = c depth^-alpha                          no-floor (the default),               (1)
    loss = c depth^-alpha + L0                     floor,                                (2)
    loss = c (1/depth - 1/L)^alpha                 finite-teacher, L layers,             (3)

all by least squares of ln loss. A student of depth L can be the teacher, so the law of a finite teacher runs
in 1/depth - 1/L; read by equation (1) it looks steeper by the factor that `finite_teacher_factor` gives.
Chance enters through the teachers: intervals are Student's t over per-teacher exponents, never over points.
"""

from scalefit.depth_exponents.analysis import depth_exponents, read_sweep
from scalefit.depth_exponents.cells import finite_teacher_factor
from scalefit.depth_exponents.results import DepthExponent, Estimate, LocalSlope, describe, to_document

__all__ = [
    "DepthExponent",
    "Estimate",
    "LocalSlope",
    "depth_exponents",
    "describe",
    "finite_teacher_factor",
    "read_sweep",
    "to_document",
]
