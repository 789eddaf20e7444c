"""`predict` on a table with losses: what was measured, the error, and whether the interval held."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest

from scalefit.cli import main
from scalefit.fitting.file import save_fit
from scalefit.fitting.fit import fit
from scalefit.runs import Runs


def loss_of(n, d):
    return 400 / n**0.34 + 410 / d**0.28 + 1.7


@pytest.fixture
def predict(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(3)
    grid = [(n, d) for n in (1e7, 3e7, 1e8, 3e8, 1e9) for d in (1e9, 1e10, 1e11, 1e12)]
    noise = np.exp(0.002 * rng.standard_normal(len(grid)))
    columns = {"params": [n for n, _ in grid], "tokens": [d for _, d in grid]}
    losses = [loss_of(*point) * e for point, e in zip(grid, noise, strict=True)]
    save_fit(fit(Runs.from_columns({**columns, "loss": losses}), "params+tokens", n_starts=4), tmp_path / "fit.json")

    def run(text, *words):
        (tmp_path / "points.csv").write_text(text)
        monkeypatch.setattr(
            sys, "argv", ["scalefit", "predict", *map(str, (tmp_path / "fit.json", tmp_path / "points.csv"))]
        )
        sys.argv += words
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
        else:
            status = 0
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def test_measured_losses_stand_beside_the_predictions(predict):
    inside, outside = loss_of(2e8, 2e10), 1.2 * loss_of(2e8, 2e10)
    text = f"params,tokens,val_loss\n2e8,2e10,{inside}\n2e8,2e10,\n2e8,2e10,{outside}\n"
    status, out, _ = predict(text, "--json")
    first, blank, last = json.loads(out)
    assert status == 0
    assert (first["observed"], first["held"], last["held"]) == (inside, True, False)
    assert (blank["observed"], blank["error"], blank["held"]) == (None, None, None)
    assert math.isclose(last["error"], math.log(outside / last["loss"]), rel_tol=1e-12)
    assert math.isclose(last["error"] - first["error"], math.log(1.2), rel_tol=1e-9)
    _, out, _ = predict(text)
    words = " ".join(out.split())
    assert "1 of 2 measured losses lie in the 95 % interval of a new run" in words
    rms = math.sqrt((first["error"] ** 2 + last["error"] ** 2) / 2)
    assert f"have a root mean square of {rms:.2g}." in words


def test_points_without_losses_are_predicted_as_before(predict):
    for text in ("params,tokens\n2e8,2e10\n", "params,tokens,loss\n2e8,2e10,\n"):
        status, out, _ = predict(text)
        assert (status, "measured" in out, "observed" in out) == (0, False, False)


def test_losses_that_cannot_be_are_refused(predict):
    status, _, err = predict("params,tokens,loss\n2e8,2e10,-1\n")
    assert (status, "loss is -1.0 and must be positive" in err) == (2, True)
    status, _, err = predict("params,tokens,train_loss,val_loss\n2e8,2e10,3,4\n")
    assert (status, "2 columns that may be the loss" in err) == (2, True)
