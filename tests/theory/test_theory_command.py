"""`scalefit theory`: verdicts, exit statuses, JSON, figures."""

import json

import pytest
from typer.testing import CliRunner

from scalefit.cli.app import app
from scalefit.errors import OptionError
from scalefit.theory import CHECKS, BoundSetting, Outcome, Sampling, TheoremCheck, check_bhyt_bound, find_check
from scalefit.theory.checks.registry import Finding
from scalefit.theory.verdict import judge_margin

SHORT = ["--depth", "12", "--seeds", "16"]


def run(*arguments):
    return CliRunner().invoke(app, ["theory", *arguments])


def test_bound_holds_and_prints_a_table():
    result = run("bhyt-bound", "--lam", "1", "--kappa", "10", *SHORT)
    assert result.exit_code == 0
    assert "assumption condition: a = 0.1 <= 1/sqrt(L)" in result.stdout
    # one line an assumption: the recursion knows that both alignments are 0, samples do not
    assert result.stdout.count("assumption alignment-sign") == 1
    assert "rho of LNS is not negative: holds (exact), undecided (simulated)" in result.stdout
    assert result.stdout.strip().endswith("7 claims: 7 hold, 0 violated, 0 inconclusive")


def test_json_is_one_document_with_the_promised_keys():
    result = run("bhyt-bound", "--json", *SHORT)
    rows = json.loads(result.stdout)
    assert {row["verdict"] for row in rows} == {"HOLDS"}
    for row in rows:
        assert {"check", "claim", "verdict", "predicted", "estimated", "standard_error", "layer"} <= set(row)
    assert run("bhyt-bound", "--json", *SHORT).stdout == result.stdout
    assert run("bhyt-bound", "--json", "--seed", "1", *SHORT).stdout != result.stdout


def test_ratio_beyond_the_condition_is_violated_with_the_block():
    result = run("bhyt-bound", "--lam", "5", "--depth", "16", "--seeds", "16", "--json")
    assert result.exit_code == 1
    rows = {row["claim"]: row for row in json.loads(result.stdout)}
    assert rows["m_bhyt-exact < 1/l in blocks 1..16, exact"]["layer"] == 6
    simulated = rows["simulated m_bhyt-exact < m_lns in blocks 1..16"]
    assert (simulated["verdict"], simulated["layer"]) == ("VIOLATED", 6)
    condition = simulated["assumptions"][0]
    assert (condition["name"], condition["holds"], condition["layer"]) == ("condition", False, 5)


def test_wrong_power_for_layernorm_scaling_is_violated_at_block_two():
    result = run("bhyt-bound", "--lns-power", "2", "--json", *SHORT)
    assert result.exit_code == 1
    rows = {row["claim"]: row for row in json.loads(result.stdout)}
    wrong = rows["simulated m_lns = l^-2 in blocks 1..12"]
    assert (wrong["verdict"], wrong["layer"], wrong["estimated"]) == ("VIOLATED", 2, pytest.approx(0.5))


@pytest.mark.parametrize("seeds", ["1", "2", "7"])
def test_too_few_seeds_are_inconclusive(seeds):
    result = run("bhyt-bound", "--depth", "8", "--seeds", seeds, "--json")
    assert result.exit_code == 3
    simulated = [row for row in json.loads(result.stdout) if row["claim"].startswith("simulated")]
    assert {row["verdict"] for row in simulated} == {"INCONCLUSIVE"}


def test_negative_alignment_breaks_the_bound_through_the_command():
    result = run("bhyt-bound", "--alignment=-0.9", *SHORT)
    assert result.exit_code == 1
    assert "alignment-sign: rho of LNS is not negative: broken (first at layer 1)" in result.stdout


def test_equality_case_holds_for_the_control_too():
    assert run("bhyt-bound", "--lam", "1", "--kappa", "4", "--depth", "16", "--seeds", "16").exit_code == 0


def test_list_names_every_check():
    listed = json.loads(run("list", "--json").stdout)
    assert [row["check"] for row in listed] == list(CHECKS)
    assert len(run("list").stdout.splitlines()) == len(CHECKS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bhyt-bound", "--kappa", "0"], "kappa is 0"),
        (["bhyt-bound", "--kappa", "-2"], "kappa is -2"),
        (["bhyt-bound", "--lam", "nan"], "lambda is nan"),
        (["bhyt-bound", "--depth", "0"], "depth is 0"),
        (["bhyt-bound", "--norm", "layernorm"], "layernorm"),
        (["bhyt-bound", "--alignment", "nan"], "alignment nan"),
        (["bhyt-bound", "--seeds", "0"], "number of seeds is 0"),
        (["bhyt-bound", "--seed", "-1"], "seed is -1"),
        (["moments", "--lam", "2"], "--lam belongs to the check bhyt-bound"),
        (["luck"], "luck"),
    ],
)
def test_bad_options_are_one_sentence(arguments, words):
    result = run(*arguments)
    assert isinstance(result.exception, OptionError)
    assert words in str(result.exception)


QUICK = [name for name in CHECKS if name not in {"stack-simulation", "attention-variance"}]


@pytest.mark.parametrize("name", QUICK)
def test_check_holds(name):
    results = find_check(name).run(Sampling(seed=2))
    assert results
    assert [r.claim for r in results if r.verdict is not Outcome.HOLDS] == []


def test_simulations_are_inconclusive_from_few_seeds():
    few = Sampling(n_seeds=3)
    names = ("input-laws", "token-bound", "jacobian", "heavy-tails", "transformer-blocks", "swiglu-simulation")
    for name in names:
        assert {r.verdict for r in find_check(name).run(few)} == {Outcome.INCONCLUSIVE}


def test_unknown_check_and_bad_setting():
    with pytest.raises(OptionError, match="luck"):
        find_check("luck")
    with pytest.raises(OptionError, match="rmsnorm"):
        BoundSetting(norm="rmsnorm")


def test_a_false_claim_of_ones_own_is_reported():
    check = TheoremCheck("false", "2 < 1", lambda _: iter([Finding("2 < 1", judge_margin(1, 2, [4]))]))
    (result,) = check.run()
    assert (result.check, result.verdict, result.judgement.layer) == ("false", Outcome.VIOLATED, 4)


def test_ideal_form_with_a_mean_is_violated_inside_the_condition():
    setting = BoundSetting(norm="bhyt-ideal", lam=1.25, kappa=10, depth=64, mean=3.0)
    results = check_bhyt_bound(setting).run(Sampling(n_seeds=8))
    assert results[0].verdict is Outcome.VIOLATED
    assert results[0].assumptions[0].holds
    broken = {each.name: each.layer for each in results[0].assumptions if each.holds is False}
    assert broken == {"output": 1}


def test_figures_are_written_and_reproducible(tmp_path):
    arguments = ["bhyt-bound", "--depth", "6", "--seeds", "8", "--plot"]
    for folder in ("one", "two"):
        result = run(*arguments, str(tmp_path / folder))
        assert result.exit_code == 0
        assert "wrote" in result.stderr
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == [
        "attention-ratio.png",
        "increments-against-depth.png",
        "phase-diagram.png",
        "second-site.png",
        "variance-against-depth.png",
    ]
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_figures_to_a_file_are_refused(tmp_path):
    (tmp_path / "taken").write_text("")
    result = run("moments", "--seeds", "8", "--plot", str(tmp_path / "taken"))
    assert isinstance(result.exception, OptionError)
    assert "name another folder" in str(result.exception)
