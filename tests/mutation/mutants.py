"""Small bugs put into a module's syntax tree: one changed operator, comparison, sign, number or condition each.

Left alone are annotations, decorators, texts, whatever stands inside a `raise`, and `zip(..., strict=True)`: they
change what people read, not what is computed.
"""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Mutant", "find_mutants", "mutated"]

BOUNDARIES = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
OPPOSITES = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
TWINS = {"min": "max", "minimum": "maximum", "any": "all", "argmin": "argmax", "floor": "ceil", "log": "log10"}
TWINS |= {twin: name for name, twin in TWINS.items() if name != "log"}
CHECKS = {"strict", "validate"}
"""Arguments that only let an error of the code itself be raised earlier."""

UNREAD = {"annotation", "returns", "decorator_list", "type_params"}
"""Fields of nodes that are not computed."""


@dataclass(frozen=True)
class Mutant:
    """One change of one file.

    Attributes
    ----------
    path : Path
    index : int
        Which of the file's mutants.
    line : int
    function : str
        Qualified name of the function or method around it; empty at the top of the module or of a class.
    change : str
        The expression before and after.
    """

    path: Path
    index: int
    line: int
    function: str
    change: str


def find_mutants(path: Path) -> list[Mutant]:
    """Every mutant of a file; equal changes of one function are numbered."""
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for index, (function, _, _, node, new) in enumerate(_sites(ast.parse(path.read_text(encoding="utf-8")))):
        change = f"{_text(node)} -> {_text(new)}"
        seen[function, change] += 1
        number = seen[function, change]
        change += f" (number {number})" if number > 1 else ""
        found.append(Mutant(path, index, node.lineno, function, change))
    return found


def mutated(mutant: Mutant) -> ast.Module:
    """The tree of a mutant's file, changed."""
    tree = ast.parse(mutant.path.read_text(encoding="utf-8"))
    for index, (_, parent, field, node, new) in enumerate(_sites(tree)):
        if index == mutant.index:
            value = getattr(parent, field)
            if isinstance(value, list):
                value[next(i for i, item in enumerate(value) if item is node)] = new
            else:
                setattr(parent, field, new)
            return ast.fix_missing_locations(tree)
    raise IndexError(f"{mutant.path} has no mutant {mutant.index}")


def _text(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 160 else f"{text[:157]}..."


def _sites(tree: ast.Module) -> Iterator[tuple[str, ast.AST, str, ast.expr, ast.expr]]:
    """Yield the function around a node, its parent and field, the node, and what to put in its place."""

    def visit(node: ast.AST, inside: str, nested: bool) -> Iterator[tuple[str, ast.AST, str, ast.expr, ast.expr]]:
        if isinstance(node, (ast.Raise, ast.JoinedStr)) or (isinstance(node, ast.keyword) and node.arg in CHECKS):
            return
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not nested:
            inside = f"{inside}.{node.name}" if inside else node.name
            nested = isinstance(node, ast.FunctionDef)
        for field, value in ast.iter_fields(node):
            if field in UNREAD:
                continue
            for child in value if isinstance(value, list) else [value]:
                if not isinstance(child, ast.AST):
                    continue
                if isinstance(child, ast.expr):
                    is_condition = field == "test" and not isinstance(node, ast.Assert)
                    for new in _alternatives(child, is_condition):
                        yield inside, node, field, child, ast.copy_location(new, child)
                yield from visit(child, inside, nested)

    yield from visit(tree, "", nested=False)


def _alternatives(node: ast.expr, is_condition: bool) -> Iterator[ast.expr]:
    match node:
        case ast.Compare():
            for i, table in itertools.product(range(len(node.ops)), (BOUNDARIES, OPPOSITES)):
                if (other := table.get(type(node.ops[i]))) is not None:
                    yield ast.Compare(node.left, [*node.ops[:i], other(), *node.ops[i + 1 :]], node.comparators)
        case ast.BoolOp(op=operator):
            yield ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), node.values)
        case ast.BinOp(op=operator) if type(operator) in ARITHMETIC and not _is_text(node):
            yield ast.BinOp(node.left, ARITHMETIC[type(operator)](), node.right)
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert(), operand=operand):
            yield operand
        case ast.Constant(value=value):
            yield from (ast.Constant(other) for other in _other_values(value))
        case ast.Call(func=ast.Name(id=name)) if name in TWINS:
            yield ast.Call(ast.Name(TWINS[name], ast.Load()), node.args, node.keywords)
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in TWINS:
            yield ast.Call(ast.Attribute(value, TWINS[name], ast.Load()), node.args, node.keywords)
    if is_condition and not isinstance(node, (ast.Compare, ast.UnaryOp)):
        yield ast.UnaryOp(ast.Not(), node)


def _other_values(value: object) -> list[bool | int | float]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1] if value > 1 else [value + 1]
    if isinstance(value, float):
        return [2 * value, value / 2] if value else [1.0]
    return []


def _is_text(node: ast.BinOp) -> bool:
    """Whether an operand is a text, a tuple or a list: those are joined or repeated, not computed."""
    joined = (ast.JoinedStr, ast.Tuple, ast.List)
    return any(
        isinstance(part, joined) or (isinstance(part, ast.Constant) and isinstance(part.value, str))
        for part in (node.left, node.right)
    )
