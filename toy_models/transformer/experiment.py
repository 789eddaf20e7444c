"""Train every norm with every seed, and keep what was measured as tidy tables that grow run by run.

The folder is the queue of its runs: ``runs/`` holds a job folder for each, see `toy_models.jobs`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
import torch

from scalefit.errors import DataError
from scalefit.files import write_atomically
from scalefit.numbers import json_text
from toy_models.crew import StopSign, run_crew
from toy_models.jobs import LEASE_SECONDS, Claim, JobFolder, JobState, work_through
from toy_models.transformer.config import ExperimentConfig
from toy_models.transformer.monitor import ResidualStatistics
from toy_models.transformer.text import load_text
from toy_models.transformer.training import Keeper, RunResult, require_device, train_run

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


class RunFolder(JobFolder):
    """The folder of one run.

    Attributes
    ----------
    norm, seed : str, int
    tables : Path
        Its rows of all tables, as JSON of CSV texts.
    checkpoint : Path
        The last saved state of its training.
    """

    def __init__(self, folder: Path, norm: str, seed: int, lease: float = LEASE_SECONDS) -> None:
        super().__init__(folder / "runs" / f"{norm}-s{seed}", lease)
        self.norm, self.seed = norm, seed
        self.tables, self.checkpoint = self.path / "tables.json", self.path / "checkpoint.pt"


def run_experiment(
    config: ExperimentConfig,
    folder: Path,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    retry: bool = True,
    lease: float = LEASE_SECONDS,
    progress: Callable[[str], None] = lambda _line: None,
) -> ExperimentTables:
    """Run what the folder does not hold yet, beside any number of other processes that do the same.

    The tables, timings apart, do not depend on the number of workers, nor on interruptions.

    Parameters
    ----------
    config : ExperimentConfig
        What to run.
    folder : Path
        Made if missing; holds the tables and the configuration they belong to.
    workers : int, optional
        Single-thread processes, one a core by default; 0 runs in this process, as a CUDA device always does.
    executor : Executor, optional
        Any executor whose workers see the folder under the same path; `workers` is the number of jobs it gets.
    retry : bool
        Give runs that failed before their attempts again.
    lease : float
        Seconds after which a run is taken from a worker that does not answer.
    progress : callable
        Is told one line for each finished run, and for each that was given up.

    Raises
    ------
    DataError
        If the folder holds another configuration's tables.
    OptionError
        If the configuration's device is not there.
    KeyboardInterrupt
        If it was interrupted; every run is saved.
    """
    require_device(config)
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    _prepare(folder, config)
    runs = _run_folders(config, folder, lease)
    if retry:
        for run in runs:
            run.forget_failures()
    told = set(zip(*(load_tables(folder).runs[key] for key in KEYS), strict=True))
    total = len(config.norms) * len(config.seeds)

    def tell() -> None:
        if all(not run.is_done or (run.norm, run.seed) in told for run in runs):
            return
        tables = merge_tables(config, folder, runs)
        for row in tables.runs.to_dict("records"):
            if (key := (row["norm"], row["seed"])) not in told:
                told.add(key)
                loss = f"held-out loss {row['held_out_loss']:.3f}"
                progress(f"{len(told)}/{total} {row['norm']} seed {row['seed']}: {row['status']}, {loss}")

    if config.device == "cuda":
        workers = 0
    arguments = (config, str(folder), lease)
    try:
        finished = run_crew(run_runs, arguments, folder, runs, workers=workers, executor=executor, tick=tell)
    finally:
        tell()
    for run in runs:
        if run.state is JobState.FAILED:
            progress(f"{run.norm} seed {run.seed} was given up: {run.error}; the same command tries it again")
    if not finished:
        raise KeyboardInterrupt
    return load_tables(folder)


def _run_folders(config: ExperimentConfig, folder: Path, lease: float) -> list[RunFolder]:
    """The runs that the tables do not hold already, from version 0.1 or from this one."""
    done = set(zip(*(load_tables(folder).runs[key] for key in KEYS), strict=True))
    pairs = [(norm, seed) for seed in config.seeds for norm in config.norms]
    return [RunFolder(folder, norm, seed, lease) for norm, seed in pairs if (norm, seed) not in done]


def run_runs(
    config: ExperimentConfig, folder: str, lease: float, sign: str, tick: Callable[[], None] = lambda: None
) -> bool:
    """Work through the runs of a folder until none is left or the sign says stop; one member of a crew."""
    stop, runs = StopSign(sign), _run_folders(config, Path(folder), lease)

    def run(index: int, claim: Claim) -> bool:
        files = runs[index]
        keeper = Keeper(files.checkpoint, alive=claim.renew, saved=claim.progressed, stop=stop)
        result = run_job(config, files.norm, files.seed, keeper)
        if result is None:
            return False
        rows = {name: _csv(frame) for name, frame in _rows(config, result).items()}
        write_atomically(files.tables, json_text(rows))
        files.checkpoint.unlink(missing_ok=True)
        return True

    return work_through(runs, run, tick=tick, stop=stop)


def run_job(config: ExperimentConfig, norm: str, seed: int, keeper: Keeper) -> RunResult | None:
    """Run one training run, on one thread where the processor does the work."""
    torch.set_flush_denormal(True)
    if config.device == "cpu":
        torch.set_num_threads(1)
    return train_run(config, load_text(), norm, seed, keeper=keeper)


def merge_tables(config: ExperimentConfig, folder: Path, runs: Sequence[RunFolder]) -> ExperimentTables:
    """Add the rows of the runs that are done to the tables, whoever did them, in the configuration's order."""
    order = {norm: place for place, norm in enumerate(config.norms)}
    while True:
        done, tables = [run for run in runs if run.is_done], load_tables(folder)
        known = set(zip(*(tables.runs[key] for key in KEYS), strict=True))
        texts = [json.loads(run.tables.read_bytes()) for run in done if (run.norm, run.seed) not in known]
        merged = {}
        # what says that a run is finished is written last
        for name in ("layers", "timings", "runs"):
            parts = [getattr(tables, name), *(pd.read_csv(io.StringIO(text[name])) for text in texts)]
            merged[name] = pd.concat([part for part in parts if len(part)], ignore_index=True).sort_values(
                KEYS, key=lambda column: column.map(order) if column.name == "norm" else column, kind="stable"
            )
            write_atomically(folder / FILES[name], _csv(merged[name]))
        # Another process may have written more rows just before: who writes last looks again.
        if sum(run.is_done for run in runs) == len(done):
            return ExperimentTables(**merged)


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


def _rows(config: ExperimentConfig, result: RunResult) -> dict[str, pd.DataFrame]:
    """The rows of one run, by table."""
    stages = {"start": result.start, "trained": result.trained}
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
    frames = {
        "layers": pd.concat([_layer_rows(stage, stats) for stage, stats in stages.items() if stats is not None]),
        "runs": pd.DataFrame([run]),
        "timings": pd.DataFrame([timing]),
    }
    for frame in frames.values():
        frame.insert(0, "norm", result.norm)
        frame.insert(1, "seed", result.seed)
    return frames


def _csv(frame: pd.DataFrame) -> str:
    return frame.to_csv(index=False, float_format="%.6g", lineterminator="\n")


def _layer_rows(stage: str, statistics: ResidualStatistics) -> pd.DataFrame:
    columns = statistics.as_dict()
    for name in ("variance", "variance_median"):
        whole = columns.pop(name)
        columns[name], columns[f"{name}_next"] = whole[:-1], whole[1:]
    frame = pd.DataFrame(columns)
    frame.insert(0, "stage", stage)
    return frame


def _prepare(folder: Path, config: ExperimentConfig) -> None:
    """Write the configuration, or check that the folder's is the same."""
    text = json.dumps(asdict(config), indent=1) + "\n"
    path = folder / CONFIG
    if not path.exists():
        write_atomically(path, text)
    elif path.read_text() != text:
        raise DataError(f"{folder} holds the results of another configuration (see {path}); choose another folder")
