"""Operations on blocks that the interpreter computes otherwise than compiled code, or not at all.

- `tl.maximum`, `tl.minimum` and `tl.clamp` skip NaN unless told otherwise.
- `tl.cat` and a reshape that may reorder do so: by a permutation drawn for each size.
- `tl.gather` has nothing outside of its block, and `tl.histogram` nothing outside of its bins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from ...kernel_source import NotKernelLanguage
from .patches import BUILDER, replace
from .poison import make_lanes
from .run_state import current_run


def _larger(self: Any, left: Any, right: Any) -> Any:
    return self.binary_op(left, right, np.fmax)


def _smaller(self: Any, left: Any, right: Any) -> Any:
    return self.binary_op(left, right, np.fmin)


def _clamp(self: Any, value: Any, low: Any, high: Any, propagates: Any) -> Any:
    if propagates == tl.PropagateNan.ALL:
        return self.ternary_op(value, low, high, np.clip)
    return self.binary_op(self.binary_op(value, low, np.fmax), high, np.fmin)


def _reordered(data: Any) -> Any:
    order = np.random.default_rng((current_run().seed, data.size)).permutation(data.size)
    return data.reshape(-1)[order].reshape(data.shape)


def _concatenate(self: Any, left: Any, right: Any) -> Any:
    return interpreter.TensorHandle(_reordered(np.concatenate([left.data, right.data])), left.dtype.scalar)


def _reshape(self: Any, value: Any, shape: Any, may_reorder: bool) -> Any:
    data = _reordered(value.data) if may_reorder else value.data
    return interpreter.TensorHandle(data.reshape(shape), value.dtype.scalar)


def _count(self: Any, values: Any, num_bins: int, mask: Any) -> Any:
    data = values.data.reshape(-1)
    chosen = data if mask is None else data[np.broadcast_to(mask.data, values.data.shape).reshape(-1)]
    if np.any((chosen < 0) | (chosen >= num_bins)):
        raise NotKernelLanguage("tl.histogram counts values that no bin is for; leave them out by mask=")
    return interpreter.TensorHandle(np.bincount(chosen, minlength=num_bins).astype(np.int32), tl.int32)


def _gather(self: Any, source: Any, indices: Any, axis: int) -> Any:
    """Gather, with poison for what lies outside of the block."""
    size = source.data.shape[axis]
    places = indices.data.astype(np.int64)
    outside = (places < 0) | (places >= size)
    found = np.take_along_axis(source.data, np.where(outside, 0, places), axis=axis)
    if outside.any():
        found = np.where(outside, make_lanes(source.dtype.scalar, found.shape), found)
    return interpreter.TensorHandle(found, source.dtype.scalar)


def _refusal(name: str) -> Any:
    def refuse(*_: Any) -> Any:
        raise NotKernelLanguage(f"the interpreter has no {name}")

    return refuse


PATCHES = (
    replace(BUILDER, "create_maxnumf", _larger),
    replace(BUILDER, "create_minnumf", _smaller),
    replace(BUILDER, "create_clampf", _clamp),
    replace(BUILDER, "create_cat", _concatenate),
    replace(BUILDER, "create_reshape", _reshape),
    replace(BUILDER, "create_histogram", _count),
    replace(BUILDER, "create_gather", _gather),
    replace(BUILDER, "create_inline_asm", _refusal("inline assembly")),
    replace(BUILDER, "create_dot_scaled", _refusal("tl.dot_scaled")),
)
