"""Why depth scales as it does: BHyT against LayerNorm Scaling, by theory, recursion, simulation and measurement."""

from scalefit.theory.attention import (
    approximated_square,
    attention_factor,
    participation,
    published_constant,
    uniform_weights,
    value_output_product,
)
from scalefit.theory.blocks import BlockStatistics
from scalefit.theory.bounds import BoundComparison, check_measured, compare, condition_holds
from scalefit.theory.chebyshev import coverage_of_kappa, kappa_of_coverage
from scalefit.theory.checks import CHECKS, BoundSetting, Sampling, TheoremCheck, check_bhyt_bound, find_check
from scalefit.theory.inputs import INPUT_LAWS, InputLaw, input_law, three_point_law
from scalefit.theory.limits import (
    PUBLIC_SETTINGS,
    Criterion,
    critical_ratio,
    depth_limit,
    first_variance_violation,
    second_site_tolerance,
)
from scalefit.theory.moments import (
    ideal_break_even,
    ideal_moment_bound,
    ideal_second_moment,
    scale_of_second_moment,
    silu_second_moment,
    sphere_second_moment,
    swiglu_increment,
    tanh_second_moment,
)
from scalefit.theory.norms import NORM_NAMES, Norm
from scalefit.theory.recursion import closed_form, curse_of_depth_path, harmonic, log_slope, norm_path, variance_path
from scalefit.theory.search import DROPPABLE, SearchResult, search_counterexamples
from scalefit.theory.simulate import StackSetting, simulate_stack
from scalefit.theory.simulate_attention import measured_over_published, second_site_ratios
from scalefit.theory.simulate_blocks import BlockSetting, simulate_blocks
from scalefit.theory.verdict import Assumption, CheckResult, Judgement, Verdict

__all__ = [
    "CHECKS",
    "DROPPABLE",
    "INPUT_LAWS",
    "NORM_NAMES",
    "PUBLIC_SETTINGS",
    "Assumption",
    "BlockSetting",
    "BlockStatistics",
    "BoundComparison",
    "BoundSetting",
    "CheckResult",
    "Criterion",
    "InputLaw",
    "Judgement",
    "Norm",
    "Sampling",
    "SearchResult",
    "StackSetting",
    "TheoremCheck",
    "Verdict",
    "approximated_square",
    "attention_factor",
    "check_bhyt_bound",
    "check_measured",
    "closed_form",
    "compare",
    "condition_holds",
    "coverage_of_kappa",
    "critical_ratio",
    "curse_of_depth_path",
    "depth_limit",
    "find_check",
    "first_variance_violation",
    "harmonic",
    "ideal_break_even",
    "ideal_moment_bound",
    "ideal_second_moment",
    "input_law",
    "kappa_of_coverage",
    "log_slope",
    "measured_over_published",
    "norm_path",
    "participation",
    "published_constant",
    "scale_of_second_moment",
    "search_counterexamples",
    "second_site_ratios",
    "second_site_tolerance",
    "silu_second_moment",
    "simulate_blocks",
    "simulate_stack",
    "sphere_second_moment",
    "swiglu_increment",
    "tanh_second_moment",
    "three_point_law",
    "uniform_weights",
    "value_output_product",
    "variance_path",
]
