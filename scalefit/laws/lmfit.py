"""To lmfit and back: parameters, and a Model of any law for people who compose models.

`fit` never imports lmfit; this module does, when one of its functions is called.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError
from scalefit.laws.constraints import Constraints
from scalefit.laws.law import Law

if TYPE_CHECKING:
    import lmfit

__all__ = ["from_lmfit", "lmfit_model", "to_lmfit"]


def to_lmfit(
    law: str | Law, constraints: Constraints | None = None, values: Mapping[str, float] | None = None
) -> lmfit.Parameters:
    """Express a law's parameters and constraints as `lmfit.Parameters`.

    Parameters
    ----------
    law : str or Law
    constraints : Constraints, optional
        Fixed values become ``vary=False``, ties an ``expr``, bounds ``min`` and ``max``.
    values : mapping of str to float, optional
        Starting values, such as `Fit.params`; 1 where none is given.
    """
    import lmfit

    law = Law.parse(law)
    constraints = (constraints or Constraints()).checked(law)
    parameters = lmfit.Parameters()
    names = sorted(law.parameter_names, key=lambda name: name in constraints.ties)
    for name in names:
        if name in constraints.ties:
            parameters.add(name, expr=constraints.ties[name])
            continue
        low, high = constraints.limits(law.parameter(name))
        value = constraints.fixed.get(name, (values or {}).get(name, min(max(1.0, low), high)))
        parameters.add(name, value=value, vary=name not in constraints.fixed, min=low, max=high)
    return parameters


def from_lmfit(parameters: lmfit.Parameters, law: str | Law) -> Constraints:
    """Read constraints from `lmfit.Parameters`; starting values are ignored, as `fit` needs none.

    Raises
    ------
    OptionError
        If an expression is more than the name of another parameter, or a parameter is not the law's.
    """
    law = Law.parse(law)
    natural = {parameter.name: parameter.natural_bounds for parameter in law.parameters}
    fixed, ties, bounds = {}, {}, {}
    for name, parameter in parameters.items():
        if parameter.expr is not None:
            if parameter.expr not in parameters:
                raise OptionError(
                    f"{name} has the expression {parameter.expr!r}; a law takes equality ties only, "
                    f"such as expr='alpha_width', or use lmfit_model with lmfit's own minimiser"
                )
            ties[name] = parameter.expr
        elif not parameter.vary:
            fixed[name] = float(parameter.value)
        elif (parameter.min, parameter.max) not in ((-math.inf, math.inf), natural.get(name)):
            bounds[name] = (float(parameter.min), float(parameter.max))
    return Constraints(fixed, ties, bounds).checked(law)


def lmfit_model(law: str | Law) -> lmfit.Model:
    """Return an `lmfit.Model` of a law, whose independent variables are the law's columns.

    Examples
    --------
    >>> import scalefit as sf
    >>> model = sf.lmfit_model("depth")
    >>> model.independent_vars, model.param_names
    (['depth'], ['c_depth', 'alpha_depth', 'L0'])
    """
    import lmfit

    law = Law.parse(law)

    def predict(**arguments: Any) -> NDArray[np.float64]:
        return law.predict(arguments, arguments)

    kind = inspect.Parameter.KEYWORD_ONLY
    arguments = [inspect.Parameter(name, kind) for name in (*law.columns, *law.parameter_names)]
    predict.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]
    model = lmfit.Model(predict, independent_vars=list(law.columns), name=str(law))
    for parameter in law.parameters:
        low, high = parameter.natural_bounds
        model.set_param_hint(parameter.name, value=1.0, min=low, max=high)
    return model
