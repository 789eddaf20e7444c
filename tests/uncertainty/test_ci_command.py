"""`scalefit ci` from an empty folder: the document, the report, the exit status, the same bytes for any --jobs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import product

import numpy as np
import pytest

from scalefit.cli import main
from scalefit.errors import OptionError
from scalefit.report.ci import comparison_report
from scalefit.report.text import render
from scalefit.uncertainty import comparison, methods
from scalefit.uncertainty.comparison import Settings
from scalefit.uncertainty.samples import Samples

SCALEFIT = [sys.executable, "-c", "from scalefit.cli import main; main()"]
CHIN = ["chinchilla", "--drop-worst", "40"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("empty")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

    def call(*arguments, status=0):
        done = subprocess.run(
            [*SCALEFIT, "ci", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stderr
        return done.stdout

    call.folder = folder
    return call


@pytest.fixture(scope="module")
def chinchilla(run):
    return json.loads(run(*CHIN, "--method", "fast", "--json"))


def test_the_document_has_its_keys(chinchilla):
    assert chinchilla["level"] == 0.95
    assert (chinchilla["default"], chinchilla["by"]) == ("cluster", "shape")
    assert "intraclass correlation 0.35" in chinchilla["reason"]
    assert chinchilla["trusted"] == {n: "analytic" if n == "L0" else "cluster" for n in chinchilla["estimates"]}
    assert chinchilla["diagnostics"]["analytic"]["groups"] == 39
    assert set(chinchilla["intervals"]) == {
        "analytic",
        "pairs",
        "pairs-bca",
        "cluster",
        "cluster-bca",
        "profile",
        "wald",
        "mixed",
        "importance",
    }
    assert chinchilla["intervals"]["pairs"]["alpha_depth"] == pytest.approx([0.99, 1.79], abs=0.06)
    assert chinchilla["intervals"]["profile"]["alpha_depth"] == pytest.approx([0.94, 1.73], abs=0.006)
    assert chinchilla["intervals"]["importance"]["alpha_depth"] == pytest.approx([0.92, 1.74], abs=0.05)
    assert set(chinchilla["diagnostics"]["mixed"]["deviations"]) == {"shape", "row"}
    assert chinchilla["verdicts"]["alpha_depth"] == "determined"
    assert chinchilla["diagnostics"]["pairs"]["converged"] == 1
    assert chinchilla["standard_errors"]["gauss-newton"]["alpha_depth"] == pytest.approx(0.287, abs=1e-3)
    assert chinchilla["standard_errors"]["observed"]["alpha_depth"] == pytest.approx(0.202, abs=1e-3)
    by_row = ("pairs", "pairs-bca", "profile", "wald", "importance")  # rows of a shape resemble each other
    assert set(chinchilla["reservations"]) == {"cluster", *by_row}
    assert all(set(chinchilla["reservations"][method]) == set(chinchilla["estimates"]) for method in by_row)
    (doubt,) = chinchilla["reservations"]["cluster"].items()
    assert doubt[0] == "L0"
    assert "percentile intervals of L0 by shape are too narrow" in doubt[1]
    assert "89 %" in doubt[1]
    assert "curvature-disagrees" in [w["code"] for w in chinchilla["warnings"]]


def test_what_is_starred_is_not_disowned_and_figures_stay_at_their_level(chin203_fit):
    for level in (0.95, 0.9):
        found = comparison.compare_intervals(chin203_fit, ("cluster",), Settings(level, 60))
        assert found.trusted == "cluster"
        assert found.claimed("cluster", "alpha_depth")
        assert not found.claimed("cluster", "L0")
        assert found.claimed("cluster-bca", "L0")
        assert ("89 %" in found.reservations["cluster"]["L0"]) == (level == 0.95)
        text = render(comparison_report(found))
        row = next(line for line in text.splitlines() if line.startswith("cluster *"))
        assert row.count("(") == 1  # that of L0
        assert "cluster (L0): in brackets" in text
        assert ("89 %" in text) == (level == 0.95)


def test_what_chance_adds_to_the_ends_is_printed(chin203_fit):
    text = render(
        comparison_report(comparison.compare_intervals(chin203_fit, ("cluster", "mixed"), Settings(0.95, 400)))
    )
    errors = next(line for line in text.splitlines() if "by chance" in line).split("by chance")[1]
    # 400 replicates leave the ends of alpha_depth uncertain by some hundredths.
    assert 0.01 <= float(re.findall(r"[\d.]+", errors)[2]) <= 0.2
    assert "mixed: noise of 0.39 % by shape and 0.45 % by row" in text


def test_disagreement_is_flagged(chinchilla):
    flagged = {(d["method"], d["parameter"]) for d in chinchilla["disagreements"]}
    assert ("wald", "L0") in flagged
    assert all(d["method"] != chinchilla["default"] for d in chinchilla["disagreements"])


def test_jobs_do_not_change_a_byte(run):
    options = (*CHIN, "--method", "pairs", "--resamples", "1100", "--json")
    assert run(*options) == run(*options, "--jobs", "2")


def test_the_draws_are_written_and_not_overwritten(run):
    options = (*CHIN, "--method", "cluster", "--resamples", "60", "-o", "draws.npz", "--plot", "figure.png")
    run(*options)
    assert len(Samples.load(run.folder / "draws.npz")) == 60
    assert (run.folder / "figure.png").stat().st_size > 10_000
    run(*options, status=2)
    gemstones = ("gemstones", "--resamples", "60", "-o", "gemstones.npz", "--method")
    run(*gemstones, "analytic,cluster", status=3)  # the floor is not determined
    assert Samples.load(run.folder / "gemstones.npz").diagnostics["by"] == "run"
    run("gemstones", "--resamples", "60", "-o", "rows.npz", "--method", "analytic,pairs", status=2)
    assert not (run.folder / "rows.npz").exists()


def test_gemstones_shows_the_naive_interval_beside_and_withholds_what_needs_independent_rows(run):
    found = json.loads(run("gemstones", "--method", "pairs,cluster,profile,wald", "--json", status=3))
    assert (found["default"], found["suits"], found["by"]) == (None, "cluster", "run")
    assert "of the replicates have L0 at a bound" in found["reservations"]["cluster"]["alpha_width"]
    assert set(found["withheld"]) == {"profile", "wald"}
    widths = {
        method: {name: np.ptp(found["intervals"][method][name]) for name in ("alpha_width", "alpha_tokens")}
        for method in ("pairs", "cluster")
    }
    assert widths["cluster"]["alpha_width"] > 1.8 * widths["pairs"]["alpha_width"]
    assert widths["cluster"]["alpha_tokens"] < widths["pairs"]["alpha_tokens"] / 4


def test_the_share_at_the_bound_and_the_one_sided_limit_are_stated(run):
    text = run("gemstones", "--objective", "log-huber:1e-3", "--method", "cluster", "--resamples", "200", status=3)
    assert "of the replicates have L0 at its bound" in text
    assert "(one-sided)" in text


def test_an_undetermined_table_ends_with_status_3_and_says_why(run):
    lines = ["width,depth,tokens,loss"]
    rng = np.random.default_rng(0)
    for width in (256, 512, 1024, 2048):
        for tokens in (1e9, 4e9, 1.6e10, 6.4e10):
            loss = (1.7 + 300 / width + 500 / tokens**0.3) * np.exp(0.002 * rng.standard_normal())
            lines.append(f"{width},12,{tokens:g},{loss:.6f}")
    (run.folder / "one_depth.csv").write_text("\n".join(lines))
    found = json.loads(run("one_depth.csv", "--method", "fast", "--json", status=3))
    assert found["verdicts"]["alpha_depth"] == "not-determined"
    assert "alpha_depth" in found["withheld"]["pairs"]
    assert "do not determine" in found["withheld"]["mixed"]


def test_unknown_methods_and_levels_are_refused(run):
    run(*CHIN, "--method", "magic", status=2)
    run(*CHIN, "--level", "95", "--method", "pairs", status=2)
    run(*CHIN, "--jobs", "0", "--method", "pairs", status=2)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--by", "nope"), "unknown grouping 'nope'"),
        (("--resamples", "0"), "the number of resamples is 0 and must be at least 50"),
        (("--resamples=-5",), "the number of resamples is -5"),
    ],
)
def test_what_no_method_could_use_is_one_sentence_before_any_work(monkeypatch, capsys, words, complaint):
    status, out, err = in_process(monkeypatch, capsys, *CHIN, "--method", "wald", *words)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert complaint in err
    assert err.count("\n") == 1


def in_process(monkeypatch, capsys, *words):
    """Status and streams of `scalefit ci` in this process, where its parts can be replaced."""
    monkeypatch.setattr(sys, "argv", ["scalefit", "ci", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, *capsys.readouterr()


def test_a_method_without_a_row_is_not_recommended(run):
    rng = np.random.default_rng(1)
    for file in ("a.csv", "b.csv"):
        lines = ["width,depth,tokens,loss"]
        for width, depth, tokens in product((256, 512, 1024), (4, 8, 16), (1e9, 1e10, 1e11)):
            loss = (1.7 + 300 / width + 3 / depth + 505 / tokens**0.3) * np.exp(0.002 * rng.standard_normal())
            lines.append(f"{width},{depth},{tokens:g},{loss:.6f}")
        (run.folder / file).write_text("\n".join(lines))
    two_runs = run("a.csv", "b.csv", "--method", "analytic,cluster,pairs", status=3)
    assert "None is to be trusted: analytic gives none" in two_runs
    assert "analytic: withheld, 2 runs are too few for an interval" in two_runs
    assert "cluster: withheld, 2 runs are too few to resample (15 needed)" in two_runs
    assert "(*)" not in two_runs
    few = " ".join(run("a.csv", "--by", "width", "--method", "cluster,cluster-robust,wald").split())
    assert "None is to be trusted yet; add --method analytic: rows are grouped by width, as asked" in few
    assert "fewer than 15 clusters by width" in few
    found = json.loads(run("a.csv", "--method", "analytic,wald,pairs", "--json"))
    assert (found["default"], found["by"]) == ("analytic", "shape")
    assert "rows of one shape for independent, which they may not be" in found["reservations"]["wald"]["L0"]
    asked = json.loads(run(*CHIN, "--by", "row", "--method", "pairs,cluster", "--resamples", "60", "--json"))
    assert (asked["suits"], asked["by"], asked["reason"]) == ("pairs", "row", "rows are taken one by one, as asked")
    assert asked["default"] is None  # the residuals speak against it
    assert set(asked["withheld"]) == {"cluster"}
    assert "rows of one shape" in asked["reservations"]["pairs"]["alpha_depth"]


def test_a_few_rows_of_their_own_have_the_interval_of_the_fit_and_no_bootstrap(run):
    """1 degree of freedom; published: alpha between 0.213 and 0.379."""
    rows = ["tokens,loss", "1e8,3.713", "1e9,2.708", "1e10,2.212", "1e11,1.950"]
    (run.folder / "four_rows.csv").write_text("\n".join(rows))
    table = ("four_rows.csv", "--law", "tokens", "--json")
    found = json.loads(run(*table, "--method", "analytic,pairs,wald"))
    assert found["default"] == "analytic"
    assert found["intervals"]["analytic"]["alpha_tokens"] == pytest.approx([0.213, 0.379], abs=1e-3)
    assert found["intervals"]["wald"]["alpha_tokens"] == pytest.approx(found["intervals"]["analytic"]["alpha_tokens"])
    assert set(found["reservations"]) >= {"pairs"}
    assert fit_document(run, *table)["interval"] == found["intervals"]["analytic"]


def test_with_the_floor_at_zero_nothing_takes_it_for_known(run):
    losses = [2.1989, 2.1416, 2.0875, 2.0305, 1.9726, 1.9125, 1.8669, 1.8182]
    rows = [f"{1e9 * 2**i:g},{loss}" for i, loss in enumerate(losses)]
    (run.folder / "floor.csv").write_text("\n".join(["tokens,loss", *rows]))
    table = ("floor.csv", "--law", "tokens", "--json")
    found = json.loads(run(*table, "--method", "analytic,profile,wald"))
    assert found["default"] == "analytic"
    assert found["intervals"]["analytic"]["alpha_tokens"] == pytest.approx([0.0385, 0.0777], abs=5e-4)
    assert found["intervals"]["profile"]["c_tokens"] == pytest.approx(
        found["intervals"]["analytic"]["c_tokens"], rel=1e-3
    )
    assert "takes L0 for known" in found["reservations"]["wald"]["alpha_tokens"]
    assert found["verdicts"]["alpha_tokens"] != "determined"
    assert fit_document(run, *table)["interval"] == found["intervals"]["analytic"]


def test_with_too_few_runs_and_the_floor_at_zero_nothing_breaks(run):
    rng = np.random.default_rng(0)
    rows = ["width,depth,tokens,run,loss"]
    for i in range(5):
        width, depth = 256 * 2**i, 4 + 3 * i
        for tokens in np.geomspace(1e9, 1e11, 10):
            loss = (300 / width + 10 / depth + 505 / tokens**0.3) * np.exp(0.002 * rng.standard_normal())
            rows.append(f"{width},{depth},{tokens:g},{i},{loss:.6f}")
    (run.folder / "few_runs.csv").write_text("\n".join(rows))
    found = json.loads(run("few_runs.csv", "--method", "fast", "--json", status=3))
    assert found["default"] is None
    assert "L0" not in found["intervals"].get("analytic", {}) or found["intervals"]["analytic"]["L0"][0] == 0


def fit_document(run, *words):
    """What `scalefit fit` says of the same table."""
    code = "from scalefit.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "fit", *words], cwd=run.folder, capture_output=True, text=True, check=False
    )
    return json.loads(done.stdout)


def test_ctrl_c_prints_the_finished_methods_and_one_line(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(methods, "sample_posterior", interrupted)
    words = (*CHIN, "--method", "wald,posterior,importance", "--json")
    status, out, err = in_process(monkeypatch, capsys, *words)
    assert status == 130
    assert err == "interrupted; the methods that were finished are printed, nothing is written to files\n"
    found = json.loads(out)
    assert set(found["intervals"]) == {"wald"}
    assert set(found["withheld"]) == {"posterior", "importance"}


def test_a_bootstrap_cut_short_ends_the_comparison(chin203_fit):
    def report(_name):
        return interrupt

    def interrupt(done, _total):
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(comparison.Interrupted) as stopped:
        comparison.compare_intervals(chin203_fit, ("pairs", "wald"), Settings(n_resamples=1000), report)
    found = stopped.value.comparison
    assert len(found.samples["pairs"]) == 512
    assert set(found.withheld) == {"wald"}


@pytest.mark.parametrize("wrong", [{"n_resamples": 0}, {"seed": -1}, {"level": 1.0}])
def test_wrong_settings_are_refused_in_python(wrong):
    with pytest.raises(OptionError):
        Settings(**wrong)


@pytest.mark.slow
def test_all_methods(run):
    found = json.loads(run(*CHIN, "--method", "all", "--json"))
    assert found["intervals"]["posterior"]["alpha_depth"] == pytest.approx([0.92, 1.74], abs=0.05)
    assert max(found["diagnostics"]["posterior"]["rhat"].values()) < 1.01
    assert min(found["diagnostics"]["posterior"]["ess"].values()) > 1000
    assert {"residual", "wild", "wild-cluster", "observed", "robust", "cluster-robust"} <= set(found["intervals"])
