"""What the names of a source stand for: scopes as Python nests them, and the dotted paths of what is imported.

`import torch as t; run = t.compile` makes `run` stand for `torch.compile`. Followed are imports, assignments (also of
tuples and within expressions), default arguments, `getattr` with a literal name, attributes of `self` and of classes,
and both sides of a condition. A parameter or a loop variable of the same name hides an import, as it does when the
source runs. What travels through containers and calls is not followed: reading a text can be evaded, and the defence
does not rest on it.

Time and memory are bounded: a name stands for at most `_MAX_PATHS` paths of at most `_MAX_PARTS` parts, and reading
ends with `TooEntangled` after `MAX_STEPS` look-ups; genuine sources take some hundreds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_OWN_OBJECTS = ("self", "cls")
_MAX_PATHS = 8
_MAX_PARTS = 32
MAX_STEPS = 500_000
NO_PATHS: frozenset[str] = frozenset()


class TooEntangled(Exception):
    """It takes too many steps to tell what the names of a source stand for."""


class Scope:
    """A name space of the source: for each name bound in it, the paths that it may stand for."""

    __slots__ = ("bound", "hidden_from_inner", "num_bindings", "outer", "redirected", "texts")

    def __init__(self, outer: Scope | None, hidden_from_inner: bool = False) -> None:
        self.outer = outer
        self.hidden_from_inner = hidden_from_inner
        self.bound: dict[str, frozenset[str]] = {}
        self.redirected: dict[str, Scope] = {}  # names that are declared global here
        self.num_bindings: dict[str, int] = {}
        self.texts: dict[str, list[frozenset[str]]] = {}  # for each binding to literal texts, these

    def bind(self, name: str, paths: frozenset[str] = NO_PATHS) -> None:
        """Bind a name, beside what else it may stand for."""
        if name in self.redirected:
            return self.redirected[name].bind(name, paths)
        self.num_bindings[name] = self.num_bindings.get(name, 0) + 1
        return self.add(name, paths)

    def add(self, name: str, paths: frozenset[str]) -> None:
        """Let a bound name stand for more."""
        if name in self.redirected:
            return self.redirected[name].add(name, paths)
        known = self.bound.get(name)
        self.bound[name] = _few(known | paths) if known else paths
        return None

    def find(self, name: str) -> Scope | None:
        """The scope whose binding a use of the name sees from here, or None for a built-in."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bound and (scope is self or not scope.hidden_from_inner):
                return scope
            scope = scope.outer
        return None


class Names:
    """The source's nodes by kind, each with its scope, and what its names stand for."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope(None)
        self.defined: set[str] = set()
        """Names that a definition or an import binds at module level, whatever else happens."""
        self.attributes: list[tuple[ast.Attribute, Scope]] = []
        self.calls: list[tuple[ast.Call, Scope]] = []
        self.subscripts: list[ast.Subscript] = []
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self.functions: list[tuple[ast.FunctionDef, Scope]] = []
        self.uses: list[tuple[ast.Name, Scope]] = []
        self.comparisons: list[ast.Compare] = []
        self.loops: list[tuple[ast.expr, ast.expr, Scope]] = []
        """Targets of `for`, and what they run over."""
        self.assignments: list[tuple[ast.expr, ast.expr, Scope]] = []
        self.members: dict[str, frozenset[str]] = {}
        """Attributes that the source's own objects have, with the paths that they may stand for."""
        self.num_steps = 0
        """Look-ups so far."""
        self._walk(tree)
        self._define(tree)
        for _ in range(2):  # an alias may be used above the line that makes it
            for target, value, scope in self.assignments:
                self._assign(target, value, scope)
        self._note_texts()

    def resolve(self, node: ast.AST, scope: Scope) -> frozenset[str]:
        """The dotted paths that an expression may stand for; none for what does not lead back to an import.

        Raises TooEntangled.
        """
        attributes: list[str] = []
        while True:
            self.num_steps += 1
            if self.num_steps > MAX_STEPS or len(attributes) > _MAX_PARTS:
                raise TooEntangled
            if isinstance(node, ast.Attribute):
                attributes.append(node.attr)
                if isinstance(node.value, ast.Name) and node.value.id in _OWN_OBJECTS:
                    paths = self.members.get(node.attr, NO_PATHS)
                    attributes.pop()
                    break
                node = node.value
            elif isinstance(node, ast.Name):
                found = scope.find(node.id)
                paths = found.bound[node.id] if found is not None else NO_PATHS
                break
            elif isinstance(node, ast.NamedExpr):
                node = node.value
            elif (literal := literal_getattr(node)) is not None:
                attributes.append(literal[1])
                node = literal[0]
            elif isinstance(node, (ast.IfExp, ast.BoolOp)):
                choices = [node.body, node.orelse] if isinstance(node, ast.IfExp) else node.values
                paths = _few(frozenset().union(*(self.resolve(choice, scope) for choice in choices[:_MAX_PATHS])))
                break
            else:
                return NO_PATHS
        if not paths or not attributes:
            return paths
        rest = ".".join(reversed(attributes))
        return frozenset(_join(path, rest) for path in paths)

    def find_texts(self, node: ast.expr, scope: Scope) -> frozenset[str] | None:
        """The texts that an expression may be, or None: a literal, or a name that is bound to literals alone."""
        if isinstance(node, ast.Constant):
            return frozenset([node.value]) if isinstance(node.value, str) else None
        if not isinstance(node, ast.Name):
            return None
        found = scope.find(node.id)
        if found is None or len(found.texts.get(node.id, ())) != found.num_bindings.get(node.id):
            return None
        return frozenset().union(*found.texts[node.id])

    def _note_texts(self) -> None:
        """Note what names are bound to that stand for literal texts, by an assignment or by a loop over them."""
        rows: dict[tuple[Scope, str], ast.expr] = {}
        for target, value, scope in self.assignments:
            for place, given in _pairs(target, value):
                if not isinstance(place, ast.Name):
                    continue
                if isinstance(given, ast.Tuple) and scope.num_bindings.get(place.id) == 1:
                    rows[scope, place.id] = given
                elif (texts := _literal_texts([given])) is not None:
                    scope.texts.setdefault(place.id, []).append(texts)
        for target, iterated, scope in self.loops:
            if isinstance(iterated, ast.Subscript) and isinstance(iterated.slice, ast.Slice):
                iterated = iterated.value
            if isinstance(iterated, ast.Name) and (found := scope.find(iterated.id)) is not None:
                iterated = rows.get((found, iterated.id), iterated)
            if isinstance(target, ast.Name) and isinstance(iterated, (ast.Tuple, ast.List, ast.Set)):
                texts = _literal_texts(iterated.elts)
                if texts is not None:
                    scope.texts.setdefault(target.id, []).append(texts)

    def _walk(self, tree: ast.Module) -> None:
        pending: list[tuple[ast.AST, Scope]] = [(tree, self.module)]
        while pending:
            node, scope = pending.pop()
            if isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Load):
                    self.uses.append((node, scope))
                else:
                    scope.bind(node.id)
                    if scope.hidden_from_inner:
                        self.members.setdefault(node.id, NO_PATHS)
                continue
            if isinstance(node, ast.Constant):
                continue
            inner = self._enter(node, scope, pending)
            if inner is not None:
                continue
            for field in node._fields:
                value = getattr(node, field, None)
                if isinstance(value, list):
                    pending.extend((item, scope) for item in reversed(value) if isinstance(item, ast.AST))
                elif isinstance(value, ast.AST) and not isinstance(value, (ast.expr_context, ast.operator)):
                    pending.append((value, scope))

    def _enter(self, node: ast.AST, scope: Scope, pending: list[tuple[ast.AST, Scope]]) -> Scope | None:
        """Note what a node is and binds; where it opens a scope, queue its parts and return that scope."""
        if isinstance(node, ast.Attribute):
            self.attributes.append((node, scope))
            if not isinstance(node.ctx, ast.Load):
                self.members.setdefault(node.attr, NO_PATHS)
        elif isinstance(node, ast.Call):
            self.calls.append((node, scope))
        elif isinstance(node, ast.Subscript):
            self.subscripts.append(node)
        elif isinstance(node, ast.Compare):
            self.comparisons.append(node)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self.loops.append((node.target, node.iter, scope))
        elif isinstance(node, ast.Assign):
            self.assignments.extend((target, node.value, scope) for target in node.targets)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            self.assignments.append((node.target, node.value, scope))
        elif isinstance(node, ast.Global):
            scope.redirected.update(dict.fromkeys(node.names, self.module) if scope is not self.module else {})
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node, scope)
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            scope.bind(node.name)
        elif isinstance(node, _FUNCTIONS):
            return self._enter_function(node, scope, pending)
        elif isinstance(node, ast.ClassDef):
            scope.bind(node.name)
            inner = Scope(scope, hidden_from_inner=True)
            pending.extend((part, inner) for part in reversed(node.body))
            pending.extend((part, scope) for part in (*node.decorator_list, *node.bases))
            pending.extend((part, scope) for part in getattr(node, "type_params", ()))
            pending.extend((keyword.value, scope) for keyword in node.keywords)
            return inner
        elif isinstance(node, _COMPREHENSIONS):
            inner = Scope(scope)
            self.loops.extend((part.target, part.iter, inner) for part in node.generators)
            pending.extend((part, inner) for part in ast.iter_child_nodes(node))
            return inner
        return None

    def _enter_function(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        scope: Scope,
        pending: list[tuple[ast.AST, Scope]],
    ) -> Scope:
        inner = Scope(scope)
        given = node.args
        parameters = [*given.posonlyargs, *given.args]
        for parameter in (*parameters, *given.kwonlyargs, given.vararg, given.kwarg):
            if parameter is not None:
                inner.bind(parameter.arg)
                inner.num_bindings[parameter.arg] += 1  # callers may give anything
                if parameter.annotation is not None:
                    pending.append((parameter.annotation, scope))
        optional = [*zip(reversed(parameters), reversed(given.defaults), strict=False)]
        optional += [(p, d) for p, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is not None]
        for parameter, default in optional:
            self.assignments.append((ast.Name(id=parameter.arg, ctx=ast.Store()), default, inner))
            pending.append((default, scope))
        if isinstance(node, ast.Lambda):
            pending.append((node.body, inner))
            return inner
        scope.bind(node.name)
        if scope.hidden_from_inner:
            self.members.setdefault(node.name, NO_PATHS)
        if isinstance(node, ast.FunctionDef):
            self.functions.append((node, scope))
        pending.extend((part, inner) for part in reversed(node.body))
        pending.extend((part, scope) for part in node.decorator_list)
        pending.extend((part, scope) for part in (node.returns, *getattr(node, "type_params", ())) if part is not None)
        return inner

    def _import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        self.imports.append(node)
        for alias in node.names:
            if isinstance(node, ast.Import):
                root = alias.name.partition(".")[0]
                scope.bind(alias.asname or root, frozenset([alias.name if alias.asname else root]))
            elif alias.name != "*":
                scope.bind(alias.asname or alias.name, frozenset([f"{'.' * node.level}{node.module}.{alias.name}"]))
            elif node.module == "triton":
                scope.bind("jit", frozenset(["triton.jit"]))

    def _define(self, tree: ast.Module) -> None:
        for statement in tree.body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self.defined.add(statement.name)
            elif isinstance(statement, (ast.Import, ast.ImportFrom)):
                self.defined.update(alias.asname or alias.name.partition(".")[0] for alias in statement.names)

    def _assign(self, target: ast.expr, value: ast.expr, scope: Scope) -> None:
        for place, given in _pairs(target, value):
            if isinstance(place, ast.Name):
                paths = self.resolve(given, scope.outer if place.id in _own(given) and scope.outer else scope)
                scope.add(place.id, paths)
                if scope.hidden_from_inner:
                    self.members[place.id] = _few(self.members.get(place.id, NO_PATHS) | paths)
            elif isinstance(place, ast.Attribute) and not self.resolve(place.value, scope):
                paths = self.resolve(given, scope)
                self.members[place.attr] = _few(self.members.get(place.attr, NO_PATHS) | paths)


def _literal_texts(values: Iterable[ast.expr]) -> frozenset[str] | None:
    texts = [value.value if isinstance(value, ast.Constant) else None for value in values]
    found = frozenset(text for text in texts if isinstance(text, str))
    return found if all(isinstance(text, str) for text in texts) else None


def _few(paths: frozenset[str]) -> frozenset[str]:
    return paths if len(paths) <= _MAX_PATHS else frozenset(sorted(paths)[:_MAX_PATHS])


def _join(path: str, rest: str) -> str:
    """Join two parts of a path, from the last `torch` or `triton` on: `torch.nn.functional.torch` is `torch` again."""
    parts = f"{path}.{rest}".split(".")
    for at in range(len(parts) - 1, 0, -1):
        if parts[at] in ("torch", "triton"):
            parts = parts[at:]
            break
    if len(parts) > _MAX_PARTS:
        raise TooEntangled
    return ".".join(parts)


def literal_getattr(node: ast.AST) -> tuple[ast.expr, str] | None:
    """The object and the name of `getattr(object, "name")`, else None."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "getattr"
        and len(node.args) >= 2
        and isinstance(node.args[1], ast.Constant)
        and isinstance(node.args[1].value, str)
    ):
        return node.args[0], node.args[1].value
    return None


def is_own_object(node: ast.AST) -> bool:
    """Whether an expression is the object that a method belongs to."""
    return isinstance(node, ast.Name) and node.id in _OWN_OBJECTS


def _own(value: ast.expr) -> Iterable[str]:
    """The name that an expression is, so that `t=t` in a parameter list means the outer one."""
    return (value.id,) if isinstance(value, ast.Name) else ()


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, (ast.Tuple, ast.List)):
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
            for place, given in zip(target.elts, value.elts, strict=True):
                yield from _pairs(place, given)
    else:
        yield target, value
