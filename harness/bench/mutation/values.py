"""Mistakes about values: operators, comparisons, numbers, functions, axes, and steps that are left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .program import Edit, MutationClass, Program, binary, called, keyword_of

_ARITHMETIC: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add, ast.Mult),
    ast.Mult: (ast.Add, ast.Div),
    ast.Div: (ast.Mult, ast.Sub),
}
_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
}
_SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "max": ("min", "sum"),
    "min": ("max", "sum"),
    "sum": ("max", "min"),
    "argmax": ("argmin",),
    "argmin": ("argmax",),
    "maximum": ("minimum",),
    "minimum": ("maximum",),
    "exp": ("exp2",),
    "exp2": ("exp",),
    "log": ("log2",),
    "log2": ("log",),
    "sqrt": ("rsqrt",),
    "rsqrt": ("sqrt",),
    "sin": ("cos",),
    "cos": ("sin",),
    "sigmoid": ("exp",),
    "floor": ("ceil",),
    "ceil": ("floor",),
}
_FUNCTIONS_OF_ONE = frozenset(
    {"abs", "erf", "tanh"} | {name for name in _FUNCTIONS if not name.endswith(("max", "min", "sum", "imum"))}
)


def mutate_arithmetic(program: Program) -> Iterator[Edit]:
    """Propose another operator, or operands the wrong way round."""
    kind = MutationClass.ARITHMETIC
    for node in program.walk_kernels():
        match node:
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC and not program.is_address(node):
                for other in _ARITHMETIC[type(op)]:
                    swapped = binary(left, other(), right)
                    yield program.replace(kind, f"{_SYMBOLS[type(op)]} to {_SYMBOLS[other]}", node, swapped)
                if isinstance(op, (ast.Sub, ast.Div)):
                    change = f"operands of {_SYMBOLS[type(op)]} swapped"
                    yield program.replace(kind, change, node, binary(right, op, left))
            case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, (ast.Constant, ast.Call)):
                yield program.replace(kind, "sign dropped", node, operand)


def mutate_comparisons(program: Program) -> Iterator[Edit]:
    """Propose another comparison of values, or the branches of a choice the wrong way round."""
    kind = MutationClass.COMPARISON
    for node in program.walk_kernels():
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if not program.is_index(left):
                for other in _COMPARISONS.get(type(op), ()):
                    changed = ast.Compare(left, [other()], [right])
                    yield program.replace(kind, f"{_SYMBOLS[type(op)]} to {_SYMBOLS[other]}", node, changed)
            case ast.Call(args=[condition, yes, no]) if called(node) == "where":
                swapped = ast.Call(func=node.func, args=[condition, no, yes], keywords=[])
                yield program.replace(kind, "branches of where swapped", node, swapped)


def mutate_constants(program: Program) -> Iterator[Edit]:
    """Propose another number: its sign, its scale, its value; an epsilon left out; the wrong infinity."""
    kind = MutationClass.CONSTANT
    for node in program.walk_kernels():
        if isinstance(node, ast.Constant) and isinstance(node.value, float) and not _is_other(program, node):
            value = node.value
            changes = (value * 2, value + 1.0, -value) if value else (1.0,)
            if 0.0 < value < 0.01:
                changes = (0.0, value * 1000, -value)
            for changed in changes:
                yield program.replace(kind, f"{value!r} to {changed!r}", node, repr(changed))
        match node:
            case ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=float(value))) if value < 0.01:
                yield program.replace(kind, "epsilon dropped", node, left)
        if isinstance(node, ast.UnaryOp) and _is_infinity(node.operand) and not _is_other(program, node):
            yield program.replace(kind, "sign of infinity dropped", node, node.operand)
            yield program.replace(kind, "infinity to 0", node, "0.0")
        elif isinstance(node, ast.Call) and _is_infinity(node) and not _is_other(program, node):
            if isinstance(program.parents[node], ast.UnaryOp):
                continue
            yield program.replace(kind, "infinity negated", node, f"-{program.text(node)}")
            yield program.replace(kind, "infinity to 0", node, "0.0")


def _is_infinity(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and called(node) == "float"


def _is_other(program: Program, node: ast.AST) -> bool:
    keyword = program.enclosing(node, ast.keyword)
    return isinstance(keyword, ast.keyword) and keyword.arg == "other"


def mutate_functions(program: Program) -> Iterator[Edit]:
    """Propose a neighbouring function in a function's place, or its argument alone."""
    for node in program.walk_kernels():
        if not isinstance(node, ast.Call):
            continue
        name = called(node)
        if isinstance(node.func, ast.Attribute):
            for other in _FUNCTIONS.get(name, ()):
                func = ast.Attribute(value=node.func.value, attr=other, ctx=ast.Load())
                swapped = ast.Call(func=func, args=node.args, keywords=node.keywords)
                yield program.replace(MutationClass.FUNCTION, f"{name} to {other}", node, swapped)
        if name in _FUNCTIONS_OF_ONE and len(node.args) == 1:
            yield program.replace(MutationClass.STEP, f"{name} dropped", node, node.args[0])
        if name in ("maximum", "minimum") and len(node.args) == 2:
            for argument in node.args:
                yield program.replace(MutationClass.STEP, f"{name} dropped", node, argument)
        if name == "where" and len(node.args) == 3:
            for branch in node.args[1:]:
                yield program.replace(MutationClass.STEP, "where dropped", node, branch)


def mutate_axes(program: Program) -> Iterator[Edit]:
    """Propose the other axis of a reduction, of a program id, or of a broadcast."""
    for node in program.walk_kernels():
        match node:
            case ast.Call() if called(node) == "program_id":
                yield from _mutate_axis(program, "program id", node.args[0] if node.args else keyword_of(node, "axis"))
            case ast.Call() if "None" in program.source:  # there are tensors of two dimensions
                yield from _mutate_axis(program, "axis", keyword_of(node, "axis"))
            case ast.Subscript(value=value, slice=ast.Tuple(elts=[first, second])):
                turned = ast.Tuple(elts=[second, first], ctx=ast.Load())
                new = ast.Subscript(value=value, slice=turned, ctx=ast.Load())
                yield program.replace(MutationClass.AXIS, "broadcast the other way", node, new)


def _mutate_axis(program: Program, what: str, axis: ast.expr | None) -> Iterator[Edit]:
    if isinstance(axis, ast.Constant) and isinstance(axis.value, int) and axis.value in (0, 1):
        other = 1 - axis.value
        yield program.replace(MutationClass.AXIS, f"{what} {axis.value} to {other}", axis, repr(other))


def mutate_steps(program: Program) -> Iterator[Edit]:
    """Propose a statement left out, or one operand of a computation."""
    kind = MutationClass.STEP
    for kernel in program.kernels:
        bound = {argument.arg for argument in kernel.args.args}
        for node in ast.walk(kernel):
            if not isinstance(node, ast.stmt) or node is kernel:
                continue
            if _is_droppable(node, kernel, bound):
                yield program.drop_statement(kind, f"dropped: {program.text(node).splitlines()[0]}", node)
    for node in program.walk_kernels():
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC and not program.is_address(node):
            symbol = _SYMBOLS[type(node.op)]
            yield program.replace(kind, f"right of {symbol} dropped", node, node.left)
            if isinstance(node.op, (ast.Add, ast.Mult)):
                yield program.replace(kind, f"left of {symbol} dropped", node, node.right)


def _is_droppable(node: ast.stmt, kernel: ast.FunctionDef, bound: set[str]) -> bool:
    """Return whether the kernel still names nothing unbound without this statement."""
    match node:
        case ast.AugAssign() | ast.For():
            return True
        case ast.Expr(value=ast.Call()):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            earlier = {
                target.id
                for other in ast.walk(kernel)
                if isinstance(other, ast.Assign) and other.lineno < node.lineno
                for target in other.targets
                if isinstance(target, ast.Name)
            }
            return name in bound or name in earlier
    return False
