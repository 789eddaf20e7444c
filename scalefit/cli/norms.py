"""`scalefit norms`: the depth experiment, its figure and what it says of the bound."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from scalefit.cli.app import DONE, INTERRUPTED, NO_ANSWER, app
from scalefit.errors import OptionError


@app.command()
def norms(
    action: Annotated[str, typer.Argument(help="A preset from `list`, `list`, `work`, or `plot`")],
    folder: Annotated[Path | None, typer.Argument(help="work, plot: the folder of an experiment")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Folder of the tables and the figure")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Single-thread processes, one a core by default, for work 0: this one")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output")] = False,
) -> None:
    """Train a small transformer with every norm and compare how its stream grows with depth.

    A preset writes tables and the figure to a folder and goes on where it was interrupted; `work` helps with a
    folder and may be started any number of times, on any machine that sees it; `plot` draws the figure of a folder
    again, without torch. Ends with status 3 if a run diverged or failed three times, with 130 if interrupted.
    """
    from scalefit.experiments.norms import NormTables, describe, summarise
    from scalefit.plots.fit import save_figures
    from scalefit.plots.norms import plot_variance_against_depth

    if action not in ("plot", "work"):
        from toy_models.transformer.config import PRESETS
    if action == "list":
        presets = {name: config.describe() for name, config in PRESETS.items()}
        typer.echo(json.dumps(presets) if as_json else "\n".join(f"{name:8} {text}" for name, text in presets.items()))
        return
    if action in ("plot", "work"):
        if folder is None:
            raise OptionError(f"{action} needs the folder of an experiment: scalefit norms {action} FOLDER")
        path = folder
    elif action not in PRESETS:
        raise OptionError(f"preset {action!r} is unknown; the presets are {', '.join(PRESETS)}")
    elif output is None or folder is not None:
        raise OptionError(f"a preset needs a folder for its tables: scalefit norms {action} -o FOLDER")
    else:
        path = output
    given_up = [] if action == "plot" else _run(action, path, workers)
    tables = NormTables.from_folder(path)
    (figure,) = save_figures(path, {"norm_experiment": plot_variance_against_depth(tables)})
    summary = summarise(tables)
    typer.echo(f"{figure} written", err=True)
    typer.echo(json.dumps(summary.to_dict(), allow_nan=False) if as_json else describe(summary))
    raise typer.Exit(NO_ANSWER if given_up or (tables.runs["status"] != "trained").any() else DONE)


def _run(action: str, folder: Path, workers: int | None) -> list[str]:
    """Train; return the lines on runs that were given up."""
    from toy_models.transformer.config import PRESETS, ExperimentConfig
    from toy_models.transformer.experiment import run_experiment

    lines: list[str] = []

    def progress(line: str) -> None:
        lines.append(line)
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    helping = action == "work"
    config = ExperimentConfig.from_file(folder / "config.json") if helping else PRESETS[action]
    workers = 0 if helping and workers is None else workers
    try:
        run_experiment(config, folder, workers=workers, retry=not helping, progress=progress)
    except KeyboardInterrupt:
        progress(f"interrupted and saved; the same command goes on from {folder}")
        raise typer.Exit(INTERRUPTED) from None
    return [line for line in lines if "was given up" in line]
