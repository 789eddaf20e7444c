"""Train every norm with every seed, and keep what was measured as tidy tables that grow run by run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, as_completed, wait
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
import torch

from scalefit.errors import DataError
from scalefit.execute import available_cores, open_executor
from scalefit.files import write_atomically
from toy_models.transformer.config import ExperimentConfig
from toy_models.transformer.monitor import ResidualStatistics
from toy_models.transformer.text import load_text
from toy_models.transformer.training import RunResult, require_device, train_run

__all__ = ["ExperimentTables", "load_tables", "run_experiment"]

KEYS = ["norm", "seed"]
FILES = {name: f"norm_experiment_{name}.csv" for name in ("layers", "runs", "timings")}
CONFIG = "config.json"


@dataclass(frozen=True)
class ExperimentTables:
    """Tidy tables of an experiment, sorted by norm (in the configuration's order) and seed.

    Attributes
    ----------
    layers : DataFrame
        One row for each norm, seed, stage (``"start"``, ``"trained"``), block and site, with the numbers of
        `ResidualStatistics`; `variance` is the state before the site, `variance_next` after it.
    runs : DataFrame
        One row for each norm and seed: status, losses in nats per byte, sizes and the text's hash.
    timings : DataFrame
        Tokens per second of each run; the only table that is not the same twice.
    """

    layers: pd.DataFrame
    runs: pd.DataFrame
    timings: pd.DataFrame


def run_experiment(
    config: ExperimentConfig,
    folder: Path,
    *,
    workers: int | None = None,
    progress: Callable[[str], None] = lambda _line: None,
) -> ExperimentTables:
    """Run what the folder does not hold yet; every finished run is on disk before the next is waited for.

    The tables, timings apart, do not depend on the number of workers, nor on interruptions.

    Parameters
    ----------
    config : ExperimentConfig
        What to run.
    folder : Path
        Made if missing; holds the tables and the configuration they belong to.
    workers : int, optional
        Single-thread processes, one a core by default; 0 runs in this process, as a CUDA device always does.
    progress : callable
        Is told one line for each finished run.

    Raises
    ------
    DataError
        If the folder holds another configuration's tables.
    OptionError
        If the configuration's device is not there.
    """
    require_device(config)
    folder.mkdir(parents=True, exist_ok=True)
    _claim(folder, config)
    tables = load_tables(folder)
    done = set(zip(tables.runs["norm"], tables.runs["seed"], strict=True))
    wanted = [(norm, seed) for seed in config.seeds for norm in config.norms if (norm, seed) not in done]
    if config.device == "cuda":
        workers = 0
    for result in _results(config, wanted, available_cores() if workers is None else workers):
        tables = _extend(tables, config, result)
        _write(folder, tables)
        count = f"{len(tables.runs)}/{len(config.norms) * len(config.seeds)}"
        loss = f"held-out loss {result.held_out_loss:.3f}"
        progress(f"{count} {result.norm} seed {result.seed}: {result.status}, {loss}")
    return load_tables(folder)


def run_job(config: ExperimentConfig, norm: str, seed: int) -> RunResult:
    """Run one training run in a worker, on one thread where the processor does the work."""
    torch.set_flush_denormal(True)
    if config.device == "cpu":
        torch.set_num_threads(1)
    return train_run(config, load_text(), norm, seed)


def load_tables(folder: Path) -> ExperimentTables:
    """Read the tables of a folder; empty ones where nothing has finished."""
    frames = {
        name: pd.read_csv(folder / file) if (folder / file).exists() else pd.DataFrame(columns=KEYS)
        for name, file in FILES.items()
    }
    # A run counts once its row in `runs` is written, which is last: drop the rows of one cut off before.
    finished = frames["runs"][KEYS].drop_duplicates()
    return ExperimentTables(
        layers=frames["layers"].merge(finished, on=KEYS),
        runs=frames["runs"],
        timings=frames["timings"].merge(finished, on=KEYS),
    )


def _results(config: ExperimentConfig, wanted: list[tuple[str, int]], workers: int) -> Iterator[RunResult]:
    """Yield results as they come; an interruption stops the running jobs and gives up the others."""
    with open_executor(workers) as executor:
        running: set[Future[RunResult]] = set()
        try:
            for norm, seed in wanted:
                # No more jobs than workers are handed over, so that a serial executor yields in between too.
                running.add(executor.submit(run_job, config, norm, seed))
                if len(running) >= max(1, workers):
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            yield from (future.result() for future in as_completed(running))
        except BaseException:
            executor.request_stop()
            raise


def _extend(tables: ExperimentTables, config: ExperimentConfig, result: RunResult) -> ExperimentTables:
    """Add the rows of one run, in the order that the configuration gives."""
    stages = {"start": result.start, "trained": result.trained}
    layers = pd.concat([_layer_rows(stage, stats) for stage, stats in stages.items() if stats is not None])
    sizes = {name: value for name, value in asdict(config.model).items() if name not in ("norm", "tied")}
    text = load_text()
    run = {
        "status": result.status,
        "steps": result.steps,
        "loss": result.loss,
        "held_out_loss": result.held_out_loss,
        "lam": config.model.norm.lam,
        "kappa": config.model.norm.kappa,
        "alpha": config.model.norm.alpha,
        **sizes,
        "initial_std": config.model.initial_std,
        "text": text.source,
        "text_sha256": text.sha256,
    }
    timing = {
        "train_tokens_per_second": result.train_rate,
        "generate_tokens_per_second": result.generate_rate,
    }

    def add(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
        new.insert(0, "norm", result.norm)
        new.insert(1, "seed", result.seed)
        both = pd.concat([old, new], ignore_index=True) if len(old) else new
        order = {norm: place for place, norm in enumerate(config.norms)}
        return both.sort_values(
            KEYS, key=lambda column: column.map(order) if column.name == "norm" else column, kind="stable"
        ).reset_index(drop=True)

    return ExperimentTables(
        layers=add(tables.layers, layers),
        runs=add(tables.runs, pd.DataFrame([run])),
        timings=add(tables.timings, pd.DataFrame([timing])),
    )


def _layer_rows(stage: str, statistics: ResidualStatistics) -> pd.DataFrame:
    columns = statistics.as_dict()
    for name in ("variance", "variance_median"):
        whole = columns.pop(name)
        columns[name], columns[f"{name}_next"] = whole[:-1], whole[1:]
    frame = pd.DataFrame(columns)
    frame.insert(0, "stage", stage)
    return frame


def _write(folder: Path, tables: ExperimentTables) -> None:
    """Replace every file at once, the one that says what is finished last."""
    for name in ("layers", "timings", "runs"):
        text = getattr(tables, name).to_csv(index=False, float_format="%.6g", lineterminator="\n")
        write_atomically(folder / FILES[name], text)


def _claim(folder: Path, config: ExperimentConfig) -> None:
    """Write the configuration, or check that the folder's is the same."""
    text = json.dumps(asdict(config), indent=1) + "\n"
    path = folder / CONFIG
    if not path.exists():
        write_atomically(path, text)
    elif path.read_text() != text:
        raise DataError(f"{folder} holds the results of another configuration (see {path}); choose another folder")
