"""Module-level integer constants of a task: how a profile gives the same program other sizes."""

from __future__ import annotations

import ast

from ..task import Constants
from .named_sizes import name_sizes
from .parsing import parse


def _assignments(source: str) -> dict[str, ast.Constant]:
    """Return the value nodes of module-level integer assignments; the last one of a name counts."""
    found: dict[str, ast.Constant] = {}
    for node in parse(source).body:
        targets: list[ast.expr]
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        else:
            continue
        # bool is a subclass of int, and True is no size
        if len(targets) == 1 and isinstance(targets[0], ast.Name) and isinstance(value, ast.Constant):
            if type(value.value) is int:
                found[targets[0].id] = value
            else:
                found.pop(targets[0].id, None)
    return found


def read_constants(source: str) -> dict[str, int]:
    """Return module-level assignments of an integer literal to one name, in the order of the source."""
    return {name: int(node.value) for name, node in _assignments(source).items() if isinstance(node.value, int)}


def read_sizes(source: str) -> dict[str, int]:
    """Return the constants of a source, and those that its sizes elsewhere become (`name_sizes`)."""
    return read_constants(name_sizes(source))


def with_constants(source: str, constants: Constants) -> str:
    """Rewrite these constants of a source, and nothing else changed.

    A name that is no constant there may be one of those that `name_sizes` gives to sizes in tuples and functions; all
    of these are then written as constants first. Raises ValueError for a name that is none of them.
    """
    if not constants:
        return source
    nodes = _assignments(source)
    if any(name not in nodes for name, _ in constants):
        source = name_sizes(source)
        nodes = _assignments(source)
    missing = [name for name, _ in constants if name not in nodes]
    if missing:
        raise ValueError(f"no module-level integer constant: {', '.join(missing)}")
    # the parser counts columns in UTF-8 bytes and ends lines at \n, \r\n and \r only
    lines = source.encode().splitlines(keepends=True)
    edits = sorted(((nodes[name], value) for name, value in constants), key=lambda edit: _position(edit[0]))
    for node, value in reversed(edits):
        line = lines[node.lineno - 1]
        lines[node.lineno - 1] = line[: node.col_offset] + str(value).encode() + line[node.end_col_offset :]
    return b"".join(lines).decode()


def _position(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset
