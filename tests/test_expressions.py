"""Expressions compute what they say, and nothing else can be said in them."""

import numpy as np
import pytest

from scalefit.errors import OptionError
from scalefit.expressions import FUNCTIONS, evaluate, evaluate_condition, names_in

COLUMNS = {
    "width": np.array([512.0, 1024.0, np.nan]),
    "depth": np.array([8.0, 16.0, 32.0]),
    "eval/loss": np.array([4.0, 3.0, 2.0]),
    "run": np.array(["a", "b", "a"], dtype=object),
}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("depth*2 + 1", [17, 33, 65]),
        ("10**depth", [1e8, 1e16, 1e32]),
        ("log(exp(depth))", [8, 16, 32]),
        ("log2(depth) + log10(100)", [5, 6, 7]),
        ("max(depth, 10) - min(depth, 20, 100)", [2, 0, 12]),
        ("-depth % 5 + depth // 3", [4, 9, 13]),
        ("`eval/loss`*sqrt(4)", [8, 6, 4]),
        ("Depth", [8, 16, 32]),
        ("1024", [1024, 1024, 1024]),
        ("round(depth/3) + floor(depth/3) + ceil(depth/3) + abs(-1)", [9, 17, 33]),
    ],
)
def test_arithmetic(expression, expected):
    np.testing.assert_allclose(evaluate(expression, COLUMNS), expected)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("depth >= 16", [False, True, True]),
        ("8 < depth <= 16", [False, True, False]),
        ("depth == 8 or not depth < 20", [True, False, True]),
        ("width > 0", [True, True, False]),
        ("run == 'a' and depth != 8", [False, False, True]),
        ("`eval/loss` < 3.5", [False, True, True]),
        ("1 < 2", [True, True, True]),
    ],
)
def test_conditions(condition, expected):
    assert evaluate_condition(condition, COLUMNS).tolist() == expected


def test_names_in_order_of_appearance():
    assert names_in("log(`eval/loss`) + depth*width + depth + pi") == ("eval/loss", "depth", "width")


HOSTILE = [
    "__import__('os')",
    "__import__('os').system('id')",
    "().__class__",
    "().__class__.__bases__[0].__subclasses__()",
    "depth.__class__",
    "depth.dtype",
    "depth.tofile('x')",
    "depth[0]",
    "open('/etc/passwd')",
    "open('/etc/passwd').read()",
    "eval('1')",
    "exec('1')",
    "compile('1', '', 'eval')",
    "getattr(depth, 'dtype')",
    "globals()",
    "locals()",
    "vars()",
    "dir()",
    "input()",
    "breakpoint()",
    "print(depth)",
    "lambda: 0",
    "(lambda x: x)(depth)",
    "[x for x in depth]",
    "{x: 1 for x in depth}",
    "(x for x in depth)",
    "[depth]",
    "(depth, width)",
    "{'a': 1}",
    "{1, 2}",
    "f'{depth}'",
    "b'bytes'",
    "depth if 1 else width",
    "(x := 5)",
    "log.__globals__",
    "log.__self__",
    "log(depth, out=depth)",
    "log(*depth)",
    "max(depth)",
    "sqrt(1, 2)",
    "import os",
    "depth; width",
    "depth = 3",
    "del depth",
    "yield depth",
    "await depth",
    "depth @ depth",
    "depth << 2",
    "depth & 1",
    "~depth",
    "True",
    "None",
    "...",
    "1j",
    "depth is width",
    "depth in width",
    "np.log(depth)",
    "os",
    "'text'",
    "run * 2",
    "`__import__('os')`",
    "log('a')",
    "depth > 1 > run",
    "`",
    "",
    "(" * 300 + "1" + ")" * 300,
    "1+" * 200 + "1",
    "9" * 400,
    "depth" * 200,
    "depth\x00",
]


def test_the_hostile_set_is_large():
    assert len(set(HOSTILE)) >= 30


@pytest.mark.parametrize("expression", HOSTILE)
def test_nothing_else_can_be_said(expression):
    with pytest.raises(OptionError):
        evaluate(expression, COLUMNS)
    with pytest.raises(OptionError):
        evaluate_condition(expression, COLUMNS)


@pytest.mark.parametrize("expression", ["9**9**9**9", "exp(exp(exp(depth)))", "0/0*depth", "1e308*1e308"])
def test_large_powers_end_at_once(expression):
    assert evaluate(expression, COLUMNS).shape == (3,)


MESSAGES = {
    "wdth*2": "expression 'wdth*2' names the unknown column 'wdth' (did you mean width?); "
    "the columns are width, depth, eval/loss, run",
    "depth.dtype": "expression 'depth.dtype': an attribute (a dot after a name) is not allowed; use column names, "
    f"numbers, arithmetic, comparisons, and/or/not and the functions {', '.join(FUNCTIONS)}",
    "depth >": "expression 'depth >' cannot be read: invalid syntax",
    "run": "expression 'run' is a text and must be a number",
    "run+1": "expression 'run+1': run is a text, not a number",
    "(depth>1)+1": "expression '(depth>1)+1': depth > 1 is a condition, not a number",
    "log(1,2)": "expression 'log(1,2)': log takes one argument, 2 given",
}


@pytest.mark.parametrize(("expression", "message"), MESSAGES.items())
def test_messages(expression, message):
    with pytest.raises(OptionError) as caught:
        evaluate(expression, COLUMNS)
    assert str(caught.value) == message


def test_a_number_is_no_condition():
    with pytest.raises(OptionError, match="'depth' is a number and must be a condition, such as 'depth >= 4'"):
        evaluate_condition("depth", COLUMNS)
    with pytest.raises(OptionError, match="depth is no condition; compare it with"):
        evaluate_condition("depth and width", COLUMNS)
