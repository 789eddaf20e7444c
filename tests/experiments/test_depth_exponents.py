"""Exponents of sweep tables against known laws; intervals, verdicts, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from scalefit.errors import DataError
from scalefit.experiments.depth_exponents import (
    Convergence,
    DepthExponent,
    depth_exponents,
    describe,
    describe_units,
    finite_teacher_factor,
    read_sweep,
    to_document,
    total_units,
    units_controls,
    units_document,
)

DEPTHS = (2, 3, 4, 6, 8, 12)


def sweep(law, *, seeds=4, horizons=(1000,), depths=DEPTHS, kind="tied", **columns) -> pd.DataFrame:
    """A table with loss = law(depth, seed, horizon)."""
    rows = [
        {
            "kind": kind, "gain": 1.0, "width": 16, "objective": "mse", "temperature": np.nan, "integrator": "euler",
            "target": "teacher", "seed": seed, "depth": depth, "horizon": horizon, "annealed": True, "status": "ok",
            "loss": law(depth, seed, horizon), "teacher_depth": 64, "hidden_units": 64, **columns,
        }
        for horizon in horizons for seed in range(seeds) for depth in depths
    ]  # fmt: skip
    return pd.DataFrame(rows)


def codes(found: DepthExponent) -> set[str]:
    return {warning.code for warning in found.warnings}


def test_a_power_law_is_found_by_every_variant() -> None:
    (found,) = depth_exponents(sweep(lambda d, s, _h: 0.3 * (1 + s) * d**-1.7))
    # Solver tolerance, noiseless.
    assert found.alpha == pytest.approx(1.7, abs=1e-6)
    assert found.estimates["floor"].alpha == pytest.approx(1.7, abs=1e-4)
    assert found.floor_share == pytest.approx(0, abs=1e-4)
    assert [slope.estimate.alpha for slope in found.local_slopes] == pytest.approx([1.7] * 5)


def test_a_floor_is_found_with_its_share() -> None:
    (found,) = depth_exponents(sweep(lambda d, *_: 0.3 * d**-2.0 + 0.001))
    assert found.estimates["floor"].alpha == pytest.approx(2.0, abs=1e-4)
    assert found.floor_share == pytest.approx(0.001 / (0.3 / 144 + 0.001), rel=1e-4)
    assert found.alpha < 1.9


@pytest.mark.parametrize(("power", "reading"), [(1, 1.10), (2, 2.19)])
def test_a_finite_teacher_is_seen_through_its_covariate(power: int, reading: float) -> None:
    (found,) = depth_exponents(sweep(lambda d, *_: 0.1 * (1 / d - 1 / 64) ** power))
    assert found.estimates["finite-teacher"].alpha == pytest.approx(power, abs=1e-6)
    assert found.alpha == pytest.approx(reading, abs=0.005)
    assert found.alpha == pytest.approx(power * finite_teacher_factor(DEPTHS, 64), abs=1e-6)


def test_the_published_range_of_depths_reads_1_19_and_2_39() -> None:
    factor = finite_teacher_factor((6, 12, 16, 24, 32, 48), 128)
    assert (factor, 2 * factor) == pytest.approx((1.19, 2.39), abs=0.005)


def test_the_factor_needs_students_shallower_than_their_teacher() -> None:
    with pytest.raises(DataError, match="depth 8 must be less than the teacher's 8 layers"):
        finite_teacher_factor((2, 4, 8), 8)


def test_intervals_are_t_intervals_over_teachers() -> None:
    alphas = np.array([1.8, 2.0, 2.1, 2.3])
    (found,) = depth_exponents(sweep(lambda d, s, _h: d ** -alphas[s]), level=0.9)
    reach = stats.t.ppf(0.95, 3) * stats.sem(alphas)
    assert found.alpha == pytest.approx(alphas.mean(), abs=1e-6)
    assert found.interval == pytest.approx((alphas.mean() - reach, alphas.mean() + reach), abs=1e-6)
    assert found.estimates["no-floor"].per_teacher == pytest.approx(alphas, abs=1e-6)


def coverage(noise_between: float, noise_within: float, replicates: int) -> int:
    """Number of 95 % intervals that hold the true exponent, with four teachers each."""
    rng, hits = np.random.default_rng(8), 0
    for _ in range(replicates):
        alphas = 1.5 + noise_between * rng.standard_normal(4)
        noise = np.exp(noise_within * rng.standard_normal((4, 13)))
        (found,) = depth_exponents(sweep(lambda d, s, _h, a=alphas, n=noise: n[s, d] * d ** -a[s], depths=(2, 4, 8)))
        hits += found.interval[0] <= 1.5 <= found.interval[1]
    return hits


@pytest.mark.slow
def test_intervals_cover_the_truth() -> None:
    hits = coverage(0.05, 0.02, 200)
    assert stats.binomtest(hits, 200, 0.95).pvalue > 0.01


def moved(moves) -> pd.DataFrame:
    """A sweep whose teachers' exponents of 2 were lower by `moves` at half the steps."""
    moves = np.asarray(moves)
    return sweep(lambda d, s, h: d ** -(2 - (h == 500) * moves[s]), seeds=moves.size, horizons=(1000, 500))


def test_half_the_steps_decide_on_convergence() -> None:
    def law(moved: float):
        return lambda d, _s, h: d ** -(2.0 if h == 1000 else 2.0 - moved)

    settled, *_ = depth_exponents(sweep(law(0.05), horizons=(1000, 500, 100)))
    moving, *shorter = depth_exponents(sweep(law(0.4), horizons=(1000, 500, 100)))
    assert (settled.convergence, settled.settled) == (Convergence.CONVERGED, True)
    assert (moving.convergence, moving.settled) == (Convergence.MOVING, False)
    assert moving.half == pytest.approx(1.6, abs=1e-6)
    assert moving.margin == pytest.approx(0.2, abs=1e-6)
    assert "not-converged" in codes(moving)
    assert [item.horizon for item in shorter] == [500, 100]
    assert all(np.isnan(item.half) for item in shorter)


@pytest.mark.parametrize("level", [0.99, 1.01])
@pytest.mark.parametrize("sign", [1, -1])
def test_converged_is_two_one_sided_tests_within_a_tenth_of_the_exponent(level: float, sign: int) -> None:
    """Mean move so far inside the margin of .2 that 5 % of Student's t is just reached, or just not."""
    scatter = np.array([0.03, -0.01, 0.02, -0.04])
    reach = stats.t.ppf(0.95, 3) * stats.sem(scatter)
    (found, _) = depth_exponents(moved(scatter + sign * (0.2 - level * reach)))
    assert found.convergence == (Convergence.CONVERGED if level > 1 else Convergence.UNDECIDED)
    (found, _) = depth_exponents(moved(scatter + sign * (0.2 + level * reach)))
    assert found.convergence == (Convergence.MOVING if level > 1 else Convergence.UNDECIDED)


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_teachers_decide_nothing(seeds: int) -> None:
    for move in (0.0, 1.0):
        found, _ = depth_exponents(moved([move] * seeds))
        assert (found.convergence, found.settled) == (Convergence.UNDECIDED, False)
        assert "convergence-undecided" in codes(found)


def share(outcome: Convergence, move: float, spread: float, seeds: int, replicates: int = 4000) -> float:
    """How often simulated sweeps of exponent 1 get an outcome; the record decides, without a fit."""
    rng, hits = np.random.default_rng(3), 0
    (found, _) = depth_exponents(sweep(lambda d, *_: 1 / d, horizons=(1000, 500)))
    for _ in range(replicates):
        moves = move + spread * rng.standard_normal(seeds)
        reach = stats.t.ppf(0.95, seeds - 1) * stats.sem(moves)
        hits += replace(found, move=(moves.mean() - reach, moves.mean() + reach)).convergence is outcome
    return hits / replicates


@pytest.mark.parametrize("seeds", [3, 4, 8])
def test_a_true_move_is_called_converged_in_at_most_one_of_twenty_sweeps(seeds: int) -> None:
    assert share(Convergence.CONVERGED, 0.3, 0.2, seeds) <= 0.05
    assert share(Convergence.CONVERGED, 0.1, 0.05, seeds) == pytest.approx(0.05, abs=0.02)  # the margin itself


def test_no_move_is_recognised_and_never_called_one() -> None:
    assert share(Convergence.CONVERGED, 0.0, 0.02, 4) >= 0.8
    assert share(Convergence.MOVING, 0.0, 0.2, 3) <= 0.05


def test_without_a_half_horizon_convergence_is_unknown() -> None:
    (found,) = depth_exponents(sweep(lambda d, *_: d**-2.0))
    assert (found.convergence, found.settled) == (Convergence.UNDECIDED, True)
    assert "convergence-unknown" in codes(found)


def test_the_exponent_of_unlimited_training_is_extrapolated_from_three_horizons() -> None:
    spread = np.array([0.1, -0.1, 0.05, -0.05])
    table = sweep(lambda d, s, h: d ** -(2.4 + spread[s] - (h / 100) ** -0.7), horizons=(1400, 700, 140))
    found, *rest = depth_exponents(table)
    limit = found.estimates["extrapolated"]
    # noiseless: solver tolerance, stretched by the extrapolation
    assert limit.alpha == pytest.approx(2.4, abs=1e-4)
    reach = stats.t.ppf(0.975, 3) * stats.sem(spread)
    assert limit.interval == pytest.approx((2.4 - reach, 2.4 + reach), abs=1e-3)
    assert "in the limit of training: alpha 2.40" in describe([found])
    assert all(np.isnan(item.estimates["extrapolated"].alpha) for item in rest)
    away, *_ = depth_exponents(sweep(lambda d, _s, h: d ** -(h / 1000), horizons=(1400, 700, 140)))
    assert np.isnan(away.estimates["extrapolated"].alpha)  # moves that do not slow down have no limit


def test_a_reversed_tail_is_refused_a_floor_and_never_converged() -> None:
    def law(d: int, *_: int) -> float:
        return d**-1.0 if d < 12 else 0.2

    found, _ = depth_exponents(sweep(law, horizons=(1000, 500)))
    assert "tail-reversed" in codes(found)
    assert (found.convergence, found.settled) == (Convergence.MOVING, False)
    assert np.isnan(found.estimates["floor"].alpha)


def test_teachers_without_a_variant_are_counted() -> None:
    rising = {8: 0.1, 12: 0.11}
    found = depth_exponents(sweep(lambda d, s, _h: rising.get(d, d**-1.0) if s == 2 else d**-1.0))
    (line,) = [line for line in describe(found).splitlines() if line.startswith("    with floor")]
    assert "from 3 of 4 teachers" in line
    assert describe(found).count("4 teachers") == 2
    (remark,) = [w for w in found[0].warnings if w.code == "floor-of-some"]
    assert remark.numbers["seeds"] == [2]


def test_a_floor_that_explains_the_losses_is_pointed_out() -> None:
    (found,) = depth_exponents(sweep(lambda d, *_: 0.01 * d**-3.0 + 0.001))
    assert "floor-takes-over" in codes(found)


def test_deep_students_of_a_shallow_teacher_are_pointed_out_with_the_bias() -> None:
    (found,) = depth_exponents(sweep(lambda d, *_: 1 / d - 1 / 16, teacher_depth=16))
    (warning,) = [w for w in found.warnings if w.code == "students-near-teacher"]
    assert warning.numbers["factor"] == pytest.approx(found.alpha, abs=1e-6)
    (flow,) = depth_exponents(sweep(lambda d, *_: d**-2.0, teacher_depth=16, target="flow"))
    assert "students-near-teacher" not in codes(flow)
    assert np.isnan(flow.estimates["finite-teacher"].alpha)


def test_students_as_deep_as_their_teacher_are_pointed_out() -> None:
    (found,) = depth_exponents(sweep(lambda d, *_: 1 / d, depths=(4, 8, 16), teacher_depth=4))
    (warning,) = [w for w in found.warnings if w.code == "students-near-teacher"]
    assert "depth 16 is no less than the teacher's 4 layers" in warning.message


def test_diverged_students_are_left_out_and_counted() -> None:
    table = sweep(lambda d, *_: d**-2.0)
    hurt = (table["seed"] == 1) & (table["depth"] == 12)
    table.loc[hurt, ["status", "loss"]] = ["diverged", np.nan]
    (found,) = depth_exponents(table)
    assert found.alpha == pytest.approx(2, abs=1e-6)
    assert "diverged-students" in codes(found)


def test_one_teacher_has_no_interval() -> None:
    (found,) = depth_exponents(sweep(lambda d, *_: d**-2.0, seeds=1))
    assert np.isnan(found.interval).all()
    assert "one-teacher" in codes(found)


def test_conditions_are_told_apart_by_what_varies() -> None:
    table = pd.concat([sweep(lambda d, _s, _h, t=t: d**-t, temperature=t, objective="kl") for t in (1.0, 2.0)])
    found = depth_exponents(table)
    assert [item.label for item in found] == ["tied temperature=1", "tied temperature=2"]
    assert [item.alpha for item in found] == pytest.approx([1, 2], abs=1e-6)


def test_the_document_has_its_promised_keys() -> None:
    table = sweep(lambda d, *_: d**-2.0, horizons=(1000, 500))
    document = to_document(depth_exponents(table))
    entry = document["tied"]
    assert entry["alpha"] == pytest.approx(2, abs=1e-6)
    assert (entry["convergence"], entry["margin"]) == ("converged", pytest.approx(0.2, abs=1e-6))
    assert [item["horizon"] for item in entry["horizons"]] == [1000, 500]
    text = describe(depth_exponents(table))
    assert "1000 steps: alpha 2.00 [2.00, 2.00]  converged to 0.20" in text


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"annealed": False}, "24 of 24 losses were measured before the rate was annealed"),
        ({"status": "diverged"}, "no teacher has 3 depths with a loss"),
    ],
)
def test_tables_that_cannot_answer_are_refused(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        depth_exponents(sweep(lambda d, *_: d**-2.0).assign(**change))


def test_unannealed_losses_can_be_asked_for() -> None:
    (found,) = depth_exponents(sweep(lambda d, *_: d**-2.0).assign(annealed=False), allow_unannealed=True)
    assert found.alpha == pytest.approx(2, abs=1e-6)


def test_two_depths_are_too_few() -> None:
    with pytest.raises(DataError, match=r"depths are \[2, 4\].*needs 3 or more"):
        depth_exponents(sweep(lambda d, *_: d**-2.0, depths=(2, 4)))


def test_empty_tables_and_levels_are_named() -> None:
    table = sweep(lambda d, *_: d**-2.0)
    with pytest.raises(DataError, match="no finished student"):
        depth_exponents(table.iloc[:0])
    with pytest.raises(DataError, match="level is 95"):
        depth_exponents(table, level=95)


def test_two_sweeps_in_one_table_are_refused() -> None:
    table = sweep(lambda d, *_: d**-2.0)
    with pytest.raises(DataError, match="the tied student of seed 0, depth 2 and horizon 1000 stands"):
        depth_exponents(pd.concat([table, table]))


def fixed_units(law) -> pd.DataFrame:
    """A table with depth times hidden units at 512."""
    table = sweep(law, depths=(1, 2, 4, 8), horizons=(1000, 500))
    return table.assign(hidden_units=512 // table["depth"])


def test_fixed_total_units_are_compared_and_not_fitted() -> None:
    # Rising by one per cent at the end is no reversed tail here.
    by_depth = {1: 1.0, 2: 0.5, 4: 0.200, 8: 0.202}
    table = fixed_units(lambda d, s, h: (1 + s) * by_depth[d] ** (h / 1000))
    found, half = units_controls(table)
    assert found.ratio == pytest.approx(5)
    assert half.ratio == pytest.approx(5**0.5)
    assert found.per_teacher == pytest.approx([5] * 4)
    assert found.losses == pytest.approx([2.5 * by_depth[d] for d in (1, 2, 4, 8)])
    assert units_document([found, half])["tied"]["ratio"] == found.ratio
    assert "depth x hidden units = 512, depths 1, 2, 4, 8, 4 teachers" in describe_units([found])
    assert "largest over smallest loss 5.00, by teacher 5.00 to 5.00" in describe_units([found])
    with pytest.raises(DataError, match=r"512 for every student.*asks for no exponent"):
        depth_exponents(table)
    with pytest.raises(DataError, match="use depth_exponents"):
        units_controls(sweep(lambda d, *_: d**-2.0))


def test_a_teacher_with_a_diverged_student_is_left_out_of_the_comparison_and_counted() -> None:
    table = fixed_units(lambda d, s, _h: 1 / d if s else 1000.0 * d)
    hurt = (table["seed"] == 0) & (table["depth"] == 8)
    table.loc[hurt, "status"] = "diverged"
    found, _ = units_controls(table)
    assert (found.seeds, found.n_left_out) == ((1, 2, 3), 1)
    assert found.ratio == pytest.approx(8)
    with pytest.raises(DataError, match=r"no teacher has a loss at each of the depths \[1, 2, 4, 8\]"):
        units_controls(table.assign(status="diverged"))


@pytest.mark.parametrize("name", ["toy_laptop", "toy_total_units"])
def test_shipped_tables_are_whole(name: str) -> None:
    table = read_sweep(name)
    assert (table["status"] == "ok").all()
    assert (table.groupby(["kind", "horizon", "depth"])["seed"].nunique() == 4).all()
    assert (total_units(table) == 512) == (name == "toy_total_units")


def test_reading_names_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        read_sweep(tmp_path / "nowhere")
    sweep(lambda d, *_: d**-2.0).drop(columns="seed").to_csv(tmp_path / "results.csv", index=False)
    with pytest.raises(DataError, match="no column 'seed'"):
        read_sweep(tmp_path)


@pytest.mark.parametrize(
    ("column", "cell", "sentence"),
    [
        ("loss", "abc", "line 5 of .*: loss is abc and must be a number"),
        ("loss", -1.0, "line 5 of .*: loss is -1.0 and must be positive"),
        ("depth", "deep", "line 5 of .*: depth is deep and must be a number"),
    ],
)
def test_a_wrong_cell_is_named_by_its_line(tmp_path: Path, column: str, cell: object, sentence: str) -> None:
    table = sweep(lambda d, *_: d**-2.0).astype({column: object})
    table.loc[3, column] = cell
    table.to_csv(tmp_path / "results.csv", index=False)
    with pytest.raises(DataError, match=sentence):
        read_sweep(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b'a,b\n"1,2\n3'])
def test_a_file_that_is_no_table_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "results.csv").write_bytes(content)
    with pytest.raises(DataError, match=r"results\.csv is no CSV table"):
        read_sweep(tmp_path)
