"""Triton's interpreter patches its language anew for every call of a jit function; here is what there is to patch.

It looks through all members of five name spaces each time: for a hundred programs with three reductions each 400 times,
a fifth of a run and more. Which of them are built-ins does not change once the process is set up, so they are listed
once; the patching itself stays Triton's.
"""

from __future__ import annotations

import inspect
from typing import Any


def install() -> None:
    """Remember the names of built-ins for the rest of this process; after whatever else changes the language."""
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
