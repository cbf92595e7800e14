"""Tensors' values as arrays, and a variant's values in the place and the order in memory that a task gives them.

Large inputs are drawn where they are used, on a GPU in a moment: the judge's oracle and an executor's process draw the
same values from the same seed, so that gigabytes need not travel. A program that cannot draw on the device draws on the
processor, in both.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from attrs import frozen
from numpy.typing import NDArray

from ...core.task import Profile, Task
from ...stages.tolerance import LARGEST_FINITE
from ...stages.transforms import is_mask, is_sorted
from ...stages.variant_inputs import VariantInputs
from ..errors import TaskError
from .reference import alone_with_generators, count_stored, draw_inputs, is_floating, load_task, torch_dtype

Structure = Literal["zeros", "symmetric", "two values"]
"""What all draws of an input have alike: zeros in the same places, symmetry, two values and no other.

A right kernel may skip the blocks of a triangular matrix, read a symmetric one by columns, or take targets of 0 and 1
for truth values. So a variant's values keep it.
"""


def is_in_range(wanted: NDArray[np.generic], dtype: str) -> bool:
    """Whether all values are finite, and well below what the dtype can hold."""
    largest = float(np.max(np.abs(wanted), initial=0.0)) if wanted.dtype.kind == "f" else 0.0
    return largest < 0.9 * LARGEST_FINITE.get(dtype, np.inf)


def transform(value: Any, spec: VariantInputs, dtype: torch.dtype) -> Any:
    """A drawn value as the variant has it, exact in the dtype."""
    if not isinstance(value, torch.Tensor):
        return value
    if not value.is_floating_point():
        return place_like(value, spec.transform_integers(value.contiguous().numpy()), value.dtype)
    if spec.keeps_values and value.is_contiguous() and count_stored(value) == value.numel():
        return value.to(dtype, copy=True)  # gigabytes would take seconds in float64
    values = value.double().contiguous().numpy()
    changed = spec.transform(values)
    return place_like(value, np.sort(changed) if is_sorted(values) else changed, dtype)


def is_symmetric(value: torch.Tensor) -> bool:
    """Whether each matrix is its own transpose."""
    return value.ndim > 1 and value.shape[-1] == value.shape[-2] > 1 and torch.equal(value, value.mT)


def restore(drawn: Sequence[Any], changed: Sequence[Any], structures: Mapping[int, Sequence[Structure]]) -> None:
    """Give changed inputs what those that were drawn have at their own sizes; in place, so that layouts stay."""
    for at, kinds in structures.items():
        before, after = drawn[at], changed[at]
        with contextlib.suppress(RuntimeError):  # several elements are one in memory
            if "two values" in kinds:
                after.copy_(before)
            if "zeros" in kinds:
                after.copy_(after.where(before != 0, 0.0))
            if "symmetric" in kinds and is_symmetric(before):
                after.copy_(after.tril() + after.tril(-1).mT)


def alike_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """What shapes share whose tensors can be made alike: all dimensions of one or none, the inner ones of others."""
    return (len(shape), *(shape[1:] if len(shape) > 1 else shape))


def make_alike(inputs: Sequence[Any], share: float) -> list[Any]:
    """Inputs of which each floating one is the first of its kind, moved by this share of it times its own values.

    Every second row is the first's own. Tensors that differ in their leading dimension alone are one kind: as many rows
    are alike as both have.
    """
    first: dict[tuple[int, ...], torch.Tensor] = {}
    found = []
    for value in inputs:
        if is_floating(value):
            like = first.setdefault(alike_shape(value.shape), value)
            if like is not value:
                moved = value.double().clone()
                both = slice(min(like.shape[0], value.shape[0])) if value.ndim else ...
                factors = 1.0 + share * torch.tanh(moved)
                if value.ndim:
                    factors[::2] = 1.0
                moved[both] = like.double()[both] * factors[both]
                value = place_like(value, moved.contiguous().numpy(), value.dtype)
        found.append(value)
    return found


def counterweigh(operands: Sequence[tuple[torch.Tensor, int]], power: int) -> None:
    """Multiply one half of the first tensor along its axis, divide the other half, and do the reverse to the second.

    This is done in place and by powers of two, so that what a product adds up stays as it is.
    """
    for (value, axis), sign in zip(operands, (1, -1), strict=True):
        half = value.shape[axis] // 2
        value.narrow(axis, 0, half).mul_(2.0 ** (sign * power))
        value.narrow(axis, half, value.shape[axis] - half).mul_(2.0 ** (-sign * power))


def cancel(operands: Sequence[tuple[torch.Tensor, int]], power: int, dtype: torch.dtype) -> None:
    """Make what a product adds over the second half cancel what it adds over the first, a power of two as large.

    This is done in place, exact in the dtype. What is left is of the size of half the product as it was.
    """
    halves = [
        [value.narrow(axis, start, value.shape[axis] // 2) for start in (0, value.shape[axis] // 2)]
        for value, axis in operands
    ]
    (first, again), (second, against) = halves
    again.copy_(first)
    second.mul_(2.0**power)
    against.copy_((against - second).to(dtype))


def is_integer(value: object) -> bool:
    """Whether a value is a tensor of integers, which flags are not."""
    if not isinstance(value, torch.Tensor):
        return False
    return not (value.is_floating_point() or value.is_complex() or value.dtype is torch.bool)


def is_mask_tensor(value: object) -> bool:
    """Whether a value is a tensor of flags, or of one integer that says nothing of others."""
    return isinstance(value, torch.Tensor) and not value.is_floating_point() and is_mask(value.numpy())


def place_like(drawn: torch.Tensor, values: NDArray[Any], dtype: torch.dtype) -> torch.Tensor:
    """Values of `drawn`'s shape, laid out in memory as it is; beside them lies what lies beside it.

    Where several elements are one in memory (`expand`), the last of their values is that of all.
    """
    size = count_stored(drawn)
    if drawn.is_contiguous() and size == drawn.numel():
        return torch.from_numpy(np.ascontiguousarray(values)).to(dtype, copy=True)  # what was drawn stays as it is
    around = drawn.as_strided((size,), (1,), 0)
    storage = around.to(torch.float64 if drawn.is_floating_point() else drawn.dtype, copy=True).numpy()
    strides = tuple(step * storage.itemsize for step in drawn.stride())
    beginning = storage[drawn.storage_offset() :]
    np.lib.stride_tricks.as_strided(beginning, tuple(drawn.shape), strides, writeable=True)[...] = values
    placed = torch.from_numpy(storage).to(dtype)
    return placed.as_strided(drawn.shape, drawn.stride(), drawn.storage_offset())


def values_of(tensor: torch.Tensor) -> NDArray[np.generic]:
    """A tensor's values, floating ones in float64."""
    return (tensor.double() if tensor.is_floating_point() else tensor).detach().cpu().numpy()  # NumPy has no bfloat16


@frozen(kw_only=True)
class DrawnInputs:
    """A task's inputs at its declared sizes: by whom they are drawn does not matter."""

    task: Task
    dtype: str
    seed: int


def draw_on_device(drawn: DrawnInputs, device: str) -> list[Any]:
    """Draw the inputs on a device, floating ones in the dtype; raises TaskError."""
    module = load_task(drawn.task, Profile.DECLARED)
    with alone_with_generators():
        try:
            with torch.device(device):
                if torch.device(device).type == "cuda":
                    torch.cuda.manual_seed(drawn.seed)
                values = draw_inputs(drawn.task, module, drawn.seed)
        except TaskError:
            values = draw_inputs(drawn.task, module, drawn.seed)
    return [place(value, device, torch_dtype(drawn.dtype)) for value in values]


def place(value: Any, device: str, dtype: torch.dtype) -> Any:
    """Put an input on a device, a floating one in the dtype; what is no tensor stays as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    placed = value.to(device)
    return placed.to(dtype) if is_floating(placed) else placed
