"""How every command that takes RUNS or a FIT gets its fit: the shared options, declared once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from scalefit.cli.reading import RunsRequest, reads_runs

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["FitRequest", "opens_fit"]

_FITTING = "The law and how it is fitted"

LawName = Annotated[
    str, typer.Option(rich_help_panel=_FITTING, help="Columns joined by +, such as params+tokens, (depth-2), depth+0")
]
ObjectiveName = Annotated[
    str, typer.Option(rich_help_panel=_FITTING, help="log-mse, log-huber:DELTA, mse or huber:DELTA")
]
Fix = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", rich_help_panel=_FITTING, help="Fix: L0=1.7")]
Tie = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=OTHER", rich_help_panel=_FITTING, help="Tie exponents: alpha_depth=alpha_width"),
]
Bound = Annotated[
    list[str] | None, typer.Option(metavar="NAME=LOW:HIGH", rich_help_panel=_FITTING, help="Bound: alpha_depth=0.5:2")
]
Weights = Annotated[str | None, typer.Option(rich_help_panel=_FITTING, help="Column of row weights")]
Starts = Annotated[int, typer.Option(rich_help_panel=_FITTING, help="Random starts behind the certificate")]
Seed = Annotated[int, typer.Option(min=0, rich_help_panel=_FITTING, help="Seed of everything random")]


@dataclass(frozen=True)
class FitRequest:
    """What a user asked to fit, or the fit to open; `open` does it.

    Attributes
    ----------
    runs : RunsRequest
    law, objective : str
    fix, tie, bound : tuple of str
    weights : str or None
    starts, seed : int
    """

    runs: RunsRequest
    law: str
    objective: str
    fix: tuple[str, ...]
    tie: tuple[str, ...]
    bound: tuple[str, ...]
    weights: str | None
    starts: int
    seed: int

    def open(self) -> Fit:
        """Fit the law to the table, or read the fit where the argument is a file that `fit -o` wrote.

        Raises
        ------
        OptionError
            If options about reading or fitting accompany a finished fit.
        """
        from scalefit.fitting.file import is_fit_file, load_fit
        from scalefit.fitting.fit import fit

        if len(self.runs.sources) == 1 and is_fit_file(self.runs.sources[0]):
            self._refuse_options()
            return load_fit(self.runs.sources[0])
        from scalefit.laws.constraints import Constraints

        return fit(
            self.runs.load(),
            self.law,
            self.objective,
            constraints=Constraints.parse(self.fix, self.tie, self.bound),
            weights=self.weights,
            n_starts=self.starts,
            seed=self.seed,
        )

    def _refuse_options(self) -> None:
        from scalefit.errors import OptionError

        source = self.runs.sources[0]
        ignored = ("runs", "seed")
        given = [f.name for f in fields(self) if f.name not in ignored and getattr(self, f.name) != _defaults()[f.name]]
        given += [f.name for f in fields(self.runs) if f.name != "sources" and getattr(self.runs, f.name) != _plain(f)]
        if given:
            raise OptionError(
                f"{source} is a finished fit, which {', '.join('--' + n.replace('_', '-') for n in given)} cannot "
                "change; fit the table again with these options"
            )


def opens_fit(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the argument RUNS|FIT and the options of reading, selecting and fitting.

    The command's parameter `request` is replaced by them; it receives a `FitRequest`. Its own parameters follow.
    """
    hints = get_type_hints(command, include_extras=True)
    own = [p.replace(annotation=hints[n]) for n, p in inspect.signature(command).parameters.items() if n != "request"]
    shared = [p for n, p in inspect.signature(_fit_request, eval_str=True).parameters.items() if n != "request"]

    def inner(request: RunsRequest, **given: Any) -> None:
        fit_request = _fit_request(request, **{p.name: given.pop(p.name) for p in shared})
        command(request=fit_request, **given)

    first = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=RunsRequest)
    rest = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*shared, *own)]
    inner.__name__, inner.__doc__ = command.__name__, command.__doc__
    inner.__signature__ = inspect.Signature([first, *rest])  # type: ignore[attr-defined]
    inner.__annotations__ = {p.name: p.annotation for p in (first, *rest)}
    return reads_runs(inner)


def _fit_request(
    request: RunsRequest,
    law: LawName = "width+depth+tokens",
    objective: ObjectiveName = "log-mse",
    fix: Fix = None,
    tie: Tie = None,
    bound: Bound = None,
    weights: Weights = None,
    starts: Starts = 32,
    seed: Seed = 0,
) -> FitRequest:
    """Turn the words of the command line into a request; its signature is the shared one."""
    return FitRequest(
        request, law, objective, tuple(fix or ()), tuple(tie or ()), tuple(bound or ()), weights, starts, seed
    )


def _defaults() -> dict[str, Any]:
    parameters = inspect.signature(_fit_request).parameters
    return {name: () if p.default is None and name != "weights" else p.default for name, p in parameters.items()}


def _plain(field: Any) -> Any:
    """The value of a field of `RunsRequest` when no option was given."""
    from scalefit.ingest import ReadOptions

    return ReadOptions() if field.name == "options" else field.default
