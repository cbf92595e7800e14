"""When two programs are the same but for the names they chose, so that what is known of one holds for the other.

A policy writes the same kernel again and again under other names. Two programs are twins where one becomes the other by
giving each of its identifiers another one, each its own: Python then does with the second what it does with the first.
That is so as long as nothing but the program itself knows an identifier, and the program cannot ask what it is. So
these keep their names: whatever is also an attribute, a keyword of a call, a word in a string, a builtin, imported, a
parameter of a method or bound in a class (a module's parameters and `forward` are known from outside). And a program
that could ask has no twins: one with other imports than PyTorch's and Triton's, that catches exceptions (which say
names), with builtins that look at objects, with special methods and attributes, with a function that is used for
anything but to be called or launched, or that uses what a launch returns. Nor has one whose names mean something to a
compiler: with two underscores in them, with which Triton joins a helper's name and its arguments' types, or with
letters that Python reads as others. Comments and layout play no part. This is about what kernels compute: who relies on
it compares what host code does as well (`harness.verification.twins`), which has more ways to ask than are told here.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from .text.parsing import parse

_MODULES = ("torch", "triton", "math")
_KNOWN_OUTSIDE = frozenset({"Model", "ModelNew", "get_inputs", "get_init_inputs"})
_BUILTINS = frozenset(dir(builtins))
_TELLING = frozenset(
    {
        *("__import__", "ascii", "compile", "delattr", "dir", "eval", "exec", "format", "getattr", "globals"),
        *("hasattr", "hash", "help", "id", "locals", "open", "print", "repr", "setattr", "str", "type", "vars"),
    }
)
_OF_A_FUNCTION = frozenset(
    {"arg_names", "cache_key", "constexprs", "fn", "gi_code", "params", "parse", "raw_src", "signature", "src"}
)
"""What a function says about its own text."""
_WITH_OTHER_NAMES = (
    *(ast.AsyncFunctionDef, ast.ExceptHandler, ast.Global, ast.Nonlocal, ast.Match),
    *(node for name in ("TryStar", "TypeAlias", "TypeVar") if (node := getattr(ast, name, None)) is not None),
)
"""Nodes that bind identifiers in ways of their own, none of which a kernel needs."""


@lru_cache(maxsize=1024)
def form_of(source: str) -> str | None:
    """What twins have in common and no other program has; null for what may have no twins, or is no program."""
    try:
        tree = parse(source)
        nodes = tuple(ast.walk(tree))
        return None if _may_tell(nodes) else _describe(tree, nodes)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _may_tell(nodes: Sequence[ast.AST]) -> bool:
    """Whether the program could find out what its identifiers are."""
    functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    only_run = {id(node) for node in _run(nodes)}
    dropped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        match node:
            case ast.Import(names=names) if any(alias.name.split(".")[0] not in _MODULES for alias in names):
                return True
            case ast.ImportFrom(module=module, names=names, level=level):
                if level or (module or "").split(".")[0] not in (*_MODULES, "__future__"):
                    return True
                if any(alias.name == "*" for alias in names):
                    return True
            case ast.FunctionDef(name=name, decorator_list=decorators):
                if name.startswith("__") and name != "__init__":
                    return True
                # it is handed the function that it stands above
                if any(getattr(inner, "id", "") in functions for each in decorators for inner in ast.walk(each)):
                    return True
            case ast.Call(func=ast.Subscript()) if id(node) not in dropped:
                return True
            case ast.Attribute(attr=name) if (name.startswith("__") and name != "__init__") or name in _OF_A_FUNCTION:
                return True
            case ast.Name(id=name) if name in _TELLING or name.startswith("__"):
                return True
            case ast.Name(id=name, ctx=ast.Load()) if name in functions and id(node) not in only_run:
                return True
            case _ if isinstance(node, _WITH_OTHER_NAMES):
                return True
            case _ if getattr(node, "type_params", None):
                return True
    return False


def _run(nodes: Sequence[ast.AST]) -> Iterator[ast.expr]:
    """What is called, or launched."""
    for node in nodes:
        if isinstance(node, ast.Call):
            yield node.func.value if isinstance(node.func, ast.Subscript) else node.func


def _find_kept(nodes: Sequence[ast.AST]) -> set[str]:
    """The identifiers that something else than the program's own statements may know."""
    kept = set(_BUILTINS | _KNOWN_OUTSIDE)
    for node in nodes:
        match node:
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                kept |= {(alias.asname or alias.name).split(".")[0] for alias in names}
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                kept.add(name)
            case ast.Constant(value=str(text)):
                kept |= set(re.findall(r"\w+", text))
            case ast.ClassDef(name=name, body=body):
                kept.add(name)
                kept |= {inner for statement in body for inner in _bound_in_a_class(statement)}
            case ast.Lambda(args=given):
                kept |= {inner.arg for inner in ast.walk(given) if isinstance(inner, ast.arg)}
            case ast.arg(annotation=ast.expr() as said) | ast.AnnAssign(annotation=said):
                kept |= _names_in(said)
            case ast.FunctionDef(returns=ast.expr() as said):
                kept |= _names_in(said)
    return kept


def _names_in(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _bound_in_a_class(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef):
        yield statement.name
        yield from (node.arg for node in ast.walk(statement.args) if isinstance(node, ast.arg))
        # a default may bind a name as well
        yield from _names_in(statement.args)
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name


def _describe(tree: ast.Module, nodes: Sequence[ast.AST]) -> str | None:
    """The tree with its own identifiers numbered as they come; what it does not bind keeps its name as well.

    Null where one of them means something to a compiler.
    """
    kept = _find_kept(nodes)
    bound = {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    bound |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    numbers: dict[str, str] = {}

    def number(name: str) -> str:
        if name in kept or name.startswith("_") or name not in bound:
            return name
        # no identifier has a space in it
        return numbers.setdefault(name, f"name {len(numbers)}")

    for node in nodes:
        match node:
            case ast.Name():
                node.id = number(node.id)
            case ast.arg():
                node.arg = number(node.arg)
            case ast.FunctionDef():
                node.name = number(node.name)
    return None if any(map(_means_something, numbers)) else ast.dump(tree)


def _means_something(name: str) -> bool:
    return "__" in name or not name.isascii() or keyword.iskeyword(name) or keyword.issoftkeyword(name)
