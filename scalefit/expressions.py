"""Arithmetic and conditions on columns, written by a user and evaluated without trusting them.

An expression is parsed with Python's own grammar and then walked by hand. Only numbers, quoted text (in
comparisons), column names, arithmetic, comparisons, `and` / `or` / `not` and the functions of `FUNCTIONS`
have a meaning; everything else is refused. There is no attribute, no subscript, no call of anything but
those functions, hence no way to a file, a module or an object.
"""

from __future__ import annotations

import ast
import difflib
import keyword
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import OptionError

__all__ = ["FUNCTIONS", "did_you_mean", "evaluate", "evaluate_condition", "names_in", "reference"]

MAX_LENGTH = 500
MAX_DEPTH = 50

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "exp": np.exp,
    "floor": np.floor,
    "log": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "max": lambda *values: reduce(np.maximum, values),
    "min": lambda *values: reduce(np.minimum, values),
    "round": np.round,
    "sqrt": np.sqrt,
}
"""The functions an expression may call; `max` and `min` compare their arguments row by row."""

_CONSTANTS: Mapping[str, float] = {"e": float(np.e), "pi": float(np.pi)}
_SEVERAL = {"min", "max"}

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: np.power,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: (a != b) & (a == a) & (b == b),  # a missing number differs from nothing
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: np.positive,
    ast.USub: np.negative,
}
_EQUALITY = (ast.Eq, ast.NotEq)
_QUOTED = re.compile(r"`([^`]+)`")
_SUFFIXED = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)([kKmMbBgGtT])(?![\w.])")
_POWERS = {"k": "e3", "m": "e6", "b": "e9", "g": "e9", "t": "e12"}
_IN_QUOTES = re.compile(r"('[^']*'|\"[^\"]*\")")
_SINGLE_EQUALS = re.compile(r"(?<![=<>!:])=(?!=)")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean X?)" for the nearest known name, or nothing."""
    lowered = {other.lower(): other for other in known}
    near = difflib.get_close_matches(name.lower(), list(lowered), n=1, cutoff=0.6)
    return f" (did you mean {lowered[near[0]]}?)" if near else ""


def reference(name: str) -> str:
    """Return how an expression refers to a column: its name, between backticks unless it is an identifier."""
    return name if name.isidentifier() and not keyword.iskeyword(name) else f"`{name}`"


def evaluate(expression: str, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    """Evaluate an arithmetic expression over columns of equal length.

    Parameters
    ----------
    expression : str
        For example ``"iter*batch_tokens"``, ``"10**log10_tokens"`` or ``"log(`eval/ppl`)"``. A name that
        is no Python identifier stands between backticks.
    columns : mapping of str to (n,) array
        What names may refer to. A name is taken as written, or without regard to case when only one column
        fits.

    Returns
    -------
    (n,) float64 array
        Not finite where the arithmetic is not (a logarithm of zero, a division by zero).

    Raises
    ------
    OptionError
        If the expression is malformed, uses anything but the grammar above, or names an unknown column.

    Examples
    --------
    >>> evaluate("2 * width", {"width": np.array([1.0, 2.0])}).tolist()
    [2.0, 4.0]
    """
    value = _Evaluator(expression, columns).value()
    if _is_text(value):
        raise OptionError(f"expression {expression!r} is a text and must be a number")
    length = len(next(iter(columns.values()))) if columns else 1
    with np.errstate(all="ignore"):
        return np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), (length,)))


def evaluate_condition(expression: str, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
    """Evaluate a condition over columns of equal length, for example ``"loss > 0 and depth >= 4"``.

    Parameters and errors are those of `evaluate`. A comparison with a missing number is false. A result
    that is not true or false in every row, such as ``"depth"``, is an error.
    """
    value = np.asarray(_Evaluator(expression, columns).value())
    if value.dtype != np.bool_:
        raise OptionError(f"expression {expression!r} is a number and must be a condition, such as 'depth >= 4'")
    length = len(next(iter(columns.values()))) if columns else 1
    return np.array(np.broadcast_to(value, (length,)))


def names_in(expression: str) -> tuple[str, ...]:
    """Return the column names an expression uses, in order of appearance."""
    parsed, quoted = _parse(expression)
    called = {id(node.func) for node in ast.walk(parsed) if isinstance(node, ast.Call)}
    nodes = [n for n in ast.walk(parsed) if isinstance(n, ast.Name) and id(n) not in called]
    found = [n.id for n in sorted(nodes, key=lambda n: (n.lineno, n.col_offset))]
    return tuple(dict.fromkeys(quoted.get(name, name) for name in found if name not in _CONSTANTS))


def _parse(expression: str) -> tuple[ast.expr, dict[str, str]]:
    """Parse into a tree and the table of backtick-quoted names."""
    if len(expression) > MAX_LENGTH:
        raise OptionError(f"expression of {len(expression)} characters is too long: at most {MAX_LENGTH} are read")
    quoted: dict[str, str] = {}

    def placeholder(match: re.Match[str]) -> str:
        key = f"quoted_name_{len(quoted)}_"
        quoted[key] = match.group(1)
        return key

    source = _QUOTED.sub(placeholder, expression).strip()
    parts = _IN_QUOTES.split(source)  # 100B is 100e9, but for inside quotes
    parts[::2] = [_SUFFIXED.sub(lambda m: m[1] + _POWERS[m[2].lower()], part) for part in parts[::2]]
    source = "".join(parts)
    try:
        return ast.parse(source, mode="eval").body, quoted
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = getattr(error, "msg", None) or "too deeply nested"
        if _SINGLE_EQUALS.search(source):
            reason = "a single = has no meaning; write == to compare"
        raise OptionError(f"expression {expression!r} cannot be read: {reason}") from None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, np.ndarray) and value.dtype == object)


class _Evaluator:
    """One evaluation: the tree, the columns and the text to blame in an error."""

    def __init__(self, expression: str, columns: Mapping[str, NDArray[Any]]) -> None:
        self.expression = expression
        self.columns = columns
        self.tree, self.quoted = _parse(expression)

    def value(self) -> Any:
        with np.errstate(all="ignore"):
            return self._visit(self.tree, 0)

    def _refuse(self, what: str) -> OptionError:
        return OptionError(
            f"expression {self.expression!r}: {what} is not allowed; use column names, numbers, arithmetic, "
            f"comparisons, and/or/not and the functions {', '.join(FUNCTIONS)}"
        )

    def _visit(self, node: ast.expr, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise OptionError(f"expression {self.expression!r} is nested more than {MAX_DEPTH} deep")
        match node:
            case ast.Constant(value=value) if isinstance(value, (int, float, str)) and not isinstance(value, bool):
                return self._constant(value)
            case ast.Name(id=name):
                return self._column(self.quoted.get(name, name))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return _BINARY[type(op)](self._number(left, depth), self._number(right, depth))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ~self._truth(operand, depth)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
                return _UNARY[type(op)](self._number(operand, depth))
            case ast.BoolOp(op=op, values=values):
                join = np.logical_and if isinstance(op, ast.And) else np.logical_or
                return reduce(join, [self._truth(value, depth) for value in values])
            case ast.Compare():
                return self._comparison(node, depth)
            case ast.Call():
                return self._call(node, depth)
            case _:
                raise self._refuse(_KINDS.get(type(node), type(node).__name__.lower()))

    def _constant(self, value: float | str) -> Any:
        if isinstance(value, str):
            return value
        try:
            return np.float64(value)
        except OverflowError:
            raise OptionError(f"expression {self.expression!r} holds a number beyond 1.8e308") from None

    def _column(self, name: str) -> Any:
        if name in self.columns:
            return self.columns[name]
        alike = [column for column in self.columns if column.lower() == name.lower()]
        if len(alike) == 1:
            return self.columns[alike[0]]
        if name in _CONSTANTS:
            return np.float64(_CONSTANTS[name])
        raise OptionError(
            f"expression {self.expression!r} names the unknown column {name!r}"
            f"{did_you_mean(name, self.columns)}; the columns are {', '.join(self.columns)}"
        )

    def _number(self, node: ast.expr, depth: int) -> Any:
        value = self._visit(node, depth + 1)
        if _is_text(value):
            raise OptionError(f"expression {self.expression!r}: {ast.unparse(node)} is a text, not a number")
        if np.asarray(value).dtype == np.bool_:
            raise OptionError(f"expression {self.expression!r}: {ast.unparse(node)} is a condition, not a number")
        return value

    def _truth(self, node: ast.expr, depth: int) -> Any:
        value = np.asarray(self._visit(node, depth + 1))
        if value.dtype != np.bool_:
            raise OptionError(
                f"expression {self.expression!r}: {ast.unparse(node)} is no condition; compare it with a value"
            )
        return value

    def _comparison(self, node: ast.Compare, depth: int) -> Any:
        values = [self._side(value, depth, node) for value in (node.left, *node.comparators)]
        results = []
        for op, left, right in zip(node.ops, values, values[1:], strict=False):
            if type(op) not in _COMPARE:
                raise self._refuse(f"the comparison {type(op).__name__.lower()!r}")
            if (_is_text(left) or _is_text(right)) and not (
                _is_text(left) and _is_text(right) and isinstance(op, _EQUALITY)
            ):
                raise OptionError(f"expression {self.expression!r}: text compares with text, by == or !=")
            results.append(np.asarray(_COMPARE[type(op)](left, right), dtype=np.bool_))
        return reduce(np.logical_and, results)

    def _side(self, node: ast.expr, depth: int, comparison: ast.Compare) -> Any:
        """Return one side of a comparison; a word without quotes beside a column of text is named with its remedy."""
        try:
            return self._visit(node, depth + 1)
        except OptionError:
            others = [other for other in (comparison.left, *comparison.comparators) if other is not node]
            columns = [self.columns.get(other.id) for other in others if isinstance(other, ast.Name)]
            if isinstance(node, ast.Name) and any(column is not None and _is_text(column) for column in columns):
                name = self.quoted.get(node.id, node.id)
                told = self.expression.replace(name, f"'{name}'")
                raise OptionError(
                    f"expression {self.expression!r}: {name} is no column; if it is a text, put it in quotes: "
                    f"{shlex.quote(told)}"
                ) from None
            raise

    def _call(self, node: ast.Call, depth: int) -> Any:
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if (
            name is None
            or name not in FUNCTIONS
            or node.keywords
            or any(isinstance(arg, ast.Starred) for arg in node.args)
        ):
            raise self._refuse(f"the call {ast.unparse(node)[:40]!r}")
        wanted = len(node.args) >= 2 if name in _SEVERAL else len(node.args) == 1
        if not wanted:
            count = "two or more arguments" if name in _SEVERAL else "one argument"
            raise OptionError(f"expression {self.expression!r}: {name} takes {count}, {len(node.args)} given")
        return FUNCTIONS[name](*(self._number(arg, depth) for arg in node.args))


_KINDS: Mapping[type[ast.expr], str] = {
    ast.Attribute: "an attribute (a dot after a name)",
    ast.Subscript: "a subscript",
    ast.Lambda: "a lambda",
    ast.Constant: "this constant",
    ast.JoinedStr: "a formatted string",
    ast.NamedExpr: "an assignment",
}
