"""What the tables of the toy models and of the norm experiment show, and what was found of theory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scalefit.experiments.depth_exponents import (
    DepthExponent,
    UnitsControl,
    describe,
    describe_units,
    to_document,
    units_document,
)
from scalefit.experiments.norms import ExperimentSummary
from scalefit.experiments.norms import describe as describe_norms
from scalefit.report.text import facts, report
from scalefit.theory.checks.registry import COLUMNS, Finding, describe_findings, summarise


def _listed(found: Any) -> Sequence[Any]:
    return found if isinstance(found, (list, tuple)) else [found]


def _describe_theory(found: Any) -> str:
    """One block a check, and the count of verdicts."""
    findings = _listed(found)
    names = dict.fromkeys(each.check for each in findings)
    blocks = [describe_findings(name, [each for each in findings if each.check == name]) for name in names]
    return "\n".join([COLUMNS, *blocks, summarise(findings)])


facts.register(DepthExponent, lambda found: to_document(_listed(found)))
report.register(DepthExponent, lambda found: describe(_listed(found)))
facts.register(UnitsControl, lambda found: units_document(_listed(found)))
report.register(UnitsControl, lambda found: describe_units(_listed(found)))
facts.register(ExperimentSummary, lambda summary: summary)
report.register(ExperimentSummary, describe_norms)
facts.register(Finding, lambda found: [each.to_dict() for each in _listed(found)])
report.register(Finding, _describe_theory)
