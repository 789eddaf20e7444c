"""Ensembles of walkers: convergence, reproducibility, resumption, and what is said when they fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import scalefit as sf
from scalefit.uncertainty.posterior.conditional import Conditional
from scalefit.uncertainty.posterior.diagnostics import chain_diagnostics, is_check
from scalefit.uncertainty.posterior.importance import importance_sample
from scalefit.uncertainty.posterior.posterior import autocorrelation_times, sample_posterior
from scalefit.uncertainty.posterior.priors import Normal
from scalefit.uncertainty.samples import to_arviz

SHORT = {"max_steps": 1500}


def one_term_runs(noise=0.01):
    rng = np.random.default_rng(2)
    depth = np.round(np.geomspace(2, 64, 40))
    loss = (2 + 4 / depth**0.7) * np.exp(noise * rng.standard_normal(40))
    return sf.Runs.from_columns({"depth": depth, "loss": loss})


@pytest.fixture(scope="module")
def one_term():
    return sf.fit(one_term_runs(), "depth")


@pytest.fixture(scope="module")
def chain_file(tmp_path_factory):
    return tmp_path_factory.mktemp("chains") / "chain.npz"


@pytest.fixture(scope="module")
def unbroken(one_term, chain_file):
    return sample_posterior(one_term, seed=5, backend=chain_file)


@pytest.fixture(scope="module")
def one_depth():
    """Draws for a table of one depth, which says nothing of its exponent: 1,500 steps are not enough."""
    rng = np.random.default_rng(0)
    width, tokens = np.repeat([512.0, 1024, 2048, 4096], 3), np.tile([1e9, 1e10, 1e11], 4)
    loss = (1.7 + 300 / width + 10 / 16 + 505 / tokens**0.3) * np.exp(0.005 * rng.standard_normal(12))
    runs = sf.Runs.from_columns({"width": width, "depth": np.full(12, 16.0), "tokens": tokens, "loss": loss})
    return sample_posterior(sf.fit(runs), **SHORT)


class Interrupted(BaseException):
    """Stands for Ctrl-C."""


def interrupt_after(steps):
    def progress(done, _):
        if done >= steps:
            raise Interrupted

    return progress


def test_chains_agree_with_the_importance_sampler(one_term, unbroken):
    reference = importance_sample(one_term, 40_000)
    assert not unbroken.warnings
    for name in unbroken.names:
        spread, ess = np.std(reference[name]), unbroken.diagnostics["ess"][name]
        assert np.mean(unbroken[name]) == pytest.approx(np.mean(reference[name]), abs=5 * spread / ess**0.5)
        assert np.std(unbroken[name]) == pytest.approx(spread, rel=0.08)


def test_convergence_is_what_is_promised(unbroken):
    numbers = unbroken.diagnostics
    assert max(numbers["rhat"].values()) < 1.01
    assert min(*numbers["ess"].values(), *numbers["ess_tail"].values()) >= 1000
    assert 0.75 * numbers["n_steps"] >= 50 * max(numbers["tau"].values())
    assert unbroken.n_chains == numbers["n_ensembles"] == 4
    assert 0.1 < numbers["acceptance"] < 0.6
    assert not unbroken.reservations


def test_the_same_seed_gives_the_same_draws_whatever_the_global_state(one_term, unbroken):
    np.random.seed(0)  # noqa: NPY002
    assert np.array_equal(sample_posterior(one_term, seed=5).draws, unbroken.draws)


def test_ensembles_and_seeds_differ(one_term, unbroken):
    assert len(np.unique(unbroken["alpha_depth"].reshape(4, -1)[:, 0])) == 4
    other = sample_posterior(one_term, seed=6, **SHORT)
    assert len(set(other["alpha_depth"]) & set(unbroken["alpha_depth"])) == 0


def test_an_interrupted_chain_goes_on_to_the_same_numbers(one_term, unbroken, tmp_path):
    path = tmp_path / "chain.npz"
    for steps in (500, 1000):
        with pytest.raises(Interrupted):
            sample_posterior(one_term, seed=5, backend=path, progress=interrupt_after(steps))
    resumed = sample_posterior(one_term, seed=5, backend=path)
    assert np.array_equal(resumed.draws, unbroken.draws)
    finished = sample_posterior(one_term, seed=5, backend=path, progress=interrupt_after(0))
    assert np.array_equal(finished.draws, unbroken.draws)
    assert [p.name for p in tmp_path.iterdir()] == ["chain.npz"]


def test_numpy_reads_the_file(unbroken, chain_file):
    with np.load(chain_file, allow_pickle=False) as stored:
        coords = stored["coords"]
    assert coords.shape[:2] == (4, unbroken.diagnostics["n_steps"] // 10 + 1)
    assert set(unbroken["alpha_depth"].reshape(4, -1)[2]) <= set(coords[2, :, :, 2].ravel())


@pytest.mark.usefixtures("unbroken")
def test_a_file_of_another_posterior_is_refused(one_term, chain_file, tmp_path):
    for options in ({"seed": 6}, {"seed": 5, "priors": {"L0": Normal(2, 1)}}, {"seed": 5, "noise": "student-t"}):
        with pytest.raises(sf.OptionError, match="another table, law, prior, seed"):
            sample_posterior(one_term, backend=chain_file, **options)
    (tmp_path / "notes.txt").write_text("no chains")
    with pytest.raises(sf.DataError, match="does not hold chains"):
        sample_posterior(one_term, backend=tmp_path / "notes.txt")
    (tmp_path / "draws.npz").write_bytes(chain_file.read_bytes()[:1000])
    with pytest.raises(sf.DataError, match="does not hold chains"):
        sample_posterior(one_term, backend=tmp_path / "draws.npz")
    (tmp_path / "old.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(
        sf.DataError, match=r"holds chains of version 0\.1 \(HDF5\), from which this version cannot go on"
    ):
        sample_posterior(one_term, backend=tmp_path / "old.h5")


def test_a_limit_that_is_too_low_is_said_and_nothing_claimed(one_depth):
    warning = one_depth.warnings[0]
    assert warning.code == "posterior-not-converged"
    assert "limit of 1500 steps" in warning.message
    assert one_depth.reservations["alpha_depth"] == warning.message


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"n_ensembles": 3}, "n_ensembles is 3"),
        ({"max_steps": 100}, "max_steps is 100"),
        ({"backend": "nowhere/chain.npz"}, "the folder of nowhere/chain.npz does not exist"),
    ],
)
def test_options_out_of_range(one_term, options, named):
    with pytest.raises(sf.OptionError, match=named):
        sample_posterior(one_term, **options)


def test_fixed_and_bounded_parameters():
    constraints = sf.Constraints.parse(fix=["L0=2"], bound=["alpha_depth=0.6:0.7"])
    posterior = sample_posterior(sf.fit(one_term_runs(), "depth", constraints=constraints), **SHORT)
    assert np.array_equal(posterior["L0"], np.full(len(posterior), 2.0))
    assert 0.6 <= posterior["alpha_depth"].min() < posterior["alpha_depth"].max() <= 0.7
    assert set(posterior.diagnostics["rhat"]) == {"c_depth", "alpha_depth", "sigma"}


@pytest.mark.slow
def test_tied_exponents_stay_tied():
    constraints = sf.Constraints.parse(tie=["alpha_depth=alpha_width"])
    fitted = sf.fit(sf.load_dataset("chinchilla").drop_worst(40), constraints=constraints)
    posterior = sample_posterior(fitted, **SHORT)
    assert np.array_equal(posterior["alpha_depth"], posterior["alpha_width"])
    assert posterior.interval("alpha_depth") == pytest.approx(
        importance_sample(fitted).interval("alpha_depth"), abs=0.02
    )


def test_export_to_arviz_keeps_the_ensembles_apart(unbroken):
    draws = to_arviz(unbroken)["posterior"]["L0"]
    assert draws.shape == (4, len(unbroken) // 4)
    assert np.array_equal(draws.values.ravel(), unbroken["L0"])


def test_what_one_depth_cannot_determine_is_as_wide_as_its_prior(one_depth):
    (warning,) = [w for w in one_depth.warnings if w.code == "posterior-is-prior"]
    assert "alpha_depth" in warning.numbers["prior_share"]
    assert "alpha_width" not in warning.numbers["prior_share"]


def test_checks_come_at_fixed_lengths():
    checks = [n for n in range(1000) if is_check(n, 100, 50)]
    assert checks[:4] == [100, 150, 200, 250]
    assert all(check % 50 == 0 for check in checks)


def test_rhat_sees_an_ensemble_that_is_elsewhere():
    rng = np.random.default_rng(1)
    values = rng.standard_normal((4, 100, 16, 1))
    assert chain_diagnostics(values)["rhat"][0] < 1.01
    assert chain_diagnostics(values)["ess"][0] == pytest.approx(6400, rel=0.15)
    values[3] += 1.0
    assert chain_diagnostics(values)["rhat"][0] > 1.05


def test_effective_size_of_an_autoregressive_chain():
    """AR(1) with coefficient 0.9 has the autocorrelation time (1 + 0.9) / (1 - 0.9) = 19."""
    rng = np.random.default_rng(2)
    noise = rng.standard_normal((4, 2000, 16, 1))
    values = np.empty_like(noise)
    values[:, 0] = noise[:, 0] / np.sqrt(1 - 0.81)
    for i in range(1, 2000):
        values[:, i] = 0.9 * values[:, i - 1] + noise[:, i]
    assert chain_diagnostics(values)["ess"][0] == pytest.approx(4 * 2000 * 16 / 19, rel=0.1)


def test_a_walker_that_never_moved_is_no_reason_to_stop():
    rng = np.random.default_rng(3)
    values = rng.standard_normal((4, 100, 16, 1))
    assert autocorrelation_times(values)[0] < 2
    values[0, :, 0] = 0.5
    assert autocorrelation_times(values)[0] == 100


KILLED = """
import sys
import numpy as np
import scalefit as sf
from scalefit.uncertainty.posterior.posterior import sample_posterior
fitted = sf.fit(sf.Runs.from_csv(sys.argv[1]), "depth")
sample_posterior(fitted, seed=5, backend=sys.argv[2], progress=lambda done, of: print(done, flush=True))
"""


@pytest.mark.slow
def test_a_killed_process_leaves_a_file_that_goes_on_to_the_same_numbers(one_term, unbroken, tmp_path):
    path, table = tmp_path / "chain.npz", tmp_path / "runs.csv"
    one_term.runs.to_csv(table)
    process = subprocess.Popen([sys.executable, "-c", KILLED, table, path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while process.stdout.readline().strip() not in ("500", ""):
        pass
    time.sleep(0.3)  # the file is written right after the line
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert path.exists()
    resumed = sample_posterior(sf.fit(sf.Runs.from_csv(table), "depth"), seed=5, backend=path)
    assert np.array_equal(resumed.draws, unbroken.draws)


@pytest.mark.slow
def test_chinchilla():
    """Reference: a posterior of other priors and another sampler, [0.92, 1.74]."""
    posterior = sample_posterior(sf.fit(sf.load_dataset("chinchilla").drop_worst(40)))
    assert not posterior.warnings
    assert max(posterior.diagnostics["rhat"].values()) < 1.01
    assert min(posterior.diagnostics["ess"].values()) > 1000
    assert posterior.interval("alpha_depth") == pytest.approx((0.92, 1.74), abs=0.04)


@pytest.mark.slow
def test_effective_sizes_are_honest():
    """Ensembles differ in their means by what their effective sizes say, no more: walkers help each other little."""
    fitted = sf.fit(one_term_runs(), "depth")
    posterior = sample_posterior(fitted, n_ensembles=24)
    means = posterior["alpha_depth"].reshape(24, -1).mean(axis=1)
    expected = np.std(posterior["alpha_depth"]) / (posterior.diagnostics["ess"]["alpha_depth"] / 24) ** 0.5
    assert 0.65 < np.std(means, ddof=1) / expected < 1.5  # 24 means: a standard deviation is known to 15 %


def test_ctrl_c_within_the_likelihood_prints_nothing(chin203_fit, monkeypatch, capsys):
    """emcee's own wrapper would print every walker's parameters and a traceback to standard output."""
    calls = iter(range(1000))
    original = Conditional.log_posterior

    def interrupted(self, points):
        if next(calls) == 50:
            raise KeyboardInterrupt
        return original(self, points)

    monkeypatch.setattr(Conditional, "log_posterior", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sample_posterior(chin203_fit)
    assert capsys.readouterr() == ("", "")
