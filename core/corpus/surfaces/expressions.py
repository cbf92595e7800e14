"""Reads and writes expressions as syntax trees.

`ast.unparse` is the standard library's, and takes about a millisecond for a program of forty lines: half of what a task
may take. The expressions that families write need a dozen kinds of nodes; everything else is left to it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)

_BINARY: dict[type[ast.operator], tuple[str, int]] = {
    ast.Add: ("+", 12),
    ast.Sub: ("-", 12),
    ast.Mult: ("*", 13),
    ast.Div: ("/", 13),
    ast.FloorDiv: ("//", 13),
    ast.Mod: ("%", 13),
    ast.MatMult: ("@", 13),
    ast.Pow: ("**", 15),
}
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_PLAIN = frozenset({"ctx", "op", "ops", "attr", "id", "arg", "kind", "name", "type_comment"})
_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {
    kind: tuple(field for field in reversed(kind._fields) if field not in _PLAIN)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
"""By type of node the fields that may hold parts, the last one first."""
_SIGN, _ATOM, _LEAST = 14, 20, 0
_WORD = re.compile(r"[A-Za-z_]\w*")
_LEAVES = frozenset({ast.Name, ast.Constant})
_PARTS = frozenset(
    kind
    for base in (ast.expr, ast.keyword, ast.stmt, ast.arguments, ast.arg, ast.comprehension)
    for kind in (base, *base.__subclasses__())
)
"""The types of nodes that have parts; those of numbers and contexts are the most that there is in a node."""


def name(identifier: str) -> ast.Name:
    """Return a name."""
    return ast.Name(id=identifier, ctx=ast.Load())


def own(attribute: str) -> ast.Attribute:
    """Return an attribute of `self`."""
    return ast.Attribute(value=name("self"), attr=attribute, ctx=ast.Load())


def dotted(path: str) -> ast.expr:
    """Return a name with attributes, such as `torch.nn.functional`."""
    first, *rest = path.split(".")
    node: ast.expr = name(first)
    for part in rest:
        node = ast.Attribute(value=node, attr=part, ctx=ast.Load())
    return node


def call(function: ast.expr | str, *args: ast.expr, **keywords: ast.expr) -> ast.Call:
    """Return a call; a function that is a text is a path."""
    return ast.Call(
        func=dotted(function) if isinstance(function, str) else function,
        args=list(args),
        keywords=[ast.keyword(arg=key, value=value) for key, value in keywords.items()],
    )


def method(of: ast.expr, attribute: str, args: list[ast.expr], keywords: list[ast.keyword]) -> ast.Call:
    """Return a call of a method."""
    return ast.Call(
        func=ast.Attribute(value=of, attr=attribute, ctx=ast.Load()), args=list(args), keywords=list(keywords)
    )


def assign(target: ast.expr | str, value: ast.expr) -> ast.Assign:
    """Return an assignment to a target; a text is a name."""
    place: ast.expr = ast.Name(id=target, ctx=ast.Store()) if isinstance(target, str) else target
    return ast.Assign(targets=[place], value=value)


def assign_own(attribute: str, value: ast.expr) -> ast.Assign:
    """Return an assignment to an attribute of `self`."""
    return assign(ast.Attribute(value=name("self"), attr=attribute, ctx=ast.Store()), value)


def path_of(node: ast.expr) -> str:
    """Return the path of a name with attributes; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join((node.id, *reversed(parts)))


def attribute_of_self(node: ast.AST) -> str:
    """Return the attribute that a node reads of `self`; empty for anything else."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return node.attr
    return ""


def number_of(node: ast.AST) -> int | float | None:
    """Return the value of a number with or without a sign; none for anything else."""
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -1
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return sign * node.value
    return None


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and those below it, each before its parts and from left to right.

    `ast.walk` does so level by level and with the contexts of names, in three times the time.
    """
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        if type(current) in _LEAVES:
            continue
        for field in _FIELDS[type(current)]:
            value = getattr(current, field)
            if type(value) in _PARTS:
                waiting.append(value)
            elif type(value) is list:
                waiting += [part for part in reversed(value) if isinstance(part, ast.AST)]


def calls_in(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    """Yield the calls in nodes."""
    for node in nodes:
        yield from (part for part in walk(node) if isinstance(part, ast.Call))


def replace_in(node: ast.AST, change: Callable[[ast.expr], ast.expr | None]) -> ast.AST:
    """Replace expressions below a node in place, innermost first; `change` gives none for those that stay."""
    for field, value in tuple(vars(node).items()):
        if type(value) in _PARTS:
            setattr(node, field, replaced(value, change))
        elif type(value) is list:
            for place, item in enumerate(value):
                if isinstance(item, ast.AST):
                    value[place] = replaced(item, change)
    return node


def replaced(node: Node, change: Callable[[ast.expr], ast.expr | None]) -> Node:
    """Return a node with expressions replaced, itself among them, as `replace_in` does below one."""
    if type(node) not in _LEAVES:
        replace_in(node, change)
    found = change(node) if isinstance(node, ast.expr) else None
    return node if found is None else found  # type: ignore[return-value]


def rename_in(node: ast.AST, names: Mapping[str, str]) -> None:
    """Rename names in place."""
    for child in walk(node):
        if isinstance(child, ast.Name) and child.id in names:
            child.id = names[child.id]


def drawn_shape(node: ast.expr) -> list[str]:
    """Return the names of the dimensions of the tensor that an expression draws; empty where they are not names."""
    for part in walk(node):
        if isinstance(part, ast.Call) and path_of(part.func) in ("torch.randn", "torch.rand"):
            names = [size.id for size in part.args if isinstance(size, ast.Name)]
            return names if len(names) == len(part.args) else []
    return []


def names_in(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node reads or binds, as often as it does."""
    for child in walk(node):
        if isinstance(child, ast.Name):
            yield child.id


def words_in(text: str) -> set[str]:
    """Return the identifiers of a text."""
    return set(_WORD.findall(text))


def write_expression(node: ast.expr, quote: str = '"') -> str:
    """Write an expression with strings in these quotes."""
    return _write(node, _LEAST, quote)


def _write(node: ast.expr, least: int, quote: str) -> str:
    """Write a node, in parentheses where it binds less tightly than `least`."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        text = _write(node.value, _ATOM, quote)
        return f"({text}).{node.attr}" if number_of(node.value) is not None else f"{text}.{node.attr}"
    if isinstance(node, ast.Constant):
        return _write_constant(node.value, quote)
    if isinstance(node, ast.Call):
        given = [_write(argument, _LEAST, quote) for argument in node.args]
        given += [
            f"{word.arg}={_write(word.value, _LEAST, quote)}" if word.arg else f"**{_write(word.value, _ATOM, quote)}"
            for word in node.keywords
        ]
        return f"{_write(node.func, _ATOM, quote)}({', '.join(given)})"
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _write_binary(node, least, quote)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        text = _UNARY[type(node.op)] + _write(node.operand, _SIGN, quote)
        return f"({text})" if least > _SIGN else text
    if isinstance(node, ast.Starred):
        return f"*{_write(node.value, _ATOM, quote)}"
    return _write_other(node, least, quote)


def _write_constant(value: object, quote: str) -> str:
    if isinstance(value, str) and not {quote, "\\", "\n"} & set(value):
        return f"{quote}{value}{quote}"
    # people write 1e-5, and Python 1e-05
    return repr(value).replace("e-0", "e-") if isinstance(value, float) else repr(value)


def _write_binary(node: ast.BinOp, least: int, quote: str) -> str:
    sign, rank = _BINARY[type(node.op)]
    is_power = isinstance(node.op, ast.Pow)
    left = _write(node.left, rank + is_power, quote)
    right = _write(node.right, rank if is_power else rank + 1, quote)
    # people write n**0.5 closely, and everything else apart
    text = f"{left}**{right}" if is_power and isinstance(node.left, ast.Name) else f"{left} {sign} {right}"
    return f"({text})" if least > rank else text


def _write_other(node: ast.expr, least: int, quote: str) -> str:
    if isinstance(node, (ast.Tuple, ast.List)):
        items = ", ".join(_write(item, _LEAST, quote) for item in node.elts)
        if isinstance(node, ast.List):
            return f"[{items}]"
        return f"({items},)" if len(node.elts) == 1 else f"({items})"
    if isinstance(node, ast.Subscript):
        inner = node.slice
        if isinstance(inner, ast.Tuple) and inner.elts:
            text = ", ".join(_write(item, _LEAST, quote) for item in inner.elts)
        else:
            text = _write(inner, _LEAST, quote)
        return f"{_write(node.value, _ATOM, quote)}[{text}]"
    if isinstance(node, ast.Slice):
        ends = [_write(end, _LEAST, quote) if end is not None else "" for end in (node.lower, node.upper)]
        return ":".join(ends) + (f":{_write(node.step, _LEAST, quote)}" if node.step is not None else "")
    if isinstance(node, ast.Compare) and all(type(op) in _COMPARE for op in node.ops):
        text = _write(node.left, 11, quote)
        for op, right in zip(node.ops, node.comparators, strict=True):
            text += f" {_COMPARE[type(op)]} {_write(right, 11, quote)}"
        return f"({text})" if least > 6 else text
    text = ast.unparse(node)
    return f"({text})" if least > _LEAST else text


def target_of(node: ast.stmt) -> str:
    """Return the name that a statement assigns alone; empty for anything else."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return ""


def value_of(node: ast.stmt) -> ast.expr:
    """Return the expression of a statement that has one."""
    value = node.value  # type: ignore[attr-defined]
    assert isinstance(value, ast.expr)
    return value
