"""`scalefit theory`: the BHyT and LayerNorm Scaling bounds, checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scalefit.cli.app import DONE, NO_ANSWER, WARNED, AsJson, app, print_json
from scalefit.errors import OptionError

if TYPE_CHECKING:
    from scalefit.theory.checks import Sampling, TheoremCheck
    from scalefit.theory.checks.registry import Finding

_BOUND = "Options of bhyt-bound"


@app.command()
def theory(
    check: Annotated[str, typer.Argument(help="bhyt-bound, another name from `list`, `list` or `all`")],
    lam: Annotated[float | None, typer.Option(help="lambda [default: 1]", rich_help_panel=_BOUND)] = None,
    kappa: Annotated[float | None, typer.Option(help="kappa [default: 10]", rich_help_panel=_BOUND)] = None,
    depth: Annotated[int | None, typer.Option(help="Blocks L [default: 64]", rich_help_panel=_BOUND)] = None,
    norm: Annotated[
        str | None,
        typer.Option(help="bhyt-exact, bhyt-ideal or control [default: bhyt-exact]", rich_help_panel=_BOUND),
    ] = None,
    mean: Annotated[
        float | None, typer.Option(help="Mean of the embedding in deviations [default: 0]", rich_help_panel=_BOUND)
    ] = None,
    alignment: Annotated[
        float | None, typer.Option(help="rho of both streams [default: 0]", rich_help_panel=_BOUND)
    ] = None,
    lns_power: Annotated[
        float | None, typer.Option(help="p in the claim m_LNS = l^-p [default: 1]", rich_help_panel=_BOUND)
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Independent seeds of each simulation")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulations")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Folder to write the figures to")] = None,
    as_json: AsJson = False,
) -> None:
    """Check what theory says of normalised residual streams: the bound, where it is tight, where it breaks.

    Ends with status 1 if a claim is violated, 3 if one stays inconclusive.
    """
    from scalefit.theory.checks import CHECKS, BoundSetting, Sampling, check_bhyt_bound, find_check
    from scalefit.theory.checks.registry import list_checks

    if check == "list":
        listed = [{"check": item.name, "claim": item.claim} for item in CHECKS.values()]
        if as_json:
            print_json(listed)
        else:
            typer.echo(list_checks(CHECKS.values()))
        return
    given = {"lam": lam, "kappa": kappa, "depth": depth, "norm": norm, "mean": mean, "alignment": alignment}
    options: dict[str, Any] = {
        name: value for name, value in (given | {"lns_power": lns_power}).items() if value is not None
    }
    if options and check != "bhyt-bound":
        names = ", ".join("--" + name.replace("_", "-") for name in options)
        raise OptionError(f"{names} belongs to the check bhyt-bound, not to {check}; leave it out")
    setting, sampling = BoundSetting(**options), Sampling(seed, seeds)
    if check == "bhyt-bound":
        chosen = [check_bhyt_bound(setting)]
    else:
        chosen = list(CHECKS.values()) if check == "all" else [find_check(check)]
    status = run_checks(chosen, sampling, as_json)
    if plot is not None:
        from scalefit.plots.theory import save_theory_figures

        for path in save_theory_figures(plot, setting, sampling):
            typer.echo(f"wrote {path}", err=True)
    raise typer.Exit(status)


def run_checks(chosen: list[TheoremCheck], sampling: Sampling, as_json: bool) -> int:
    """Run the checks, print their findings as they come or as one JSON document, and return the exit status."""
    from scalefit.theory.checks.registry import COLUMNS, describe_findings, summarise
    from scalefit.theory.verdict import Outcome, worst

    results: list[Finding] = []
    for position, check in enumerate(chosen):
        found = check.run(sampling)
        results += found
        if not as_json:
            typer.echo(
                (f"{COLUMNS}\n" if position == 0 else "") + describe_findings(f"{check.name}: {check.claim}", found)
            )
    if as_json:
        print_json([result.to_dict() for result in results])
    else:
        typer.echo(summarise(results))
    statuses = {Outcome.HOLDS: DONE, Outcome.VIOLATED: WARNED, Outcome.INCONCLUSIVE: NO_ANSWER}
    return statuses[worst([result.verdict for result in results])]
