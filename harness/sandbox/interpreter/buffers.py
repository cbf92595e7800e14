"""Lay a plan's buffers out in memory, and refuse accesses of kernels to anything else.

On a GPU nobody knows what lies beside a tensor, or how far away the next one is. So the buffers lie in a drawn order
with drawn gaps between them, from a seed that depends on the candidate's text: a kernel cannot know how to reach one
through another's pointer. Every load, store and atomic must lie wholly inside one buffer; lanes that a mask excludes
access nothing. An access elsewhere is refused before it happens, reads too: the interpreter would read and write
anything, and what a GPU finds there is luck. So is one at an address that is no multiple of the element's size, which
ends a process on a GPU and is nothing to a processor.

Where a buffer begins is as on a GPU: at a multiple of 512, as PyTorch's allocator hands out memory there. Large tensors
begin at far larger powers of two, so one run has all buffers there.
"""

from __future__ import annotations

import ctypes
import random
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ....core.plan import Buffer, LaunchPlan, View
from .semantics.poison import make_unwritten
from .semantics.run_state import RunState, current_run

_ALIGNMENT = 512
"""Bytes, of what PyTorch's allocator hands out on a GPU."""
_COARSEST, _MOST_BYTES_COARSELY = 1 << 21, 1 << 25
"""Bytes: the alignment of what PyTorch's allocator takes from a GPU, and how far apart that may put all buffers."""
_SMALLEST_GAP, _LARGEST_GAP = 4096, 65536


class StrayAccess(Exception):
    """A kernel's load, store or atomic whose address lies outside every buffer of the plan."""

    def __str__(self) -> str:
        return "accessed memory outside every buffer"


class MisalignedAccess(Exception):
    """A kernel's load, store or atomic whose address is no multiple of its element's size."""


class StrayView(Exception):
    """A view of the plan that does not lie inside its buffer."""

    def __str__(self) -> str:
        return "a view lies outside its buffer"


class Storage:
    """A buffer of the plan in memory: what was given, or what memory holds that nothing has written."""

    def __init__(self, buffer: Buffer, data: bytes | None, memory: torch.Tensor) -> None:
        self.dtype = getattr(torch, buffer.dtype)
        self.memory = memory
        self.given = data
        if data is None:
            make_unwritten(memory.view(self.dtype))
        elif len(data) != memory.numel():
            raise ValueError(f"buffer {buffer.name!r} has {memory.numel()} bytes, {len(data)} were given")
        elif data:
            memory.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))

    def view(self, view: View) -> torch.Tensor:
        """Return the strided window."""
        dtype = getattr(torch, view.dtype)
        num_bytes = self.memory.numel()
        extent = 1 + sum((size - 1) * step for size, step in zip(view.shape, view.stride, strict=True))
        inside = 0 in view.shape or (view.offset >= 0 and (view.offset + extent) * dtype.itemsize <= num_bytes)
        if not inside or any(step < 0 for step in view.stride):
            raise StrayView
        typed = self.memory[: num_bytes - num_bytes % dtype.itemsize].view(dtype)
        start = typed.storage_offset() + (0 if 0 in view.shape else view.offset)
        return typed.as_strided(view.shape, view.stride, start)

    def is_changed(self) -> bool:
        """Return whether a given buffer no longer holds what was given."""
        return self.given is not None and bytes_of(self.memory) != self.given


def find_stretch(buffers: Iterable[torch.Tensor]) -> tuple[int, int]:
    """Return where the stretch of memory begins and ends in which the buffers lie; an empty tensor has no address."""
    spans = [(buffer.data_ptr(), buffer.data_ptr() + buffer.nbytes) for buffer in buffers if buffer.nbytes]
    return min((start for start, _ in spans), default=0), max((stop for _, stop in spans), default=0)


def bytes_of(tensor: torch.Tensor) -> bytes:
    """Return a contiguous CPU tensor's bytes."""
    tensor = tensor.contiguous()
    size = tensor.numel() * tensor.element_size()
    return ctypes.string_at(tensor.data_ptr(), size) if size else b""


def place(plan: LaunchPlan, given: dict[int, bytes], run: RunState, is_coarse: bool = False) -> list[Storage]:
    """Lay out the plan's buffers in one stretch of memory; the run's kernels may access them alone.

    One stretch, so that what happens is the same in every process. With `is_coarse`, buffers begin at large powers of
    two. Raises ValueError where a buffer is given another number of bytes than it has.
    """
    draw = random.Random(run.seed)
    alignment = _find_coarse_alignment(len(plan.buffers)) if is_coarse else _ALIGNMENT
    sizes = [buffer.num_elements * int(getattr(torch, buffer.dtype).itemsize) for buffer in plan.buffers]
    starts = [0] * len(sizes)
    total = _draw_gap(draw)
    for index in draw.sample(range(len(sizes)), len(sizes)):
        starts[index] = _round_up(total, alignment)
        total = _round_up(starts[index] + sizes[index], _ALIGNMENT) + _draw_gap(draw)
    arena = torch.zeros(total + alignment, dtype=torch.uint8)
    first = -arena.data_ptr() % alignment
    arena = arena[first : first + total]
    spans = sorted((start, start + size) for start, size in zip(starts, sizes, strict=True) if size)
    run.starts = [arena.data_ptr() + start for start, _ in spans]
    run.stops = [arena.data_ptr() + stop for _, stop in spans]
    return [
        Storage(buffer, given.get(index), arena[starts[index] : starts[index] + sizes[index]])
        for index, buffer in enumerate(plan.buffers)
    ]


def _find_coarse_alignment(num_buffers: int) -> int:
    alignment = _COARSEST
    while alignment > _ALIGNMENT and alignment * num_buffers > _MOST_BYTES_COARSELY:
        alignment //= 2
    return alignment


def _round_up(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def _draw_gap(draw: random.Random) -> int:
    return draw.randrange(_SMALLEST_GAP, _LARGEST_GAP, _ALIGNMENT)


def check_access(addresses: NDArray[np.uint64], element: Any) -> None:
    """Refuse an access unless each element of the Triton type lies inside a buffer, at a multiple of its size.

    Raises StrayAccess and MisalignedAccess.
    """
    if not addresses.size:
        return
    low, high = int(addresses.min()), int(addresses.max())
    run = current_run()
    first = bisect_right(run.starts, low) - 1
    if first < 0:
        raise StrayAccess
    # not all in one buffer, so each is looked at
    if high + _size_of(element) > run.stops[first] and not lie_inside(addresses, element).all():
        raise StrayAccess
    size = _size_of(element)
    if int(np.bitwise_or.reduce(addresses)) % size:
        raise MisalignedAccess(f"accessed a misaligned address: no multiple of {size} bytes, as {element} has")


def lie_inside(addresses: NDArray[np.uint64], element: Any) -> NDArray[np.bool_]:
    """Return which addresses lie inside a buffer, with all of the Triton type that lies there."""
    run = current_run()
    found = np.searchsorted(np.array(run.starts, dtype=np.uint64), addresses, side="right") - 1
    stops = np.array([*run.stops, 0], dtype=np.uint64)  # before the first one
    return np.asarray(addresses + np.uint64(_size_of(element)) <= stops[found])


def _size_of(element: Any) -> int:
    return max(1, int(element.primitive_bitwidth) // 8)
