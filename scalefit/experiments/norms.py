"""What a depth experiment's tables say: how the stream grew, what theory predicts, where the bound holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from scalefit.datasets import read_table
from scalefit.errors import DataError
from scalefit.numbers import to_json
from scalefit.theory.bounds import BoundComparison, check_measured
from scalefit.theory.moments import approximated_square, swiglu_increment
from scalefit.theory.norms import Norm

__all__ = [
    "BoundRow",
    "ExperimentSummary",
    "NormRow",
    "NormTables",
    "compare_with_lns",
    "describe",
    "predicted_start",
    "summarise",
]

FloatArray = NDArray[np.float64]

STAGES = ("start", "trained")
BOUNDED = ("bhyt", "bhyt-exact", "bhyt-ideal", "control")
"""Norms that the bound, or the same argument, is about."""

PER_SITE = ("second_moment", "increment_variance", "alignment", "variance_ratio")
STATES = ("variance", "variance_next", "variance_median", "variance_median_next")
SIZES = ("width", "hidden", "sequence_length", "initial_std")
REQUIRED = {
    "layers": ("norm", "seed", "stage", "block", "site", "gain", "saturation", *PER_SITE, *STATES),
    "runs": ("norm", "seed", "status", "steps", "held_out_loss", "lam", "kappa", "alpha", *SIZES),
}
"""Columns of each table that are read here."""


@dataclass(frozen=True)
class NormTables:
    """Tables of a depth experiment.

    Attributes
    ----------
    layers : DataFrame
        One row for each norm, seed, stage (``"start"``, ``"trained"``), block and site.
    runs : DataFrame
        One row for each norm and seed: status, losses in nats per byte, sizes and constants.
    """

    layers: pd.DataFrame
    runs: pd.DataFrame

    @classmethod
    def from_folder(cls, folder: Path) -> NormTables:
        """Read the tables that ``scalefit norms PRESET -o FOLDER`` wrote."""
        frames = []
        for name in ("layers", "runs"):
            path = folder / f"norm_experiment_{name}.csv"
            if not path.is_file():
                raise DataError(f"{path} is missing; run scalefit norms PRESET -o {folder} first")
            frame = pd.read_csv(path)
            missing = [column for column in REQUIRED[name] if column not in frame.columns]
            if missing:
                raise DataError(
                    f"{path} lacks the columns {', '.join(missing)}; run scalefit norms again, to a new folder"
                )
            frames.append(frame)
        return cls(*frames)

    @classmethod
    def shipped(cls) -> NormTables:
        """Read the tables of this project's own run."""
        return cls(read_table("norm_experiment_layers"), read_table("norm_experiment_runs"))

    @property
    def norms(self) -> tuple[str, ...]:
        """Names of the norms, in the experiment's order."""
        return tuple(self.runs["norm"].unique())

    @property
    def ratio(self) -> float:
        """a = lambda / kappa at the start."""
        return float(self.runs["lam"].iloc[0] / self.runs["kappa"].iloc[0])

    def sites(self, norm: str, stage: str, seed: int) -> pd.DataFrame:
        """Return the rows of one stream in the order of the forward pass; none if the run has no such stage."""
        rows = self.layers
        chosen = rows[(rows["norm"] == norm) & (rows["stage"] == stage) & (rows["seed"] == seed)]
        return chosen.sort_values("block", kind="stable")

    def seeds(self, norm: str, stage: str) -> tuple[int, ...]:
        """Return the seeds whose run of a norm reached a stage."""
        rows = self.layers
        return tuple(rows.loc[(rows["norm"] == norm) & (rows["stage"] == stage), "seed"].unique())

    def path(self, norm: str, stage: str, column: str = "variance") -> FloatArray:
        """Return `column` (``variance`` or ``variance_median``) after 0 .. 2L sites, (n_seeds, 2L + 1)."""
        streams = [self.sites(norm, stage, seed) for seed in self.seeds(norm, stage)]
        return np.array([[*rows[column], rows[f"{column}_next"].iloc[-1]] for rows in streams])


def predicted_start(tables: NormTables, norm: str) -> FloatArray:
    """Return the variance after 0 .. 2L sites that theory expects of an untrained model, (2L + 1,).

    Taken from the measurement: the embedding's variance and attention's gain in each block, which depends on
    how alike the tokens are. Predicted: every norm's second moment, SwiGLU's increment (`swiglu_increment`
    of ``width std² m`` with gain ``hidden std²``), and updates that are independent of the stream.
    """
    run = tables.runs.iloc[0]
    law = Norm(norm, lam=run["lam"], kappa=run["kappa"], alpha=run["alpha"])
    streams = [tables.sites(norm, "start", seed) for seed in tables.seeds(norm, "start")]
    attention = np.mean([rows.loc[rows["site"] == "attention", "gain"] for rows in streams], axis=0)
    map_gain = run["width"] * run["initial_std"] ** 2
    # c of BHyT's second site for random weights: ||W_V W_O||_F² = width map_gain²
    constant = map_gain**2 / run["sequence_length"]
    path = [float(np.mean([rows["variance"].iloc[0] for rows in streams]))]
    for block, gain in enumerate(attention, start=1):
        v = path[-1]
        m = law.second_moment(block, v)
        path.append(v + (1.0 if law.normalises_output else gain * m))
        ratio = path[-1] / float(approximated_square(v, tables.ratio, constant))
        m = law.second_moment(block, path[-1], variance_ratio=ratio)
        update = float(swiglu_increment(map_gain * m, gain=run["hidden"] * run["initial_std"] ** 2))
        path.append(path[-1] + (1.0 if law.normalises_output else update))
    return np.array(path)


def compare_with_lns(tables: NormTables, norm: str, stage: str, seed: int) -> BoundComparison:
    """Check the bound on one pair of measured streams: a bounded norm's and LayerNorm Scaling's of the same seed.

    Raises
    ------
    DataError
        One of the two runs has no such stage.
    """
    pair = []
    for name in (norm, "lns"):
        rows = tables.sites(name, stage, seed)
        if rows.empty:
            raise DataError(f"the tables hold no stream of {name} with seed {seed} at the stage {stage!r}")
        arrays: dict[str, object] = {column: rows[column].to_numpy() for column in ("block", *PER_SITE)}
        pair.append(arrays | {"variance": np.array([*rows["variance"], rows["variance_next"].iloc[-1]])})
    return check_measured(*pair, ratio=tables.ratio)


@dataclass(frozen=True)
class NormRow:
    """One norm over its seeds: medians over tokens of the variance after the last block, and the loss.

    `start` and `trained` hold one number a seed; `alignment`, `gain` and `saturation` are means over sites and
    seeds of the trained streams, `variance_ratio` the largest, NaN where they do not exist.
    """

    norm: str
    start: tuple[float, ...]
    trained: tuple[float, ...]
    held_out_loss: tuple[float, ...]
    alignment: float
    gain: float
    variance_ratio: float
    saturation: float

    @classmethod
    def of(cls, tables: NormTables, norm: str) -> NormRow:
        """Reduce the rows of one norm."""
        rows = tables.layers[(tables.layers["norm"] == norm) & (tables.layers["stage"] == "trained")]
        ends = {stage: tables.path(norm, stage, "variance_median") for stage in STAGES}
        runs = tables.runs[(tables.runs["norm"] == norm) & (tables.runs["status"] == "trained")]
        return cls(
            norm=norm,
            **{stage: tuple(map(float, path[:, -1])) if len(path) else () for stage, path in ends.items()},
            held_out_loss=tuple(map(float, runs["held_out_loss"])),
            alignment=float(rows["alignment"].mean()),
            gain=float(rows["gain"].mean()),
            variance_ratio=float(rows["variance_ratio"].max()),
            saturation=float(rows["saturation"].mean()),
        )


@dataclass(frozen=True)
class BoundRow:
    """The bound on the streams of one norm, one stage and one seed.

    Attributes
    ----------
    increments, variances : str
        Verdicts on m < m_LNS at every site and on the smaller residual variance after it.
    largest_ratio : float
        Largest variance over that of LNS.
    broken : tuple of str
        Assumptions measured to be broken, with the first block, for example ``"gain@3"``.
    """

    norm: str
    stage: str
    seed: int
    increments: str
    variances: str
    largest_ratio: float
    broken: tuple[str, ...]

    @classmethod
    def of(cls, tables: NormTables, norm: str, stage: str, seed: int) -> BoundRow:
        """Check one pair of streams."""
        found = compare_with_lns(tables, norm, stage, seed)
        other, own = (tables.sites(name, stage, seed)["variance_next"].to_numpy() for name in ("lns", norm))
        broken = tuple(f"{a.name}@{a.layer}" for a in found.assumptions if a.holds is False)
        return cls(
            norm=norm,
            stage=stage,
            seed=int(seed),
            increments=str(found.increments.verdict),
            variances=str(found.verdict),
            largest_ratio=float(np.max(own / other)),
            broken=broken,
        )


@dataclass(frozen=True)
class ExperimentSummary:
    """How the streams grew, and whether the bound holds on them."""

    norms: tuple[NormRow, ...]
    bounds: tuple[BoundRow, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-ready form; numbers that do not exist are null."""
        document: dict[str, Any] = to_json(self)
        return document


def summarise(tables: NormTables) -> ExperimentSummary:
    """Reduce the tables to one row a norm, and check the bound on every pair of streams."""
    bounds = [
        BoundRow.of(tables, norm, stage, seed)
        for norm in BOUNDED
        if norm in tables.norms and "lns" in tables.norms
        for stage in STAGES
        for seed in tables.seeds(norm, stage)
        if seed in tables.seeds("lns", stage)
    ]
    return ExperimentSummary(tuple(NormRow.of(tables, norm) for norm in tables.norms), tuple(bounds))


def describe(summary: ExperimentSummary) -> str:
    """Lay out the summary as two tables of plain text."""
    lines = [
        "Variance after the last block, median over tokens, by seed; loss in nats per byte ranks nothing here.",
        f"{'norm':11} {'start':>22} {'trained':>22} {'held-out loss':>20} {'rho':>6} {'g':>7} {'q max':>6}",
    ]
    lines += [
        f"{row.norm:11} {_list(row.start):>22} {_list(row.trained):>22} {_list(row.held_out_loss):>20} "
        f"{row.alignment:6.2f} {row.gain:7.3g} {row.variance_ratio:6.3g}"
        for row in summary.norms
    ]
    lines += ["", "Against LayerNorm Scaling of the same seed, site by site.", _BOUND_HEADER]
    lines += [
        f"{row.norm:11} {row.stage:8} {row.seed:4} {row.increments:>12} {row.variances:>12} "
        f"{row.largest_ratio:10.3g}  {', '.join(row.broken) or 'none'}"
        for row in summary.bounds
    ]
    return "\n".join(lines)


_BOUND_HEADER = (
    f"{'norm':11} {'stage':8} seed {'increments':>12} {'variance':>12} {'max v/vLNS':>10}  broken assumptions"
)


def _list(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:.3g}" for value in values)
