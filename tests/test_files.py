"""Files written whole: through every form of content, over kills, full disks and links."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import scalefit.files
from scalefit.errors import OptionError
from scalefit.files import make_folder, refuse_to_overwrite, write_atomically

LIMITED = """
import resource, sys
from pathlib import Path
from scalefit.files import write_atomically
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
form = sys.argv[2]
big = "x" * 100_000
try:
    write_atomically(sys.argv[1], big if form == "text" else lambda new: new.write_text(big))
except OSError as error:
    print(error.filename, error.strerror)
"""

EVERY_OUTPUT = """
import resource, sys
from pathlib import Path
import numpy as np
import scalefit as sf
from scalefit.plots.fit import fit_figure, save_figure, save_figures
fit = sf.fit(sf.load_dataset("chinchilla"), n_starts=2)
draws = sf.bootstrap(fit, n_resamples=100, seed=0)
figure = fit_figure(fit)
outputs = {
    "fit.json": lambda path: sf.save_fit(fit, path, overwrite=True),
    "runs.csv": fit.runs.to_csv,
    "runs.json": fit.runs.to_json,
    "draws.npz": draws.save,
    "fit.png": lambda path: save_figure(figure, path, overwrite=True),
    "fit.pdf": lambda path: save_figure(figure, path, overwrite=True),
    "fit.svg": lambda path: save_figure(figure, path, overwrite=True),
    "folder/one.png": lambda path: save_figures(path.parent, {"one": figure}),
}
for name, write in outputs.items():
    write(Path(name))
before = {name: Path(name).read_bytes() for name in outputs}
resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
for name, write in outputs.items():
    try:
        write(Path(name))
    except OSError as error:
        print(name, error.filename == name, Path(name).read_bytes() == before[name])
print(sorted(str(path) for path in Path(".").rglob("*") if path.is_file()) == sorted(outputs))
"""

REWRITING = """
import sys
from scalefit.files import write_atomically
print("ready", flush=True)
for i in range(10**9):
    text = str(i % 10) * 3_000_000
    write_atomically(sys.argv[1], text if i % 2 else lambda new: new.write_text(text))
"""


@pytest.mark.parametrize("content", ["text\r\n", b"bytes", lambda new: new.write_bytes(b"made")])
def test_every_form_of_content_is_written_and_leaves_nothing_beside_it(tmp_path: Path, content: object) -> None:
    target = tmp_path / "a.txt"
    assert write_atomically(target, content) == target  # type: ignore[arg-type]
    assert target.read_bytes() in (b"text\r\n", b"bytes", b"made")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_the_callable_gets_a_path_with_the_suffix_of_the_target(tmp_path: Path) -> None:
    seen: list[Path] = []
    write_atomically(tmp_path / "a.png", lambda new: (seen.append(new), new.write_bytes(b"")))
    assert seen[0].suffix == ".png"
    assert seen[0].parent == tmp_path


def test_an_error_in_the_middle_keeps_the_old_file_and_removes_the_new(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")

    def fail(new: Path) -> None:
        new.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(target, fail)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")
def test_permissions_of_the_old_file_and_links_survive(tmp_path: Path) -> None:
    target, link = tmp_path / "a.txt", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


@pytest.mark.skipif(os.name != "posix", reason="a limit on the size of files")
@pytest.mark.parametrize("form", ["text", "callable"])
def test_a_full_disk_keeps_the_old_file_and_the_error_names_it(tmp_path: Path, form: str) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(target), form], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"{target} File too large")
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_kill_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    write_atomically(target, "9" * 3_000_000)
    for attempt in range(10):
        process = subprocess.Popen([sys.executable, "-c", REWRITING, str(target)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.002 * attempt)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        text = target.read_text()
        assert len(text) == 3_000_000
        assert text == text[0] * 3_000_000


def test_what_cannot_be_written_is_refused_before_work_starts(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("")
    refuse_to_overwrite(True, None, tmp_path / "old", tmp_path / "new")
    with pytest.raises(OptionError, match="exists"):
        refuse_to_overwrite(False, tmp_path / "old")
    with pytest.raises(OptionError, match="two files"):
        refuse_to_overwrite(True, tmp_path / "new", tmp_path / "x" / ".." / "new")
    with pytest.raises(OptionError, match="is a folder"):
        refuse_to_overwrite(True, tmp_path)
    with pytest.raises(OptionError, match="gone does not exist"):
        refuse_to_overwrite(True, tmp_path / "gone" / "new")
    with pytest.raises(OSError, match="gone"):
        write_atomically(tmp_path / "gone" / "new", "")
    assert make_folder(make_folder(tmp_path / "folder")).is_dir()
    with pytest.raises(OptionError, match="gone does not exist"):
        make_folder(tmp_path / "gone" / "new")
    with pytest.raises(OptionError, match="cannot be made"):
        make_folder(tmp_path / "old")


@pytest.mark.skipif(os.name != "posix", reason="a limit on the size of files")
def test_every_output_survives_a_full_disk(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EVERY_OUTPUT], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 9, lines
    assert {line.split(" ", 1)[1] for line in lines[:-1]} == {"True True"}, lines
    assert lines[-1] == "True"  # nothing half written stands beside them


def test_nothing_writes_past_the_one_writer() -> None:
    """Plain writes would tear an old file on a kill; in the library all go through `write_atomically`."""
    package = Path(scalefit.files.__file__).parent
    plain = re.compile(
        r"\.write_(text|bytes)\(|open\([^)]*[\"'][wax]b?[\"']|\.savefig\((?!content,)|np\.save\w*\((?!content,)"
    )
    found = {
        f"{path.relative_to(package)}: {line.strip()}"
        for path in package.rglob("*.py")
        if path.name != "files.py"
        for line in path.read_text(encoding="utf-8").splitlines()
        if plain.search(line)
    }
    # np.savez( stands alone where its arguments take several lines: the first of them is the buffer
    assert found <= {"uncertainty/posterior/chains.py: np.savez("}
