"""The solver against certified values of NIST's Statistical Reference Datasets (nonlinear regression).

The problems that are sums of power or exponential terms: y = sum_k b_k exp(-a_k x) + b_0, which is the solver's
form with x in the place of the logarithms. Data and certified values: https://www.itl.nist.gov/div898/strd/nls/.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from scalefit.fitting.objective import Objective
from scalefit.fitting.problem import Problem
from scalefit.fitting.solver import solve

LANCZOS_X = 0.05 * np.arange(24)

LANCZOS1_Y = [
    2.513400000000, 2.044333373291, 1.668404436564, 1.366418021208, 1.123232487372, 0.9268897180037,
    0.7679338563728, 0.6388775523106, 0.5337835317402, 0.4479363617347, 0.3775847884350, 0.3197393199326,
    0.2720130773746, 0.2324965529032, 0.1996589546065, 0.1722704126914, 0.1493405660168, 0.1300700206922,
    0.1138119324644, 0.1000415587559, 0.08833209084540, 0.07833544019350, 0.06976693743449, 0.06239312536719,
]  # fmt: skip

LANCZOS3_Y = [
    2.5134, 2.0443, 1.6684, 1.3664, 1.1232, 0.9269, 0.7679, 0.6389, 0.5338, 0.4479, 0.3776, 0.3197,
    0.2720, 0.2325, 0.1997, 0.1723, 0.1493, 0.1301, 0.1138, 0.1000, 0.0883, 0.0783, 0.0698, 0.0624,
]  # fmt: skip

MGH17_Y = [
    0.844, 0.908, 0.932, 0.936, 0.925, 0.908, 0.881, 0.850, 0.818, 0.784, 0.751, 0.718, 0.685, 0.658, 0.628, 0.603,
    0.580, 0.558, 0.538, 0.522, 0.506, 0.490, 0.478, 0.467, 0.457, 0.448, 0.438, 0.431, 0.424, 0.420, 0.414, 0.411,
    0.406,
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One problem: coefficients (and b_0), then exponents; `digits` to which double precision determines them."""

    x: np.ndarray
    y: np.ndarray
    n_terms: int
    constant: bool
    starts: tuple[list[float], ...]
    certified: list[float]
    residual_sum: float
    digits: float


CASES = {
    "DanWood": Case(
        x=-np.log([1.309, 1.471, 1.490, 1.565, 1.611, 1.680]),
        y=np.array([2.138, 3.421, 3.597, 4.340, 4.882, 5.660]),
        n_terms=1,
        constant=False,
        starts=([1, 5], [0.7, 4]),
        certified=[7.6886226176e-01, 3.8604055871e00],
        residual_sum=4.3173084083e-03,
        digits=1e-9,
    ),
    "Lanczos1": Case(
        x=LANCZOS_X,
        y=np.array(LANCZOS1_Y),
        n_terms=3,
        constant=False,
        starts=([1.2, 5.6, 6.5, 0.3, 5.5, 7.6], [0.5, 3.6, 4, 0.7, 4.2, 6.3]),
        certified=[9.5100000027e-02, 8.6070000013e-01, 1.5575999998e00, 1.0000000001, 3.0000000002, 5.0000000001],
        residual_sum=1.4307867721e-25,
        digits=1e-7,
    ),
    "Lanczos3": Case(
        x=LANCZOS_X,
        y=np.array(LANCZOS3_Y),
        n_terms=3,
        constant=False,
        starts=([1.2, 5.6, 6.5, 0.3, 5.5, 7.6], [0.5, 3.6, 4, 0.7, 4.2, 6.3]),
        certified=[8.6816414977e-02, 8.4400777463e-01, 1.5825685901, 9.5498101505e-01, 2.9515951832, 4.9863565084],
        residual_sum=1.6117193594e-08,
        digits=1e-6,
    ),
    "MGH17": Case(
        x=10.0 * np.arange(33),
        y=np.array(MGH17_Y),
        n_terms=2,
        constant=True,
        starts=([1.5, -1, 0.5, 0.01, 0.02],),
        certified=[1.9358469127, -1.4646871366, 3.7541005211e-01, 1.2867534640e-02, 2.2122699662e-02],
        residual_sum=5.4648946975e-05,
        digits=1e-8,
    ),
}


def _problem(case: Case) -> Problem:
    n_all = 2 * case.n_terms + 1
    expand = np.eye(n_all)
    if not case.constant:
        expand = np.delete(expand, case.n_terms, axis=1)
    n_free = expand.shape[1]
    return Problem(
        logs=np.tile(case.x, (case.n_terms, 1)),
        owners=np.arange(case.n_terms),
        target=case.y,
        objective=Objective.parse("mse"),
        expand=expand,
        offset=np.zeros(n_all),
        lower=np.full(n_free, -np.inf),
        upper=np.full(n_free, np.inf),
    )


@pytest.mark.parametrize(
    ("name", "start"), [(name, start) for name, case in CASES.items() for start in range(len(case.starts))]
)
def test_certified_values(name: str, start: int) -> None:
    """Every certified start leads to the certified parameters and residual sum of squares."""
    case = CASES[name]
    solution = solve(_problem(case), np.array([case.starts[start]], dtype=float), max_iterations=500)
    assert solution.converged[0]
    found, n_coefficients = solution.state.free[0], case.n_terms
    order = np.argsort(found[-n_coefficients:])
    order = order[np.argsort(np.argsort(case.certified[-n_coefficients:]))]
    coefficients, alphas = found[:n_coefficients][order], found[-n_coefficients:][order]
    constant = found[n_coefficients : n_coefficients + 1] if case.constant else []
    np.testing.assert_allclose([*coefficients, *constant, *alphas], case.certified, rtol=case.digits)
    residual_sum = float(solution.state.value[0]) * len(case.y)
    # Lanczos1 is noise-free: its residual sum is the rounding of the data in the 14th digit.
    assert residual_sum == pytest.approx(case.residual_sum, rel=1e-8 if case.residual_sum > 1e-20 else 1e-2)
