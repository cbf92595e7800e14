"""Patches of Triton's interpreter: which of its attributes are replaced, and by what.

A patch makes a replacement of what it finds, so the order of patches matters where several replace one attribute.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any

import triton.language as tl
from attrs import frozen
from triton.runtime import interpreter

from .run_state import current_run

INTERPRETER: Any = interpreter
BUILDER: Any = interpreter.InterpreterBuilder

Make = Callable[[Any], Any]


@frozen
class Patch:
    """Replaces the attribute `name` of `owner` by what `make` makes of it, or of None where there is none."""

    owner: Any
    name: str
    make: Make

    def apply(self) -> None:
        """Replace the attribute in this process."""
        setattr(self.owner, self.name, self.make(getattr(self.owner, self.name, None)))


def replace(owner: Any, name: str, value: Any) -> Patch:
    """Return a patch that does not look at what it replaces."""
    return Patch(owner, name, lambda _: value)


def around(owner: Any, name: str, function: Any, **fixed: Any) -> Patch:
    """Return a patch by a function that is given what it replaces as `original`, and what is `fixed`, by keyword."""

    def make(original: Any) -> Any:
        made = FunctionType(function.__code__, function.__globals__, name, function.__defaults__, function.__closure__)
        made.__kwdefaults__ = {"original": original, **fixed}  # as quick as a closure
        return made

    return Patch(owner, name, make)


def replace_in_language(functions: Mapping[str, Make]) -> Patch:
    """Return a patch of functions of `triton.language`, which the interpreter itself replaces for every call."""

    def make(original: Any) -> Any:
        def patch_language(language: Any, scope: Any = None) -> None:
            original(*(value for value in (language, scope) if value is not None))
            put = setattr if scope is None else scope.set_attr
            for name, make_function in functions.items():
                put(language, name, make_function(getattr(language, name)))

        return patch_language

    return Patch(INTERPRETER, "_patch_lang_core", make)


@contextlib.contextmanager
def patched(patches: Iterable[Patch]) -> Iterator[None]:
    """Apply patches while the context lasts; those of attributes that this version of Triton has not are left out."""
    saved: list[tuple[Any, str, Any]] = []
    try:
        for patch in patches:
            if hasattr(patch.owner, patch.name):
                saved.append((patch.owner, patch.name, getattr(patch.owner, patch.name)))
                patch.apply()
        yield
    finally:
        for owner, name, value in reversed(saved):
            setattr(owner, name, value)


def _remember_builtins(original: Any) -> Any:
    spaces = (tl, tl.core, tl.tensor, tl.math, tl.core.tensor_descriptor_base)
    known = {
        id(space): tuple(name for name, member in inspect.getmembers(space) if tl.core.is_builtin(member))
        for space in spaces
    }

    def patch(space: Any, *rest: Any) -> None:
        names = known.get(id(space))
        if names is None:
            original(space, *rest)
            return
        for name in names:
            member = getattr(space, name)
            if tl.core.is_builtin(member):  # not where an outer call has patched it
                INTERPRETER._patch_attr(space, name, member, *rest)

    return patch


_scopes: dict[int, Any] = {}
"""What the launch that runs has patched, and restores in the end, by the identity of the functions' name space."""


def _begin_launch(original: Callable[..., None]) -> Callable[..., None]:
    def call(executor: Any, *args: Any, **kwargs: Any) -> None:  # named as the kernel's parameters are
        _scopes.clear()
        original(executor, *args, **kwargs)

    return call


def _patch_once(function: Any, *, original: Any) -> Any:
    """Patch the language once a launch; Triton does at each call of a function, and restores nothing."""
    space = id(function.__globals__)
    if space in _scopes:
        return None
    scope = original(function)
    if _scopes and scope is not None:  # before Triton 3.7 there is none
        next(iter(_scopes.values()))._changes.extend(scope._changes)
    _scopes[space] = scope
    return scope


def remember_types(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that looks an element's NumPy type up once; types are equal if their names are."""
    known: dict[str, Any] = {}

    def get_np_dtype(tt_dtype: Any) -> Any:
        element = tt_dtype.element_ty if isinstance(tt_dtype, tl.block_type) else tt_dtype
        if isinstance(element, tl.pointer_type):
            return original(element)
        if element.name not in known:
            known[element.name] = original(element)
        return known[element.name]

    return get_np_dtype


def _let_tensors_be_indices(tensor: Any, *rest: Any, original: Any) -> None:
    """Let a loop's bound be a tensor: Triton 3.6 converts a 1-element array to int, which NumPy 2.4 refuses."""
    original(tensor, *rest)
    tensor.__index__ = lambda self: int(self.handle.data.item())


WORK_OF_A_VALUE = 4096
"""The elements that are computed in the time which the interpreter takes to begin an operation."""


def _count_work(handle: Any, *, original: Any) -> None:
    """Count each value that the interpreter makes."""
    current_run().work += WORK_OF_A_VALUE + handle.data.size
    original(handle)


WORK_PATCHES = (around(interpreter.TensorHandle, "__post_init__", _count_work),)
INDEX_PATCHES = (around(INTERPRETER, "_patch_lang_tensor", _let_tensors_be_indices),)
SPEED_PATCHES = (
    Patch(INTERPRETER, "_patch_builtin", _remember_builtins),
    around(INTERPRETER, "_patch_lang", _patch_once),
    Patch(interpreter.GridExecutor, "__call__", _begin_launch),
    Patch(INTERPRETER, "_get_np_dtype", remember_types),
)
