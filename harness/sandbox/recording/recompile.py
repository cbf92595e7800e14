"""Compiling plans' kernels from the source's text alone, in a child where no host code runs.

The recording child compiled them too, but beside the candidate's host code, which can change what a compiler sees: a
constant's value, a function of the kernel language, the compiler itself. What Triton makes of the text is the same
here, bit for bit, because line numbers and file names are left out of it. The text is cut as the interpreter's
is (`kernel_source`): the kernels, what they refer to, no statement with an effect.

Triton calls a helper's code by its name and its arguments' types and constants, joined by underscores, and takes what
has that name already. Two that come to the same name are one to it, though not to the interpreter: such a text is
refused.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from triton.compiler.errors import CompilationError

from ....core.candidate import Failure
from ....core.outcome import Outcome
from ....core.plan import Argument, ArgumentKind, Kernel, Launch, plain_value
from ..candidate_module import import_candidate, message_of
from ..kernel_source import (
    KernelSource,
    NotKernelLanguage,
    check_expression,
    check_function,
    copy_tree,
    dotted,
    free_names,
    without_raises,
)
from ..wire import Recompiled, RecompileRequest
from .assembler import GPU_IR
from .launches import Pointer, describe_kernel, find_compile_failure, for_any_number

_JIT = "_triton_of_the_cut"
HOST_KEYWORDS = frozenset({"launch_metadata", "repr"})
"""Arguments of `triton.jit` that are host functions. Recording calls neither: the one is a profiler's, and with the
other a kernel would be compiled under a name that its text does not have."""


def recompile(
    source: str,
    requests: Sequence[RecompileRequest],
    scratch: str,
    compile_kernel: Callable[..., Any],
    extension: str,
) -> tuple[list[Recompiled], list[bytes]]:
    """Return what compilation found of each plan's launches, and the codes."""
    codes: dict[bytes, None] = {}
    made: list[Recompiled] = []
    try:
        refuse_equal_symbols()
        text = KernelSource(source)
    except Exception as error:
        return [Recompiled(failure=_refuse(error)) for _ in requests], []
    for request in requests:
        try:
            found = [_compile(text, request, launch, scratch, compile_kernel) for launch in request.plan.launches]
            kernels = tuple(describe_kernel(one, kernel, identity, extension) for one, kernel, identity in found)
        except _CompilerError as error:
            made.append(Recompiled(failure=error.failure))
        except Exception as error:
            made.append(Recompiled(failure=_refuse(error)))
        else:
            codes |= dict.fromkeys(one.asm[extension] for one, _, _ in found)
            made.append(
                Recompiled(kernels=kernels, gpu_ir=tuple(getattr(one.metadata, GPU_IR, "") for one, _, _ in found))
            )
    return made, list(codes)


class _CompilerError(Exception):
    """Triton's compiler has failed after its front end."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def _refuse(error: BaseException) -> Failure:
    return Failure(Outcome.UNSUPPORTED, f"compiled from its text alone: {message_of(error)}")


def refuse_equal_symbols() -> None:
    """From now on, compiling raises NotKernelLanguage where two different helpers get one name; for this process."""
    from triton.compiler import code_generator

    mangle = code_generator.mangle_fn
    known: dict[str, tuple[Any, ...]] = {}

    def mangle_once(name: str, types: list[Any], *others: Any) -> str:
        symbol: str = mangle(name, types, *others)
        # Triton 3.7 has constants among the types, 3.6 after them by place; the caller's context comes last
        constants = [constant for places in others[:-1] for constant in places.items()]
        meaning = (name, [_comparable(each) for each in types], [(at, _comparable(each)) for at, each in constants])
        if known.setdefault(symbol, meaning) != meaning:
            raise NotKernelLanguage(f"a helper is compiled under the name of another one, {symbol}")
        return symbol

    code_generator.mangle_fn = mangle_once


def _comparable(argument: Any) -> Any:
    """Return a type or constant as something equal to itself, which NaN is not, and to no constant of another type."""
    value = getattr(argument, "value", argument)
    return ("float", repr(value)) if isinstance(value, float) else argument


def _compile(
    source: KernelSource, request: RecompileRequest, launch: Launch, scratch: str, compile_kernel: Callable[..., Any]
) -> tuple[Any, Any, Kernel]:
    """Return what Triton has made of a launch, of which function, and the kernel's identity."""
    record = request.plan.kernels[launch.kernel]
    function = source.find(record.qualname, record.source_sha256)
    if function is None:
        raise NotKernelLanguage(f"kernel {record.qualname} is not found again in the source")
    passed = [argument for argument in launch.arguments if argument.kind is ArgumentKind.FUNCTION]
    cut = Cut(source)
    cut.add_function(function)
    for argument in passed:
        cut.add_passed(argument.text or "")
    module = import_candidate(cut.text(), scratch)
    kernel = getattr(module, function.name)
    arguments = {argument.name: _value(argument, module) for argument in launch.arguments}
    if not request.is_specialised:
        parameters = {parameter.name: parameter for parameter in kernel.params}
        arguments = {name: for_any_number(parameters.get(name), value) for name, value in arguments.items()}
    try:
        made = compile_kernel(kernel, grid=(1,), warmup=True, **arguments, **dict(record.options))
    except (NotKernelLanguage, CompilationError):
        raise  # of the text, which the recording child has compiled
    except Exception as error:
        raise _CompilerError(find_compile_failure(error)) from error
    identity = Kernel(qualname=record.qualname, source_sha256=record.source_sha256, options=record.options)
    return made, kernel, identity


def _value(argument: Argument, module: Any) -> Any:
    import triton.language as tl

    match argument.kind:
        case ArgumentKind.VIEW:
            assert argument.view is not None
            view = argument.view
            dtype = getattr(torch, view.dtype)
            return Pointer(dtype=dtype, shape=torch.Size(view.shape), offset_bytes=view.offset * dtype.itemsize)
        case ArgumentKind.DTYPE:
            return getattr(tl, argument.text or "")
        case ArgumentKind.FUNCTION:
            home, _, name = (argument.text or "").rpartition(":")
            return getattr(importlib.import_module(home) if home else module, name.rpartition(".")[2])
    return plain_value(argument)


class Cut:
    """Cuts out the part of a source that some of its kernels need, as a module's text."""

    def __init__(self, source: KernelSource) -> None:
        self._source = source
        self._statements: dict[int, ast.stmt] = {id(statement): statement for statement in source.star_imports}
        self._kept: list[tuple[int, ast.stmt]] = [(s.lineno, s) for s in source.star_imports]

    def add_function(self, function: ast.FunctionDef) -> None:
        """Add a function under jit, with what it refers to."""
        if id(function) in self._statements:
            return
        self._statements[id(function)] = function
        check_function(without_raises(function))
        plain = copy_tree(function)
        for part in ast.walk(plain):
            if isinstance(part, ast.Raise):  # in a branch that is not compiled: its operand is host code
                part.exc = part.cause = None
        plain.decorator_list = [_without_host_functions(d) for d in plain.decorator_list if _is_jit(d)]
        if not plain.decorator_list:
            plain.decorator_list = [ast.parse(f"{_JIT}.jit", mode="eval").body]
        self._kept.append((function.lineno, plain))
        outside: list[ast.AST] = [*plain.decorator_list]
        outside += [a.annotation for a in ast.walk(plain) if isinstance(a, ast.arg) and a.annotation is not None]
        for name in sorted(free_names(plain).union(*map(free_names, outside))):
            self._add_name(name)

    def add_passed(self, name: str) -> None:
        """Add a function that a launch passes as an argument; one of the kernel language needs no text."""
        if ":" in name:
            return
        function = self._source.last(name)
        if function is None:
            raise NotKernelLanguage(f"function {name} is not found again in the source")
        self.add_function(function)

    def _add_name(self, name: str) -> None:
        for statement in self._source.binding(name):
            if id(statement) in self._statements:
                continue
            match statement:
                case ast.FunctionDef():
                    self.add_function(statement)
                case ast.Import() | ast.ImportFrom():
                    self._keep(statement)
                case ast.Assign() | ast.AnnAssign() | ast.AugAssign() if statement.value is not None:
                    self._add_constant(name, statement)
                case _:
                    raise NotKernelLanguage(f"kernels use {name}, which is neither a function under jit nor a constant")

    def _add_constant(self, name: str, statement: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        assert statement.value is not None
        value = statement.value
        while isinstance(value, ast.Call) and len(value.args) == 1 and _is_jit(value.func):
            value = value.args[0]  # kernel = triton.jit(function)
        if value is not statement.value:
            self._keep(statement)
            self._add_all(statement.value)
            return
        check_expression(value)
        for inner in sorted(free_names(value)):
            if any(isinstance(s, ast.FunctionDef) for s in self._source.binding(inner)) and inner != name:
                raise NotKernelLanguage(f"the constant {name} is computed by a function")
        self._keep(statement)
        self._add_all(value)

    def _add_all(self, node: ast.AST) -> None:
        for name in sorted(free_names(node)):
            self._add_name(name)

    def _keep(self, statement: ast.stmt) -> None:
        self._statements[id(statement)] = statement
        self._kept.append((statement.lineno, statement))

    def text(self) -> str:
        """Return the statements in the source's order."""
        body = [statement for _, statement in sorted(self._kept, key=lambda pair: pair[0])]
        return "\n".join([f"import triton as {_JIT}", *map(ast.unparse, map(ast.fix_missing_locations, body))]) + "\n"


def _is_jit(decorator: ast.expr) -> bool:
    chain = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
    return chain is not None and chain[-1] in ("jit", "constexpr_function")


def _without_host_functions(decorator: ast.expr) -> ast.expr:
    """Drop from `jit` what only names a kernel or describes its launches: host code, which changes no code."""
    if isinstance(decorator, ast.Call):
        decorator.keywords = [keyword for keyword in decorator.keywords if keyword.arg not in HOST_KEYWORDS]
    return decorator
