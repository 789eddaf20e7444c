"""Which functions each test calls, and how long it takes: a pytest plugin that writes both to a file."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

__all__ = ["Calls"]


class Calls:
    """Watches Python's calls while tests and fixtures run.

    What a fixture calls counts for every test that asks for it, for those that find it ready too.

    Parameters
    ----------
    root : Path
        Functions of files below it are noted, as ``path::qualified.name``.
    output : Path
        JSON: test -> its seconds and functions; null for one that fails.
    """

    def __init__(self, root: Path, output: Path) -> None:
        self.root, self.output = root, output
        self.codes: dict[int, CodeType] = {}
        self.fixtures: dict[Any, set[int]] = {}
        self.tests: dict[str, tuple[float, set[int]]] = {}
        self.failed: set[str] = set()

    @contextmanager
    def watching(self, seen: set[int]) -> Iterator[None]:
        def note(frame: FrameType, event: str, _: Any) -> None:
            if event == "call":
                code = frame.f_code
                seen.add(id(code))
                self.codes[id(code)] = code  # keeps it alive, so that no other code gets its number

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            yield
        finally:
            sys.setprofile(before)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        with self.watching(self.fixtures.setdefault(fixturedef, set())):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        seen: set[int] = set()
        start = time.process_time()
        with self.watching(seen):
            result = yield
        for definitions in item._fixtureinfo.name2fixturedefs.values():
            for definition in definitions:
                seen |= self.fixtures.get(definition, set())
        self.tests[item.nodeid] = time.process_time() - start, seen
        return result

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        names = {number: self.name_of(code) for number, code in self.codes.items()}
        found: dict[str, dict[str, Any] | None] = {
            test: {"seconds": seconds, "functions": sorted({name for n in seen if (name := names[n])})}
            for test, (seconds, seen) in self.tests.items()
        }
        found |= dict.fromkeys(self.failed)
        self.output.write_text(json.dumps(found), encoding="utf-8")

    def name_of(self, code: CodeType) -> str | None:
        path = Path(code.co_filename)
        if not path.is_relative_to(self.root):
            return None
        return f"{path.relative_to(self.root).as_posix()}::{code.co_qualname.partition('.<locals>')[0]}"
