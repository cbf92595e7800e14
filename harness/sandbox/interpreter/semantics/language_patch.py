"""What Triton's interpreter finds out again and again, and what does not change once the process is set up.

It patches its language anew for every call of a jit function, and looks through all members of five name spaces each
time: for a hundred programs with three reductions each 400 times, a fifth of a run and more. Which of them are
built-ins is listed once; the patching itself stays Triton's. And for each operation it makes a table of all types to
look one up.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def install() -> None:
    """Remember the names of built-ins, and NumPy's types, for the rest of this process; after what changes either."""
    import triton.language as tl
    from triton.runtime import interpreter

    original = interpreter._patch_builtin
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
                interpreter._patch_attr(space, name, member, *rest)

    interpreter._patch_builtin = patch
    interpreter._get_np_dtype = remember_types(interpreter._get_np_dtype)


def remember_types(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same, with what was found for an element's type; types are equal if their names are."""
    import triton.language as tl

    known: dict[str, Any] = {}

    def get_np_dtype(tt_dtype: Any) -> Any:
        element = tt_dtype.element_ty if isinstance(tt_dtype, tl.block_type) else tt_dtype
        if isinstance(element, tl.pointer_type):
            return original(element)
        if element.name not in known:
            known[element.name] = original(element)
        return known[element.name]

    return get_np_dtype
