"""What reaches the terminal: hostile names, closed and full outputs, levels that are none."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from known_tables import t27_columns
from rich.table import Table

import scalefit as sf
from scalefit.cli import main
from scalefit.numbers import visible
from scalefit.report.text import pieces, render, table

SCALEFIT = [sys.executable, "-c", "from scalefit.cli import main; main()"]
HOSTILE = "a\x1b[2Jb\u202ec\x9bd"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain α ± 1", "plain α ± 1"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\u202eb\ud800c\x85", "a\\u202eb\\ud800c\\x85"),
        ("two\nlines\r\n", "two\nlines\\r\n"),
    ],
)
def test_what_is_not_seen_is_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible("a\nb", lines=False) == "a\\nb"


def test_names_of_files_reach_no_terminal_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = sf.Runs.from_columns(t27_columns(0.01), HOSTILE)
    text = sf.describe(sf.fit(runs, n_starts=2)) + sf.describe(runs)
    assert "a\\x1b[2Jb\\u202ec\\x9bd" in text
    assert not set(text) & set("\x1b\x07\u202e\x9b")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["scalefit", "fit", HOSTILE + "\n"])
    with pytest.raises(SystemExit):
        main()
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert not set(error) & set("\x1b\x07\u202e\x9b")


def test_a_table_of_wide_cells_is_not_broken_on_paper() -> None:
    cells = ["name", *["1.234567e+05 to 2.345678e+05"] * 5]
    grid = table(["a", "b", "c", "d", "e", "f"], [cells])
    assert isinstance(next(pieces(grid)), Table)
    assert render(grid).splitlines()[1].split("   ") == cells


@pytest.mark.parametrize("command", [["ci"], ["optimal", "--params", "1e9"], ["suggest"], ["simulate"]])
@pytest.mark.parametrize("level", ["nan", "1", "-0.5"])
def test_a_level_that_is_none_is_refused_before_any_work(
    command: list[str], level: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["scalefit", command[0], "no-such-table", *command[1:], "--level", level])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "--level is" in capsys.readouterr().err  # not that there is no such table


@pytest.mark.skipif(os.name != "posix", reason="shells and devices of POSIX")
def test_outputs_that_are_closed_or_full(tmp_path: Path) -> None:
    command = f"'{SCALEFIT[0]}' -c 'from scalefit.cli import main; main()' fit gemstones --starts 2 "
    for redirect, status, said in (
        (">&-", 3, ""),
        ("2>&- >/dev/null", 3, ""),
        (">/dev/full", 2, "error: standard output: No space left on device; name another place\n"),
        ("--json | head -c 9", 0, ""),
    ):
        done = subprocess.run(["bash", "-c", command + redirect], cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (status, said), redirect
    plain = subprocess.run(
        ["bash", "-c", f"LC_ALL=C PYTHONIOENCODING=ascii {command} --json"], capture_output=True, text=True
    )
    assert json.loads(plain.stdout)["n_rows"] == 220


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_prints_the_tables_that_are_finished(tmp_path: Path) -> None:
    words = ["simulate", "chinchilla", "--tables", "100000", "--method", "wald", "--json"]
    process = subprocess.Popen(
        [*SCALEFIT, *words, "--jobs", "2"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        time.sleep(20)  # workers start by importing; the first tables are done within seconds of that
        os.killpg(process.pid, signal.SIGINT)
        out, error = process.communicate(timeout=30)
    finally:
        if process.poll() is None:  # nothing stays behind that a failed test has started
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    assert 0 < json.loads(out)["n_tables"] < 100_000
    assert error.startswith("interrupted after ")
