"""`scalefit toy`: run teacher-student sweeps, finish them, fit their exponents, draw them."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scalefit.cli.app import DONE, INTERRUPTED, NO_ANSWER, app, known_level
from scalefit.errors import DataError, OptionError

if TYPE_CHECKING:
    from pandas import DataFrame

    from scalefit.experiments.depth_exponents import DepthExponent
    from toy_models.teacher_student.config import SweepConfig
    from toy_models.teacher_student.sweep import SweepProgress


@app.command()
def toy(
    action: Annotated[
        str, typer.Argument(help="A preset of `list`, a configuration's JSON file, or list, resume, work, fit, plot")
    ],
    folder: Annotated[str | None, typer.Argument(help="resume, work, fit, plot: the folder of a sweep")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder of a new sweep, or of the figures")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Single-thread processes, one a core by default, for work 0: this one")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda, in place of the preset's")] = None,
    level: Annotated[float, typer.Option(callback=known_level, help="Confidence level of the intervals")] = 0.95,
    allow_unannealed: Annotated[bool, typer.Option(help="Fit losses whose learning rate was never annealed")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output")] = False,
) -> None:
    """Train students of several depths on a random teacher and see how loss falls with depth.

    A preset trains into a folder, where it goes on if it was interrupted; `resume` does so without the
    preset's name. `work` helps with a folder and may be started any number of times, on any machine that sees it:
    every process takes what is open, and what others lost. `fit` gives exponents of a folder, a results.csv or a
    shipped table, `plot` draws them; neither needs torch. `fit` ends with status 3 where an exponent is not
    converged, training with 3 where a part failed three times and with 130 when it was interrupted.
    """
    if action == "list":
        _list_presets(as_json)
    elif action in ("fit", "plot"):
        source = _needed(action, folder)
        findings = _findings(source, level, allow_unannealed)
        if action == "plot":
            from scalefit.plots.fit import save_figures
            from scalefit.plots.toy import sweep_figures

            target = output or (Path(source) if Path(source).is_dir() else Path.cwd())
            for path in save_figures(target, sweep_figures(findings.table, findings.exponents)):
                sys.stderr.write(f"{path} written\n")
        _answer(findings, as_json)
        raise typer.Exit(DONE if action == "plot" or findings.settled else NO_ANSWER)
    else:
        if folder is not None and action not in ("resume", "work"):
            raise OptionError(f"{folder} is one argument too many: scalefit toy {action} -o {folder}")
        target, failed = _run(action, folder, output, device, workers)
        try:
            _answer(_findings(str(target), level, allow_unannealed), as_json)
        except DataError as reason:
            sys.stderr.write(f"no exponents: {reason}\n")
            if as_json:
                typer.echo("{}")
        raise typer.Exit(NO_ANSWER if failed else DONE)


def _needed(action: str, folder: str | None) -> str:
    if folder is None:
        raise OptionError(f"{action} needs the folder of a sweep: scalefit toy {action} DIR")
    return folder


def _list_presets(as_json: bool) -> None:
    from toy_models.teacher_student.presets import ABOUT, PRESETS

    if as_json:
        entries = {
            name: {"about": ABOUT[name], "id": config.id, "config": config.to_dict()}
            for name, config in PRESETS.items()
        }
        typer.echo(json.dumps(entries))
        return
    width = max(map(len, ABOUT))
    typer.echo("\n".join(f"{name:{width}}  {text}" for name, text in ABOUT.items()))


def _config(action: str, folder: str | None, device: str | None) -> SweepConfig:
    from dataclasses import replace

    from toy_models.teacher_student.config import SweepConfig
    from toy_models.teacher_student.presets import preset

    if action in ("resume", "work"):
        from toy_models.teacher_student.sweep import load_config

        config = load_config(_needed(action, folder))
        if device not in (None, config.device):
            raise OptionError(f"{folder} was begun with device {config.device}; start again elsewhere to use {device}")
        return config
    if action.endswith(".json"):
        path = Path(action)
        if not path.is_file():
            raise OptionError(
                f"configuration file {action} does not exist; scalefit toy list --json shows the presets'"
            )
        config = SweepConfig.from_file(path)
    else:
        config = preset(action)
    return config if device is None else replace(config, device=device)


def _run(
    action: str, folder: str | None, output: Path | None, device: str | None, workers: int | None
) -> tuple[Path, bool]:
    """Train; return the folder and whether a part of the sweep failed."""
    from toy_models._torch import require_torch

    require_torch("scalefit toy")
    config = _config(action, folder, device)
    target = Path(_needed(action, folder)) if action in ("resume", "work") else output
    if target is None:
        raise OptionError(f"a sweep needs a folder for its results: scalefit toy {action} -o DIR")
    from toy_models.teacher_student.sweep import run_sweep

    if action == "work" and workers is None:
        workers = 0
    result = run_sweep(config, target, workers=workers, retry=action != "work", report=_tell)
    if sys.stderr.isatty():
        sys.stderr.write("\n")
    if not result.finished:
        sys.stderr.write(f"stopped and saved after {result.seconds:.0f} s; go on with: scalefit toy resume {target}\n")
        raise typer.Exit(INTERRUPTED)
    sys.stderr.write(f"{result.results} written in {result.seconds:.0f} s, {result.diverged} students diverged\n")
    for name, error in result.failed.items():
        sys.stderr.write(f"{name} was given up: {error}; try again with: scalefit toy resume {target}\n")
    return target, bool(result.failed)


def _tell(progress: SweepProgress) -> None:
    """Rewrite one line on a terminal; stay silent elsewhere."""
    if sys.stderr.isatty():
        left = f", about {progress.left / 60:.1f} min left" if progress.left == progress.left else ""
        sys.stderr.write(f"\r{progress.done:6.1%} after {progress.seconds:.0f} s{left}   ")
        sys.stderr.flush()


@dataclass(frozen=True)
class _Findings:
    """What a table shows; the control of fixed total units has no exponents."""

    table: DataFrame
    exponents: tuple[DepthExponent, ...]
    text: str
    document: dict[str, Any]
    settled: bool


def _findings(folder: str, level: float, allow_unannealed: bool) -> _Findings:
    from scalefit.experiments import depth_exponents as depth

    table = depth.read_sweep(folder)
    if not table.empty and depth.total_units(table) is not None:
        controls = depth.units_controls(table, allow_unannealed=allow_unannealed)
        return _Findings(table, (), depth.describe_units(controls), depth.units_document(controls), settled=True)
    found = depth.depth_exponents(table, level=level, allow_unannealed=allow_unannealed)
    settled = all(item.settled for item in depth.longest_horizons(found))
    return _Findings(table, found, depth.describe(found), depth.to_document(found), settled)


def _answer(findings: _Findings, as_json: bool) -> None:
    typer.echo(json.dumps(findings.document, allow_nan=False) if as_json else findings.text)
