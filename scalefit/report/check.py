"""What a table of runs holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from scalefit.errors import ScalefitWarning
from scalefit.identifiability.design import ColumnDesign
from scalefit.identifiability.inspection import Inspection, LawOutlook, inspect_runs
from scalefit.report.text import facts, number, remarks, report, table
from scalefit.runs import Runs

__all__ = ["Checked"]

_LISTED = 20
"""Dropped rows that the text lists one by one; the document lists all."""


@dataclass(frozen=True, eq=False)
class Checked:
    """A table and what is to be said of it.

    Attributes
    ----------
    runs : Runs
    seen : Inspection
    source : str
        How the user named the table, quoted for a shell.
    """

    runs: Runs
    seen: Inspection
    source: str

    @classmethod
    def of(cls, runs: Runs, source: str) -> Checked:
        """Inspect a table."""
        return cls(runs, inspect_runs(runs), source)

    @property
    def warnings(self) -> tuple[ScalefitWarning, ...]:
        """Those of reading, then those of the design."""
        return (*self.runs.warnings, *self.seen.warnings)


@facts.register(Runs)
def runs_facts(runs: Runs) -> dict[str, Any]:
    """The same as of a checked table."""
    return checked_facts(Checked.of(runs, runs.origin.name))


@report.register(Runs)
def runs_report(runs: Runs) -> RenderableType:
    """The same as of a checked table."""
    return checked_report(Checked.of(runs, runs.origin.name))


@facts.register(Checked)
def checked_facts(checked: Checked) -> dict[str, Any]:
    """What was read, what was left out, the design, and what it can determine."""
    runs, seen = checked.runs, checked.seen
    origin, repetitions = runs.origin, seen.repetitions
    return {
        "name": origin.name,
        "format": origin.format,
        "sha256": origin.sha256,
        "columns": origin.columns,
        "units": origin.units,
        "numbers": origin.locale,
        "ignored_columns": origin.ignored,
        "n_rows": len(runs),
        "n_runs": runs.n_runs,
        "n_dropped": runs.n_dropped,
        "dropped": [{"row": row.row, "line": row.line, "file": row.file, "reason": row.reason} for row in runs.dropped],
        "selections": [{"name": s.name, "before": s.before, "after": s.after} for s in runs.selections],
        "design": {
            "columns": {c.name: _column(c) for c in seen.columns},
            "log_correlations": [{"columns": [c.first, c.second], "value": c.value} for c in seen.correlations],
            "n_shapes": seen.n_shapes,
            "rows_per_run": dict(zip(("min", "median", "max"), seen.rows_per_run, strict=True)),
        },
        "duplicates": len(repetitions.duplicates),
        "replicates": {
            "settings": repetitions.replicated,
            "noise_ln_loss": repetitions.noise,
            "degrees": repetitions.degrees,
        },
        "laws": [
            {
                "law": outlook.law,
                "n_parameters": outlook.n_parameters,
                "n_rows": outlook.n_rows,
                "not_determined": outlook.not_determined,
                "reason": outlook.reason,
            }
            for outlook in seen.laws
        ],
        "warnings": checked.warnings,
    }


def _column(column: ColumnDesign) -> dict[str, Any]:
    return {
        "levels": column.levels,
        "missing": column.missing,
        "min": column.minimum,
        "max": column.maximum,
        "decades": column.decades,
    }


@report.register(Checked)
def checked_report(checked: Checked) -> RenderableType:
    """Lay out what was read, what was left out, the design, the laws, and what to do next."""
    runs, seen = checked.runs, checked.seen
    return Group(
        *reading_lines(runs),
        *left_out_lines(runs),
        Text(""),
        *design_lines(runs, seen),
        *law_lines(runs, seen),
        *([Text(""), remarks(checked.warnings)] if checked.warnings else []),
        Text(""),
        Text(f"next: {next_step(checked)}"),
    )


def reading_lines(runs: Runs) -> list[RenderableType]:
    """What was read, and as what."""
    origin = runs.origin
    renamed = [f"{name} = {source}" for name, source in origin.columns.items() if name != source]
    lines = [
        f"{origin.name}: {origin.format}, {origin.locale}, sha256 {origin.sha256[:12] or '-'}",
        f"{_count(len(runs), 'row')} of {_count(runs.n_runs, 'run')}; "
        f"loss in {origin.units.get('loss', 'unknown units')}",
    ]
    lines += [f"columns: {', '.join(renamed)}"] if renamed else []
    lines += [f"left aside: {', '.join(origin.ignored)}"] if origin.ignored else []
    return [Text(lines[0], style="bold"), *map(Text, lines[1:])]


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


def left_out_lines(runs: Runs) -> list[RenderableType]:
    """Rows that were left out, and the steps of the selection."""
    steps = [f"{s.name}: {s.before} rows, {s.after} kept" for s in runs.selections]
    if not runs.n_dropped:
        return [Text("nothing was left out"), *map(Text, steps)]
    head = ["1 row was left out:" if runs.n_dropped == 1 else f"{runs.n_dropped} rows were left out:"]
    if runs.n_dropped > _LISTED:
        head += [f"  {count} because {reason}" for reason, count in list(runs.dropped.counts().items())[:_LISTED]]
    several = len(runs.dropped.places.names) > 1
    rows = [[str(r.line), str(r.row), *([r.file] if several else []), r.reason] for r in runs.dropped[:_LISTED]]
    headings = ["line", "row", *(["file"] if several else []), "reason"]
    more = runs.n_dropped - len(rows)
    tail = [f"... and {more} more (--json lists all)"] if more else []
    return [*map(Text, [*head, *steps]), table(headings, rows, len(headings)), *map(Text, tail)]


def design_lines(runs: Runs, seen: Inspection) -> list[RenderableType]:
    """Levels and ranges of the columns, and how they hang together."""
    blank = any(c.missing for c in seen.columns)
    rows = [
        [c.name, str(c.levels), f"{c.minimum:.6g}", f"{c.maximum:.6g}", number(c.decades, 2)]
        + ([str(c.missing)] if blank else [])
        for c in seen.columns
    ]
    low, middle, high = seen.rows_per_run
    lines = [] if seen.n_shapes is None else [f"{seen.n_shapes} shapes (width x depth)"]
    lines += [f"rows per run: {low} to {high}, median {middle}"] if runs.has_runs else []
    pairs = [f"{c.first}, {c.second} {round(c.value, 2) + 0.0:+.2f}" for c in seen.correlations]
    lines += [f"correlations of logarithms: {'; '.join(pairs)}"] if pairs else []
    return [
        table(["column", "levels", "from", "to", "decades", *(["missing"] if blank else [])], rows),
        *map(Text, lines),
    ]


def law_lines(runs: Runs, seen: Inspection) -> list[RenderableType]:
    """What the design can determine of each law."""
    if not seen.laws:
        return [Text("no law: none of width, depth, tokens, params and flops is known")]
    return [
        Text(""),
        Text("what the design can determine", style="bold"),
        *(Text(_outlook(o, len(runs))) for o in seen.laws),
    ]


def _outlook(outlook: LawOutlook, n: int) -> str:
    missing = outlook.not_determined
    used = f", from the {outlook.n_rows} of {n} rows that have all its columns" if outlook.n_rows < n else ""
    if not missing:
        return f"{outlook.law}: every parameter{used}"
    named = "nothing" if len(missing) == outlook.n_parameters else f"all but {', '.join(missing)}"
    return f"{outlook.law}: {named} ({outlook.reason}){used}"


def _mixes_sizes(law: str, seen: Inspection) -> bool:
    """Whether a law leaves out a column that varies and is no power of one it has: it would take sizes for noise."""
    of_law = set(law.split("+"))
    varying = {c.name for c in seen.columns if c.levels > 1} - of_law - {"loss", "flops"}
    if "params" not in of_law and {"width", "depth"} & of_law:
        varying -= {"params"}  # the size stands in the law by its shape
    if "params" in of_law:
        varying -= {"width", "depth"}
    tied = {frozenset((c.first, c.second)) for c in seen.correlations if abs(c.value) > 1 - 1e-9}
    return any(not any(frozenset((name, other)) in tied for other in of_law) for name in varying)


def next_step(checked: Checked) -> str:
    """What to type next."""
    remarks = [
        w for w in checked.runs.warnings if w.code in ("role-not-found", "flops-small", "params-small", "blank-cells")
    ]
    best = next(
        (o.law for o in checked.seen.laws if not o.not_determined and not _mixes_sizes(o.law, checked.seen)), None
    )
    if any(w.code != "role-not-found" for w in remarks) or (best is None and remarks):
        action = max((w.action for w in remarks), key=lambda action: "--law" in action)
        return f"{action[0].lower()}{action[1:]}"
    if best is None:
        return "name the missing columns with --column, or train more shapes; no law can be determined yet"
    default = "" if best == "width+depth+tokens" else f" --law {best}"
    return f"scalefit fit {checked.source}{default}, with the same options of reading"
