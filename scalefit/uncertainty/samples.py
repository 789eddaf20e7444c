"""Samples: draws of a law's parameters, whichever method made them."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from scalefit.errors import DataError, MissingExtraError, OptionError, ScalefitWarning
from scalefit.files import write_atomically
from scalefit.laws.law import Law
from scalefit.laws.terms import Columns, PowerTerm
from scalefit.numbers import json_text

__all__ = ["Samples", "check_level", "percentile_interval", "to_arviz"]

Array = NDArray[np.float64]

FORMAT = "scalefit-samples-1"

_EMPTY: Mapping[str, Any] = MappingProxyType({})


def check_level(level: float) -> float:
    """Return a confidence level, or raise `OptionError` if it is not strictly between 0 and 1."""
    if not 0 < level < 1:
        raise OptionError(f"level is {level:g} and must lie between 0 and 1, for example 0.95")
    return float(level)


def percentile_interval(values: Array, level: float = 0.95) -> tuple[float, float]:
    """Central interval of draws of any quantity: its (1 - level) / 2 and (1 + level) / 2 quantiles."""
    tail = (1 - check_level(level)) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


@dataclass(frozen=True, eq=False)
class Samples:
    """Equally weighted draws of the parameters of a law.

    Attributes
    ----------
    law : Law
    names : tuple of str
        What the columns of `draws` are: `law.parameter_names`, then whatever else was drawn, such as ``sigma``.
    draws : (n_draws, n_names) float array, read-only
        In plain units; fixed and tied parameters have their columns too.
    method : str
        What made the draws: ``"pairs"``, ``"cluster"``, ``"posterior"``, ...
    estimate : mapping of str to float
        The fitted value of each parameter, in plain units.
    level : float
        Default level of `interval`.
    n_chains : int
        Independent chains behind the draws, which stand one chain after the other.
    corrections : mapping of str to (float, float)
        Bias z0 and acceleration a of BCa intervals, where the method yields them.
    reservations : mapping of str to str
        Parameter -> why its interval is not claimed to hold its level.
    diagnostics : mapping
        Of the method, JSON-ready. Where draws depend on each other ``diagnostics["ess"][name]`` holds the
        effective number of them.
    warnings : tuple of ScalefitWarning

    Examples
    --------
    >>> law = Law.parse("depth")
    >>> draws = Samples(law, law.parameter_names, [[9, 1, 1.7], [11, 1.2, 1.8]], "example", {"alpha_depth": 1.1})
    >>> draws["alpha_depth"].tolist(), draws.predict({"depth": [1, 1e9]}).round(2).tolist()
    ([1.0, 1.2], [[10.7, 1.7], [12.8, 1.8]])
    """

    law: Law
    names: tuple[str, ...]
    draws: Array
    method: str
    estimate: Mapping[str, float]
    level: float = 0.95
    n_chains: int = 1
    corrections: Mapping[str, tuple[float, float]] = field(default_factory=lambda: _EMPTY)
    reservations: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    diagnostics: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    warnings: tuple[ScalefitWarning, ...] = ()

    def __post_init__(self) -> None:
        draws = np.array(self.draws, dtype=np.float64)
        expected = self.law.parameter_names
        if self.names[: len(expected)] != expected:
            raise DataError(f"the names of the draws are {self.names} and must begin with {expected}")
        if draws.ndim != 2 or draws.shape[1] != len(self.names) or not len(draws):
            raise DataError(f"draws have the shape {draws.shape}; needed are (n, {len(self.names)}), n at least 1")
        if np.isnan(draws).any():
            raise DataError("a draw is NaN; leave out what failed and count it in the diagnostics")
        if len(draws) % self.n_chains:
            raise DataError(f"{len(draws)} draws do not divide into {self.n_chains} chains of equal length")
        check_level(self.level)
        draws.flags.writeable = False
        object.__setattr__(self, "draws", draws)

    def __len__(self) -> int:
        return len(self.draws)

    def __getitem__(self, name: str) -> Array:
        if name not in self.names:
            raise OptionError(f"there are no draws of {name!r}; there are {', '.join(self.names)}")
        return self.draws[:, self.names.index(name)]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __repr__(self) -> str:
        return f"Samples({self.method}: {len(self)} draws of {', '.join(self.names)})"

    def params(self, i: int) -> dict[str, float]:
        """Return draw i as a mapping, as `law.predict` takes it."""
        n = len(self.law.parameter_names)
        return dict(zip(self.names[:n], self.draws[i, :n].tolist(), strict=True))

    @property
    def reported(self) -> Array:
        """The draws with ln c in place of each coefficient, the scale of standard errors; -inf where c is 0."""
        values = self.draws.copy()
        columns = [i for i, parameter in enumerate(self.law.parameters) if parameter.in_logs]
        with np.errstate(divide="ignore"):
            values[:, columns] = np.log(values[:, columns])
        return values

    def predict(self, points: Columns) -> Array:
        """Predict the loss with every draw.

        Parameters
        ----------
        points : mapping, Runs or DataFrame
            Must hold the law's columns, (n_points,) each, in the units of the fitted table.

        Returns
        -------
        (n_draws, n_points) float array, nats per token
        """
        columns: dict[str, Any] = {name: self[name][:, None] for name in self.law.parameter_names}
        values = self.law.predict({name: np.atleast_1d(points[name]) for name in self.law.columns}, columns)
        return np.asarray(values)

    def interval(self, name: str, level: float | None = None, kind: str = "percentile") -> tuple[float, float]:
        """Interval of one parameter, in plain units.

        Parameters
        ----------
        name : str
        level : float, optional
            The samples' own level by default.
        kind : str
            ``"percentile"``, the quantiles of the draws, or ``"bca"``, the quantiles corrected for bias and
            acceleration (Efron 1987, equation 2.3).

        Raises
        ------
        OptionError
            If the name, the level or the kind is unknown, or the method yields no correction.
        """
        level = self.level if level is None else check_level(level)
        values = self[name]
        if kind == "percentile":
            return percentile_interval(values, level)
        if kind != "bca":
            raise OptionError(f"unknown kind of interval {kind!r}; choose percentile or bca")
        if name not in self.corrections:
            raise OptionError(f"{self.method} draws have no BCa correction of {name}; take the percentile interval")
        z0, acceleration = self.corrections[name]
        tails = z0 + ndtri(np.array([(1 - level) / 2, (1 + level) / 2]))
        low, high = np.quantile(values, ndtr(z0 + tails / (1 - acceleration * tails)))
        return float(low), float(high)

    def endpoint_errors(self, name: str, level: float | None = None) -> tuple[float, float]:
        """Monte Carlo standard errors of the percentile interval's ends.

        The number of draws below a q quantile is binomial with standard deviation sqrt(n q (1 - q)); half the
        distance between the quantiles that much to either side is the error.
        """
        level = self.level if level is None else check_level(level)
        n = float(self.diagnostics.get("ess", {}).get(name, len(self)))
        ends = np.array([(1 - level) / 2, (1 + level) / 2])
        spread = np.sqrt(ends * (1 - ends) / n)
        low, high = np.quantile(self[name], np.clip([ends - spread, ends + spread], 0, 1))
        errors = (high - low) / 2
        return float(errors[0]), float(errors[1])

    def correlations(self) -> Array:
        """Correlation matrix of ln c, alpha and L0 (and what else was drawn); nan beside a constant column."""
        values = self.reported
        constant = np.ptp(values, axis=0) == 0
        with np.errstate(invalid="ignore", divide="ignore"):
            matrix = np.atleast_2d(np.corrcoef(values, rowvar=False))
        matrix[constant] = np.nan
        matrix[:, constant] = np.nan
        return matrix

    def summary(self, level: float | None = None) -> dict[str, dict[str, float]]:
        """Estimate, median, standard deviation and percentile interval of every column, in plain units."""
        rows = {}
        for name in self.names:
            low, high = self.interval(name, level)
            rows[name] = {
                "estimate": float(self.estimate.get(name, np.nan)),
                "median": float(np.median(self[name])),
                "sd": float(np.std(self[name], ddof=1)) if len(self) > 1 else float("nan"),
                "low": low,
                "high": high,
            }
        return rows

    def save(self, path: str | Path) -> None:
        """Write a NumPy .npz file from which `load` reads the same samples, bit for bit."""
        header = {
            "format": FORMAT,
            "law": str(self.law),
            "names": self.names,
            "method": self.method,
            "estimate": self.estimate,
            "level": self.level,
            "n_chains": self.n_chains,
            "corrections": self.corrections,
            "reservations": self.reservations,
            "diagnostics": self.diagnostics,
            "warnings": self.warnings,
        }
        content = io.BytesIO()
        np.savez(content, draws=self.draws, header=np.array(json_text(header, indent=None, exact=True)))
        write_atomically(path, content.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> Samples:
        """Read what `save` wrote.

        Raises
        ------
        DataError
            If the file is not one of ours.
        """
        from scalefit.schemas import OldLaw, SamplesHeader, read_arrays, read_document

        remedy = "write them with Samples.save"
        arrays = read_arrays(path, ("draws", "header"), "samples", remedy)
        header, draws = read_document(SamplesHeader, str(arrays["header"]), path, remedy), arrays["draws"]
        if header.format != FORMAT:
            raise DataError(f"{path} has the format {header.format!r}; this version reads {FORMAT!r}")
        if draws.dtype != np.float64 or draws.shape[1:] != (len(header.names),) or not len(draws):
            raise DataError(f"{path} is damaged: draws of shape {draws.shape} for {len(header.names)} names; {remedy}")
        if isinstance(header.law, OldLaw):
            law = Law(tuple(PowerTerm(term.column, term.shift) for term in header.law.terms), header.law.irreducible)
        else:
            law = Law.parse(header.law)
        plain = {name: getattr(header, name) for name in ("method", "estimate", "level", "n_chains", "corrections")}
        return cls(
            law=law,
            names=tuple(header.names),
            draws=draws,
            reservations=header.reservations,
            diagnostics=header.diagnostics,
            warnings=tuple(ScalefitWarning(**warning.model_dump()) for warning in header.warnings),
            **plain,
        )


def to_arviz(samples: Samples) -> Any:
    """Put draws into an `xarray.DataTree` with the group ``posterior``, dimensions chain and draw.

    A chain is an independent ensemble, its draws ordered walker after walker, so that ArviZ' effective sizes see the
    autocorrelation of each walker.

    Parameters
    ----------
    samples : Samples

    Raises
    ------
    MissingExtraError
        If arviz-base is not installed.
    """
    try:
        import arviz_base
    except ModuleNotFoundError:
        raise MissingExtraError("arviz-base", "the export to ArviZ", "arviz") from None
    draws = {name: samples[name].reshape(samples.n_chains, -1) for name in samples.names}
    return arviz_base.from_dict({"posterior": draws}, attrs={"posterior": {"law": str(samples.law)}})
