"""A candidate's kernels as functions for Triton's interpreter, made from its source without running its host code.

`kernel_source` says what may be taken from a source. Here it is bound to what it may use: a name space of its own with
the few built-ins of the kernel language, `triton.language` (no module below it that is not the kernel language, so no
way to `inspect` or `builtins`), `math`, and constants. `torch` stands for its dtypes and their limits alone: there is
no tensor arithmetic within reach.

Triton's interpreter rewrites a kernel's text before it runs it (it takes the text from the last line that begins with
"def ", also inside a string). Here the tree that was checked is the tree that is rewritten.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import importlib
import math
from collections.abc import Iterable
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import triton
import triton.language as tl
from triton.runtime import interpreter

from ....core.text.parsing import KERNEL_PRIVATES
from ..candidate_module import MODULE_NAME
from ..kernel_source import (
    BUILTINS,
    UNREACHABLE,
    Function,
    KernelSource,
    NotKernelLanguage,
    check_expression,
    check_function,
    copy_tree,
    dotted,
    free_names,
    jitted_name,
    refuse,
    refuse_to_raise,
    stored_names,
    without_raises,
)
from .semantics.scalars import fold, loop_range

_LANGUAGE = " tl"  # a space, so that no source can name it
_COMPILED = {"range": loop_range, "max": partial(fold, max, "maximum"), "min": partial(fold, min, "minimum")}
"""What these built-ins are in a kernel; constants are computed by Python's own."""
_TYPES = (tl.tensor, tl.dtype, tl.pointer_type, tl.block_type, tl.core.tensor_descriptor_base, tl.constexpr)
_FIELDS = (
    *("ALL", "NONE"),  # of tl.PropagateNan
    *("address_space", "bits", "block_shape", "dtype", "element_ty", "eps", "exponent_bias", "fp_mantissa_width"),
    *("int_bitwidth", "int_signedness", "itemsize", "load", "max", "min", "name", "numel", "primitive_bitwidth"),
    *("rank", "resolution", "scalar", "shape", "smallest_normal", "strides", "tiny", "type", "value"),
    *("endswith", "lower", "startswith", "upper"),
)
ATTRIBUTES = frozenset(_FIELDS) | {
    name
    for kind in _TYPES
    for name in dir(kind)
    if not name.startswith("_") and name not in ("to_ir", "mangle", "cache_key_part", "codegen_name")
}
"""What kernels may ask of a value: the methods of Triton's values and the fields that these hold for their users."""
_TORCH = SimpleNamespace(
    **{name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)},
    finfo=torch.finfo,
    iinfo=torch.iinfo,
    **{name: getattr(math, name) for name in ("e", "inf", "nan", "pi")},
)
_OFFERED = {module: frozenset(vars(module)) for module in (tl.standard, tl.random)}
"""What these have without what the interpreter puts beside the functions that it rewrites."""
_FROM_TRITON = ("cdiv", "next_power_of_2", "language")


class KernelModule:
    """Makes the kernels of one source, each when it is first asked for."""

    def __init__(self, source: str) -> None:
        self._source = KernelSource(source)
        self._found: dict[tuple[str, str], Function | None] = {}
        self._functions: dict[tuple[int, frozenset[str]], Any] = {}
        self._modules: dict[str, Any] = {}
        self._calls: dict[str, ast.expr] = {}
        reachable = {name: getattr(builtins, name) for name in BUILTINS}
        self._names: dict[str, Any] = {"__name__": MODULE_NAME, "__builtins__": reachable, _LANGUAGE: tl}
        self._names[UNREACHABLE] = refuse_to_raise
        self._names.update({f" {name}": function for name, function in _COMPILED.items()})
        self._pending: set[str] = set()

    def kernel(self, qualname: str, source_sha256: str, constants: Iterable[str] = ()) -> Any:
        """Return the function with this name and text, for the interpreter; None where the source has none.

        `constants` are the parameters that are compiled in for this launch, beside those that are annotated.
        """
        named = (qualname, source_sha256)
        if named not in self._found:
            self._found[named] = self._source.find(qualname, source_sha256)
        function = self._found[named]
        return None if function is None else self._make(function, qualname, frozenset(constants))

    def function(self, qualname: str) -> Any:
        """Return the function that a launch passes as an argument; None where the source has none."""
        function = self._source.last(qualname)
        return None if function is None else self._make(function, qualname)

    def _make(self, function: Function, qualname: str, constants: frozenset[str] = frozenset()) -> Any:
        key = (id(function), constants)
        made = self._functions.get(key)
        if made is None:
            function = without_raises(function)
            check_function(function)
            self._bind_all(function)
            made = self._functions[key] = self._define(function, qualname, constants)
        return made

    def _define(self, plain: Function, qualname: str, constants: frozenset[str]) -> Any:
        """Return a function of the interpreter's, made of a tree that nobody else has."""
        is_constexpr = any((dotted(d) or [""])[-1] == "constexpr_function" for d in plain.decorator_list)
        plain.decorator_list, plain.returns = [], None
        for parameter in ast.walk(plain.args):
            if isinstance(parameter, ast.arg):
                annotated = parameter.annotation is not None and self._is_constexpr(parameter.annotation)
                constexpr = annotated or parameter.arg in constants
                # all that the interpreter asks of an annotation
                parameter.annotation = ast.Constant(value="constexpr") if constexpr else None
        own = stored_names(plain)
        if is_constexpr:
            plain = _Calls(self._calls, own).visit(plain)
            return _on_plain_values(self._execute(ast.fix_missing_locations(plain), qualname))
        compiled: dict[str, ast.expr] = {
            name: ast.Name(id=f" {name}", ctx=ast.Load()) for name in _COMPILED if name not in self._names
        }
        plain = _Calls(compiled | self._calls, own).visit(plain)
        known = _identifiers(plain)
        rewritten = interpreter.FunctionRewriter.ast_transformer.visit(plain)
        for name in _identifiers(rewritten) - known:
            if name.startswith(" "):  # a variable of the function
                continue
            for node in ast.walk(rewritten):
                if isinstance(node, ast.Name) and node.id == name:
                    node.id = f" {name}"
            self._names[f" {name}"] = getattr(interpreter, name)
        # a reduction calls what is not rewritten, so there is nothing else
        function = self._execute(ast.fix_missing_locations(rewritten), qualname)
        made = interpreter.InterpretedFunction(function)
        made.rewritten_fn[function] = function
        return made

    def _is_constexpr(self, annotation: ast.expr) -> bool:
        if "constexpr" in ast.unparse(annotation):
            return True
        if not isinstance(annotation, ast.Name):
            return False
        with contextlib.suppress(NotKernelLanguage):  # what kernels may not use may still annotate
            self._bind(annotation.id)
        chain = dotted(self._calls.get(annotation.id, annotation))
        return chain is not None and chain[-1] == "constexpr"

    def _execute(self, definition: ast.FunctionDef, qualname: str) -> Any:
        space: dict[str, Any] = {}
        module = ast.Module(body=[definition], type_ignores=[])
        exec(compile(module, f"{MODULE_NAME}.py", "exec", dont_inherit=True), self._names, space)
        function = space[definition.name]
        function.__qualname__ = qualname
        return function

    def _bind_all(self, node: ast.AST) -> None:
        for name in sorted(free_names(node)):
            self._bind(name)
        self._check_attributes(node, stored_names(node))

    def _bind(self, name: str) -> None:
        if name in self._names or name in self._modules or name in self._calls or name in self._pending:
            return
        statements = self._source.binding(name)
        if statements and any(line > statements[0].lineno for _, line in self._stars_with(name)):
            raise NotKernelLanguage(f"kernels use {name}, which an import * may bind anew")
        if not statements:
            self._bind_unbound(name)
        self._pending.add(name)
        try:
            for statement in statements:
                self._bind_by(name, statement)
        finally:
            self._pending.discard(name)

    def _bind_unbound(self, name: str) -> None:
        """Bind a name from `import *`; a built-in, or one that raises NameError when read, needs nothing."""
        modules = self._stars_with(name)
        if any(module != "triton.language" for module, _ in modules):
            raise NotKernelLanguage(f"kernels use {name}, which may come from import * of {modules[0][0]}")
        if name not in BUILTINS and not modules and hasattr(builtins, name):
            raise NotKernelLanguage(f"the built-in {name} is not part of the kernel language")
        if modules:
            self._calls[name] = _chain(_LANGUAGE, [name])

    def _stars_with(self, name: str) -> list[tuple[str, int]]:
        """Return the modules that bind the name by `import *`, and the lines where they do."""
        found = []
        for statement in self._source.star_imports:
            module = statement.module or ""
            if not _is_known(module) or name in dir(importlib.import_module(module)):
                found.append((module, statement.lineno))
        return found

    def _bind_by(self, name: str, statement: ast.stmt) -> None:
        match statement:
            case ast.Import():
                self._import(name, statement)
            case ast.ImportFrom():
                self._import_from(name, statement)
            case ast.FunctionDef() if statement.name == name:
                self._names[name] = None  # a function may refer to itself
                self._names[name] = self._make(statement, name)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign() if statement.value is not None:
                self._assign(name, statement)
            case _:
                raise NotKernelLanguage(f"kernels use {name}, which is neither a function under jit nor a constant")

    def _assign(self, name: str, statement: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        assert statement.value is not None
        function = jitted_name(statement.value)
        if function is not None and self._source.binding(function):
            self._bind(function)
            self._names[name] = self._names[function]
            return
        chain = dotted(statement.value)
        if chain is not None:
            self._bind(chain[0])
            if chain[0] in self._modules:
                self._set(name, self._resolve(statement.value, chain), self._path(chain))
                return
        check_expression(statement.value)
        self._bind_all(statement.value)
        plain = copy_tree(statement)
        if isinstance(plain, ast.AnnAssign):
            assert plain.value is not None
            plain = ast.Assign(targets=[plain.target], value=plain.value)
        for target in plain.targets if isinstance(plain, ast.Assign) else [plain.target]:
            if any(isinstance(part, (ast.Attribute, ast.Subscript, ast.Starred)) for part in ast.walk(target)):
                raise refuse(statement, "an assignment into an object")
        plain = ast.fix_missing_locations(_Calls(self._calls, set()).visit(plain))
        module = ast.Module(body=[plain], type_ignores=[])
        exec(compile(ast.fix_missing_locations(module), f"{MODULE_NAME}.py", "exec", dont_inherit=True), self._names)

    def _import(self, name: str, statement: ast.Import) -> None:
        for alias in statement.names:
            if (alias.asname or alias.name.partition(".")[0]) == name:
                module = alias.name if alias.asname else alias.name.partition(".")[0]
                if module == "torch":
                    self._names[name] = self._modules[name] = _TORCH
                    return
                if not _is_known(module):
                    raise NotKernelLanguage(f"kernels use {name}, which is the module {module}")
                self._names[name] = self._modules[name] = importlib.import_module(module)

    def _import_from(self, name: str, statement: ast.ImportFrom) -> None:
        for alias in statement.names:
            if (alias.asname or alias.name) != name:
                continue
            module = statement.module or ""
            if not _is_known(module) or statement.level:
                raise NotKernelLanguage(f"kernels use {name}, which is imported from {module}")
            if module != "torch" and not hasattr(importlib.import_module(module), alias.name):
                with contextlib.suppress(ImportError):  # a module of the package, not imported yet
                    importlib.import_module(f"{module}.{alias.name}")
            root, *parts = *module.split("."), alias.name
            value = self._walk(statement, {"torch": _TORCH, "triton": triton, "math": math}[root], parts)
            self._set(name, value, [root, *parts])

    def _set(self, name: str, value: Any, path: list[str]) -> None:
        if isinstance(value, (ModuleType, SimpleNamespace)):
            self._names[name] = self._modules[name] = value
        elif path[:2] == ["triton", "language"] and callable(value):
            # the interpreter replaces the functions where they live, so they are looked up there at each call
            self._calls[name] = _chain(_LANGUAGE, path[2:])
        else:
            self._names[name] = value

    def _path(self, chain: list[str]) -> list[str]:
        root = self._modules[chain[0]]
        base = "torch" if root is _TORCH else root.__name__
        return [*base.split("."), *chain[1:]]

    def _resolve(self, node: ast.AST, chain: list[str]) -> Any:
        return self._walk(node, self._modules[chain[0]], chain[1:])

    def _walk(self, node: ast.AST, value: Any, parts: list[str]) -> Any:
        """Return the object at the end of a dotted path, no step of which leaves the kernel language."""
        for part in parts:
            if part.startswith("_") and part not in KERNEL_PRIVATES:
                raise refuse(node, part)
            if value is triton and part not in _FROM_TRITON:
                raise refuse(node, f"triton.{part}")
            if value is tl and part == "target_info":  # differs from the compiler's
                raise refuse(node, f"triton.language.{part}")
            if isinstance(value, ModuleType) and part not in _OFFERED.get(value, (part,)):
                raise refuse(node, part)
            if not isinstance(value, (ModuleType, SimpleNamespace)) and part not in ATTRIBUTES:
                raise refuse(node, part)
            is_module = isinstance(value, ModuleType)
            if value is _TORCH and not hasattr(value, part):
                raise refuse(node, f"torch.{part}")
            value = getattr(value, part, None)
            if value is tl.core:  # for `tl.core.reshape`: the interpreter replaces functions of a kernel's modules
                self._names[" core"] = value
            if isinstance(value, ModuleType):
                if not _is_language(value.__name__):
                    raise refuse(node, f"the module {value.__name__}")
            elif is_module and not _is_of_language(value):
                raise refuse(node, part)
        return value

    def _check_attributes(self, node: ast.AST, own: set[str]) -> None:
        chain = dotted(node)
        if chain is not None and chain[0] in self._modules:
            if chain[0] in own:
                raise refuse(node, f"{chain[0]} as the name of a variable")
            value = self._resolve(node, chain)
            if isinstance(value, (ModuleType, SimpleNamespace)):
                raise refuse(node, f"the module {'.'.join(chain)} as a value")
            return
        if isinstance(node, ast.Attribute) and node.attr not in ATTRIBUTES:
            raise refuse(node, f"attribute {node.attr}")
        skipped = [node.annotation] if isinstance(node, (ast.arg, ast.AnnAssign)) else []
        if isinstance(node, ast.FunctionDef):
            skipped = [*node.decorator_list, node.returns]
        for child in ast.iter_child_nodes(node):
            if child not in skipped:
                self._check_attributes(child, own)


class _Calls(ast.NodeTransformer):
    """Puts `triton.language.f` where a source says `f` after `from triton.language import f`."""

    def __init__(self, calls: dict[str, ast.expr], own: set[str]) -> None:
        self._calls = {name: chain for name, chain in calls.items() if name not in own}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return the chain that the name is short for, or the name."""
        return copy_tree(self._calls[node.id]) if node.id in self._calls else node


def _chain(root: str, parts: list[str]) -> ast.expr:
    node: ast.expr = ast.Name(id=root, ctx=ast.Load())
    for part in parts:
        node = ast.Attribute(value=node, attr=part, ctx=ast.Load())
    return node


def _identifiers(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _on_plain_values(function: Any) -> Any:
    @functools.wraps(function)
    def call(*values: Any) -> Any:
        return function(*(value.value if isinstance(value, tl.constexpr) else value for value in values))

    return call


def _is_language(module: str) -> bool:
    return module == "triton.language" or module.startswith("triton.language.")


def _is_known(module: str) -> bool:
    return _is_language(module) or module in ("triton", "math", "torch")


def _is_of_language(value: Any) -> bool:
    """Return whether a module of the kernel language offers this itself, and did not merely import it."""
    kinds = (bool, int, float, str, tl.constexpr, tl.dtype, interpreter.InterpretedFunction)
    known = (triton.cdiv, triton.next_power_of_2, tl.PropagateNan)
    if isinstance(value, kinds) or any(value is one for one in known):
        return True
    home = getattr(value, "__module__", None) or ""
    return _is_language(home) or home == "math"
