"""Shared options: the same in every command that has them, by inheritance."""

from __future__ import annotations

from dataclasses import MISSING, fields

import pytest
import typer

from scalefit.cli.app import app, names_in
from scalefit.cli.ci import Ci
from scalefit.cli.fit import Fit
from scalefit.cli.optimal import Optimal
from scalefit.cli.plot import Plot
from scalefit.cli.request import FitRequest, RunsRequest
from scalefit.cli.suggest import Suggest
from scalefit.errors import OptionError

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["fit", "ci", "optimal", "plot", "suggest", "check"])
def test_a_command_has_the_shared_options_first_with_their_defaults(name: str) -> None:
    shared = fields(RunsRequest if name == "check" else FitRequest)
    parameters = COMMANDS[name].params[: len(shared)]
    assert [p.name for p in parameters] == [f.name for f in shared]
    for parameter, field in zip(parameters[1:], shared[1:], strict=True):
        assert field.default is not MISSING
        assert parameter.default in (field.default, [])


@pytest.mark.parametrize("kind", [Fit, Ci, Optimal, Plot, Suggest])
def test_an_option_beside_a_finished_fit_is_named_as_it_was_written(kind: type[FitRequest]) -> None:
    given = {"form": "csv", "loss_unit": "bits", "drop_worst": 3, "law": "depth", "where": ["depth > 2"]}
    request = kind(["fit.json"], **given)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="which --loss-unit, --format, --where, --drop-worst, --law cannot change"):
        request._refuse_options()
    kind(["fit.json"], column=[], seed=7)._refuse_options()


def test_names_may_be_repeated_or_hold_commas() -> None:
    assert names_in(["pairs, cluster", "wald", "pairs"]) == ["pairs", "cluster", "wald"]
