"""The small bugs that `make mutate` puts in: they are bugs, they compile, and texts are left alone."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent / "mutation/mutants.py"

SOURCE = '''
"""A text of 3 words."""

QUANTILE = 1.645


class Ring:
    """With a property."""

    @property
    def area(self) -> float:
        return 2 * self.radius**2


def share(values: list[float], low: float = 0.0, strict: bool = False) -> float:
    """(n - 1) is said here, and 7."""
    if not values or min(values) < low:
        raise ValueError(f"{len(values) - 1} values, the least {low}: 5 are needed")
    return -max(values) / (len(values) - 1)
'''


@pytest.fixture(scope="module")
def mutants():
    specification = importlib.util.spec_from_file_location("mutants", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    sys.modules["mutants"] = module
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def path(tmp_path):
    (tmp_path / "sample.py").write_text(SOURCE)
    return tmp_path / "sample.py"


def test_each_kind_of_bug_is_put_in(mutants, path):
    found = {(m.function, m.change) for m in mutants.find_mutants(path)}
    assert found == {
        ("", "1.645 -> 3.29"), ("", "1.645 -> 0.8225"),
        ("Ring.area", "2 * self.radius ** 2 -> 2 / self.radius ** 2"),
        ("Ring.area", "self.radius ** 2 -> self.radius * 2"),
        ("Ring.area", "2 -> 3"), ("Ring.area", "2 -> 1"),
        ("Ring.area", "2 -> 3 (number 2)"), ("Ring.area", "2 -> 1 (number 2)"),
        ("share", "0.0 -> 1.0"), ("share", "False -> True"),
        ("share", "not values or min(values) < low -> not values and min(values) < low"),
        ("share", "not values or min(values) < low -> not (not values or min(values) < low)"),
        ("share", "not values -> values"),
        ("share", "min(values) < low -> min(values) <= low"),
        ("share", "min(values) < low -> min(values) >= low"),
        ("share", "min(values) -> max(values)"),
        ("share", "-max(values) / (len(values) - 1) -> -max(values) * (len(values) - 1)"),
        ("share", "-max(values) -> max(values)"),
        ("share", "max(values) -> min(values)"),
        ("share", "len(values) - 1 -> len(values) + 1"),
        ("share", "1 -> 2"),
    }  # fmt: skip


def test_every_mutant_is_another_program(mutants, path):
    programs = {ast.unparse(mutants.mutated(mutant)) for mutant in mutants.find_mutants(path)}
    assert len(programs) == len(mutants.find_mutants(path))
    assert ast.unparse(ast.parse(SOURCE)) not in programs
    for program in programs:
        compile(program, "sample.py", "exec")
