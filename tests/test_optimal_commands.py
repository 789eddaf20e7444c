"""scalefit optimal and suggest, run as a user runs them."""

from __future__ import annotations

import json

import pytest
from commands import run, write

CHINCHILLA = ("chinchilla", "--drop-worst", "40")
KEYS = {"budget", "width", "depth", "tokens", "ratio", "loss", "intervals", "feasible"}


def test_optimal_prints_one_document_with_every_method(tmp_path):
    done = run("optimal", *CHINCHILLA, "--params", "1e9,1e11", "--resamples", "300", "--json", folder=tmp_path)
    assert done.returncode == 0
    shapes = json.loads(done.stdout)
    assert [shape["budget"] for shape in shapes] == [{"params": 1e9}, {"params": 1e11}]
    for shape in shapes:
        assert shape.keys() >= KEYS
        assert list(shape["intervals_by_method"]) == ["cluster", "pairs", "importance"]
        assert shape["intervals"]["ratio"] == shape["intervals_by_method"]["cluster"]["ratio"]
    assert shapes[0]["ratio"] == pytest.approx(64.2, abs=0.05)
    assert shapes[1]["decades_beyond_table"]["params"] == pytest.approx(0.83, abs=0.005)
    # 300 replicates know the ends of a wide interval to about 10 %
    assert shapes[0]["intervals_by_method"]["pairs"]["ratio"] == pytest.approx([56, 73], rel=0.05)
    assert shapes[1]["intervals_by_method"]["pairs"]["ratio"] == pytest.approx([61, 173], rel=0.12)
    assert shapes[1]["intervals_by_method"]["cluster"]["ratio"] == pytest.approx([50, 205], rel=0.15)


def test_optimal_report_and_figure(tmp_path):
    words = ("optimal", *CHINCHILLA, "--params", "1e10:1e11:2", "--method", "importance", "--plot", "a.png")
    done = run(*words, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "wrote a.png\n")
    assert "width / depth" in done.stdout
    assert "0.8 decades above" in done.stdout
    assert (tmp_path / "a.png").stat().st_size > 10_000
    assert run(*words, folder=tmp_path).returncode == 2


def test_limits_of_serving_name_what_they_assume(tmp_path):
    words = ("optimal", *CHINCHILLA, "--latency", "0.01", "--serving", "bandwidth=3.35e12", "--method", "none")
    assert "bandwidth=3.35e+12," in run(*words, folder=tmp_path).stdout
    (shape,) = json.loads(run(*words, "--json", folder=tmp_path).stdout)
    assert shape["serving"]["bandwidth"] == 3.35e12


def test_two_runs_of_one_command_print_the_same(tmp_path):
    words = ("optimal", *CHINCHILLA, "--flops", "1e21", "--resamples", "60", "--json")
    repeated = run(*words, "--method", "pairs", "--method", "importance", folder=tmp_path)
    (shape,) = json.loads(repeated.stdout)
    assert list(shape["intervals_by_method"]) == ["pairs", "importance"]
    assert run(*words, "--method", "pairs,importance", folder=tmp_path).stdout == repeated.stdout


def test_a_table_on_one_line_ends_with_status_3_and_no_numbers(tmp_path):
    lines = ["width,depth,tokens,loss"]
    for i, depth in enumerate([8, 16, 24, 32, 48] * 3):
        tokens = 10.0 ** (9 + i // 5)
        noise = 1 + 1e-3 * (-1) ** i
        lines.append(
            f"{64 * depth},{depth},{tokens},{(1.7 + 300 / 64 / depth + 10 / depth + 500 / tokens**0.3) * noise}"
        )
    (tmp_path / "line.csv").write_text("\n".join(lines))
    done = run("optimal", "line.csv", "--params", "1e9", "--json", folder=tmp_path)
    assert done.returncode == 3
    (shape,) = json.loads(done.stdout)
    assert (shape["ratio"], shape["width"], shape["loss"], shape["feasible"]) == (None, None, None, [])
    assert [warning["code"] for warning in shape["warnings"]] == ["shape-not-determined"]
    suggested = run("suggest", "line.csv", "--runs", "3", "--json", folder=tmp_path)
    document = json.loads(suggested.stdout)
    assert suggested.returncode == 0
    assert document["estimate"] is None
    assert len(document["runs"]) == 3


def test_a_table_without_noise_has_its_shape_and_says_which_intervals_it_lacks(tmp_path):
    write(tmp_path)
    done = run("optimal", "runs.csv", "--params", "1e9", "--json", folder=tmp_path)
    (shape,) = json.loads(done.stdout)
    assert done.returncode == 0
    assert (shape["ratio"], shape["width"], shape["depth"]) == pytest.approx((15, 1077.22, 71.81), rel=1e-4)
    assert "importance" in next(w["message"] for w in shape["warnings"] if w["code"] == "method-withheld")


def test_suggest_json_report_and_figure(tmp_path):
    words = ("suggest", *CHINCHILLA, "--runs", "5", "--levels", "depth=6,12,24,48,94", "--max-flops", "1e22")
    done = run(*words, "--json", folder=tmp_path)
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert len(document["runs"]) == 5
    assert {run["depth"] for run in document["runs"]} <= {6, 12, 24, 48, 94}
    assert document["runs"][-1]["flops_so_far"] == pytest.approx(document["flops"])
    assert document["standard_error"]["after"] < 0.5 * document["standard_error"]["before"]
    drawn = run(*words, "--plot", "b.svg", folder=tmp_path)
    assert (drawn.returncode, drawn.stderr) == (0, "wrote b.svg\n")
    assert "5 runs for alpha_depth" in drawn.stdout


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "no budget is given"),
        (("--params", "1"), "below the 12 of the smallest model"),
        (("--params", "1e9:1e8:4"), "FROM:TO:HOW_MANY"),
        (("--params", "1e9", "--count", "lama"), "did you mean llama"),
        (("--params", "1e9", "--range", "heads=1:2"), "--range"),
        (("--params", "1e9", "--method", "magic"), "--method knows"),
        (("--memory", "1e9", "--serving", "batch=0"), "batch"),
        (("--params", "1e9", "--level", "1.5"), "level is 1.5"),
        (("--params", "1e9", "--method", "none", "--plot", "a.xyz"), "no image suffix"),
        (("--memory", "1e9", "--method", "none", "--plot", "a.png"), "the figure needs budgets in params or flops"),
    ],
)
def test_wrong_options_end_with_one_sentence_and_status_2(tmp_path, words, complaint):
    done = run("optimal", *CHINCHILLA, *words, folder=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


EPOCH = ("chinchilla", "--drop-worst", "5", "--law", "params+tokens", "--objective", "log-huber:1e-3")


def test_a_law_in_params_and_tokens_has_its_best_n_and_d(tmp_path):
    words = ("optimal", *EPOCH, "--flops", "5.76e23", "--method", "pairs", "--resamples", "200")
    done = run(*words, "--tokens-per-param", "20,100", "--json", folder=tmp_path)
    (best,) = json.loads(done.stdout)
    assert done.returncode == 0
    assert best["tokens_per_param"] == pytest.approx(17.9, abs=0.05)
    assert best["intervals"]["params"][0] < 7.32e10 < best["intervals"]["params"][1]
    assert [one["tokens_per_param"] for one in best["at_ratios"]] == [20, 100]
    served = run(*words, "--served", "2T", folder=tmp_path).stdout
    assert "2 N x 2e+12 served" in served
    assert "44.46" in served
    declared = run(*words, "--cost", "6*params*tokens + 4e12*params", "--json", folder=tmp_path)
    assert json.loads(declared.stdout)[0]["tokens_per_param"] == pytest.approx(44.46, abs=0.01)


def test_what_a_loss_takes(tmp_path):
    words = ("optimal", *EPOCH, "--method", "none", "--json")
    found = json.loads(run(*words, "--target-loss", "2.0", "--at", "params=70B", folder=tmp_path).stdout)
    assert found["needed"]["tokens"] == pytest.approx(6.08e11, rel=1e-3)
    cheapest = json.loads(run(*words, "--target-loss", "1.974", folder=tmp_path).stdout)
    assert cheapest["needed"]["flops"] == pytest.approx(5.76e23, rel=0.01)
    beyond = run(*words, "--target-loss", "1.8", folder=tmp_path)
    assert beyond.returncode == 3
    assert json.loads(beyond.stdout)["needed"] == {"flops": None, "params": None, "tokens": None}


def test_isoflop_prints_valleys_and_approaches(tmp_path):
    words = ("isoflop", *EPOCH[:3], "--flops", "5.76e23", "--resamples", "60")
    done = run(*words, "--budgets", "6e18,1e19,3e19,6e19,1e20,3e20,6e20,1e21,3e21", "--json", folder=tmp_path)
    found = json.loads(done.stdout)
    assert done.returncode == 0
    assert len(found["valleys"]) == 9
    assert [one["name"] for one in found["approaches"]] == ["valleys", "params+tokens"]
    refused = run(*words, folder=tmp_path)
    assert refused.returncode == 2
    assert "--budgets" in refused.stderr


def test_compare_runs_prints_the_speed_up(tmp_path):
    for name, factor in (("a", 1.0), ("b", 2.0)):
        lines = ["params,tokens,loss"]
        for i in range(36):
            n, d = 10 ** (8 + i % 6 * 0.4), 10 ** (9.3 + i // 6 * 0.4)
            loss = 1.7 + 400 / n**0.34 + 2000 / (factor * d) ** 0.37
            lines.append(f"{n},{d},{loss * (1 + 5e-4 * (-1) ** (i // 2))}")
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    words = ("compare-runs", "a.csv", "b.csv", "--flops", "1e20,1e21", "--resamples", "60")
    done = run(*words, "--json", folder=tmp_path)
    found = json.loads(done.stdout)
    assert done.returncode == 0
    assert found["paired"]
    assert [one["speed_up"] for one in found["budgets"]] == pytest.approx([2.0, 2.0], rel=0.02)
    assert "speed-up" in run(*words, folder=tmp_path).stdout
    assert run("compare-runs", "a.csv", folder=tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--params", "1e9"), "the budget is --flops alone"),
        (("--flops", "1e23", "--cost", "6*params*heads"), "names 'heads'"),
        (("--flops", "1e23", "--cost", "6*params*tokens", "--served", "1T"), "write serving into it"),
        (("--flops", "1e23", "--count", "llama"), "give --ratio"),
        (("--flops", "1e23", "--range", "width=1:2"), "with params or tokens"),
        (("--flops", "1e23", "--tokens-per-param", "x"), "--tokens-per-param"),
        (("--target-loss", "2", "--at", "params"), "is not NAME=VALUE"),
        (("--flops", "1e23", "--plot", "a.png"), "leave it out"),
    ],
)
def test_wrong_options_for_n_and_d(tmp_path, words, complaint):
    done = run("optimal", *EPOCH, "--method", "none", *words, folder=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
