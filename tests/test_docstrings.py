"""The examples in docstrings run and give what they show."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import pkgutil

import pytest

PACKAGES = ["scalefit"]
if importlib.util.find_spec("torch") is not None:
    PACKAGES.append("toy_models")


def module_names() -> list[str]:
    names = []
    for package in PACKAGES:
        path = importlib.import_module(package).__path__
        names += [package, *(found.name for found in pkgutil.walk_packages(path, f"{package}."))]
    return sorted(name for name in names if not name.endswith("__main__"))


@pytest.mark.parametrize("name", module_names())
def test_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


def test_examples_exist():
    finder = doctest.DocTestFinder(exclude_empty=True)
    datasets = importlib.import_module("scalefit.datasets")
    assert sum(bool(found.examples) for found in finder.find(datasets)) >= 2
