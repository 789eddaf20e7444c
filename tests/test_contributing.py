"""The newcomer's walks of CONTRIBUTING: the files that each names exist, and changing no others is enough.

Each walk is taken in a copy of the sources: the test makes the edits, in exactly the files that the page names before
the walk's test, and a short script sees that the new thing works.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from commands import write
from known_tables import t27_columns

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
if not PAGE.is_file():
    pytest.skip("the page is not part of an installed package", allow_module_level=True)

TEXT = PAGE.read_text(encoding="utf-8")
WALKS = {
    found["name"]: re.findall(r"^\d\. `([^`]+)`", found["body"], re.MULTILINE)
    for found in re.finditer(r"^### (?P<name>[^\n]+)\n(?P<body>.*?)(?=^#|\Z)", TEXT, re.MULTILINE | re.DOTALL)
}
AT_MOST = {
    "A new kind of term": 3, "A new objective": 2, "A new method of uncertainty": 2, "A new file format": 2,
    "A new norm": 3, "A new figure": 2,
}  # fmt: skip

Edits = dict[str, list[tuple[str, str]]]
"""File -> what is found in it and what stands there afterwards; of a new file the whole text."""

LOG_TERM = '''
@dataclass(frozen=True)
class LogTerm(PowerTerm):
    """The power 1 / (ln column)^alpha."""

    def __str__(self) -> str:
        return f"ln({self.column})"

    def argument(self, columns: Columns) -> Array:
        """ln x for every row."""
        return np.log(super().argument(columns))


'''

CAUCHY = """        "cauchy": Penalty(
            value=lambda r, width: 0.5 * width**2 * np.log1p((r / width) ** 2),
            score=lambda r, width: r / (1 + (r / width) ** 2),
            curvature=lambda r, width: (1 - (r / width) ** 2) / (1 + (r / width) ** 2) ** 2,
            reweighting=lambda r, width: 1 / (1 + (r / width) ** 2),
        ),
        "huber":"""

JACKKNIFE = '''"""The jackknife over rows."""

import math

import numpy as np

from scalefit.fitting.fit import fit
from scalefit.uncertainty.task import Answer, Task


def jackknife(task: Task, method: str) -> Answer:
    """Leave out one row at a time."""
    whole, n = task.fit, len(task.fit.runs)
    left = [fit(whole.runs.take(np.arange(n) != i, "left out"), whole.law, n_starts=4).params for i in range(n)]
    ends = {}
    for name in task.names:
        parameter = whole.law.parameter(name)
        values = np.array([float(parameter.inner(params[name])) for params in left])
        error = math.sqrt((n - 1) / n * np.sum((values - values.mean()) ** 2))
        middle = float(parameter.inner(whole.params[name]))
        ends[name] = tuple(float(parameter.outer(middle + side * 2 * error)) for side in (-1, 1))
    return Answer({method: ends})
'''

EDITS: dict[str, Edits] = {
    "A new kind of term": {
        "scalefit/laws/terms.py": [
            ("@dataclass(frozen=True)\nclass Product", f"{LOG_TERM}@dataclass(frozen=True)\nclass Product"),
            (
                "    match = _FACTOR.fullmatch(part)",
                "    if part.startswith('ln(') and part.endswith(')'):\n"
                "        return LogTerm(part[3:-1].strip())\n"
                "    match = _FACTOR.fullmatch(part)",
            ),
        ],
    },
    "A new objective": {"scalefit/fitting/objective.py": [('        "huber":', CAUCHY)]},
    "A new method of uncertainty": {
        "scalefit/uncertainty/jackknife.py": [("", JACKKNIFE)],
        "scalefit/uncertainty/methods.py": [
            (
                "from scalefit.uncertainty.groups",
                "from scalefit.uncertainty.jackknife import jackknife\nfrom scalefit.uncertainty.groups",
            ),
            ('Method("pairs",', 'Method("jackknife", "rows are independent", jackknife),\n            Method("pairs",'),
        ],
    },
    "A new file format": {
        "scalefit/ingest/options.py": [
            ('    "lightning":', '    "aim": "table of Aim, one row a metric and step",\n    "lightning":')
        ],
        "scalefit/ingest/trackers.py": [
            (
                '    if set(names) == {"wall_time"',
                '    if {"run_hash", "metric_value"} <= set(names):\n        return "aim"\n'
                '    if set(names) == {"wall_time"',
            ),
            (
                "SHAPERS: Mapping[str",
                "def aim_points(grid: Grid) -> Grid:\n"
                "    names = tuple({'run.hash': 'run', 'metric.value': 'loss'}.get(n, n) for n in grid.names)\n"
                "    return replace(grid, names=names)\n\n\n"
                "SHAPERS: Mapping[str",
            ),
            ('    "lightning":', '    "aim": aim_points,\n    "lightning":'),
        ],
    },
    "A new norm": {
        "toy_models/transformer/norms.py": [
            (
                "class ScaledRMSNorm",
                "class L1Norm(NormModule):\n"
                "    def normalize(self, x: Tensor) -> Tensor:\n"
                "        return x / (x.abs().mean(dim=-1, keepdim=True) + self.eps)\n\n\n"
                "class ScaledRMSNorm",
            )
        ],
        "toy_models/transformer/build.py": [
            ("    DynamicTanh,\n", "    DynamicTanh,\n    L1Norm,\n"),
            ('    "lns": "', '    "l1": "x / mean |x|",\n    "lns": "'),
            (
                '        case "lns":',
                '        case "l1":\n            return L1Norm(width, eps=eps)\n        case "lns":',
            ),
        ],
        "scalefit/theory/norms.py": [
            ('NORM_NAMES = ("rmsnorm",', 'NORM_NAMES = ("l1", "rmsnorm",'),
            (
                '        if self.name == "lns":\n            return 1.0 / block',
                '        if self.name == "l1":  # (E |z|)^2 = 2 / pi for a normal token\n'
                "            return math.pi / 2\n"
                '        if self.name == "lns":\n            return 1.0 / block',
            ),
        ],
    },
    "A new figure": {
        "scalefit/plots/fit.py": [
            (
                "def require_image(",
                "def residual_figure(fit: Fit) -> Figure:\n"
                "    from matplotlib.figure import Figure\n\n"
                "    figure = Figure()\n"
                "    figure.subplots().hist(fit.residuals)\n"
                "    return figure\n\n\n"
                "def require_image(",
            )
        ],
        "scalefit/cli/plot.py": [
            (
                "    force: Force = False",
                '    residuals: Annotated[bool, typer.Option("--residuals")] = False\n    force: Force = False',
            ),
            ("import fit_figure,", "import fit_figure, residual_figure,"),
            ("fit_figure(result)", "(residual_figure if self.residuals else fit_figure)(result)"),
        ],
    },
}

SEEN: dict[str, str] = {
    "A new kind of term": """
        import numpy as np, scalefit as sf
        tokens, width = (x.ravel() for x in np.meshgrid(np.geomspace(1e3, 1e12, 8), [256.0, 512, 1024, 4096]))
        table = {"tokens": tokens, "width": width, "loss": 1.5 + 20 / np.log(tokens) ** 1.2 + 300 / width}
        fit = sf.fit(sf.Runs.from_columns(table), "ln(tokens)+width")
        assert abs(fit.params["alpha_tokens"] - 1.2) < 1e-5, fit.params
        assert str(fit.law) == str(sf.Law.parse(str(fit.law))) == "ln(tokens)+width"
        assert abs(sf.bootstrap(fit, 60)["alpha_tokens"] - 1.2).max() < 1e-4
        """,
    "A new objective": """
        import numpy as np, scalefit as sf
        rng = np.random.default_rng(0)
        depth = np.tile(2.0 ** np.arange(1, 8), 30)
        noise = 0.002 * rng.standard_normal(210)
        noise[::15] += 0.3
        runs = sf.Runs.from_columns({"depth": depth, "loss": (1.7 + 3 / depth) * np.exp(noise)})
        fit = sf.fit(runs, "depth", "log-cauchy:0.002")
        error = fit.standard_errors["alpha_depth"]
        assert fit.objective.name == "log-cauchy:0.002" and fit.certificate.gradient < 1e-8
        assert 0 < abs(fit.params["alpha_depth"] - 1) < 4 * error < 0.01, (fit.params, error)
        low, high = sf.profile(fit, "alpha_depth").interval
        assert 0.5 < (high - low) / (4 * error) < 2, (low, high, error)
        """,
    "A new method of uncertainty": """
        import json, subprocess, sys
        words = ["ci", "runs.csv", "--method", "jackknife,wald", "--json"]
        command = [sys.executable, "-c", "from scalefit.cli import main; main()", *words]
        done = subprocess.run(command, capture_output=True, text=True)
        ends = json.loads(done.stdout)["intervals"]
        width = {method: ends[method]["alpha_depth"][1] - ends[method]["alpha_depth"][0] for method in ends}
        assert 0.5 < width["jackknife"] / width["wald"] < 2, width
        """,
    "A new file format": """
        from pathlib import Path
        import scalefit as sf
        from scalefit.ingest import ReadOptions
        Path("aim.csv").write_text("run.hash,metric.name,metric.value,step\\na,loss,3.5,1\\na,loss,3.0,2\\nb,loss,2.0,9\\n")
        for options in (None, ReadOptions(format="aim")):
            runs = sf.Runs.from_csv("aim.csv", options=options)
            assert (runs.origin.format, runs.n_runs, runs["loss"].tolist()) == ("aim", 2, [3.5, 3.0, 2.0]), runs
        """,
    "A new norm": """
        import math, torch
        from scalefit.theory.norms import Norm
        from toy_models.transformer.build import NormConfig, block_norms
        x = torch.randn(64, 8192, generator=torch.Generator().manual_seed(0))
        found = block_norms(NormConfig("l1"), 8192, block=3)[0](x).square().mean().item()
        assert abs(found - Norm("l1").second_moment(3, 1.0)) < 0.01, found
        """,
    "A new figure": """
        import sys
        from pathlib import Path
        from scalefit.cli import main
        sys.argv = ["scalefit", "plot", "runs.csv", "--residuals", "-o", "new.png"]
        try:
            main()
        except SystemExit as end:
            assert not end.code, end.code
        assert Path("new.png").stat().st_size > 1000
        """,
}  # fmt: skip


def test_the_page_walks_through_all_of_them() -> None:
    assert WALKS.keys() == AT_MOST.keys() == EDITS.keys() == SEEN.keys()


@pytest.mark.parametrize("name", AT_MOST)
def test_the_files_named_are_few_and_exist(name: str) -> None:
    files = WALKS[name]
    assert 0 < len(files) <= AT_MOST[name]
    own = {file for file, edits in EDITS[name].items() if edits[0][0] == ""}
    assert [file for file in files if not (ROOT / file).is_file()] == [file for file in files if file in own]


@pytest.mark.parametrize("name", AT_MOST)
def test_no_other_file_has_to_change(name: str, tmp_path: Path) -> None:
    if name == "A new norm":
        pytest.importorskip("torch")
    assert EDITS[name].keys() == {file for file in WALKS[name] if not file.startswith("tests/")}
    for package in ("scalefit", "toy_models", "data"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file, edits in EDITS[name].items():
        path = tmp_path / file
        for old, new in edits:
            text = path.read_text(encoding="utf-8") if old else ""
            assert old in text, f"{file} has no {old!r} any more"
            path.write_text(text.replace(old, new, 1) if old else new, encoding="utf-8")
    write(tmp_path, **t27_columns(0.005, seed=1))
    script = "\n".join(line[8:] for line in SEEN[name].splitlines())
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout


HOUSE = ROOT / "docs/architecture.md"


def test_the_drawing_of_the_house_names_what_is_there() -> None:
    text = HOUSE.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:scalefit|toy_models)/[^`]+)`", text))
    assert len(named) > 25
    assert not [path for path in named if not (ROOT / path).exists()]


def test_the_drawing_has_the_layers_that_are_checked() -> None:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = configuration["tool"]["importlinter"]["contracts"][0]["layers"]
    drawn = re.search(r"```text\n(.*?)```", HOUSE.read_text(encoding="utf-8"), re.DOTALL)
    assert drawn is not None
    assert [re.split(r"  +", line)[0] for line in drawn[1].splitlines()] == layers


def test_every_room_stands_in_the_drawing() -> None:
    layers = "\n".join(re.findall(r"```text\n(.*?)```", HOUSE.read_text(encoding="utf-8"), re.DOTALL))
    rooms = {p.name for p in (ROOT / "scalefit").iterdir() if (p / "__init__.py").is_file()}
    assert rooms <= set(re.findall(r"[a-z_]+", layers))
