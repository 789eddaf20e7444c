"""Scaling laws: terms of columns, how they are joined, and an irreducible loss.

    L(x) = L0 + [ sum_k T_k^q ]^(1/q),    T_k = c_k prod_j (x_j - s_j)^-alpha_j                (1)

The k-th term is a power of one column or a product of several. Joined with q = 1 the terms add up, which is the
decomposed law c_m / m^alpha_m + c_l / l^alpha_l + c_D / D^alpha_D + L0 of width m, depth l and tokens D, Hoffmann et
al. (2022), equation 2, carried to width and depth. The larger q, the more the largest term alone decides. What a term
is by itself, c_k and alpha_j, does not depend on q.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError
from scalefit.laws.parameter import Kind, Parameter
from scalefit.laws.terms import Columns, PowerTerm, Product, Term, power_term, read_law

__all__ = ["Law"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Law:
    """Equation (1): terms, how they are joined, and whether there is an irreducible loss.

    Parameters
    ----------
    terms : tuple of PowerTerm or Product
    irreducible : bool
        Whether L0 is a parameter; without it L0 = 0.
    coupling : str or None
        None for a sum (q = 1), ``"q"`` for a parameter of this name, or the name of an exponent alpha: then q is
        1 / alpha, as in Kaplan et al. (2020).

    Examples
    --------
    >>> law = Law.parse("width+(depth-2)+tokens")
    >>> law.parameter_names
    ('c_width', 'alpha_width', 'c_depth', 'alpha_depth', 'c_tokens', 'alpha_tokens', 'L0')
    >>> Law.parse("(width*depth+tokens)^q+0").parameter_names
    ('c_width_depth', 'alpha_width', 'alpha_depth', 'c_tokens', 'alpha_tokens', 'q')
    >>> str(Law.parse("kaplan"))
    '(params+tokens)^(1/alpha_tokens)+0'
    """

    terms: tuple[Term, ...]
    irreducible: bool = True
    coupling: str | None = None

    @classmethod
    def parse(cls, text: str | Law) -> Law:
        """Read a law by its formula or by a name that `scalefit laws` lists.

        Terms are joined by `+`, columns of one term by `*`; `( ... )^q` couples the terms, and a final `+0` leaves out
        the irreducible loss.

        Raises
        ------
        OptionError
            If the text is no such formula or a column occurs twice.
        """
        if isinstance(text, Law):
            return text
        return cls(*read_law(text))

    def __str__(self) -> str:
        terms = "+".join(map(str, self.terms))
        if self.coupling is not None:
            terms = f"({terms})^" + ("q" if self.coupling == "q" else f"(1/{self.coupling})")
        return terms + ("" if self.irreducible else "+0")

    @cached_property
    def factors(self) -> tuple[PowerTerm, ...]:
        """The powers of all terms, one after the other."""
        return tuple(factor for term in self.terms for factor in term.factors)

    @property
    def owners(self) -> tuple[int, ...]:
        """Index of the term that each of `factors` belongs to."""
        return tuple(k for k, term in enumerate(self.terms) for _ in term.factors)

    def term_of(self, factor: PowerTerm) -> Term:
        """The term that a factor belongs to."""
        return self.terms[self.owners[self.factors.index(factor)]]

    def without(self, factor: PowerTerm) -> Law:
        """The law without one of its factors, and without what this leaves empty."""
        kept = [tuple(f for f in term.factors if f != factor) for term in self.terms]
        terms = tuple(factors[0] if len(factors) == 1 else Product(factors) for factors in kept if factors)
        coupled = len(terms) > 1 and self.coupling != factor.exponent
        return Law(terms, self.irreducible, self.coupling if coupled else None)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns the law needs, in order."""
        return tuple(factor.column for factor in self.factors)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """In reporting order: coefficient and exponents of each term, the coupling q, the floor L0."""
        found = []
        for k, term in enumerate(self.terms):
            found.append(Parameter(term.coefficient, Kind.COEFFICIENT, k, term.name))
            found += [Parameter(factor.exponent, Kind.EXPONENT, k, factor.column) for factor in term.factors]
        if self.coupling == "q":
            found.append(Parameter("q", Kind.COUPLING))
        if self.irreducible:
            found.append(Parameter("L0", Kind.FLOOR))
        return tuple(found)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of `parameters`."""
        return tuple(parameter.name for parameter in self.parameters)

    def parameter(self, name: str) -> Parameter:
        """The parameter of this name.

        Raises
        ------
        OptionError
            If the law has none; the text lists those it has.
        """
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise OptionError(f"the law {self} has no parameter {name!r}; it has {', '.join(self.parameter_names)}")

    def q(self, params: Mapping[str, float]) -> float:
        """The coupling exponent of equation (1); 1 for a sum."""
        if self.coupling is None:
            return 1.0
        return params["q"] if self.coupling == "q" else 1.0 / params[self.coupling]

    def term_values(self, columns: Columns, params: Mapping[str, float]) -> dict[str, Array]:
        """T_k of every row by the terms' names, nats per token: what each term would be by itself."""
        values = {}
        for term in self.terms:
            first, *others = term.factors
            value = power_term(first.argument(columns), params[term.coefficient], params[first.exponent])
            for factor in others:
                value = value * power_term(factor.argument(columns), 1.0, params[factor.exponent])
            values[term.name] = value
        return values

    def shares(self, columns: Columns, params: Mapping[str, float]) -> Array:
        """(K, n_rows) share T_k^q / sum T^q of each term in the reducible loss; 0 where there is none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            powers = self._relative_terms(columns, params)[0] ** self.q(params)
            shares: Array = np.nan_to_num(powers / powers.sum(axis=0))
        return shares

    def predict(self, columns: Columns, params: Mapping[str, float]) -> Array:
        """L(x) of equation (1).

        Parameters
        ----------
        columns : mapping of str to (n_rows,) array_like
            Values in the units the parameters were fitted in.
        params : mapping of str to float
            One value for each of `parameter_names`.

        Returns
        -------
        (n_rows,) float array
            Loss, nats per token.

        Raises
        ------
        DataError
            If a column is missing or not positive after its shift.
        """
        if self.coupling is None:
            total: Array = sum(self.term_values(columns, params).values(), start=np.zeros(()))
        else:
            relative, largest = self._relative_terms(columns, params)
            q = self.q(params)
            total = largest * (relative**q).sum(axis=0) ** (1 / q)
        return total + params["L0"] if self.irreducible else total

    def _relative_terms(self, columns: Columns, params: Mapping[str, float]) -> tuple[Array, Array]:
        """(K, n) terms over the largest of each row, which keeps their powers finite, and (n,) the largest."""
        terms = np.stack(np.broadcast_arrays(*self.term_values(columns, params).values()))
        largest = terms.max(axis=0)
        return np.divide(terms, largest, out=np.zeros_like(terms), where=largest > 0), largest

    def jacobian(self, columns: Columns, params: Mapping[str, float]) -> Array:
        """Derivatives of `predict` by the parameters: an (n_rows, n_parameters) float array.

        With R the reducible loss and w_k the shares, dL/dT_k = (T_k / R)^(q - 1), dT_k/dc_k = T_k / c_k,
        dT_k/dalpha_j = -T_k ln x_j and dL/dq = (R / q) (sum_k w_k ln T_k - ln R).
        """
        units = self.term_values(columns, {**params, **{term.coefficient: 1.0 for term in self.terms}})
        values = [params[term.coefficient] * units[term.name] for term in self.terms]
        slopes, by_q = [np.ones_like(value) for value in values], np.zeros_like(values[0])
        if self.coupling is not None:
            q, shares = self.q(params), self.shares(columns, params)
            reducible = self.predict(columns, {**params, "L0": 0.0})
            with np.errstate(divide="ignore", invalid="ignore"):
                slopes = [(value / reducible) ** (q - 1) for value in values]
                logarithms = np.where(shares > 0, np.log(values), 0.0)
            by_q = reducible / q * ((shares * logarithms).sum(axis=0) - np.log(reducible))
        derivatives: dict[str, Array] = {"q": by_q, "L0": np.ones_like(values[0])}
        for term, value, slope in zip(self.terms, values, slopes, strict=True):
            derivatives[term.coefficient] = slope * units[term.name]
            for factor in term.factors:
                derivatives[factor.exponent] = -slope * value * np.log(factor.argument(columns))
        if self.coupling is not None and self.coupling != "q":
            # q = 1 / alpha, so that dq / dalpha = -q^2.
            derivatives[self.coupling] = derivatives[self.coupling] - self.q(params) ** 2 * by_q
        return np.stack([derivatives[name] for name in self.parameter_names], axis=-1)
