"""Do the intervals that `fit` and `predict` print hold the truth? Designs, noises, and the share of tables that do.

A sample runs in `tests/statistical`; the whole, 400 tables a design, by

    make coverage            (python tests/coverage_matrix.py --tables 400 --jobs 2 --markdown)

A cell is a quantity on a design. It passes where a one-sided binomial test does not reject that its coverage is at
least 93 % (91 where runs are so few that the design says so); Holm's correction over the matrix keeps the chance of
one false alarm in it at 5 %.
"""

from __future__ import annotations

import argparse
import functools
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from scalefit.datasets import load_dataset
from scalefit.errors import FitError
from scalefit.execute import run_jobs
from scalefit.fitting.fit import fit
from scalefit.laws.law import Law
from scalefit.prediction import prediction_interval
from scalefit.runs import Runs

Columns = dict[str, np.ndarray]
Noise = Callable[[np.random.Generator, Columns, Columns], np.ndarray]

TRUTH = {
    "c_width": 300.0,
    "alpha_width": 1.0,
    "c_depth": 10.0,
    "alpha_depth": 1.0,
    "c_tokens": 504.7659,
    "alpha_tokens": 0.3,
    "L0": 1.7,
}
POINTS = {
    "inside": {"width": 1024.0, "depth": 16.0, "tokens": 1e10},
    "outside": {"width": 4096.0, "depth": 64.0, "tokens": 4e11},
    "small": {"width": 256.0, "depth": 4.0, "tokens": 1e9},
}


@dataclass(frozen=True)
class Design:
    """A table that is drawn again and again.

    Attributes
    ----------
    grid : callable
        From random numbers to columns without losses; ``run`` where rows share runs.
    noise : callable
        From random numbers, the law's columns and labels (``run``, ``shape``) to differences of ln loss.
    law, params, objective
        The truth, and what is fitted.
    least : float
        Coverage below which a cell fails.
    conservative : bool
        Whether intervals may hold the truth too often.
    """

    grid: Callable[[np.random.Generator], Columns]
    noise: Noise
    law: str = "width+depth+tokens"
    params: dict[str, float] = field(default_factory=lambda: TRUTH)
    objective: str = "log-mse"
    least: float = 0.93
    conservative: bool = False

    def losses(self, rng: np.random.Generator, columns: Columns) -> np.ndarray:
        """The law's losses with noise."""
        table = {name: values for name, values in columns.items() if name != "run"}
        shapes = np.stack([values for name, values in table.items() if name != "tokens"] or [columns["tokens"]])
        labels = {
            "run": columns.get("run", np.arange(len(columns["tokens"]))).astype(int),
            "shape": np.unique(shapes, axis=1, return_inverse=True)[1].reshape(-1),
        }
        truth = Law.parse(self.law).predict(table, self.params)
        return np.asarray(truth * np.exp(self.noise(rng, table, labels)))


def cells(*, rows: int) -> Callable[[np.random.Generator], Columns]:
    """Rows of their own, drawn log-uniformly."""

    def grid(rng: np.random.Generator) -> Columns:
        return {
            "width": np.round(np.exp(rng.uniform(np.log(256), np.log(4096), rows)) / 64) * 64,
            "depth": np.round(np.exp(rng.uniform(np.log(4), np.log(64), rows))),
            "tokens": np.exp(rng.uniform(np.log(1e9), np.log(1e11), rows)),
        }

    return grid


def along_runs(*lengths: int, shapes: int | None = None) -> Callable[[np.random.Generator], Columns]:
    """Runs of so many rows each along their training; each of its own shape, or `shapes` shared by all."""

    def grid(rng: np.random.Generator) -> Columns:
        own = cells(rows=shapes or len(lengths))(rng)
        run = np.repeat(np.arange(len(lengths)), lengths)
        shape = np.arange(len(lengths)) % len(own["width"])
        tokens = [
            np.geomspace(1e9, 1e11, n) if n > 1 else np.exp(rng.uniform(np.log(1e9), np.log(1e11), 1)) for n in lengths
        ]
        return {
            "width": own["width"][shape][run],
            "depth": own["depth"][shape][run],
            "tokens": np.concatenate(tokens),
            "run": run,
        }

    return grid


def chinchilla(_: np.random.Generator) -> Columns:
    """The rows of the Chinchilla table."""
    runs = _chinchilla_rows()
    return {name: runs[name] for name in ("width", "depth", "tokens")}


@functools.cache
def _chinchilla_rows() -> Runs:
    return load_dataset("chinchilla").drop_worst(40)


def shared(row: float, *, run: float = 0.0, shape: float = 0.0) -> Noise:
    """Normal noise of rows, runs and shapes."""

    def noise(rng: np.random.Generator, columns: Columns, labels: Columns) -> np.ndarray:
        errors = row * rng.standard_normal(len(columns["tokens"]))
        for by, size in (("run", run), ("shape", shape)):
            if size:
                errors = errors + size * rng.standard_normal(int(labels[by].max()) + 1)[labels[by]]
        return errors

    return noise


def falling(rng: np.random.Generator, columns: Columns, _: Columns) -> np.ndarray:
    """Noise of 1.2 % at the smallest width, falling to 0.2 % at the largest."""
    share = np.clip(np.log(columns["width"] / 256) / np.log(16), 0, 1)
    return np.asarray(0.012 * (0.2 / 1.2) ** share * rng.standard_normal(len(share)))


def student(size: float) -> Noise:
    """Noise with tails of Student's t with 3 degrees of freedom."""
    return lambda rng, columns, _: np.asarray(size * rng.standard_t(3, len(columns["tokens"])) / 3**0.5)


def autoregressive(rng: np.random.Generator, columns: Columns, labels: Columns) -> np.ndarray:
    """Residuals along a run that follow their last with 0.9."""
    errors = 0.005 * rng.standard_normal(len(columns["tokens"]))
    for i in range(1, len(errors)):
        if labels["run"][i] == labels["run"][i - 1]:
            errors[i] = 0.9 * errors[i - 1] + (1 - 0.81) ** 0.5 * errors[i]
    return errors


def slopes(rng: np.random.Generator, columns: Columns, labels: Columns) -> np.ndarray:
    """Every run with an exponent of tokens of its own, 1 % around the law's at the table's centre."""
    own = 0.003 * rng.standard_normal(int(labels["run"].max()) + 1)[labels["run"]]
    errors = -own * np.log(columns["tokens"] / 1e10) / 2 + 0.002 * rng.standard_normal(len(own))
    return np.asarray(errors)


UNEVEN = (1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 7, 8, 10, 12, 15, 19, 24, 31, 40)

DESIGNS: dict[str, Design] = {
    "12 rows": Design(cells(rows=12), shared(0.005)),
    "15 rows": Design(cells(rows=15), shared(0.005)),
    "30 rows": Design(cells(rows=30), shared(0.005)),
    "80 rows": Design(cells(rows=80), shared(0.005)),
    "20 runs x 3": Design(along_runs(*[3] * 20), shared(0.002, run=0.005)),
    "12 runs x 5": Design(along_runs(*[5] * 12), shared(0.002, run=0.005)),
    "8 runs x 10": Design(along_runs(*[10] * 8), shared(0.002, run=0.005), least=0.91, conservative=True),
    "40 runs x 8": Design(along_runs(*[8] * 40), shared(0.002, run=0.005)),
    "Chinchilla, no effect": Design(chinchilla, shared(0.004), conservative=True),
    "Chinchilla, shape .15 %": Design(chinchilla, shared(0.004, shape=0.0015)),
    "Chinchilla, shape .3 %": Design(chinchilla, shared(0.004, shape=0.003), conservative=True),
    "80 rows, noise falls with width": Design(cells(rows=80), falling),
    "80 rows, t of 3 degrees": Design(cells(rows=80), student(0.005)),
    "12 runs x 5, AR(1) .9": Design(along_runs(*[5] * 12), autoregressive),
    "12 runs x 5, own exponents": Design(along_runs(*[5] * 12), slopes, conservative=True),
    "40 rows, floor 0": Design(cells(rows=40), shared(0.01), params={**TRUTH, "L0": 0.0}, conservative=True),
    "40 rows, floor .25": Design(cells(rows=40), shared(0.01), params={**TRUTH, "L0": 0.25}),
    "40 rows, floor .5": Design(cells(rows=40), shared(0.01), params={**TRUTH, "L0": 0.5}),
    "80 rows, t of 3 degrees, log-huber": Design(cells(rows=80), student(0.005), objective="log-huber:1e-3"),
    "20 runs of 1 to 40 rows": Design(along_runs(*UNEVEN), shared(0.002, run=0.005)),
    "15 shapes x 2 runs x 3": Design(along_runs(*[3] * 30, shapes=15), shared(0.002, run=0.003, shape=0.003)),
}


@dataclass(frozen=True)
class Outcome:
    """Intervals of one table: quantity -> (low, high, truth); withheld ones are nan."""

    ends: dict[str, tuple[float, float, float]]


def measure(design: Design, rng: np.random.Generator, errors: str = "auto") -> Outcome | None:
    """Draw a table, fit it, and look at every interval that is printed; None where nothing could be fitted."""
    columns = design.grid(rng)
    runs = Runs.from_columns({**columns, "loss": design.losses(rng, columns)})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = fit(runs, design.law, design.objective, n_starts=8, seed=int(rng.integers(2**31)), errors=errors)
            ends = {name: (*fitted.intervals()[name], design.params[name]) for name in fitted.params}
            points = {name: np.array([point[name] for point in POINTS.values()]) for name in fitted.law.columns}
            found = prediction_interval(fitted, points)
    except FitError:
        return None
    truth = fitted.law.predict(points, design.params)
    for i, name in enumerate(POINTS):
        new = design.losses(rng, {column: values[i : i + 1] for column, values in points.items()})
        ends[f"mean {name}"] = (*found.mean[i].tolist(), float(truth[i]))
        ends[f"new run {name}"] = (*found.new_run[i].tolist(), float(new[0]))
    return Outcome(ends)


def measure_piece(job: tuple[str, str, np.random.SeedSequence, int]) -> list[Outcome]:
    """A piece of work: some tables of a design."""
    name, errors, sequence, n_tables = job
    rng = np.random.default_rng(sequence)
    found = (measure(DESIGNS[name], rng, errors) for _ in range(n_tables))
    return [outcome for outcome in found if outcome is not None]


@dataclass(frozen=True)
class Cell:
    """The coverage of a quantity on a design."""

    design: str
    quantity: str
    hits: int
    n: int
    withheld: int

    @property
    def share(self) -> float:
        """Of the intervals given, those that hold the truth."""
        return self.hits / self.n if self.n else float("nan")

    @property
    def p_value(self) -> float:
        """Probability of so few hits where the coverage is the least that passes."""
        return float(stats.binom.cdf(self.hits, self.n, DESIGNS[self.design].least)) if self.n else 1.0


def matrix(
    names: Iterable[str] = DESIGNS, n_tables: int = 400, errors: str = "auto", seed: int = 2026, workers: int = 0
) -> list[Cell]:
    """The coverage of every quantity on each design."""
    names, piece = list(names), 20
    pieces = [min(piece, n_tables - first) for first in range(0, n_tables, piece)]
    jobs = [
        (name, errors, sequence, size)
        for name in names
        # The tables of a design do not depend on which others are asked for.
        for sequence, size in zip(
            np.random.SeedSequence([seed, list(DESIGNS).index(name)]).spawn(len(pieces)), pieces, strict=True
        )
    ]
    outcomes: dict[str, list[Outcome]] = {name: [] for name in names}
    for job, found in zip(jobs, run_jobs(measure_piece, jobs, workers, None), strict=False):
        outcomes[job[0]] += found
    found = []
    for name, tables in outcomes.items():
        for quantity in tables[0].ends if tables else ():
            ends = np.array([table.ends[quantity] for table in tables])
            known = ~np.isnan(ends[:, :2]).any(axis=1)
            low, high, truth = ends[known].T
            hits = int(np.sum((low <= truth) & (truth <= high)))
            found.append(Cell(name, quantity, hits, int(known.sum()), int((~known).sum())))
    return found


def failures(cells: list[Cell], chance: float = 0.05) -> list[Cell]:
    """Cells whose coverage is too low, with Holm's correction (1979) over all of them."""
    ordered = sorted(cells, key=lambda cell: cell.p_value)
    failed = []
    for i, cell in enumerate(ordered):
        if cell.p_value > chance / (len(ordered) - i):
            break
        failed.append(cell)
    return failed


def table(cells: list[Cell]) -> str:
    """The matrix in Markdown: designs down, quantities across, per cent."""
    quantities = list(dict.fromkeys(cell.quantity for cell in cells))
    found = {(cell.design, cell.quantity): cell for cell in cells}
    lines = ["| design | " + " | ".join(quantities) + " |", "|---" * (len(quantities) + 1) + "|"]
    for design in dict.fromkeys(cell.design for cell in cells):
        row = [found.get((design, quantity)) for quantity in quantities]
        shown = ["-" if cell is None or not cell.n else f"{100 * cell.share:.1f}" for cell in row]
        lines.append(f"| {design} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def main() -> int:
    """Print the matrix, its mean and what failed; 1 where anything did."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", type=int, default=400)
    parser.add_argument("--errors", default="auto", help="rows is the negative control")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("designs", nargs="*", help="names, all by default")
    options = parser.parse_args()
    workers = options.jobs if options.jobs > 1 else 0
    found = matrix(options.designs or DESIGNS, options.tables, options.errors, options.seed, workers)
    failed = failures(found)
    withheld = [f"{cell.design}, {cell.quantity}: {cell.withheld}" for cell in found if cell.withheld]
    print(table(found))  # noqa: T201
    print(f"\nmean over {len(found)} cells {100 * np.mean([c.share for c in found if c.n]):.2f} %")  # noqa: T201
    print("withheld:", "; ".join(withheld) or "none")  # noqa: T201
    wide = [c for c in found if c.share > 0.985 and not DESIGNS[c.design].conservative]
    print("above 98.5 %:", "; ".join(f"{c.design}, {c.quantity} {100 * c.share:.1f}" for c in wide) or "none")  # noqa: T201
    print("too low:", "; ".join(f"{c.design}, {c.quantity} {100 * c.share:.1f}" for c in failed) or "none")  # noqa: T201
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
