"""`scalefit predict`: losses of models not trained yet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scalefit.cli.app import AsJson, app, finish, known_level, print_result

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from scalefit.laws.law import Law
    from scalefit.runs import Runs


@app.command()
def predict(
    fit: Annotated[Path, typer.Argument(metavar="FIT", help="What `scalefit fit RUNS -o fit.json` wrote")],
    points: Annotated[Path | None, typer.Argument(metavar="[POINTS]", help="A table with the law's columns")] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE,...", help="A point instead of a table: width=4096,depth=40,tokens=1T"),
    ] = None,
    level: Annotated[float, typer.Option(callback=known_level, help="Confidence level of the intervals")] = 0.95,
    as_json: AsJson = False,
) -> None:
    """Predict losses with two intervals: for the law's mean, and for one new run.

    Where the table holds losses, they are set beside the predictions: the error, and whether the interval held.

    Both take the law for true; how far a point lies beyond the fitted table is given in
    decades. Ends with status 3 if the data do not determine a loss.
    """
    from scalefit.fitting.file import load_fit
    from scalefit.prediction import prediction_interval

    fitted = load_fit(fit)
    asked = _points(points, at or [], fitted.law)
    prediction = replace(prediction_interval(fitted, asked, level=level), observed=_measured(points))
    print_result(prediction, as_json)
    finish(prediction.determined, prediction.warnings)


def _points(path: Path | None, at: list[str], law: Law) -> Runs | dict[str, list[float]]:
    """Read points from a table or from the words of the command line."""
    from scalefit.errors import OptionError
    from scalefit.runs import Runs

    if (path is None) == (not at):
        raise OptionError("give the points either as a table or with --at width=4096,depth=40,tokens=1T")
    if path is not None:
        return Runs.from_csv(path, {"loss": "1"})  # points have no loss; reading asks for one
    rows = [_point(text, law) for text in at]
    if any(row.keys() != rows[0].keys() for row in rows):
        raise OptionError("every --at must name the same columns")
    return {name: [_number(name, row[name]) for row in rows] for name in rows[0]}


def _measured(path: Path | None) -> NDArray[np.float64] | None:
    """Return the losses of a table of points, nan where it has none; None if it has no loss column."""
    import numpy as np

    from scalefit.errors import DataError
    from scalefit.runs import Runs

    if path is None:
        return None
    try:
        runs = Runs.from_csv(path)
    except DataError as error:
        if "has no loss column" in str(error) or "is empty" in str(error) or "no row is left" in str(error):
            return None
        raise
    runs.require_positive(["loss"])
    lines = Runs.from_csv(path, {"loss": "1"}).lines
    observed = np.full(len(lines), np.nan)
    observed[np.searchsorted(lines, runs.lines)] = runs["loss"]
    return observed


def _point(text: str, law: Law) -> dict[str, str]:
    """Read one --at: every column of the law at most once, and nothing else."""
    from scalefit.errors import OptionError

    pairs = [_pair(part, text) for part in text.split(",")]
    names = [name for name, _ in pairs]
    for name in names:
        if name not in law.columns:
            raise OptionError(
                f"--at {text!r}: the law {law} has no column {name!r}; its columns are {', '.join(law.columns)}"
            )
        if names.count(name) > 1:
            raise OptionError(f"--at {text!r} gives {name} {names.count(name)} times; give it once")
    return dict(pairs)


def _number(name: str, text: str) -> float:
    """Read a number such as 4096, 1e12 or 1T."""
    from scalefit.errors import OptionError
    from scalefit.ingest.numbers import Locale, parse_number

    value = parse_number(text, Locale())
    if value is None:
        raise OptionError(f"--at {name}={text}: {text!r} is not a number")
    return value


def _pair(part: str, text: str) -> tuple[str, str]:
    from scalefit.errors import OptionError

    name, equals, value = (piece.strip() for piece in part.partition("="))
    if not (name and equals and value):
        raise OptionError(f"--at {text!r} is not NAME=VALUE,...; write for example --at width=4096,depth=40,tokens=1T")
    return name, value
