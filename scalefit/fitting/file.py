"""A fit as a JSON document: what `scalefit fit -o fit.json` writes and every `FIT` argument reads.

The document says everything about the result. With `rows=True` it also holds the rows that were fitted, which
makes it enough to fit again, so that intervals can be computed from the file alone.
"""

from __future__ import annotations

import math
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from scalefit import __version__
from scalefit.errors import DataError, ScalefitError, ScalefitWarning
from scalefit.files import refuse_to_overwrite, write_atomically
from scalefit.fitting.fit import Certificate, Fit, FitStatus
from scalefit.fitting.objective import Objective
from scalefit.fitting.optimum import NOISE_FREE
from scalefit.ingest.grid import Dropped, Places, frozen
from scalefit.ingest.table import Origin, Selection, Table
from scalefit.laws.constraints import Constraints
from scalefit.laws.law import Law
from scalefit.numbers import json_text, to_json
from scalefit.runs import Runs

if TYPE_CHECKING:
    from scalefit.schemas import FitFile

__all__ = ["fit_document", "is_fit_file", "load_fit", "residual_summary", "save_fit"]

SCHEMA, KIND = 2, "scalefit-fit"

LARGEST = 5
"""How many rows with the largest residuals a document names."""


def fit_document(fit: Fit, rows: bool = False) -> dict[str, Any]:
    """Describe a fit in JSON types; numbers that do not exist are None.

    Parameters
    ----------
    fit : Fit
    rows : bool
        Whether to include the rows, which `load_fit` needs.
    """
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": KIND,
        "version": __version__,
        "law": str(fit.law),
        "objective": {"name": fit.objective.name, "value": fit.objective_value},
        "n_rows": len(fit.runs),
        "n_dropped": fit.runs.n_dropped,
        "n_runs": fit.runs.n_runs,
        "params": fit.params,
        "se": fit.standard_errors,
        "se_scale": {p.name: "ln" if p.in_logs else "plain" for p in fit.law.parameters},
        "degrees": fit.degrees,
        "interval": fit.intervals(),
        "se_rows": fit.by_row.standard_errors,
        "errors": {"method": fit.errors.method, "by": fit.errors.by, "groups": fit.errors.groups},
        "covariance": fit.covariance,
        "limits": fit.limits,
        "verdicts": fit.verdicts,
        "status": fit.status,
        "sentence": fit.status.sentence,
        "certificate": fit.certificate,
        "residuals": residual_summary(fit),
        "constraints": fit.constraints,
        "weights": fit.weights,
        "n_starts": fit.n_starts,
        "seed": fit.seed,
        "errors_by": fit.errors_by,
        "source": {
            "name": fit.runs.origin.name,
            "format": fit.runs.origin.format,
            "sha256": fit.runs.origin.sha256,
            "columns": fit.runs.origin.columns,
            "units": fit.runs.origin.units,
        },
        "selections": [{"name": s.name, "before": s.before, "after": s.after} for s in fit.runs.selections],
        "dropped": fit.runs.dropped.counts(),
        "warnings": fit.warnings,
    }
    if rows:
        document["rows"] = _rows_document(fit.runs)
    plain: dict[str, Any] = to_json(document)
    return plain


def save_fit(fit: Fit, path: str | Path, overwrite: bool = False) -> None:
    """Write a fit with its rows to a JSON file.

    Raises
    ------
    OptionError
        If the file exists and `overwrite` is false, or its folder does not exist.
    """
    refuse_to_overwrite(overwrite, path)
    write_atomically(path, json_text(fit_document(fit, rows=True), indent=None))


def is_fit_file(path: str | Path) -> bool:
    """Whether a path names a JSON file that `save_fit` wrote."""
    path = Path(path)
    if path.suffix != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        return KIND.encode() in file.read(200)


def load_fit(path: str | Path) -> Fit:
    """Read a fit back, with the numbers to the bit.

    Raises
    ------
    DataError
        If the file is missing or was not written by `save_fit`.
    """
    from scalefit.schemas import FitFile, read_document

    path = Path(path)
    remedy = "write one with scalefit fit RUNS -o fit.json"
    try:
        text = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}; {remedy}") from None
    other = "is no fit of this version"
    known = {"": other, "schema": other, "rows": "holds a fit without its rows, which --json leaves out"}
    content = read_document(FitFile, text, path, remedy, known)
    try:
        fit = _fit_from(content)
        fit.runs.require_positive(["loss", *fit.law.columns, *([] if fit.weights is None else [fit.weights])])
        weights = None if fit.weights is None else fit.runs[fit.weights]
        with np.errstate(all="ignore"):  # whatever comes out, it is compared
            again = fit.objective.value(fit.predict(fit.runs), fit.runs["loss"], weights)
    except ScalefitError as error:
        raise DataError(f"{path} is damaged: {error}; {remedy}") from None
    if not math.isclose(again, fit.objective_value, rel_tol=1e-6, abs_tol=NOISE_FREE**2):
        raise DataError(
            f"{path} is damaged: its parameters and rows give the objective {again:.6g}, "
            f"not {fit.objective_value:.6g}; {remedy}"
        )
    return fit


def _fit_from(content: FitFile) -> Fit:
    law = Law.parse(content.law)
    fixed, ties, bounds = content.constraints.fixed, content.constraints.ties, content.constraints.bounds
    ends = {n: (-math.inf if a is None else a, math.inf if b is None else b) for n, (a, b) in bounds.items()}
    constraints = Constraints(fixed, ties, ends)
    constraints.checked(law)
    for name in law.parameter_names:
        if name not in content.params:
            raise DataError(f"the law {law} has a parameter {name}, which has no value")
    params = {name: content.params[name] for name in law.parameter_names}
    for parameter in law.parameters:
        low, high = constraints.limits(parameter)
        value = params[parameter.name]
        expected = fixed.get(parameter.name, params[ties.get(parameter.name, parameter.name)])
        if value != expected or not (parameter.name in fixed or low <= value <= high):
            raise DataError(f"{parameter.name} is {value:g}, which its constraints do not allow")
    certificate = content.certificate.model_dump() | {
        "condition": math.inf if content.certificate.condition is None else content.certificate.condition,
        "others": tuple(content.certificate.others),
    }
    return Fit(
        law=law,
        runs=_runs_from(content),
        objective=Objective.parse(content.objective.name),
        constraints=constraints,
        weights=content.weights,
        params=MappingProxyType(params),
        objective_value=content.objective.value,
        converged=content.status != FitStatus.FAILED.value,
        certificate=Certificate(**certificate),
        n_starts=content.n_starts,
        seed=content.seed,
        errors_by=content.errors_by,
    )


def _rows_document(runs: Runs) -> dict[str, Any]:
    places = runs.table.places
    return {
        "columns": {name: runs[name] for name in runs.columns},
        "texts": {name: [str(x) for x in values] for name, values in runs.table.texts.items()},
        "rows": places.rows,
        "lines": places.lines,
        "files": places.files,
        "names": places.names,
        "dropped": [[d.row, d.line, d.reason, d.file] for d in runs.dropped],
        "warnings": runs.warnings,
    }


def _runs_from(content: FitFile) -> Runs:
    rows, source = content.rows, content.source
    numbers = {
        name: frozen(np.array([math.nan if x is None else x for x in values], dtype=np.float64))
        for name, values in rows.columns.items()
    }
    files = None if rows.files is None else _integers(rows.files)
    table = Table(
        columns=numbers,
        texts={name: frozen(np.array(values, dtype=object)) for name, values in rows.texts.items()},
        places=Places(_integers(rows.rows), _integers(rows.lines), files, tuple(rows.names)),
        dropped=_dropped_from(rows.dropped, rows.names[0]),
        origin=Origin(source.name, source.format, source.sha256, source.columns, source.units),
        selections=tuple(Selection(**step.model_dump()) for step in content.selections),
        warnings=tuple(ScalefitWarning(**warning.model_dump()) for warning in rows.warnings),
    )
    return Runs.from_table(table)


def _dropped_from(dropped: list[tuple[int, int, str, str]], name: str) -> Dropped:
    if not dropped:
        return Dropped.none(name)
    rows, lines, reasons, files = zip(*dropped, strict=True)
    names = tuple(dict.fromkeys(files))
    index = frozen(np.array([names.index(f) for f in files], dtype=np.int64))
    return Dropped.of(Places(_integers(rows), _integers(lines), index, names), reasons)


def _integers(values: Any) -> Any:
    return frozen(np.array(values, dtype=np.int64))


def residual_summary(fit: Fit) -> dict[str, Any]:
    """Size of the residuals, and the rows with the largest, largest first."""
    residuals, predicted = fit.residuals, fit.predict(fit.runs)
    order = np.argsort(-np.abs(residuals), kind="stable")[:LARGEST]
    return {
        "unit": "ln loss" if fit.objective.log else "nats per token",
        "rms": float(np.sqrt(np.mean(residuals**2))),
        "median_absolute": float(np.median(np.abs(residuals))),
        "largest": [
            {
                "row": fit.runs.row_name(int(i)),
                "line": int(fit.runs.lines[i]),
                "observed": float(fit.runs["loss"][i]),
                "predicted": float(predicted[i]),
                "residual": float(residuals[i]),
            }
            for i in order
        ],
    }
