"""A plan's buffers in device memory: NaN where nothing was written, guard bands around each.

One stretch of memory holds all of them, as the interpreter's does, so a kernel that writes a little beyond its buffer
meets a band. Temporaries hold NaN in every element (integers and truth values hold alternating bits): on a GPU every
program runs, so whatever is left unwritten shows.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import torch

from ...core.plan import Argument, Buffer, BufferKind, LaunchPlan, View

GUARD_BYTES = 1024
_ALIGNMENT = 256
PAGE_BYTES = 2 << 20
"""A page of the device's memory: a short kernel is quicker or slower by 1% by the page that its data lie in (H200)."""
_NUM_READINGS = 1 << 18
"""Enough for several blocks of threads on each multiprocessor."""
_ROOM_ALIGNMENT = 512
"""What PyTorch's allocator gives is aligned so, and kernels are compiled for what they are given."""
_UNWRITTEN_BYTE = 0xAA
_GUARD_BYTE = 0xC5


class ViewOutside(Exception):
    """A view of the plan lies outside its buffer."""


class DeviceBuffers:
    """The storages of one plan on the current device.

    `given` has the initial values of all buffers but temporaries, by index; they are kept for comparison. They lie in
    `room`, which must be large enough, or in memory of their own, where they take up `least_bytes` at least, so that
    others lie elsewhere.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        given: Mapping[int, torch.Tensor],
        least_bytes: int = 0,
        room: torch.Tensor | None = None,
    ) -> None:
        self.plan = plan
        self.given = dict(given)
        self._starts: list[int] = []
        self._sizes = [num_bytes(buffer) for buffer in plan.buffers]
        total = 0
        for size in self._sizes:
            self._starts.append(total + GUARD_BYTES)
            total += -(-(size + 2 * GUARD_BYTES) // _ALIGNMENT) * _ALIGNMENT
        if room is None:
            room = torch.empty(max(total, least_bytes), dtype=torch.uint8, device="cuda")
        elif room.numel() < total:
            raise ValueError(f"{total} bytes do not lie in {room.numel()}")
        self._arena = room[:total]
        self.reset()

    @property
    def arena_bytes(self) -> int:
        """What all of them take with their bands."""
        return self._arena.numel()

    def reset(self) -> None:
        """Every buffer as before the first step."""
        self._arena.fill_(_GUARD_BYTE)
        self.give(self.given)
        self.blank()

    def give(self, given: Mapping[int, torch.Tensor]) -> None:
        """Other initial values from now on; temporaries stay as they are."""
        self.given = dict(given)
        for index, data in self.given.items():
            self._inside(index).copy_(data)

    @property
    def has_temporaries(self) -> bool:
        """Whether there is anything to blank."""
        return any(buffer.kind is BufferKind.TEMPORARY and buffer.num_elements for buffer in self.plan.buffers)

    def blank(self) -> None:
        """Temporaries as before the first step."""
        for index, buffer in enumerate(self.plan.buffers):
            if buffer.kind is not BufferKind.TEMPORARY:
                continue
            if (dtype := _dtype(buffer)).is_floating_point:
                self._inside(index).view(dtype).fill_(float("nan"))
            else:
                self._inside(index).fill_(_UNWRITTEN_BYTE if dtype is not torch.bool else 1)

    def _inside(self, index: int) -> torch.Tensor:
        return self._arena[self._starts[index] : self._starts[index] + self._sizes[index]]

    def view(self, view: View) -> torch.Tensor:
        """The strided window as a tensor."""
        dtype = getattr(torch, view.dtype)
        extent = 1 + sum((size - 1) * step for size, step in zip(view.shape, view.stride, strict=True))
        inside = 0 in view.shape or (view.offset + extent) * dtype.itemsize <= self._sizes[view.buffer]
        if not inside or view.offset < 0 or any(step < 0 for step in view.stride):
            raise ViewOutside
        arena = self._arena.view(dtype)
        start = self._starts[view.buffer] // dtype.itemsize + view.offset
        return arena.as_strided(view.shape, view.stride, arena.storage_offset() + start)

    def address(self, argument: Argument) -> int:
        """The device address that a launch's tensor argument stands for."""
        assert argument.view is not None
        view = argument.view
        item = int(getattr(torch, view.dtype).itemsize)
        return int(self._arena.data_ptr()) + self._starts[view.buffer] + view.offset * item

    def read_pages(self, reader: PageReader) -> None:
        """Read a byte of each page in which buffers lie; the reader is one for `arena_bytes`."""
        reader.read(self._arena)

    def mutated(self) -> tuple[int, ...]:
        """Indices of given buffers that no longer hold what was given."""
        return tuple(index for index, data in self.given.items() if not torch.equal(self._inside(index), data))

    def out_of_bounds(self) -> tuple[int, ...]:
        """Indices of buffers whose guard bands changed."""
        flags = [torch.stack([(band != _GUARD_BYTE).any() for band in self._bands(i)]).any() for i in self._indices()]
        return tuple(index for index, changed in enumerate(torch.stack(flags).tolist()) if changed) if flags else ()

    def _indices(self) -> range:
        return range(len(self._sizes))

    def _bands(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        start, stop = self._starts[index], self._starts[index] + self._sizes[index]
        return self._arena[start - GUARD_BYTES : start], self._arena[stop : stop + GUARD_BYTES]


class PageReader:
    """Reads a byte of each page of so many bytes of memory, by threads on every multiprocessor.

    After it the device knows where the pages are. Looking that up takes a short kernel 0.26 us, more or less by the
    page (H200), and is no part of what is cold when a model calls the kernel: of memory in use it is known.
    """

    def __init__(self, num_bytes: int) -> None:
        offsets = [*range(0, num_bytes, PAGE_BYTES), num_bytes - 1]
        self._offsets = torch.tensor(offsets, device="cuda").repeat(-(-_NUM_READINGS // len(offsets)))
        self._bytes = torch.empty(self._offsets.numel(), dtype=torch.uint8, device="cuda")

    def read(self, memory: torch.Tensor) -> None:
        """Put the reading on the stream; the memory is so many bytes as was said, and no less than one."""
        torch.take(memory, self._offsets, out=self._bytes)


def draw_rooms(stretch: torch.Tensor, num_bytes: int, number: int, rng: random.Random) -> list[torch.Tensor]:
    """So many parts of a stretch of bytes, of `num_bytes` each, at places that are drawn; no two share a page.

    Raises ValueError where the stretch is too short.
    """
    num_pages = room_bytes(num_bytes) // PAGE_BYTES
    free = stretch.numel() // PAGE_BYTES - number * num_pages
    if free < 0:
        raise ValueError(f"{number} times {num_bytes} bytes do not lie in pages of {stretch.numel()}")
    gaps = sorted(rng.randint(0, free) for _ in range(number))
    firsts = [gap + before * num_pages for before, gap in enumerate(gaps)]
    rng.shuffle(firsts)
    within = (num_pages * PAGE_BYTES - num_bytes) // _ROOM_ALIGNMENT
    starts = [PAGE_BYTES * first + _ROOM_ALIGNMENT * rng.randint(0, within) for first in firsts]
    return [stretch[start : start + num_bytes] for start in starts]


def room_bytes(num_bytes: int) -> int:
    """The pages that a room of so many bytes takes, wherever it begins in the first of them."""
    return (-(-num_bytes // PAGE_BYTES) + 1) * PAGE_BYTES


def bytes_of(tensor: torch.Tensor) -> bytes:
    """A tensor's raw bytes, contiguous."""
    flat = tensor.contiguous().reshape(-1)
    return flat.view(torch.uint8).cpu().numpy().tobytes() if flat.numel() else b""


def num_bytes(buffer: Buffer) -> int:
    """The size of a buffer."""
    return buffer.num_elements * int(_dtype(buffer).itemsize)


def _dtype(buffer: Buffer) -> torch.dtype:
    dtype = getattr(torch, buffer.dtype)
    assert isinstance(dtype, torch.dtype)
    return dtype
