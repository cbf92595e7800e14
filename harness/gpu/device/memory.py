"""A plan's buffers in device memory: NaN where nothing was written, guard bands around each.

One stretch of memory holds all of them, as the interpreter's does, so a kernel that writes a little beyond its buffer
meets a band. Temporaries hold NaN in every element (integers and truth values hold alternating bits): on a GPU every
program runs, so whatever is left unwritten shows. Results of gigabytes pass to the judge by the piece, through a window
of memory that both processes map.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import random
from collections.abc import Mapping, Sequence

import torch

from ....core.plan import Argument, Buffer, BufferKind, LaunchPlan, View
from .launcher import Unsupported

_WINDOW_BYTES = 128 << 20
GUARD_BYTES = 1024
_ALIGNMENT = 256
_PLACE_ALIGNMENT = 512
"""What PyTorch's allocator gives is aligned so, and kernels are compiled for what they are given."""
_UNWRITTEN_BYTE = 0xAA
_GUARD_BYTE = 0xC5
_draw = random.SystemRandom().randint


class DeviceBuffers:
    """The storages of one plan on the current device.

    `given` has the initial values of all buffers but temporaries, by index; they are kept for comparison. Their place
    is drawn in memory with `spread_bytes` to spare.
    """

    def __init__(self, plan: LaunchPlan, given: Mapping[int, torch.Tensor], spread_bytes: int = 0) -> None:
        self.plan = plan
        self.given = dict(given)
        self._starts: list[int] = []
        self._sizes = [num_bytes(buffer) for buffer in plan.buffers]
        total = 0
        for size in self._sizes:
            self._starts.append(total + GUARD_BYTES)
            total += -(-(size + 2 * GUARD_BYTES) // _ALIGNMENT) * _ALIGNMENT
        room = torch.empty(total + spread_bytes, dtype=torch.uint8, device="cuda")
        room.fill_(_GUARD_BYTE)  # of an earlier plan nothing is left, for a kernel that searches memory
        start = _PLACE_ALIGNMENT * _draw(0, spread_bytes // _PLACE_ALIGNMENT)
        self._arena = room[start : start + total]
        self._blanks = self._find_blanks()
        self.reset()

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
        return bool(self._blanks)

    def blank(self) -> None:
        """Temporaries as before the first step."""
        for inside, value in self._blanks:
            inside.fill_(value)

    def _find_blanks(self) -> list[tuple[torch.Tensor, float]]:
        """Temporaries with what each element of them holds before the first step."""
        found: list[tuple[torch.Tensor, float]] = []
        for index, buffer in enumerate(self.plan.buffers):
            if buffer.kind is not BufferKind.TEMPORARY or not buffer.num_elements:
                continue
            if (dtype := _dtype(buffer)).is_floating_point:
                found.append((self._inside(index).view(dtype), float("nan")))
            else:
                found.append((self._inside(index), _UNWRITTEN_BYTE if dtype is not torch.bool else 1))
        return found

    def _inside(self, index: int) -> torch.Tensor:
        return self._arena[self._starts[index] : self._starts[index] + self._sizes[index]]

    def view(self, view: View) -> torch.Tensor:
        dtype = getattr(torch, view.dtype)
        extent = 1 + sum((size - 1) * step for size, step in zip(view.shape, view.stride, strict=True))
        inside = 0 in view.shape or (view.offset + extent) * dtype.itemsize <= self._sizes[view.buffer]
        if not inside or view.offset < 0 or any(step < 0 for step in view.stride):
            raise Unsupported("a view lies outside its buffer")
        arena = self._arena.view(dtype)
        start = self._starts[view.buffer] // dtype.itemsize + view.offset
        return arena.as_strided(view.shape, view.stride, arena.storage_offset() + start)

    def address(self, argument: Argument) -> int:
        """The device address that a launch's tensor argument stands for."""
        assert argument.view is not None
        view = argument.view
        item = int(getattr(torch, view.dtype).itemsize)
        return int(self._arena.data_ptr()) + self._starts[view.buffer] + view.offset * item

    def mutated(self) -> tuple[int, ...]:
        """Indices of given buffers that no longer hold what was given."""
        return _which({index: [self._inside(index) != data] for index, data in self.given.items()})

    def out_of_bounds(self) -> tuple[int, ...]:
        """Indices of buffers whose guard bands changed."""
        return _which({i: [band != _GUARD_BYTE for band in self._bands(i)] for i in range(len(self._sizes))})

    def _bands(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        start, stop = self._starts[index], self._starts[index] + self._sizes[index]
        return self._arena[start - GUARD_BYTES : start], self._arena[stop : stop + GUARD_BYTES]


def _which(differences: Mapping[int, Sequence[torch.Tensor]]) -> tuple[int, ...]:
    """The indices of which any element differs, in order; the device is waited for once."""
    if not differences:
        return ()
    found = torch.stack([torch.stack([each.any() for each in own]).any() for own in differences.values()]).tolist()
    return tuple(sorted(index for index, differs in zip(differences, found, strict=True) if differs))


def bytes_of(tensor: torch.Tensor) -> bytes:
    """A tensor's raw bytes, contiguous."""
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8).cpu().numpy().tobytes() if flat.numel() else b""


def num_bytes(buffer: Buffer) -> int:
    return buffer.num_elements * int(_dtype(buffer).itemsize)


def _dtype(buffer: Buffer) -> torch.dtype:
    dtype = getattr(torch, buffer.dtype)
    assert isinstance(dtype, torch.dtype)
    return dtype


def make_window() -> int:
    """Make the memory, and return its descriptor; nothing of it is taken before something is written."""
    descriptor = os.memfd_create("tritonrl-window", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, _WINDOW_BYTES)
    return descriptor


def open_window(descriptor: int) -> torch.Tensor:
    """Map the memory as bytes on the processor, so that a GPU copies quickly where there is one."""
    window = torch.frombuffer(mmap.mmap(descriptor, _WINDOW_BYTES), dtype=torch.uint8)
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        with contextlib.suppress(RuntimeError):
            torch.cuda.cudart().cudaHostRegister(window.data_ptr(), _WINDOW_BYTES, 0)  # type: ignore[no-untyped-call]
    return window
