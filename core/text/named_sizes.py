"""A task's sizes as module-level integer constants, wherever its author wrote them.

A profile rewrites such constants (`with_constants`), and a suite that is not ours has its sizes in other places as
well: in a product (`2**14`), several in one assignment, in a tuple (`input_shape = (4096, 512)`), a dictionary or the
arguments of a configuration, or as plain numbers inside `get_inputs` and `get_init_inputs`. The program that is written
here does the same and has a constant for each of them. Equal numbers in the two functions become one constant, because
an input's width there is most often a layer's. Numbers of the model itself stay: nobody promised that they are sizes.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator

from ..task import Constants
from .parsing import parse

LEAST = 8
"""Smaller numbers inside a function or a tuple count taps, dimensions and strides; no profile would shrink them."""
_FUNCTIONS = ("get_inputs", "get_init_inputs")
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}
_MOST_BITS = 63

Edit = tuple[int, int, str]
"""Bytes from the first to before the second are replaced by the text."""


def name_sizes(source: str, in_functions: bool = True) -> str:
    """Rewrite a program so that its sizes are module-level integer constants, with or without those in functions.

    Raises what `core.text.parsing.parse` does for what is no program.
    """
    tree = parse(source)
    taken = {name for node in ast.walk(tree) for name in _names_of(node)}
    starts = line_starts(source)
    edits: list[Edit] = []
    for node in tree.body:
        # a statement behind a semicolon has no line of its own to put a constant before
        if isinstance(node, ast.Assign) and node.col_offset == 0:
            edits += _name_in_assignment(node, starts, taken)
        elif isinstance(node, ast.AnnAssign) and node.col_offset == 0:
            edits += _name_in_annotated(node, starts, taken)
    if in_functions:
        edits += _name_in_functions(tree, starts, taken)
    return _apply(source, edits)


def _apply(source: str, edits: list[Edit]) -> str:
    text = source.encode()
    # of two edits at one place the one that inserts comes last here, and so first in the text
    for begin, end, replacement in sorted(edits, key=lambda edit: (edit[0], edit[1]), reverse=True):
        text = text[:begin] + replacement.encode() + text[end:]
    return text.decode()


def _names_of(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.alias):
        yield node.asname or node.name.partition(".")[0]
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name


def line_starts(source: str) -> list[int]:
    """Return where each line of a source begins, in bytes of UTF-8, as the parser counts columns.

    In bytes only \\n, \\r\\n and \\r end lines, as for the parser.
    """
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def span_of(node: ast.expr | ast.stmt, starts: list[int]) -> tuple[int, int]:
    """Return where a node begins and ends, in bytes."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset


def _name_in_assignment(node: ast.Assign, starts: list[int], taken: set[str]) -> Iterator[Edit]:
    begin, end = span_of(node, starts)
    names = [target.id for target in node.targets if isinstance(target, ast.Name)]
    whole = _fold(node.value)
    if len(names) == len(node.targets) and whole is not None:
        if len(names) > 1 or not isinstance(node.value, ast.Constant):
            copies = [f"{name} = {names[0]}" for name in names[1:]]
            yield begin, end, "\n".join([f"{names[0]} = {whole}", *copies])
        return
    target = node.targets[0]
    if len(node.targets) == 1 and isinstance(target, (ast.Tuple, ast.List)):
        unpacked = _unpack(target, node.value)
        if unpacked:
            yield begin, end, "\n".join(f"{name} = {value}" for name, value in unpacked)
        return
    if len(names) == len(node.targets) == 1:
        yield from _name_in_parts(names[0], node.value, begin, starts, taken)


def _name_in_annotated(node: ast.AnnAssign, starts: list[int], taken: set[str]) -> Iterator[Edit]:
    if node.value is None or not isinstance(node.target, ast.Name):
        return
    whole = _fold(node.value)
    if whole is None:
        yield from _name_in_parts(node.target.id, node.value, span_of(node, starts)[0], starts, taken)
    elif not isinstance(node.value, ast.Constant):
        yield *span_of(node.value, starts), str(whole)


def _name_in_parts(name: str, value: ast.expr, begin: int, starts: list[int], taken: set[str]) -> Iterator[Edit]:
    """Insert constants before a statement for the sizes in a tuple, a list, a dictionary or the arguments of a call."""
    if not isinstance(value, (ast.Tuple, ast.List, ast.Dict, ast.Call)):
        return
    lines: list[str] = []
    for element, size in _sizes_within(value):
        constant = _new_name(f"{name}_{len(lines)}", taken)
        lines.append(f"{constant} = {size}\n")
        yield *span_of(element, starts), constant
    if lines:
        yield begin, begin, "".join(lines)


def _unpack(target: ast.Tuple | ast.List, value: ast.expr) -> list[tuple[str, int]]:
    """Return the names and integers of `a, b = 16, 32`; empty for anything else."""
    if not isinstance(value, (ast.Tuple, ast.List)) or len(target.elts) != len(value.elts):
        return []
    pairs = [(name, _fold(element)) for name, element in zip(target.elts, value.elts, strict=True)]
    found = [(name.id, size) for name, size in pairs if isinstance(name, ast.Name) and size is not None]
    return found if len(found) == len(pairs) else []


def _name_in_functions(tree: ast.Module, starts: list[int], taken: set[str]) -> Iterator[Edit]:
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in _FUNCTIONS]
    if any(node.col_offset or node.decorator_list for node in functions):
        return
    constants: dict[int, str] = {}
    for function in functions:
        for statement in function.body:
            for node, size in _sizes_within(statement):
                if size not in constants:
                    constants[size] = _new_name(f"size_{len(constants)}", taken)
                yield *span_of(node, starts), constants[size]
    if constants:
        first = min(starts[function.lineno - 1] for function in functions)
        yield first, first, "".join(f"{name} = {size}\n" for size, name in constants.items())


def _sizes_within(node: ast.AST) -> Iterator[tuple[ast.expr, int]]:
    """Return integers of at least `LEAST` that are written in a node, the outermost folded expressions of them."""
    if isinstance(node, (ast.Subscript, ast.JoinedStr, ast.FunctionDef, ast.Lambda, ast.pattern)):
        return
    size = _fold(node) if isinstance(node, ast.expr) else None
    if size is None:
        # a dictionary's keys are names
        for child in node.values if isinstance(node, ast.Dict) else ast.iter_child_nodes(node):
            yield from _sizes_within(child)
    elif size >= LEAST:
        assert isinstance(node, ast.expr)
        yield node, size


def _fold(node: ast.expr) -> int | None:
    """Return the value of an expression of integer literals, None for any other."""
    if isinstance(node, ast.Constant):
        # bool is a subclass of int, and True is no size
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.Call):
        return _fold_int(node)
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _fold(node.left), _fold(node.right)
    return None if left is None or right is None else calculate(node.op, left, right)


def calculate(operation: ast.operator, left: int, right: int) -> int | None:
    """Return the value of an operation on two integers, None where it is none of those of sizes, or too large."""
    if isinstance(operation, (ast.Pow, ast.LShift)) and not (0 <= right <= _MOST_BITS and abs(left) <= 1 << _MOST_BITS):
        return None
    compute = _OPERATORS.get(type(operation))
    if compute is None or (isinstance(operation, ast.FloorDiv) and right == 0):
        return None
    value = compute(left, right)
    return value if value.bit_length() <= _MOST_BITS else None


def _fold_int(node: ast.Call) -> int | None:
    """Return the value of `int(1e6)` or `int(2**20)`, None for any other call."""
    if not (isinstance(node.func, ast.Name) and node.func.id == "int" and len(node.args) == 1 and not node.keywords):
        return None
    (given,) = node.args
    if isinstance(given, ast.Constant) and isinstance(given.value, float):
        return int(given.value) if given.value.is_integer() and given.value < 1 << _MOST_BITS else None
    return _fold(given)


def _new_name(wanted: str, taken: set[str]) -> str:
    name = wanted
    while name in taken:
        name += "_"
    taken.add(name)
    return name


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


def names_in_inputs(source: str) -> frozenset[str]:
    """Return the names, those that `name_sizes` gives among them, that `get_inputs` reads."""
    body = parse(name_sizes(source)).body
    functions = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == "get_inputs"]
    return frozenset(node.id for each in functions for node in ast.walk(each) if isinstance(node, ast.Name))


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
    starts = line_starts(source)
    return _apply(source, [(*span_of(nodes[name], starts), str(value)) for name, value in constants])
