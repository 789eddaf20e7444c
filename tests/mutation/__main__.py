"""Put small bugs into the numeric core, one at a time, and count those that no test notices.

A mutant's tests are those that call the function it stands in, the fastest first, as far as their seconds reach.
Each mutant lives in a process of its own that was forked after NumPy, SciPy and pytest were imported, and changes
the module as it is imported: no file is touched. What mutmut and cosmic-ray do not change and this does are constants
of modules and properties; texts, which they do change, it leaves alone.

    python tests/mutation --sample 300 --seed 1 fitting optimal
"""

from __future__ import annotations

import argparse
import importlib
import importlib.abc
import importlib.util
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from importlib.machinery import ModuleSpec, SourceFileLoader
from itertools import accumulate
from pathlib import Path
from types import CodeType
from typing import Any

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
os.environ.update(ONE_THREAD)

import pytest  # noqa: E402
from calls import Calls  # noqa: E402
from mutants import Mutant, find_mutants, mutated  # noqa: E402

for _name in ("emcee", "lmfit", "matplotlib.pyplot", "pandas", "rich.table", "scipy.stats", "typer"):
    importlib.import_module(_name)  # before the fork, so that no mutant pays for it

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "fitting": ["scalefit/fitting/*.py"],
    "search": [f"scalefit/fitting/{name}.py" for name in ("search", "starts", "solver", "damped", "batched")],
    "uncertainty": ["scalefit/uncertainty/**/*.py"],
    "predict": ["scalefit/predict*.py"],
    "optimal": ["scalefit/optimal/*.py"],
}
"""What is changed by default; `PATTERN` arguments name other files. The search for the optimum is a room of its own:
most of its mutants take another way to the same optimum, which no test can or should tell."""

MOST_ALIVE = {"search": 1.0}
"""Share of mutants that may live, where it is not a tenth."""

ELSEWHERE = ("toy_models", "theory", "test_docs.py", "test_house.py", "test_benchmarks.py", "test_mutation.py")
"""Tests that no mutant of the core concerns."""

FIRST_FILES = 3
"""Tests of so many files come first: those of which the largest share calls the function that is changed."""

QUIET = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "-rN", "--tb=no")


class Chosen:
    """A pytest plugin that runs some tests only, in a given order."""

    def __init__(self, names: Sequence[str]) -> None:
        self.rank = {name: i for i, name in enumerate(names)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self.rank), key=lambda item: self.rank[item.nodeid])


class MutantLoader(SourceFileLoader):
    """Loads a module from a changed tree."""

    def __init__(self, name: str, mutant: Mutant) -> None:
        super().__init__(name, str(mutant.path))
        self.mutant = mutant

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        return compile(mutated(self.mutant), str(self.mutant.path), "exec")


class MutantFinder(importlib.abc.MetaPathFinder):
    """Finds the one module that is changed."""

    def __init__(self, mutant: Mutant) -> None:
        self.name = ".".join(mutant.path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        self.mutant = mutant

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.mutant.path, loader=MutantLoader(name, self.mutant))


def in_process(work: Callable[[], int], cpu_seconds: float | None = None) -> int:
    """Fork a process that works in silence, in a group of its own; its number."""
    sys.stdout.flush()
    if child := os.fork():
        return child
    os.setpgid(0, 0)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    if cpu_seconds is not None:
        limit = int(cpu_seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    status = 1
    try:
        status = int(work())
    finally:
        os._exit(status)


def run_tests(files: Sequence[str], plugin: object, *words: str) -> int:
    sys.path.insert(0, str(ROOT))
    return int(pytest.main([*QUIET, *words, *files], plugins=[plugin]))


def call_map(patterns: Sequence[str], workers: int, slow: bool) -> dict[str, Any]:
    """Test -> seconds and functions, found by running tests once; those that fail are left out."""
    named = {path for pattern in patterns for path in ROOT.glob(pattern) if path.name.startswith("test_")}
    files = [path for path in sorted(named) if not set(ELSEWHERE) & {*path.parts, path.name}]
    choice = () if slow else ("-m", "not slow")
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder) / f"{i}.json" for i in range(workers)]
        children = []
        for i, output in enumerate(outputs):
            share, plugin = [str(p) for p in files[i::workers]], Calls(ROOT, output)
            children.append(in_process(lambda share=share, plugin=plugin: run_tests(share, plugin, *choice)))
        for child, output in zip(children, outputs, strict=True):
            if (status := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) not in (0, 1):
                raise SystemExit(f"the tests cannot be run (status {status} of pytest); try make test")
            found |= json.loads(output.read_text(encoding="utf-8"))
    if failing := sorted(test for test, calls in found.items() if calls is None):
        say(f"left out, for they fail without a mutant: {', '.join(failing)}")
    return {test: calls for test, calls in found.items() if calls is not None}


def tests_of(mutant: Mutant, calls: dict[str, Any], seconds: float) -> tuple[list[str], list[str]]:
    """Tests that call the mutant's function, or at a module's top any of its functions: those run first, and the rest.

    The fastest come first, and no more than so many seconds of them.
    """
    name = f"{mutant.path.relative_to(ROOT).as_posix()}::{mutant.function}"
    is_whole = not any(name in test["functions"] for test in calls.values())
    start = name.partition("::")[0]
    hits = [
        test
        for test, found in sorted(calls.items(), key=lambda item: item[1]["seconds"])
        if any(f.startswith(start) if is_whole else f == name for f in found["functions"])
    ]
    chosen = [hit for hit, total in zip(hits, accumulate(calls[h]["seconds"] for h in hits)) if total <= seconds]  # noqa: B905
    totals, counts = Counter(map(file_of, calls)), Counter(map(file_of, chosen))
    first = sorted(counts, key=lambda file: (-counts[file] / totals[file], totals[file]))[:FIRST_FILES]
    return [t for t in chosen if file_of(t) in first], [t for t in chosen if file_of(t) not in first]


def file_of(test: str) -> str:
    return test.partition("::")[0]


def judge(
    mutants: Sequence[Mutant], calls: dict[str, Any], workers: int, seconds: float
) -> Iterator[tuple[Mutant, str]]:
    """Run every mutant's tests; yield it with ``killed``, ``survived``, ``timeout`` or ``untested``."""
    running: dict[int, tuple[Mutant, float]] = {}
    queue = list(mutants)
    while queue or running:
        while queue and len(running) < workers:
            mutant = queue.pop(0)
            parts = tests_of(mutant, calls, seconds)
            if not any(parts):
                yield mutant, "untested"
                continue

            def work(mutant: Mutant = mutant, parts: tuple[list[str], list[str]] = parts) -> int:
                sys.meta_path.insert(0, MutantFinder(mutant))
                results = (run_tests(sorted(set(map(file_of, part))), Chosen(part), "-x") for part in parts if part)
                return next((status for status in results if status), 0)

            # Every process imports and collects for a few seconds; a loop that does not end is cut off.
            limit = 20 + 3 * sum(calls[name]["seconds"] for part in parts for name in part)
            running[in_process(work, limit)] = mutant, time.monotonic() + 10 * limit
        child, status = os.waitpid(-1, os.WNOHANG)
        if child:
            code = os.waitstatus_to_exitcode(status)
            yield running.pop(child)[0], {0: "survived", 5: "untested"}.get(code, "killed" if code > 0 else "timeout")
            continue
        for child, (_, end) in running.items():
            if time.monotonic() > end:
                os.killpg(child, signal.SIGKILL)
        time.sleep(0.05)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def equivalents() -> list[dict[str, str]]:
    """Mutants that change no result, with the reason: patterns of fnmatch for file, function and change."""
    return tomllib.loads((ROOT / "tests/mutation/equivalent.toml").read_text(encoding="utf-8")).get("equivalent", [])


def reason_for(mutant: Mutant, known: Sequence[dict[str, str]]) -> str | None:
    names = {
        "file": mutant.path.relative_to(ROOT).as_posix(),
        "function": mutant.function,
        "change": mutant.change,
    }
    hits = (entry for entry in known if all(fnmatchcase(names[n], entry.get(n, "*")) for n in names))
    return next((entry["reason"] for entry in hits), None)


def main() -> None:
    parser = argparse.ArgumentParser(prog="mutation", description=__doc__.split("\n\n")[0])
    parser.add_argument("rooms", nargs="*", metavar="ROOM|PATTERN", help=f"{', '.join(ROOMS)} [all of them]")
    parser.add_argument("--sample", type=int, help="mutants of each room, drawn by the seed [all]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=30.0, help="of tests for each mutant [30]")
    parser.add_argument("--tests", nargs="+", default=["tests/**/*.py"], metavar="PATTERN", help="which tests [all]")
    parser.add_argument("--slow", action="store_true", help="with tests that are marked slow")
    parser.add_argument("--calls", type=Path, help="keep the map of tests to functions here, or take it from here")
    options = parser.parse_args()
    rooms = {room: ROOMS.get(room, [room]) for room in options.rooms or ROOMS}

    if options.calls is not None and options.calls.exists():
        calls = json.loads(options.calls.read_text(encoding="utf-8"))
    else:
        calls = call_map(options.tests, options.workers, options.slow)
        if options.calls is not None:
            options.calls.write_text(json.dumps(calls), encoding="utf-8")
    known, failed = equivalents(), False
    for room, patterns in rooms.items():
        paths = sorted({path for pattern in patterns for path in ROOT.glob(pattern)})
        if room == "fitting":
            paths = [path for path in paths if str(path.relative_to(ROOT)) not in ROOMS["search"]]
        every = [mutant for path in paths for mutant in find_mutants(path)]
        mutants = [mutant for mutant in every if reason_for(mutant, known) is None]
        n_equivalent = len(every) - len(mutants)
        if options.sample is not None and options.sample < len(mutants):
            mutants = random.Random(options.seed).sample(mutants, options.sample)
        counts: dict[str, int] = defaultdict(int)
        for mutant, verdict in judge(mutants, calls, options.workers, options.seconds):
            counts[verdict] += 1
            if verdict in ("survived", "untested"):
                place = f"{mutant.path.relative_to(ROOT)}:{mutant.line}"
                say(f"{verdict:9} {place} {mutant.function}: {mutant.change}")
        alive = counts["survived"] + counts["untested"]
        failed |= alive / max(1, len(mutants)) >= MOST_ALIVE.get(room, 0.1)
        say(
            f"{room}: {alive} of {len(mutants)} mutants live, {alive / max(1, len(mutants)):.1%} "
            f"({counts['timeout']} ran out of time, {counts['untested']} have no test; "
            f"{n_equivalent} of {len(every)} are equivalent and were left out)"
        )
    sys.exit(failed)


if __name__ == "__main__":
    main()
