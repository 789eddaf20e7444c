"""A fit in words and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from scalefit.fitting.covariance import AUTO
from scalefit.fitting.file import fit_document, residual_summary
from scalefit.fitting.fit import Fit, FitStatus
from scalefit.fitting.optimum import NOISE_FREE
from scalefit.identifiability import Verdict
from scalefit.report.text import facts, number, remarks, report, table

_COLOURS = {
    FitStatus.CONVERGED: "green",
    FitStatus.AT_BOUND: "yellow",
    FitStatus.NOT_IDENTIFIED: "red",
    FitStatus.FAILED: "red",
}


_BESIDE = math.log(1.2)
"""Intervals for independent rows stand beside the fit's own where one is over a fifth wider than the other."""

_UNTOLD = 1e12
"""An interval that ends beyond this tells nothing."""


facts.register(Fit, fit_document)


@report.register(Fit)
def fit_report(fit: Fit) -> RenderableType:
    """Lay out a fit: the law, its parameters with errors and verdicts, the certificate, the rows it fits worst."""
    runs, certificate = fit.runs, fit.certificate
    per_run = f" of {runs.n_runs} run{'s' * (runs.n_runs > 1)}" if runs.n_runs != len(runs) else ""
    used = f"{runs.origin.name}: {len(runs)} rows{per_run} used, {runs.n_dropped} left out"
    reasons = ", ".join(f"{count} {reason}" for reason, count in runs.dropped.counts().items())
    sample = f" (on {certificate.start_rows} of {len(runs)} rows)" if certificate.start_rows < len(runs) else ""
    reached = "this point, which is no optimum" if fit.status is FitStatus.FAILED else "this optimum"
    return Group(
        Text.assemble(law_text(fit), style="bold"),
        Text(f"{used}{f' ({reasons})' if reasons else ''}; objective {fit.objective.name}"),
        Text(""),
        parameter_table(fit),
        *errors_line(fit),
        Text(""),
        Text.assemble((fit.status.value, _COLOURS[fit.status]), f": {fit.status.sentence}"),
        Text(
            f"{certificate.starts_at_best} of {certificate.starts} random starts{sample} end at {reached}; "
            f"gradient {certificate.gradient:.0e}, condition {number(certificate.condition, 2)}"
        ),
        *residual_lines(fit),
        *([Text(""), remarks(fit.warnings)] if fit.warnings else []),
    )


def residual_lines(fit: Fit) -> list[RenderableType]:
    """Size of the residuals and the rows the law fits worst, or that it passes through all of them."""
    scale = 1.0 if fit.objective.log else float(fit.runs["loss"].min())
    residuals = residual_summary(fit)
    if residuals["rms"] < NOISE_FREE * scale:
        return [Text("the law passes through every row: the table holds no noise")]
    rows = [
        [r["row"], number(r["observed"]), number(r["predicted"]), f"{r['residual']:+.4f}"] for r in residuals["largest"]
    ]
    worst = table(["largest residuals", "observed", "predicted", "residual"], rows)
    sizes = Text(
        f"objective {fit.objective_value:.5g}; residuals in {residuals['unit']}: "
        f"root mean square {number(residuals['rms'], 3)}, median size {number(residuals['median_absolute'], 3)}"
    )
    return [sizes, Text(""), worst]


def law_text(fit: Fit) -> str:
    """The law as a formula, its parameters by name."""
    law = fit.law
    powers = ["*".join(f"{factor}^{factor.exponent}" for factor in term.factors) for term in law.terms]
    terms = [
        f"{term.coefficient}/{power if len(term.factors) == 1 else f'({power})'}"
        for term, power in zip(law.terms, powers, strict=True)
    ]
    if law.coupling is not None:
        q, root = ("q", "(1/q)") if law.coupling == "q" else (f"(1/{law.coupling})", law.coupling)
        terms = [f"[{' + '.join(f'({term})^{q}' for term in terms)}]^{root}"]
    return "loss = " + " + ".join([*terms, *(["L0"] if law.irreducible else [])])


def parameter_table(fit: Fit) -> RenderableType:
    """Estimates with their intervals; beside them those for independent rows where these differ by over a fifth."""
    intervals, by_row = fit.intervals(), fit.by_row.intervals()
    names = [name for name, error in fit.standard_errors.items() if error > 0]
    beside = any(abs(math.log(_width(fit, name, by_row) / _width(fit, name, intervals))) > _BESIDE for name in names)
    rows = [
        [name, *parameter_cells(fit, name, intervals[name], by_row[name] if beside else None)] for name in fit.params
    ]
    rows_alone = ["rows alone"] if beside else []
    return table(["parameter", "estimate", "standard error", "95 % interval", *rows_alone, "the data say"], rows)


def _width(fit: Fit, name: str, intervals: Mapping[str, tuple[float, float]]) -> float:
    low, high = map(fit.law.parameter(name).inner, intervals[name])
    width = high - low
    return width if 0 < width < math.inf else 1.0


def errors_line(fit: Fit) -> list[RenderableType]:
    """What the standard errors take for independent."""
    errors = fit.errors
    if errors.method == "gauss-newton" and fit.errors_by == AUTO and fit.runs.n_runs == len(fit.runs):
        return [Text("standard errors take rows for independent: they share no run or shape")]
    degrees = [d for d in fit.degrees.values() if d > 0]
    span = f", with {min(degrees):.2g} to {max(degrees):.2g} degrees of freedom" if degrees else ""
    units = f"{errors.groups} {errors.by}s"
    return [Text(f"standard errors by {errors.by}: {units} count as independent{span}")]


def parameter_cells(
    fit: Fit, name: str, ends: tuple[float, float], by_row: tuple[float, float] | None
) -> tuple[str, ...]:
    """Estimate, error, intervals and verdict of one parameter."""
    value, error = fit.params[name], fit.standard_errors[name]
    beside = () if by_row is None else (_interval(*by_row),)
    none = () if by_row is None else ("-",)
    if name not in fit.verdicts:
        return number(value), "-", "-", *none, "fixed"
    verdict = fit.verdicts[name]
    if name in fit.limits:
        side = "<" if fit.limits[name] > value else ">"
        shown = verdict.value if verdict is Verdict.NOT_DETERMINED else "at its bound"
        return f"{value:g} (bound)", "-", f"{side} {number(fit.limits[name], 2)}", *none, shown
    if verdict is Verdict.NOT_DETERMINED or math.isnan(error):
        # No digits of an estimate that the data do not hold; how far it may lie they tell.
        return "-", "-", _interval(*ends), *beside, verdict.value
    if fit.law.parameter(name).in_logs:
        decimals = 2 if error <= NOISE_FREE else min(8, max(2, math.ceil(-math.log10(error)) + 1))
        shown, estimate = f"x/ {math.exp(error):.{decimals}f}", number(value, _digits(1.0, error))
    else:
        shown = "0" if error < NOISE_FREE * abs(value) else number(error, 2)
        estimate = number(value, _digits(value, error))
    return estimate, shown, _interval(*ends), *beside, verdict.value


def _digits(value: float, error: float) -> int:
    """Significant digits to print: two of the error, but at least four and at most eight."""
    if error <= NOISE_FREE * abs(value):
        return 4
    return min(8, max(4, math.ceil(math.log10(abs(value) / error)) + 2)) if value else 4


def _interval(low: float, high: float) -> str:
    if not (math.isfinite(low) and math.isfinite(high) and high < _UNTOLD):
        return "-"
    digits = max(3, _digits(high, high - low) - 1)
    return f"{number(low, digits)} to {number(high, digits)}"
