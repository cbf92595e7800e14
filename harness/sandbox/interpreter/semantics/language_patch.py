"""Triton's patching of its language: what it looks up again and again is remembered, and tensors may be indices.

It patches its language anew for every call of a jit function, and looks through all members of five name spaces each
time: for a hundred programs with three reductions each 400 times, a fifth of a run and more. Which of them are
built-ins is listed once; the patching itself stays Triton's. And for each operation it makes a table of all types to
look one up.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import triton.language as tl

from .patches import INTERPRETER, Patch


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


def _let_tensors_be_indices(original: Any) -> Any:
    """Let a loop's bound be a tensor: Triton 3.6 converts a 1-element array to int, which NumPy 2.4 refuses."""

    def patch(tensor: Any, *rest: Any) -> None:
        original(tensor, *rest)
        tensor.__index__ = lambda self: int(self.handle.data.item())

    return patch


INDEX_PATCHES = (Patch(INTERPRETER, "_patch_lang_tensor", _let_tensors_be_indices),)
SPEED_PATCHES = (
    Patch(INTERPRETER, "_patch_builtin", _remember_builtins),
    Patch(INTERPRETER, "_get_np_dtype", remember_types),
)
