"""The intervals of several methods side by side, where they disagree, and which to trust and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scalefit.errors import FitError, OptionError, ScalefitWarning
from scalefit.execute import Progress
from scalefit.uncertainty.asymptotic import Asymptotic
from scalefit.uncertainty.groups import Grouping, choose_grouping
from scalefit.uncertainty.methods import ALL_METHODS, FAST_METHODS, METHODS, preferred_methods
from scalefit.uncertainty.profile import Profile
from scalefit.uncertainty.samples import Samples
from scalefit.uncertainty.task import Answer, Interval, Settings, Task

if TYPE_CHECKING:
    from scalefit.fitting.fit import Fit

__all__ = ["ALL_METHODS", "FAST_METHODS", "Comparison", "Interrupted", "Settings", "compare_intervals"]

DISAGREE = 1.5
"""Intervals disagree when one is so many times as wide as the other, or misses the other's centre."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Intervals by method and parameter.

    Attributes
    ----------
    fit : Fit
    settings : Settings
    grouping : Grouping
        Which rows depend on each other, or the clusters asked for, and why.
    preferred : tuple of str
        The methods that suit the table, the best first.
    intervals : mapping of str to mapping of str to (float, float)
        Method -> parameter -> interval in plain units; an open end is infinite. ``"pairs-bca"`` and
        ``"cluster-bca"`` stand beside the percentile intervals where they exist.
    samples, profiles : mappings
        The draws and curves behind them, by method and by parameter.
    theory : Asymptotic or None
    details : mapping of str to mapping
        Method -> what else it found.
    withheld : mapping of str to str
        Method -> why it gives no interval on this table.
    reservations : mapping of str to mapping of str to str
        Method -> parameter -> why its interval is not claimed to hold its level.
    warnings : tuple of ScalefitWarning
    """

    fit: Fit
    settings: Settings
    grouping: Grouping
    preferred: tuple[str, ...]
    intervals: Mapping[str, Mapping[str, Interval]]
    samples: Mapping[str, Samples]
    profiles: Mapping[str, Profile]
    theory: Asymptotic | None
    details: Mapping[str, Mapping[str, Any]]
    withheld: Mapping[str, str]
    reservations: Mapping[str, Mapping[str, str]]
    warnings: tuple[ScalefitWarning, ...]

    def claimed(self, method: str, name: str) -> bool:
        """Whether the interval of a parameter is there and claimed to hold its level."""
        return name in self.intervals.get(method, {}) and name not in self.reservations.get(method, {})

    def trusted_for(self, name: str) -> str | None:
        """The method to trust for a parameter: the first of the preferred whose interval is claimed."""
        return next((method for method in self.preferred if self.claimed(method, name)), None)

    @property
    def trusted(self) -> str | None:
        """The method to trust: the first of the preferred that claims an interval; None where none does."""
        every = (method for method in self.preferred if any(self.claimed(method, name) for name in self.fit.params))
        return next(every, None)

    @property
    def default(self) -> str:
        """The trusted method, or that which would suit."""
        return self.trusted or self.preferred[0]

    @property
    def draws(self) -> Samples | None:
        """The draws that suit the table: of the trusted method, of the bootstrap by what rows share, or any claimed."""
        suits = "pairs" if self.grouping.by == "row" else "cluster"
        claimed = (method for method in self.samples if any(self.claimed(method, name) for name in self.fit.params))
        return next((self.samples[m] for m in (self.default, suits, *claimed) if m in self.samples), None)

    def disagreements(self) -> list[dict[str, Any]]:
        """Where a method's interval differs from the default's: in width, or in not holding its centre."""
        found = []
        trusted = self.intervals.get(self.default, {})
        for method, intervals in self.intervals.items():
            for name, (low, high) in intervals.items():
                if method == self.default or name not in trusted:
                    continue
                ratio, apart = difference((low, high), trusted[name], self.fit.law.parameter(name).in_logs)
                if apart or not 1 / DISAGREE <= ratio <= DISAGREE:
                    found.append({"method": method, "parameter": name, "width_ratio": ratio, "apart": apart})
        return found


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during `compare_intervals`; nothing of what was finished is lost.

    Attributes
    ----------
    comparison : Comparison
        The methods that were finished; the others are withheld.
    """

    def __init__(self, comparison: Comparison) -> None:
        super().__init__("interrupted")
        self.comparison = comparison


def compare_intervals(
    fit: Fit,
    methods: Sequence[str] = ALL_METHODS,
    settings: Settings | None = None,
    progress: Callable[[str], Progress | None] | None = None,
) -> Comparison:
    """Compute the intervals of a fit by several methods.

    Parameters
    ----------
    fit : Fit
    methods : sequence of str
        Of the table `scalefit.uncertainty.methods.METHODS`. Those that go by clusters are withheld where there are
        too few.
    settings : Settings, optional
    progress : callable, optional
        Given the name of a method it returns what that method reports its progress to.

    Raises
    ------
    OptionError
        If a method or the grouping is unknown.
    Interrupted
        On Ctrl-C; it carries what was finished.
    """
    settings = settings or Settings()
    for method in methods:
        if method not in METHODS:
            raise OptionError(f"unknown method {method!r}; choose of {', '.join(METHODS)}, or all")
    found = choose_grouping(fit)
    grouping = found if settings.by is None else choose_grouping(fit, settings.by)
    collected = _Collected(Task(fit, settings, grouping, progress), found)
    waiting = list(dict.fromkeys(methods))
    try:
        while waiting and not collected.cut_short:
            collected.add(waiting[0])
            del waiting[0]
    except KeyboardInterrupt:
        collected.withheld |= dict.fromkeys(waiting, "interrupted before it was finished")
        raise Interrupted(collected.comparison()) from None
    if collected.cut_short:
        collected.withheld |= dict.fromkeys(waiting, "interrupted before it was begun")
        raise Interrupted(collected.comparison())
    return collected.comparison()


@dataclass
class _Collected:
    """What the methods have given so far; lives only inside `compare_intervals`."""

    task: Task
    found: Grouping
    answers: dict[str, Answer] = field(default_factory=dict)
    withheld: dict[str, str] = field(default_factory=dict)

    @property
    def cut_short(self) -> bool:
        """Whether Ctrl-C ended a bootstrap before all of its replicates."""
        return any(warning.code == "interrupted" for answer in self.answers.values() for warning in answer.warnings)

    def add(self, method: str) -> None:
        """Run one method, or note why it gives nothing on this table."""
        try:
            self.answers[method] = METHODS[method].answer(self.task)
        except (FitError, OptionError) as error:
            self.withheld[method] = str(error)

    def comparison(self) -> Comparison:
        """Everything collected."""
        task, answers = self.task, self.answers
        reservations = {
            label: METHODS[method].reservations(task, self.found, label, answer)
            for method, answer in answers.items()
            for label in answer.intervals
        }
        warnings = [warning for answer in answers.values() for warning in answer.warnings]
        return Comparison(
            fit=task.fit,
            settings=task.settings,
            grouping=task.grouping,
            preferred=preferred_methods(task),
            intervals={label: dict(ends) for a in answers.values() for label, ends in a.intervals.items()},
            samples={method: a.samples for method, a in answers.items() if a.samples is not None},
            profiles={name: curve for a in answers.values() for name, curve in a.profiles.items()},
            theory=vars(task).get("theory"),  # None where no method has looked at it
            details={method: answer.details for method, answer in answers.items() if answer.details},
            withheld=dict(self.withheld),
            reservations={label: doubts for label, doubts in reservations.items() if doubts},
            warnings=(*task.fit.warnings, *(w for i, w in enumerate(warnings) if w not in warnings[:i])),
        )


def difference(one: Interval, other: Interval, log: bool) -> tuple[float, bool]:
    """Ratio of the widths (of ln c for coefficients), and whether one misses the centre of the other."""
    if log and min(*one, *other) > 0:
        one, other = (math.log(one[0]), math.log(one[1])), (math.log(other[0]), math.log(other[1]))
    widths = one[1] - one[0], other[1] - other[0]
    if not all(math.isfinite(width) for width in widths):
        return (1.0 if widths[0] == widths[1] else math.inf if math.isinf(widths[0]) else 0.0), False
    if widths[1] == 0:
        return (1.0 if widths[0] == 0 else math.inf), one != other
    centre = (other[0] + other[1]) / 2
    return widths[0] / widths[1], not one[0] <= centre <= one[1]
