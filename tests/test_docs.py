"""Every code block of the README and the documentation runs, and prints what the page shows.

A ``python`` block runs in its page's namespace; a ``text`` block right below it is its output. In a
``console`` block each ``$ command`` has to succeed and to print the lines below it, where lines are shown.
``...`` stands for anything, as in doctest. Blocks of a page run in order in one temporary folder. ``sh``
blocks, which set things up, are only checked against a list of commands.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "docs").is_dir():
    pytest.skip("the documentation is not part of an installed package", allow_module_level=True)

PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
    if "_build" not in path.parts and path.stat().st_size > 0
)
FENCE = re.compile(r"^(?P<mark>`{3,})(?P<language>[^\n`]*)\n(?P<body>.*?)^(?P=mark)[ \t]*$", re.MULTILINE | re.DOTALL)
SHOWN_ONLY = {"text", "json", "toml", "csv", "bibtex"}
SET_UP = re.compile(
    r"(make [a-z]+|git clone \S+|cd scalefit|python3 -m venv \S+|(\S+/)?pip install .*|\. \S+/activate)$"
)
TIMEOUT_S = 300


@dataclass(frozen=True)
class Block:
    """One fenced block and where it stands."""

    page: Path
    line: int
    language: str
    body: str
    end: int

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}, line {self.line}"


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")

    def line_at(position: int) -> int:
        return text.count("\n", 0, position) + 1

    return [
        Block(page, line_at(found.start()), found["language"].strip(), found["body"], line_at(found.end()))
        for found in FENCE.finditer(text)
    ]


def expected_output(block: Block, following: Block | None) -> str | None:
    """Return the body of the ``text`` block that directly follows, if one does."""
    if following is None or following.language != "text":
        return None
    between = block.page.read_text(encoding="utf-8").split("\n")[block.end : following.line - 1]
    return following.body if not any(line.strip() for line in between) else None


def assert_prints(place: str, source: str, expected: str, printed: str) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    checker = doctest.OutputChecker()
    if not checker.check_output(expected, printed, flags):
        difference = checker.output_difference(doctest.Example(source, expected), printed, flags)
        pytest.fail(f"{place}: {source.strip()}\n{difference}", pytrace=False)


def run_python(block: Block, expected: str | None, namespace: dict[str, object]) -> None:
    printed = io.StringIO()
    code = compile("\n" * block.line + block.body, str(block.page), "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    if expected is not None:
        assert_prints(block.place, block.body, expected, printed.getvalue())


def commands_of(block: Block) -> list[tuple[str, str]]:
    """Split a console block into commands and what they are shown to print."""
    assert block.body.startswith("$ "), f"{block.place}: a console block starts with '$ '"
    pieces = re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]
    split = []
    for piece in pieces:
        command = re.match(r"(?:[^\n]*\\\n)*[^\n]*\n", piece)
        assert command is not None
        split.append((command[0], piece[command.end() :]))
    return split


def run_console(block: Block) -> None:
    environment = {name: os.environ[name] for name in os.environ if name not in ("COLUMNS", "FORCE_COLOR")}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
    for command, expected in commands_of(block):
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, f"{block.place}: {command}ended with {done.returncode}:\n{done.stdout}"
        if expected.strip():
            assert_prints(block.place, command, expected, done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run_and_print_what_they_show(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__page__"}
    blocks = blocks_of(page)
    for block, following in zip(blocks, [*blocks, None][1:], strict=True):
        if block.language == "python":
            run_python(block, expected_output(block, following), namespace)
        elif block.language == "console":
            run_console(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_are_of_a_known_kind(page):
    for block in blocks_of(page):
        known = block.language in SHOWN_ONLY | {"python", "console", "sh"} or block.language.startswith("{")
        assert known, f"{block.place}: {block.language or 'no language'}: nobody would run this block"
        if block.language == "sh":
            commands = [line.split("#")[0].rstrip() for line in block.body.splitlines() if line]
            strange = [command for command in commands if not SET_UP.match(command)]
            assert not strange, f"{block.place}: not a set-up command: {strange}"


def test_make_targets_named_in_pages_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE))
    assert {"fit", "test"} <= named <= targets


def test_figures_shown_in_pages_exist():
    for page in PAGES:
        for target in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            assert "://" in target or (page.parent / target).is_file(), f"{page.name} shows {target}"


@pytest.mark.parametrize(
    ("expected", "printed", "agrees"),
    [
        ("a 1\n", "a 1\n", True),
        ("a 1\n", "a 2\n", False),
        ("a ...\n", "a 17 b\n", True),
        ("a ...\n", "b\n", False),
    ],
)
def test_the_comparison_can_fail(expected, printed, agrees):
    expectation = contextlib.nullcontext() if agrees else pytest.raises(pytest.fail.Exception)
    with expectation:
        assert_prints("here", "command", expected, printed)


def test_every_shipped_table_stands_on_its_page() -> None:
    page = (ROOT / "docs/reference/datasets.md").read_text(encoding="utf-8")
    registry = tomllib.loads((ROOT / "data/registry.toml").read_text(encoding="utf-8"))
    for name, entry in registry.items():
        assert f"| `{name}` | {entry['n_rows']} |" in page
