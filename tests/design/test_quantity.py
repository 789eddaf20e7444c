"""What next runs are chosen for where nobody says."""

from __future__ import annotations

from scalefit.datasets import load_dataset
from scalefit.design.quantity import usual_quantity
from scalefit.design.suggest import suggest_runs
from scalefit.fitting.fit import fit


def test_depth_where_the_law_has_it_else_the_least_sure_exponent(chin203_fit):
    assert usual_quantity(chin203_fit) == "alpha_depth"
    sizes = fit(load_dataset("chinchilla").drop_worst(40), "params+tokens")
    shares = {name: sizes.standard_errors[name] / sizes.params[name] for name in ("alpha_params", "alpha_tokens")}
    assert usual_quantity(sizes) == max(shares, key=shares.__getitem__)
    assert suggest_runs(sizes, n_runs=2).quantity == usual_quantity(sizes)
