"""`scalefit norms`: the depth experiment, its figure and what it says of the bound."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from scalefit.cli.app import DONE, INTERRUPTED, NO_ANSWER, app


@app.command()
def norms(
    action: Annotated[str, typer.Argument(help="A preset from `list`, `list`, or `plot`")],
    folder: Annotated[Path | None, typer.Argument(help="plot: the folder of an experiment")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Folder of the tables and the figure")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Single-thread processes, one a core by default; 0: this one")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output")] = False,
) -> None:
    """Train a small transformer with every norm and compare how its stream grows with depth.

    A preset writes tables and the figure to a folder and goes on where it was interrupted; `plot` draws
    the figure of a folder again, without torch. Ends with status 3 if a run diverged.
    """
    from scalefit.experiments.norms import NormTables, describe, summarise
    from scalefit.plots.fit import save_figures
    from scalefit.plots.norms import plot_variance_against_depth

    if action == "list":
        presets = _list_presets()
        typer.echo(json.dumps(presets) if as_json else "\n".join(f"{name:8} {text}" for name, text in presets.items()))
        return
    if action != "plot":
        _require_preset(action)
    path = _folder_of(action, folder, output)
    if action != "plot":
        _run(action, path, workers)
    tables = NormTables.from_folder(path)
    (figure,) = save_figures(path, {"norm_experiment": plot_variance_against_depth(tables)})
    summary = summarise(tables)
    typer.echo(f"{figure} written", err=True)
    typer.echo(json.dumps(summary.to_dict(), allow_nan=False) if as_json else describe(summary))
    raise typer.Exit(NO_ANSWER if (tables.runs["status"] != "trained").any() else DONE)


def _list_presets() -> dict[str, str]:
    from toy_models.transformer.config import PRESETS

    return {name: config.describe() for name, config in PRESETS.items()}


def _folder_of(action: str, folder: Path | None, output: Path | None) -> Path:
    from scalefit.errors import OptionError

    if action == "plot":
        if folder is None:
            raise OptionError("plot needs the folder of an experiment: scalefit norms plot FOLDER")
        return folder
    if output is None or folder is not None:
        raise OptionError(f"a preset needs a folder for its tables: scalefit norms {action} -o FOLDER")
    return output


def _require_preset(name: str) -> None:
    from scalefit.errors import OptionError
    from toy_models.transformer.config import PRESETS

    if name not in PRESETS:
        raise OptionError(f"preset {name!r} is unknown; the presets are {', '.join(PRESETS)}")


def _run(preset: str, folder: Path, workers: int | None) -> None:
    from toy_models.transformer.config import PRESETS
    from toy_models.transformer.experiment import run_experiment

    def progress(line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    try:
        run_experiment(PRESETS[preset], folder, workers=workers, progress=progress)
    except KeyboardInterrupt:
        progress(f"interrupted; finished runs are in {folder}, the same command goes on from there")
        raise typer.Exit(INTERRUPTED) from None
