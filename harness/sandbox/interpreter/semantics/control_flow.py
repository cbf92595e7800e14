"""Control flow, logic and constants as compiled, where Triton's interpreter follows Python.

These differences, most found against an H200, would each call a genuine kernel wrong or a wrong one right:

- `and`, `or` and `not` on blocks are element by element when compiled; Python's own operators look at the truth of the
  whole block. The kernel's tree is rewritten to call what the compiler calls.
- A loop's variable is a tensor when compiled, and so are other numbers that the interpreter leaves to Python, without
  bounds: `scalars` has them.
- 32-bit integers wrap around silently on a GPU; the interpreter's options would have it assert that they do not.
- A tensor is never false to the compiler, which has no values. Asked whether a scalar load has an `other=`, the
  interpreter would take one of 0 for none.
- What a kernel asserts with `tl.device_assert` is so, whether or not it is compiled with `debug=True`; the interpreter
  takes every block for true.
- A `tl.constexpr` of the module times a tensor is a tensor; in the interpreter it is a constexpr that holds one.

What remains: a GPU rounds `a * b + c` once, `tl.dot` computes in full float32 where a GPU may use TF32, and `exp` and
its kin are more exact than a GPU's. The tolerance admits all three, and one run draws them (`gpu_error`).
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import triton.language as tl
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter

from . import scalars
from .patches import BUILDER, INTERPRETER, Patch, around, replace, replace_in_language
from .scalars import unwrapped

_SHORT_CIRCUIT = {ast.And: "_compiled_and", ast.Or: "_compiled_or"}
_NOT, _STORED, _CHOSEN = "_compiled_not", "_compiled_store", "_compiled_choice"
_RETURNED, _DECIDED = "_compiled_return", "_compiled_test"
_REVERSED = ("mod", "lshift", "rshift", "and", "or", "xor")
"""Operators whose right side alone may be a constexpr when compiled, and not in the interpreter."""
_BINARY = tuple(
    f"__{name}__"
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift"),
        *("eq", "ne", "lt", "le", "gt", "ge"),
    )
)


class CompiledLogic(ast.NodeTransformer):
    """Rewrites a kernel's tree so that logic, assignments and returns do what they do when compiled."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Let what is returned be a tensor or a constant, by the other returns that are compiled."""
        returns = [part for part in ast.walk(node) if isinstance(part, ast.Return) and part.value is not None]
        loops = [part for part in ast.walk(node) if isinstance(part, ast.For)]  # unrolled, each turn has its own
        is_one_constant = len({ast.unparse(part) for part in returns}) <= 1 and not _holds_return(loops)
        said = {id(part): _unevaluated(part.value) for part in returns if part.value is not None}
        for part in returns:
            follows = not is_one_constant and (_holds_return(loops) or _return_follows(node.body, part))
            tests: ast.expr = ast.Tuple(elts=[], ctx=ast.Load()) if is_one_constant else _tests(ast.Load())
            assert part.value is not None
            others = [] if is_one_constant else [said[id(other)] for other in returns if other is not part]
            alternatives = ast.Tuple(elts=copy.deepcopy(others), ctx=ast.Load())
            part.value = _call(_RETURNED, [part.value, tests, ast.Constant(value=follows), alternatives])
        if not is_one_constant:
            for branch in ast.walk(node):
                if isinstance(branch, ast.If) and _holds_return([branch]):
                    branch.test = _call(_DECIDED, [branch.test, _tests(ast.Load())])
        self.generic_visit(node)
        if not is_one_constant:
            node.body.insert(0, ast.Assign(targets=[_tests(ast.Store())], value=ast.List(elts=[], ctx=ast.Load())))
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Make a tensor of an assigned number, as when compiled, and of each number in a tuple."""
        self.generic_visit(node)
        if len(node.targets) > 1:
            raise ValueError("Multiple assignments are not supported")
        node.value = _call(_STORED, [node.value])
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """Rewrite `x += value` as `x = x + value`."""
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        value = ast.BinOp(left=ast.Name(id=node.target.id, ctx=ast.Load()), op=node.op, right=node.value)
        return ast.Assign(targets=[node.target], value=_call(_STORED, [value]))

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Rewrite `a if condition else b` as a call with both unevaluated."""
        self.generic_visit(node)
        sides: list[ast.expr] = [ast.Lambda(args=_no_arguments(), body=side) for side in (node.body, node.orelse)]
        return _call(_CHOSEN, [node.test, *sides])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Make a tensor of what `x: tl.int32 = value` assigns; what is annotated as constexpr stays a number."""
        self.generic_visit(node)
        if node.value is not None and "constexpr" not in ast.unparse(node.annotation):
            node.value = _call(_STORED, [node.value])
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Rewrite `a and b` as a call with the operands unevaluated, as a constant one may end it early."""
        self.generic_visit(node)
        operands: list[ast.expr] = [ast.Lambda(args=_no_arguments(), body=value) for value in node.values]
        return _call(_SHORT_CIRCUIT[type(node.op)], operands)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Rewrite `not a` as a call."""
        self.generic_visit(node)
        return _call(_NOT, [node.operand]) if isinstance(node.op, ast.Not) else node


def _no_arguments() -> ast.arguments:
    return ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])


def _call(name: str, arguments: list[ast.expr]) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=arguments, keywords=[])


def _tests(context: ast.expr_context) -> ast.Name:
    """Return the variable of a function that says which conditions were tensors; no source can name it."""
    return ast.Name(id=" tests", ctx=context)


def _unevaluated(value: ast.expr) -> ast.expr:
    """Return a function of what names and numbers say, and a tuple of such for a tuple; else None."""
    if isinstance(value, ast.Tuple):
        return ast.Tuple(elts=[_unevaluated(item) for item in value.elts], ctx=ast.Load())
    simple = (ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context)
    if all(isinstance(part, simple) for part in ast.walk(value)):
        return ast.Lambda(args=_no_arguments(), body=copy.deepcopy(value))
    return ast.Constant(value=None)


def _holds_return(body: Iterable[ast.AST]) -> bool:
    return any(isinstance(part, ast.Return) for statement in body for part in ast.walk(statement))


def _return_follows(body: list[ast.stmt], found: ast.Return) -> bool:
    """Return whether the compiler, which ends a block at its own `return` alone, meets others after this one."""
    for number, statement in enumerate(body):
        if any(part is found for part in ast.walk(statement)):
            blocks = [getattr(statement, part, []) for part in ("body", "orelse")]
            inside = any(_return_follows(block, found) for block in blocks)
            return inside or (statement is not found and _holds_return(body[number + 1 :]))
    return False


def _decide(ends: bool, combine: Callable[[Any, Any], Any], *operands: Callable[[], Any]) -> Any:
    """Compute `a and b` or `a or b` as compiled: constants may end it, tensors are all computed and combined."""
    tensors: list[Any] = []
    value: Any = not ends
    for operand in operands:
        value = unwrapped(operand())
        if isinstance(value, tl.tensor):
            tensors.append(value)
        elif bool(value) is ends:
            return value
    if not tensors:
        return value
    result = tensors[0]
    for other in tensors[1:]:
        result = combine(result, other)
    return result


def _not(value: Any) -> Any:
    """Compute `not a` as compiled."""
    value = unwrapped(value)
    return interpreter.interpreter_semantic.not_(value) if isinstance(value, tl.tensor) else not value


def _leave_tensors_to_themselves(self: Any, other: Any, *, original: Any) -> Any:
    return NotImplemented if isinstance(other, tl.tensor) else original(self, other)


def _reversed(name: str) -> Patch:
    """Compute `value <operator> constexpr` by the operator of two constexprs."""
    operation = getattr(tl.constexpr, f"__{name}__")

    def operate(self: Any, other: Any) -> Any:
        return NotImplemented if isinstance(other, tl.tensor) else operation(tl.constexpr(other), self)

    return replace(tl.constexpr, f"__r{name}__", operate)


def _load_with_true_tensors(self: Any, pointer: Any, mask: Any, other: Any, *options: Any, original: Any) -> Any:
    if other is None or pointer.type.is_block():
        return original(self, pointer, mask, other, *options)
    kind: Any = tl.tensor
    asked, kind.__bool__ = kind.__bool__, lambda tensor: True
    try:
        return original(self, pointer, mask, other, *options)
    finally:
        kind.__bool__ = asked


class BrokenAssertion(Exception):
    """A kernel asserts what is not so, which ends the process with `debug=True`, or has the compiler assume it."""


def _require(builder: Any, condition: Any, message: str) -> None:
    if not np.all(condition.data):
        raise BrokenAssertion(f"tl.device_assert does not hold: {message}")


def _assume(builder: Any, condition: Any) -> None:
    if not np.all(condition.data):
        raise BrokenAssertion("what a kernel tells the compiler by tl.assume does not hold")


_COMPILED = {
    "_compiled_and": partial(_decide, False, interpreter.interpreter_semantic.logical_and),
    "_compiled_or": partial(_decide, True, interpreter.interpreter_semantic.logical_or),
    _NOT: _not,
    _STORED: scalars.stored,
    _CHOSEN: scalars.chosen,
    _RETURNED: scalars.returned,
    _DECIDED: scalars.decided_by,
}
PATCHES = (
    replace(
        interpreter.interpreter_builder, "options", interpreter.InterpreterOptions(debug=True, sanitize_overflow=False)
    ),
    replace(BUILDER, "create_assert", _require),
    replace(BUILDER, "create_assume", _assume),
    replace(tl.dtype, "value", property(lambda self: self)),  # as a constexpr, which the compiler hands to helpers
    replace(interpreter.FunctionRewriter, "ast_transformer", CompiledLogic()),
    *(replace(INTERPRETER, name, function) for name, function in _COMPILED.items()),
    *(around(tl.constexpr, name, _leave_tensors_to_themselves) for name in _BINARY),
    *(_reversed(name) for name in _REVERSED),
    around(TritonSemantic, "_load_legacy", _load_with_true_tensors),
    replace_in_language({"range": lambda _: scalars.loop_range}),
)
