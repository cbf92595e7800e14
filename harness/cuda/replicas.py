"""A plan in several places of the device's memory, ready to be replayed in each.

What is short is quicker or slower by the memory that it lies in: by 1% for a page of data on an H200, by as much for
the page that its graph is launched from, and by up to 2.5% for where its code lies. So it is timed in many places, in
each by a copy of its code: to load one takes 30 us, and side by side they are worth as much as far apart.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch

from ...core.plan import LaunchPlan
from .graphs import Scratch, capture, capture_or_launch
from .memory import PAGE_BYTES, DeviceBuffers, PageReader, draw_rooms, room_bytes
from .pages import count_pages, in_pages, the_pages
from .stopwatch import Lane, count_places, is_short, nothing

MAX_REPLICATED_BYTES = 4 << 30
"""What the replicas of a plan may take."""
_STRETCH_BYTES, _STRETCH_SHARE = 1 << 30, 64
"""The memory in which places are drawn, at most this share of the device's."""
_TINY_NORM = 1e-300

Prepare = Callable[[LaunchPlan, DeviceBuffers, int], Callable[[], None]]
"""All steps of a plan as one function that puts them on the stream; the number is that of a copy of its code."""


class Replicator:
    """Puts plans in several places, and keeps the memory that these are drawn in.

    Where the allocator would put them depends on all that it gave before: it gives the same places again and again, and
    others in another process (a kernel of 12 us: 2% apart).
    """

    def __init__(self, memory_bytes: int) -> None:
        self._stretch_bytes = min(_STRETCH_BYTES, memory_bytes // _STRETCH_SHARE)
        self._stretch: torch.Tensor | None = None
        self._rng = random.Random()

    def place(
        self, plan: LaunchPlan, given: Mapping[int, torch.Tensor], prepare: Prepare, scratch: Scratch, placements: int
    ) -> Iterator[Replica]:
        """The plan in so many places, more where it is short, fewer where it takes much memory."""
        replica = Replica(plan, given, prepare, scratch)
        affordable = max(1, MAX_REPLICATED_BYTES // replica.num_bytes)
        short = is_short(replica.work)
        others = min(count_places(placements, short), affordable) - 1
        rooms = self._draw_rooms(replica.buffers.arena_bytes, others) if short else [None] * others
        if short:
            replica.take_pages()
        yield replica
        for number, room in enumerate(rooms, 1):
            replica = Replica(plan, given, prepare, scratch, room, copy=number if short else 0)
            if short:
                replica.take_pages()
            yield replica

    def clear(self) -> None:
        """Give the memory back."""
        self._stretch = None

    def _draw_rooms(self, num_bytes: int, number: int) -> Sequence[torch.Tensor | None]:
        """Places for so many; None, which is wherever they come to lie, where the stretch is short or not to be had."""
        if 2 * number * room_bytes(num_bytes) > self._stretch_bytes:
            return [None] * number
        if self._stretch is None:
            try:
                self._stretch = torch.empty(self._stretch_bytes, dtype=torch.uint8, device="cuda")
            except torch.cuda.OutOfMemoryError:
                return [None] * number
        self._stretch.zero_()  # an earlier plan's results, for a kernel that searches memory
        return draw_rooms(self._stretch, num_bytes, number, self._rng)


class Replica:
    """A plan with buffers of its own, captured; around each replay temporaries are blanked and results looked at.

    What surrounds a replay runs on the device, in graphs of its own.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        given: Mapping[int, torch.Tensor],
        prepare: Prepare,
        scratch: Scratch,
        room: torch.Tensor | None = None,
        copy: int = 0,
    ) -> None:
        before = torch.cuda.memory_allocated()
        self.buffers = DeviceBuffers(plan, given, PAGE_BYTES, room)
        self._scratch = scratch
        self._perform = prepare(plan, self.buffers, copy)  # it holds what launches write to beside the buffers
        self.work = capture_or_launch(self._perform, scratch)
        self._works = [self.work]
        self._is_short = False
        self.work()  # until then the driver keeps nothing of a graph on the device
        self.buffers.reset()
        self.results = [self.buffers.view(view) for view in plan.outputs]
        self.num_bytes = max(1, torch.cuda.memory_allocated() - before)

    def take_pages(self) -> None:
        """Be timed as what is short: in several pages of the driver's, with its own pages known to the device."""
        self._works = in_pages(self.work, the_pages(), count_pages(self.work))
        self._is_short = True

    def watch(self, model: Replica) -> None:
        """Compare each replay's results, from now on, with those that `model` has now."""
        if model is self:
            self._first = [result.clone() for result in self.results]
            self._norms = [_norm(first) for first in self._first]
            num_bytes = self.buffers.arena_bytes if self._is_short else 0
            self._reader = PageReader(num_bytes) if num_bytes else None
        else:
            self._first, self._norms, self._reader = model._first, model._norms, model._reader
        self.worst = torch.zeros(max(1, len(self.results)), dtype=torch.float64, device="cuda")
        has_results = any(result.numel() for result in self.results)
        before = capture(self.buffers.blank, self._scratch) if self.buffers.has_temporaries else nothing
        after = capture(self._look, self._scratch) if has_results else nothing
        reader = self._reader
        touch = capture(lambda: self.buffers.read_pages(reader), self._scratch) if reader is not None else nothing
        self.lanes = [Lane(work=work, before=before, touch=touch, after=after) for work in self._works]
        self.worst.zero_()

    def _look(self) -> None:
        for index, (result, first, norm) in enumerate(zip(self.results, self._first, self._norms, strict=True)):
            if result.numel():
                # torch.maximum hands NaN on
                self.worst[index] = torch.maximum(self.worst[index], _deviation(result, first, norm))


def find_worst(replicas: Sequence[Replica]) -> tuple[float | None, ...]:
    """The largest deviation of each output in any replica; None where one was not finite."""
    rows = [replica.worst.tolist()[: len(replica.results)] for replica in replicas]
    return tuple(max(column) if all(map(math.isfinite, column)) else None for column in zip(*rows, strict=True))


def _norm(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point():
        return torch.ones((), dtype=torch.float64, device=tensor.device)
    finite = torch.where(torch.isfinite(tensor), tensor, torch.zeros_like(tensor))
    norm: torch.Tensor = torch.linalg.vector_norm(finite, dtype=torch.float64)
    return norm.clamp_min(_TINY_NORM)


def _deviation(found: torch.Tensor, first: torch.Tensor, norm: torch.Tensor) -> torch.Tensor:
    """The difference's 2-norm over `norm`; for integers the share of elements that differ."""
    if not found.is_floating_point():
        return (found != first).double().mean()
    same = (found == first) | (found.isnan() & first.isnan())
    wide = torch.float64 if found.dtype == torch.float64 else torch.float32
    difference = torch.where(same, torch.zeros((), dtype=wide, device=found.device), found.to(wide) - first.to(wide))
    distance: torch.Tensor = torch.linalg.vector_norm(difference, dtype=torch.float64)
    return distance / norm
