"""The shape of the code: how deep, how wide, and how much of it one command passes."""

from __future__ import annotations

import ast
import functools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "scalefit").is_dir():
    pytest.skip("the sources are not part of an installed package", allow_module_level=True)

PACKAGES = ("scalefit", "toy_models")

LINES = 330
"""Files have about 300 lines; one that has a tenth more is split or thinned."""

PASSED_BY_FIT = 50
"""Files of the library that `scalefit fit` runs through. The aim is 30: raise this number for nothing."""


def sources(*packages: str) -> list[Path]:
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_files_are_short() -> None:
    lines = {shown(path): len(path.read_text(encoding="utf-8").splitlines()) for path in sources(*PACKAGES)}
    assert {path: n for path, n in lines.items() if n > LINES} == {}


def test_no_chain_of_imports_is_longer_than_fifteen() -> None:
    grimp = pytest.importorskip("grimp")
    graph = grimp.build_graph("scalefit", exclude_type_checking_imports=True, cache_dir=None)

    @functools.cache
    def longest(module: str) -> tuple[str, ...]:
        below = [longest(imported) for imported in graph.find_modules_directly_imported_by(module)]
        return (module, *max(below, key=len, default=()))

    chain = max((longest(module) for module in graph.modules), key=len)
    assert len(chain) <= 15, " > ".join(chain)


PASSED = """
import contextlib, io, json, os, sys
import scalefit
from scalefit.cli import main

root, seen = os.path.dirname(scalefit.__file__), set()

def note(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(root) and code.co_name != "<module>":
        seen.add(os.path.relpath(code.co_filename, root))

sys.argv = ["scalefit", "fit", "chinchilla"]
sys.setprofile(note)
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
sys.setprofile(None)
print(json.dumps(sorted(seen)))
"""


def test_a_fit_passes_few_files() -> None:
    done = subprocess.run([sys.executable, "-c", PASSED], cwd=ROOT, capture_output=True, text=True, check=True)
    files = json.loads(done.stdout)
    assert "fitting/fit.py" in files
    assert len(files) <= PASSED_BY_FIT, files


def test_few_private_functions_are_used_once() -> None:
    """A short helper used once belongs where it is used, unless its name says a decision."""
    used: Counter[str] = Counter()
    defined: list[str] = []
    for path in sources("scalefit"):
        for node in ast.walk(tree(path)):
            if isinstance(node, (ast.Name, ast.Attribute)):
                used[node.id if isinstance(node, ast.Name) else node.attr] += 1
            elif isinstance(node, ast.FunctionDef) and node.name.startswith("_") and not node.name.startswith("__"):
                defined.append(node.name)
    once = [name for name in defined if used[name] <= 1]
    assert len(once) <= 0.45 * len(defined), f"{len(once)} of {len(defined)}"


def test_tests_import_no_tests() -> None:
    tests = {path.stem for path in sources("tests") if path.stem.startswith("test_")}
    for path in sources("tests"):
        for node in ast.walk(tree(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {part for name in names for part in name.split(".")} & tests, shown(path)


NAMES_READ = {
    "scalefit/uncertainty/posterior/priors.py": "priors are chosen by name, before there is a law to ask",
}
"""Files that tell parameters by their names, and why."""


def test_nobody_reads_the_names_of_parameters() -> None:
    """What a parameter is, its term and its scale say; a name is for people. Names are made in `laws` alone."""
    prefixes = ("c_", "alpha_")
    for path in sources("scalefit"):
        if path.parent.name == "laws" or shown(path) in NAMES_READ:
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Constant):
                assert node.value not in prefixes, f"{shown(path)}:{node.lineno}"
            if isinstance(node, ast.JoinedStr):
                parts = [part.value for part in node.values if isinstance(part, ast.Constant)]
                assert not any(str(part).endswith(prefixes) for part in parts), f"{shown(path)}:{node.lineno}"
