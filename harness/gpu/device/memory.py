"""A plan's buffers in device memory: NaN where nothing was written, guard bands around each.

One stretch of memory holds all of them, as the interpreter's does, so a kernel that writes a little beyond its buffer
meets a band. Temporaries hold NaN in every element (integers and truth values hold alternating bits): on a GPU every
program runs, so whatever is left unwritten shows.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping, Sequence

import torch

from ....core.plan import Argument, Buffer, BufferKind, LaunchPlan, View

GUARD_BYTES = 1024
_ALIGNMENT = 256
PAGE_BYTES = 2 << 20
"""A page of the device's memory: a short kernel is quicker or slower by 1% by the page that its data lie in (H200)."""
_ROOM_ALIGNMENT = 512
"""What PyTorch's allocator gives is aligned so, and kernels are compiled for what they are given."""
_UNWRITTEN_BYTE = 0xAA
_GUARD_BYTE = 0xC5
_COMPARED_BYTES = 64 << 20
"""So much of several buffers is looked at together."""


class ViewOutside(Exception):
    """A view of the plan lies outside its buffer."""


class DeviceBuffers:
    """The storages of one plan on the current device.

    `given` has the initial values of all buffers but temporaries, by index; they are kept for comparison. They take up
    `least_bytes` at least, so that others lie elsewhere.
    """

    def __init__(self, plan: LaunchPlan, given: Mapping[int, torch.Tensor], least_bytes: int = 0) -> None:
        self.plan = plan
        self.given = dict(given)
        self._starts: list[int] = []
        self._sizes = [num_bytes(buffer) for buffer in plan.buffers]
        total = 0
        for size in self._sizes:
            self._starts.append(total + GUARD_BYTES)
            total += -(-(size + 2 * GUARD_BYTES) // _ALIGNMENT) * _ALIGNMENT
        self._arena = torch.empty(max(total, least_bytes), dtype=torch.uint8, device="cuda")[:total]
        self._blanks = self._find_blanks()
        self.reset()

    def copy_to(self, room: torch.Tensor) -> DeviceBuffers:
        """The same buffers with what they hold now, in a room of `arena_bytes` at least."""
        other = copy.copy(self)
        other.given = dict(self.given)
        other._arena = room[: self.arena_bytes]
        other._arena.copy_(self._arena)
        other._blanks = other._find_blanks()
        return other

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

    def mutated(self) -> tuple[int, ...]:
        """Indices of given buffers that no longer hold what was given."""
        return find_mutated([self])

    def out_of_bounds(self) -> tuple[int, ...]:
        """Indices of buffers whose guard bands changed."""
        return find_out_of_bounds([self])

    def _bands(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        start, stop = self._starts[index], self._starts[index] + self._sizes[index]
        return self._arena[start - GUARD_BYTES : start], self._arena[stop : stop + GUARD_BYTES]


def find_mutated(places: Sequence[DeviceBuffers]) -> tuple[int, ...]:
    """Indices of given buffers that in any of these places of a plan no longer hold what was given."""
    flags: dict[int, list[torch.Tensor]] = {}
    for index, data in places[0].given.items():
        together = max(1, _COMPARED_BYTES // max(1, data.numel()))
        groups = (places[first : first + together] for first in range(0, len(places), together))
        flags[index] = [_differ([each._inside(index) for each in group], data) for group in groups]
    return _which(flags)


def find_out_of_bounds(places: Sequence[DeviceBuffers]) -> tuple[int, ...]:
    """Indices of buffers whose guard bands changed in any of these places of a plan."""
    flags: dict[int, list[torch.Tensor]] = {}
    for index in range(len(places[0]._sizes)):
        lower, upper = zip(*(each._bands(index) for each in places), strict=True)
        flags[index] = [_differ(lower, _GUARD_BYTE), _differ(upper, _GUARD_BYTE)]
    return _which(flags)


def _differ(parts: Sequence[torch.Tensor], value: torch.Tensor | int) -> torch.Tensor:
    """Whether any of the parts is not this, in a flag on the device."""
    found = parts[0] if len(parts) == 1 else torch.stack(tuple(parts))
    return (found != value).any()


def _which(flags: Mapping[int, Sequence[torch.Tensor]]) -> tuple[int, ...]:
    """The indices of which any flag is set; the device is waited for once."""
    if not flags:
        return ()
    found = torch.stack([torch.stack(list(own)).any() for own in flags.values()]).tolist()
    return tuple(sorted(index for index, is_set in zip(flags, found, strict=True) if is_set))


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
    """The pages that a room of so many bytes takes, with half a page at least to begin in."""
    return -(-(num_bytes + PAGE_BYTES // 2) // PAGE_BYTES) * PAGE_BYTES


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
