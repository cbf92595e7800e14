"""Check and cut out of a candidate's source what may run under the interpreter: kernels and constants.

Under Triton's interpreter a kernel's body is Python, in a process that holds the buffers it is judged by. Host code
could compute the reference there and write it where a kernel's result belongs. So the interpreting child never imports
a candidate: it reads the source as a tree and takes from it the functions that a plan launches and what these refer to
at module level (helpers, constants, imports of Triton); no class body, no decorator, no statement with an effect.

What is taken must be in the kernel language: the forms that Triton compiles, attributes from a closed list, no name
with a leading underscore in attributes and keywords. Python that Triton would never compile (but might not look at, in
a branch that is dead when it compiles and alive when it interprets) is refused before it runs. A function is found by
its qualified name and the hash of its text, however it was decorated.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import pickle
import textwrap
from collections.abc import Iterable, Iterator
from typing import TypeVar

from ...core.text.parsing import KERNEL_PRIVATES

_STATEMENTS = (
    *(ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.If, ast.Assert, ast.Expr, ast.Pass),
    *(ast.Break, ast.Continue, ast.arguments, ast.arg),
)
_EXPRESSIONS = (
    *(ast.BoolOp, ast.NamedExpr, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.Call, ast.keyword, ast.JoinedStr),
    *(ast.FormattedValue, ast.Constant, ast.Attribute, ast.Subscript, ast.Starred, ast.Name, ast.List, ast.Tuple),
    *(ast.Slice, ast.ListComp, ast.GeneratorExp, ast.comprehension),
    *(ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop),
)
BUILTINS = frozenset(
    (
        *("abs", "bool", "enumerate", "float", "int", "len", "list", "max", "min", "pow", "print"),
        *("range", "round", "sum", "tuple", "zip"),
    )
)
"""The built-ins within a kernel's reach; Triton itself knows fewer."""

UNREACHABLE = " unreachable"
"""The name of `refuse_to_raise` in kernels; a space, so that no source can name it."""

Function = ast.FunctionDef
T = TypeVar("T", bound=ast.AST)


class NotKernelLanguage(Exception):
    """The source needs something under the interpreter that is neither a kernel nor a constant."""


class KernelSource:
    """A candidate's text, indexed by qualified name and by module-level name."""

    def __init__(self, source: str) -> None:
        tree = ast.parse(source)
        self.functions: dict[str, list[Function]] = {}
        self.bindings: dict[str, list[ast.stmt]] = {}
        self._ambiguous: set[str] = set()
        self.star_imports: list[ast.ImportFrom] = []
        text = source.replace("\r\n", "\n").replace("\r", "\n")
        self._lines = [line + "\n" for line in text.split("\n")]
        self._index_functions(tree.body, "")
        self._index_bindings(tree.body, conditional=False)
        for node in ast.walk(tree):
            if isinstance(node, ast.Global):
                self._ambiguous.update(node.names)

    def find(self, qualname: str, source_sha256: str) -> Function | None:
        """Return the function with this name and this text (decorators included)."""
        for function in reversed(self.functions.get(qualname, [])):
            if self._hash(function) == source_sha256:
                return function
        return None

    def last(self, qualname: str) -> Function | None:
        """Return the function that this qualified name stands for once the module is imported."""
        found = self.functions.get(qualname)
        return found[-1] if found else None

    def binding(self, name: str) -> list[ast.stmt]:
        """Return the module-level statements that bind the name; raises where it depends on a condition or on an order.

        Bound twice, it means one thing to a default that is evaluated in between, and another to a kernel that is
        compiled later; only importing the same again is no second meaning, and making a function a kernel.
        """
        statements = self.bindings.get(name, [])
        if name in self._ambiguous or (len(statements) > 1 and not _is_one_meaning(name, statements)):
            raise NotKernelLanguage(f"kernels use {name}, which is bound in more than one way")
        return statements

    def _hash(self, function: Function) -> str:
        first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
        text = textwrap.dedent("".join(inspect.getblock(self._lines[first - 1 :])))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def _index_functions(self, body: Iterable[ast.stmt], prefix: str) -> None:
        for statement in body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                qualname = prefix + statement.name
                if isinstance(statement, ast.FunctionDef):
                    self.functions.setdefault(qualname, []).append(statement)
                inner = "." if isinstance(statement, ast.ClassDef) else ".<locals>."
                self._index_functions(statement.body, qualname + inner)
            else:
                for part in _blocks(statement):
                    self._index_functions(part, prefix)

    def _index_bindings(self, body: Iterable[ast.stmt], conditional: bool) -> None:
        """Note what binds which name; a name is ambiguous where it takes more than reading in order to tell."""
        for statement in body:
            match statement:
                case ast.Try() if all(isinstance(inner, (ast.Import, ast.ImportFrom)) for inner in statement.body):
                    # what stands in where an import fails, which it does not here
                    self._index_bindings([*statement.body, *statement.orelse], conditional)
                    for handler in statement.handlers:
                        self._index_bindings(_unbound(handler.body, self.bindings), conditional=True)
                case ast.Try() | ast.TryStar() | ast.If() | ast.With():
                    for block in _blocks(statement):
                        self._index_bindings(block, conditional=True)
                    for name in _bound_by_header(statement):
                        self._ambiguous.add(name)
                case ast.For() | ast.AsyncFor() | ast.While() | ast.Match() | ast.AsyncWith():
                    self._ambiguous |= _bound_inside(statement)
                case _:
                    for name in _bound_names(statement):
                        if conditional and (name in self.bindings or name in BUILTINS):
                            self._ambiguous.add(name)
                        self.bindings.setdefault(name, []).append(statement)
                    if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                        self.star_imports.append(statement)


class _Unreachable(ast.NodeTransformer):
    """Puts a call that refuses where a kernel says `raise`."""

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """Return the call, with the line of the statement."""
        function = ast.Name(id=UNREACHABLE, ctx=ast.Load())
        call = ast.Call(func=function, args=[ast.Constant(value=node.lineno)], keywords=[])
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(value=call), node))


def copy_tree(tree: T) -> T:
    """Return a copy of a syntax tree, in a third of the time of `copy.deepcopy`."""
    copied: T = pickle.loads(pickle.dumps(tree, pickle.HIGHEST_PROTOCOL))
    return copied


def without_raises(function: Function) -> Function:
    """Return a copy in which `raise` is a call that refuses, and whose operand is not looked at.

    Triton compiles no `raise`, so one that it accepts stands in a branch that the constants of a launch leave out.
    """
    copied: Function = _Unreachable().visit(copy_tree(function))
    return copied


def refuse_to_raise(line: int) -> None:
    """Raise NotKernelLanguage for a `raise` that is reached."""
    raise NotKernelLanguage(f"line {line}: a raise is reached, which Triton cannot compile; tl.device_assert can")


def check_function(function: Function) -> None:
    """Raise NotKernelLanguage unless the function's defaults and body have only forms of the kernel language."""
    if getattr(function, "type_params", []):
        raise refuse(function, "a type parameter")
    for default in (*function.args.defaults, *function.args.kw_defaults):
        if default is not None:
            check_expression(default)
    for statement in function.body:
        _check(statement, _STATEMENTS + _EXPRESSIONS)


def check_expression(expression: ast.expr) -> None:
    """Raise NotKernelLanguage unless a constant's expression has only forms of the kernel language."""
    _check(expression, _EXPRESSIONS)


def free_names(node: ast.AST) -> set[str]:
    """Return the names that a function or an expression reads and does not bind itself."""
    if isinstance(node, ast.FunctionDef):
        arguments = node.args
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        parameters += [arg for arg in (arguments.vararg, arguments.kwarg) if arg is not None]
        inside = set().union(*(_free(statement, set()) for statement in node.body))
        outside = [d for d in (*arguments.defaults, *arguments.kw_defaults) if d is not None]
        own = {parameter.arg for parameter in parameters} | _stored(node.body)
        return (inside - own).union(*(free_names(default) for default in outside))
    return _free(node, set())


def dotted(node: ast.AST) -> list[str] | None:
    """Return the parts of `a.b.c`, else None."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else None


def refuse(node: ast.AST, what: str) -> NotKernelLanguage:
    """Return the error that names a place and what stands there."""
    line = getattr(node, "lineno", None)
    return NotKernelLanguage(f"{f'line {line}: ' if line else ''}{what} is not part of the kernel language")


def _check(node: ast.AST, allowed: tuple[type[ast.AST], ...]) -> None:
    for part in ast.walk(node):
        if not isinstance(part, allowed):
            raise refuse(part, type(part).__name__.lower())
        if isinstance(part, ast.Attribute) and not isinstance(part.ctx, ast.Load):
            raise refuse(part, f"assignment to {part.attr}")
        if isinstance(part, ast.Attribute) and part.attr.startswith("_") and part.attr not in KERNEL_PRIVATES:
            raise refuse(part, part.attr)
        if isinstance(part, ast.keyword) and (part.arg is None or part.arg.startswith("_")):
            raise refuse(part.value, part.arg or "**")
        if isinstance(part, ast.Name) and part.id.startswith("__"):
            raise refuse(part, part.id)


def _free(node: ast.AST, bound: set[str]) -> set[str]:
    if isinstance(node, ast.Name):
        return {node.id} - bound
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        targets = (part for generator in node.generators for part in ast.walk(generator.target))
        bound = bound | {part.id for part in targets if isinstance(part, ast.Name)}
    annotation = node.annotation if isinstance(node, (ast.AnnAssign, ast.arg)) else None
    children = (child for child in ast.iter_child_nodes(node) if child is not annotation)
    return set().union(*(_free(child, bound) for child in children))


def stored_names(node: ast.AST) -> set[str]:
    """Return the names that are assigned to anywhere inside, parameters included."""
    found = {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
    return found | _stored([node])


def _stored(body: Iterable[ast.AST]) -> set[str]:
    found: set[str] = set()
    for statement in body:
        for part in ast.walk(statement):
            if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
                found.add(part.id)
            elif isinstance(part, (ast.MatchAs, ast.MatchStar, ast.ExceptHandler)) and part.name:
                found.add(part.name)
            elif isinstance(part, ast.MatchMapping) and part.rest:
                found.add(part.rest)
    return found


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for part in ("body", "orelse", "finalbody"):
        yield getattr(statement, part, [])
    for handler in getattr(statement, "handlers", []):
        yield handler.body


def _unbound(body: Iterable[ast.stmt], bindings: dict[str, list[ast.stmt]]) -> list[ast.stmt]:
    return [statement for statement in body if not any(name in bindings for name in _bound_names(statement))]


def _bound_by_header(statement: ast.Try | ast.TryStar | ast.If | ast.With) -> set[str]:
    """Return the names bound by a condition, by `with … as` and by `except … as`."""
    blocks = {id(inner) for block in _blocks(statement) for inner in block}
    inside = [child for child in ast.iter_child_nodes(statement) if id(child) not in blocks]
    names = {handler.name for handler in getattr(statement, "handlers", []) if handler.name}
    return names | _stored(child for child in inside if not isinstance(child, ast.ExceptHandler))


def _bound_inside(node: ast.AST) -> set[str]:
    """Return the names bound by any statement inside, as far as they are of the module."""
    found = _stored([node])
    for part in ast.walk(node):
        if isinstance(part, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found |= _bound_names(part)
    return found


def _is_one_meaning(name: str, statements: list[ast.stmt]) -> bool:
    """Return whether several statements bind the name to the same.

    One import repeated, or `f = triton.jit(f)` after `f`.
    """
    first, *others = statements
    if isinstance(first, ast.FunctionDef):
        return len(others) == 1 and jitted_name(getattr(others[0], "value", None)) == name
    meanings = {_import_of(name, statement) for statement in statements}
    return len(meanings) == 1 and None not in meanings


def _import_of(name: str, statement: ast.stmt) -> tuple[str | None, str, int] | None:
    """Return what an import statement binds the name to; None where it is no import."""
    if isinstance(statement, ast.Import):
        # `import a.b` binds a, as `import a` does
        for alias in statement.names:
            if (alias.asname or alias.name.partition(".")[0]) == name:
                return None, alias.name if alias.asname else alias.name.partition(".")[0], 0
    elif isinstance(statement, ast.ImportFrom):
        for alias in statement.names:
            if (alias.asname or alias.name) == name:
                return statement.module, alias.name, statement.level
    return None


def jitted_name(value: ast.expr | None) -> str | None:
    """Return the name inside `triton.jit(name)`, `autotune(...)(triton.jit(name))` and the like."""
    while isinstance(value, ast.Call) and len(value.args) == 1:
        callee = value.func.func if isinstance(value.func, ast.Call) else value.func
        if (dotted(callee) or [""])[-1] not in ("jit", "autotune", "heuristics"):
            return None
        value = value.args[0]
        if isinstance(value, ast.Name):
            return value.id
    return None


def _bound_names(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names if alias.name != "*"}
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        body = {id(inner) for inner in statement.body}
        header = [child for child in ast.iter_child_nodes(statement) if id(child) not in body]
        return {statement.name} | _stored(header)
    return _stored([statement])
