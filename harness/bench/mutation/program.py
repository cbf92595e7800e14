"""A kernel module as the mutation operators see it: its tree, where each node stands in the text, and what is an index.

Operators propose edits of the text, not of the tree, so that a mutant keeps the teacher's form and differs from it in
one place. What a name means decides an edit's class: `a + b` is arithmetic on values, or an offset where both sides are
made of program ids, ranges and sizes, and only the second is a mistake about memory.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import StrEnum

from attrs import frozen


class MutationClass(StrEnum):
    ARITHMETIC = "arithmetic"
    COMPARISON = "comparison"
    CONSTANT = "constant"
    MASK = "mask"
    OFFSET = "offset"
    BLOCK = "block bound"
    ACCUMULATOR = "accumulator"
    DTYPE = "dtype"
    STEP = "dropped step"
    FUNCTION = "function"
    AXIS = "axis"
    GRID = "grid"
    ARGUMENT = "argument"
    PARAMETER = "parameter"


@frozen(kw_only=True)
class Edit:
    """Replace the characters [start, stop) of a source by `text`."""

    kind: MutationClass
    change: str
    start: int
    stop: int
    text: str


_OPERATOR_EXPRESSIONS = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.Lambda, ast.IfExp)
_BINDING_PARENTS = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.Attribute, ast.Starred)
_INDEX_CALLS = frozenset({"program_id", "num_programs", "arange", "cdiv", "minimum", "max_contiguous", "multiple_of"})


class Program:
    """A parsed module; raises SyntaxError for a source that is none."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tree = ast.parse(source)
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        # the parser counts columns in UTF-8 bytes
        self._lines = [line.encode() for line in source.split("\n")]
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line.decode()) + 1)
        functions = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)]
        self.kernels = [function for function in functions if any(map(_is_jit, function.decorator_list))]
        self._in_kernel = {node for kernel in self.kernels for node in ast.walk(kernel)}
        self._scalars = {kernel: _find_scalars(kernel) for kernel in self.kernels}
        self._indices = {kernel: _find_indices(kernel, scalars) for kernel, scalars in self._scalars.items()}

    def offset(self, line: int, column: int) -> int:
        """Return the character at a line (from 1) and a column in bytes."""
        return self._starts[line - 1] + len(self._lines[line - 1][:column].decode())

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        """Return a node's first character in the source and the one after its last."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def text(self, node: ast.expr | ast.stmt | ast.keyword) -> str:
        start, stop = self.span(node)
        return self.source[start:stop]

    def enclosing(self, node: ast.AST, kind: type[ast.AST]) -> ast.AST | None:
        current = self.parents.get(node)
        while current is not None and not isinstance(current, kind):
            current = self.parents.get(current)
        return current

    def kernel_of(self, node: ast.AST) -> ast.FunctionDef | None:
        current: ast.AST | None = node
        while current is not None and current not in self._indices:
            current = self.parents.get(current)
        return current if isinstance(current, ast.FunctionDef) else None

    def walk_kernels(self) -> Iterator[ast.AST]:
        """Return every node of every kernel's body, in the order of the source."""
        for kernel in self.kernels:
            for statement in kernel.body:
                yield from _walk_in_order(statement)

    def walk_host(self) -> Iterator[ast.AST]:
        """Return every node outside kernels, in the order of the source."""
        return (node for node in _walk_in_order(self.tree) if node not in self._in_kernel)

    def sizes_of(self, node: ast.AST) -> list[str]:
        """Find parameters of a node's kernel that are neither pointers nor constexpr, and that indices are made of."""
        kernel = self.kernel_of(node)
        if kernel is None:
            return []
        used = {
            name.id
            for part in ast.walk(kernel)
            if isinstance(part, ast.Compare) or (isinstance(part, ast.BinOp) and self.is_address(part))
            for name in ast.walk(part)
            if isinstance(name, ast.Name)
        }
        return [a.arg for a in kernel.args.args if a.annotation is None and a.arg in self._scalars[kernel] & used]

    def is_index(self, node: ast.expr) -> bool:
        """Return whether an expression of a kernel is made of program ids, ranges, loop counters and sizes alone."""
        kernel = self.kernel_of(node)
        return kernel is not None and _is_index(node, self._indices[kernel], self._scalars[kernel])

    def is_address(self, node: ast.expr) -> bool:
        """Return whether an expression of a kernel is, or is part of, a pointer or an index."""
        kernel = self.kernel_of(node)
        if kernel is None:
            return False
        top: ast.AST = node
        while isinstance(self.parents[top], ast.BinOp):
            top = self.parents[top]
        call = self.parents[top]
        is_pointer = isinstance(call, ast.Call) and called(call) in ("load", "store") and call.args[:1] == [top]
        return is_pointer or self.is_index(node)

    def replace(self, kind: MutationClass, change: str, node: ast.expr, new: ast.expr | str) -> Edit:
        """Return the edit that replaces a node by an expression, in parentheses where precedence asks for them."""
        expression = ast.parse(new, mode="eval").body if isinstance(new, str) else new
        text = new if isinstance(new, str) else ast.unparse(new)
        parent = self.parents[node]
        tight = isinstance(parent, _BINDING_PARENTS) or (
            isinstance(parent, (ast.Call, ast.Subscript))
            and node is getattr(parent, "func", getattr(parent, "value", 0))
        )
        if tight and isinstance(expression, _OPERATOR_EXPRESSIONS):
            text = f"({text})"
        start, stop = self.span(node)
        return Edit(kind=kind, change=change, start=start, stop=stop, text=text)

    def drop_statement(self, kind: MutationClass, change: str, node: ast.stmt) -> Edit:
        """Return the edit that removes a statement; one that stands alone in its block leaves `pass`."""
        start, stop = self.span(node)
        parent = self.parents[node]
        blocks = [getattr(parent, name, None) for name in ("body", "orelse", "finalbody")]
        if any(block == [node] for block in blocks):
            return Edit(kind=kind, change=change, start=start, stop=stop, text="pass")
        start = self._starts[node.lineno - 1]
        return Edit(kind=kind, change=change, start=start, stop=min(stop + 1, len(self.source)), text="")

    def drop_keyword(self, kind: MutationClass, change: str, call: ast.Call, name: str) -> Edit:
        """Return the edit that removes a keyword argument, with the comma before it."""
        keyword = next(keyword for keyword in call.keywords if keyword.arg == name)
        start, stop = self.span(keyword)
        before = self.source.rfind(",", 0, start)
        inside = self.span(call.func)[1]
        if before > inside and not self.source[before + 1 : start].strip():
            start = before
        return Edit(kind=kind, change=change, start=start, stop=stop, text="")


def binary(left: ast.expr, op: ast.operator, right: ast.expr | int) -> ast.BinOp:
    """Return the expression that applies an operator, with a number on its right where an int is given."""
    return ast.BinOp(left, op, ast.Constant(right) if isinstance(right, int) else right)


def called(node: ast.AST) -> str:
    """Return the last part of a called function's name, or nothing."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def keyword_of(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def is_launch(node: ast.AST) -> bool:
    """Return whether a node is `kernel[grid](...)`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)


def _is_jit(decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")) == "jit"


def _walk_in_order(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _walk_in_order(child)


def _find_scalars(kernel: ast.FunctionDef) -> frozenset[str]:
    """Return parameters that are never the base of a load's or store's address."""
    pointers = set()
    for node in ast.walk(kernel):
        if called(node) in ("load", "store", "atomic_add", "atomic_max", "make_block_ptr"):
            assert isinstance(node, ast.Call)
            base = node.args[0]
            while isinstance(base, ast.BinOp):
                base = base.left
            pointers |= {base.id} if isinstance(base, ast.Name) else set()
    return frozenset(argument.arg for argument in kernel.args.args) - pointers


def _is_index(node: ast.expr, indices: frozenset[str], scalars: frozenset[str]) -> bool:
    has_index = False
    for part in ast.walk(node):
        match part:
            case ast.Call():
                if called(part) not in _INDEX_CALLS:
                    return False
                has_index = True
            case ast.Name(id=name) if name in indices:
                has_index = True
            case ast.Name(id=name):
                if name not in scalars and name not in ("tl", "triton"):
                    return False
            case ast.Constant(value=value):
                if isinstance(value, (float, str)):
                    return False
            case ast.Compare() | ast.BitAnd() | ast.BitOr() | ast.Div():
                return False
    return has_index


def _find_indices(kernel: ast.FunctionDef, scalars: frozenset[str]) -> frozenset[str]:
    """Find the names that hold program ids, ranges, loop counters, or what is computed from those and sizes."""
    found: frozenset[str] = frozenset()
    while True:
        names = set(found)
        for node in ast.walk(kernel):
            match node:
                case ast.For(target=ast.Name(id=name)):
                    names.add(name)
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_index(value, found, scalars):
                    names.add(name)
        if names == found:
            return found
        found = frozenset(names)
