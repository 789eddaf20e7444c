"""No module changes state that belongs to its caller: warning filters, rcParams, environment, random state."""

import ast
from pathlib import Path

import pytest

import scalefit

PACKAGE = Path(scalefit.__file__).parent
CALLS = {
    "catch_warnings", "simplefilter", "filterwarnings", "resetwarnings", "set_printoptions", "seterr", "set_option",
    "seterrcall", "putenv", "unsetenv", "setlocale", "setrecursionlimit", "rc", "chdir", "umask",
    "set_start_method", "set_num_threads", "field_size_limit",
}  # fmt: skip
STATE = {"environ", "rcParams"}
CHANGES = {"update", "pop", "setdefault", "clear", "popitem"}
ALLOWED = {
    "execute.py": {"environ"},  # worker processes inherit their number of threads by it, and only by it
    "cli/app.py": {"environ"},  # the command line owns its process
}


def changes(tree: ast.AST) -> list[tuple[int, str]]:
    """Lines and names of what changes the state of the process."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            held = getattr(owner, "attr", getattr(owner, "id", ""))
            if name in CALLS or (name == "seed" and held == "random") or (name == "use" and held == "style"):
                found.append((node.lineno, name))
            if name in CHANGES and held in STATE:
                found.append((node.lineno, held))
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        for target in targets if isinstance(node, (ast.Assign, ast.AugAssign, ast.Delete)) else ():
            owner = target.value if isinstance(target, ast.Subscript) else target
            name = getattr(owner, "attr", getattr(owner, "id", ""))
            if name in STATE:
                found.append((node.lineno, name))
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_state_of_the_process_is_left_alone(path):
    allowed = ALLOWED.get(str(path.relative_to(PACKAGE)), set())
    assert [change for change in changes(ast.parse(path.read_text())) if change[1] not in allowed] == []


@pytest.mark.parametrize(
    "line",
    [
        "with warnings.catch_warnings(): pass",
        "np.random.seed(0)",
        "mpl.rcParams['a'] = 1",
        "mpl.rcParams.update({})",
        "os.environ['A'] = '1'",
        "del os.environ['A']",
        "np.seterr(all='ignore')",
        "plt.style.use('ggplot')",
    ],
)
def test_the_search_finds_each_kind(line):
    assert changes(ast.parse(line))
