"""What people look at: the printed report and the figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from known_tables import t27_columns

import scalefit as sf
from scalefit.errors import OptionError
from scalefit.plots.fit import fit_figure, save_figure
from scalefit.report.text import number


def test_report_of_the_worked_example(chin203_fit: sf.Fit) -> None:
    text = sf.describe(chin203_fit)
    assert "203 rows used, 42 left out" in text
    assert "32 of 32 random starts end at this optimum" in text
    assert "warning collinear-columns" in text
    line = next(line for line in text.splitlines() if line.startswith("alpha_depth"))
    assert line.split()[1:3] == ["1.325", "0.24"]
    assert line.endswith("determined")


def test_report_prints_no_digits_of_what_is_not_determined() -> None:
    columns = t27_columns()
    one = columns["depth"] == 16
    text = sf.describe(sf.fit(sf.Runs.from_columns({n: v[one] for n, v in columns.items()}), n_starts=4))
    line = next(line for line in text.splitlines() if line.startswith("alpha_depth"))
    words = line.split()
    assert (words[0], set(words[1:-1]), words[-1]) == ("alpha_depth", {"-"}, "not-determined")


def test_report_of_an_exponent_tied_to_a_fixed_one(t27: sf.Runs) -> None:
    constraints = sf.Constraints.parse(["alpha_width=1"], ["alpha_depth=alpha_width"])
    text = sf.describe(sf.fit(t27, constraints=constraints, n_starts=4))
    for name in ("alpha_width", "alpha_depth"):
        line = next(line for line in text.splitlines() if line.startswith(name))
        words = line.split()
        assert (words[:2], set(words[2:-1]), words[-1]) == ([name, "1.000"], {"-"}, "fixed")


@pytest.mark.parametrize(("noise", "free"), [(0.0, True), (0.01, False)])
@pytest.mark.parametrize("scale", [1.0, 1e-9])
def test_a_table_without_noise_is_told_from_small_losses(noise: float, free: bool, scale: float) -> None:
    columns = t27_columns(noise)
    columns["loss"] *= scale
    text = sf.describe(sf.fit(sf.Runs.from_columns(columns), objective="mse", n_starts=4))
    assert ("the table holds no noise" in text) is free


def test_report_of_a_floor_at_zero() -> None:
    text = sf.describe(sf.fit(sf.load_dataset("gemstones"), objective="log-huber:1e-3"))
    line = next(line for line in text.splitlines() if line.startswith("L0"))
    assert line.split()[:3] == ["L0", "0", "(bound)"]
    assert "220 rows of 22 runs" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.32512, "1.325"), (0.00123, "0.001230"), (58914.2, "58,914"), (2.1e7, "2.100e+07"), (0, "0"), (np.nan, "-")],
)
def test_numbers_for_people(value: float, text: str) -> None:
    assert number(value) == text


def test_figure_shows_every_term_and_every_row(chin203_fit: sf.Fit) -> None:
    figure = fit_figure(chin203_fit)
    assert len(figure.axes) == 8
    residual_panel = figure.axes[4]
    assert max(len(line.get_xdata()) for line in residual_panel.lines) == 203
    assert [a.get_xlabel() for a in figure.axes[:3]] == ["width m (d_model)", "depth l (layers)", "training tokens D"]


def test_figure_of_terms_that_vanished(t27: sf.Runs) -> None:
    """A floor above every loss leaves no term; warnings are errors in these tests."""
    figure = fit_figure(sf.fit(t27, constraints=sf.Constraints.parse(["L0=9"]), n_starts=4))
    assert {a.get_yscale() for a in figure.axes[:3]} == {"linear"}


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_figures_are_written_once(chin203_fit: sf.Fit, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"fit.{suffix}"
    assert save_figure(fit_figure(chin203_fit), path).stat().st_size > 10_000
    with pytest.raises(OptionError, match="--force"):
        save_figure(fit_figure(chin203_fit), path)


def test_unknown_image_format_is_refused(chin203_fit: sf.Fit, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"\.png, \.pdf or \.svg"):
        save_figure(fit_figure(chin203_fit), tmp_path / "fit.txt")
