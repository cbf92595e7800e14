"""Patches of Triton's interpreter as one table, in the order in which they are applied.

Where several patches replace one attribute, the later one wraps the earlier: accesses are checked and watched around
everything that reaches memory, and names of built-ins and types are remembered after all that changes either.
"""

from __future__ import annotations

from . import accesses, hints
from .semantics import (
    arithmetic,
    atomics,
    bfloat16,
    blocks,
    control_flow,
    gpu_error,
    language_patch,
    libdevice,
    reductions,
    rounding,
)
from .semantics.patches import Patch

SEMANTICS: tuple[Patch, ...] = (
    *bfloat16.PATCHES,
    *rounding.PATCHES,
    *arithmetic.PATCHES,
    *blocks.PATCHES,
    *atomics.PATCHES,
    *control_flow.PATCHES,
    *reductions.PATCHES,
    *libdevice.PATCHES,
    *gpu_error.PATCHES,
    *language_patch.INDEX_PATCHES,
)
"""Compute what a compiled kernel computes."""

WATCHING: tuple[Patch, ...] = (
    *atomics.ORDER_PATCHES,
    *hints.PATCHES,
    *accesses.PATCHES,
    *language_patch.SPEED_PATCHES,
)
"""Confine accesses to the plan's buffers, and let what kernels may not rely on show."""


def install(patches: tuple[Patch, ...]) -> None:
    """Apply patches for the rest of this process; each once."""
    for patch in patches:
        patch.apply()
