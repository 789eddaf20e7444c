"""`scalefit simulate`: coverage, bias and power of a planned table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scalefit.cli.app import INTERRUPTED, AsJson, app, finish, known_level, names_in, print_result, progress_bars, say

if TYPE_CHECKING:
    from scalefit.simulation import Scenario


@app.command()
def simulate(
    design: Annotated[
        str, typer.Argument(metavar="DESIGN", help="A table with the law's columns, or a shipped dataset")
    ],
    law: Annotated[str, typer.Option(help="Columns joined by +")] = "width+depth+tokens",
    objective: Annotated[str, typer.Option(help="log-mse, log-huber:DELTA, mse or huber:DELTA")] = "log-mse",
    truth: Annotated[
        str | None, typer.Option(help="A FIT file, or NAME=VALUE,... for each parameter [fit of the design's losses]")
    ] = None,
    noise: Annotated[
        float | None, typer.Option(help="Standard deviation of each row's noise, in ln loss [the fit's, or 0.005]")
    ] = None,
    group_noise: Annotated[
        float | None, typer.Option(help="Standard deviation of the noise that a group shares [the fit's, or 0]")
    ] = None,
    by: Annotated[str | None, typer.Option(help="Group: run, shape or a column [the fit's, or shape]")] = None,
    against: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Power: share of intervals without this value")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Any of the methods of ci [analytic, profile and pairs]")
    ] = None,
    tables: Annotated[int, typer.Option(help="Tables to simulate")] = 200,
    resamples: Annotated[int, typer.Option(help="Bootstrap replicates of each")] = 400,
    level: Annotated[float, typer.Option(callback=known_level, help="Confidence level")] = 0.95,
    jobs: Annotated[int, typer.Option(help="Processes; results are the same for any number")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random")] = 0,
    as_json: AsJson = False,
) -> None:
    """Simulate a planned table many times: do intervals hold the truth, and would they tell values apart?

    Ends with status 3 if the median table would not determine every parameter.
    """
    from scalefit.errors import OptionError
    from scalefit.simulation import simulate as run_simulation
    from scalefit.uncertainty.comparison import Settings

    if jobs < 1 or tables < 1:
        raise OptionError(f"--jobs is {jobs} and --tables {tables}; both must be at least 1")
    scenario = _scenario(design, law, objective, truth, (noise, group_noise, by))
    settings = Settings(level, resamples, None, seed, jobs if jobs > 1 else 0)
    methods = names_in(method or ["analytic", "profile", "pairs"])
    with progress_bars() as bars:
        result = run_simulation(
            scenario,
            tables,
            methods=methods,
            against=_values(",".join(against or ()), "--against"),
            settings=settings,
            progress=bars("tables"),
        )
    print_result(result, as_json)
    if result.n_tables < tables:
        say(f"interrupted after {result.n_tables} of {tables} tables, which are printed")
        raise typer.Exit(INTERRUPTED)
    finish(all(share.value >= 0.5 for share in result.determined.values()), ())


def _scenario(
    design: str,
    law_text: str,
    objective_text: str,
    truth: str | None,
    noises: tuple[float | None, float | None, str | None],
) -> Scenario:
    """The truth asked for; the noise is what the fit found, where there is one, unless it was given."""
    from scalefit.datasets import list_datasets, load_dataset
    from scalefit.fitting.file import is_fit_file, load_fit
    from scalefit.fitting.fit import fit
    from scalefit.fitting.objective import Objective
    from scalefit.laws.law import Law
    from scalefit.runs import Runs
    from scalefit.simulation import Scenario

    shipped = design in list_datasets() and not Path(design).exists()
    # A plan has no losses; reading asks for some.
    runs = load_dataset(design) if shipped else Runs.from_csv(design, {} if truth is None else {"loss": "1"})
    if truth is None or is_fit_file(truth):
        fitted = fit(runs, law_text, objective_text) if truth is None else load_fit(truth)
        scenario = Scenario.of(fitted, runs.complete(fitted.law.columns))
    else:
        law = Law.parse(law_text)
        params = _values(truth, "--truth")
        scenario = Scenario(runs.complete(law.columns), law, params, Objective.parse(objective_text))
    names = ("noise", "group_noise", "by")
    given: dict[str, Any] = {name: value for name, value in zip(names, noises, strict=True) if value is not None}
    return replace(scenario, **given)


def _values(text: str, option: str) -> dict[str, float]:
    from scalefit.errors import OptionError

    values = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (piece.strip() for piece in part.partition("="))
        try:
            values[name] = float(value)
        except ValueError:
            raise OptionError(
                f"{option} {part!r} is not NAME=VALUE; write for example {option} alpha_depth=1"
            ) from None
    return values
