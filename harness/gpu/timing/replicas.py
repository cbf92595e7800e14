"""A plan in several places of the device's memory, ready to be replayed in each.

What is short is quicker or slower by the memory that it lies in: by 1% for a page of data on an H200, by as much for
the page that its graph is launched from, and by up to 2.5% for where its code lies. So a short kernel has a lane for
each replay: another page that the graph lies in, another place for the data, and one of many copies of the code, which
take 30 us each to load.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import torch
from attrs import define, field

from ....core.plan import LaunchPlan
from ..device.graphs import Graph, Scratch, capture, capture_for_pages, capture_or_launch
from ..device.memory import PAGE_BYTES, DeviceBuffers, draw_rooms, room_bytes
from .pages import REFUSALS, count_nodes, put_in_page, the_pages
from .protocol import Protocol
from .stopwatch import Lane, count_places, is_short, nothing

_LEAST_LANES = 60
"""Of a short plan that launches many kernels: it takes longer, and its pages more time to make."""
_NUM_COPIES = 50
"""Of the code of all kernels of a plan together, but one of each at least."""
MAX_REPLICATED_BYTES = 4 << 30
"""What the replicas of a plan may take."""
_STRETCH_BYTES, _STRETCH_SHARE = 2 << 30, 64
"""The memory in which places are drawn, at most this share of the device's."""
_TINY_NORM = 1e-300

Prepare = Callable[[LaunchPlan, DeviceBuffers, int], Callable[[], None]]
"""All steps of a plan as one function that puts them on the stream; the number is that of a copy of its code."""


@define(eq=False)
class Replica:
    """A plan with buffers of its own, and its work on them: captured, once or several times, where it can be."""

    buffers: DeviceBuffers
    works: list[Callable[[], None]] = field(factory=list)
    performs: list[Callable[[], None]] = field(factory=list)
    """What was captured: it holds what launches write to beside the buffers."""
    num_bytes: int = 1
    num_scratch_bytes: int = 0
    """What it takes of the device's memory, and what of that launches write to beside the buffers."""

    @property
    def results(self) -> list[torch.Tensor]:
        """What the plan returns, where each replay writes it."""
        return [self.buffers.view(view) for view in self.buffers.plan.outputs]

    def watch(self, watcher: Watcher) -> list[Lane]:
        """Its works, before each of which temporaries are blanked, and after which results are looked at."""
        results = self.results

        def look() -> None:
            watcher.look(results)

        before = self.buffers.blank if self.buffers.has_temporaries else nothing
        return [Lane(work=work, before=before, after=look) for work in self.works]


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
        self,
        plan: LaunchPlan,
        given: Mapping[int, torch.Tensor],
        prepare: Prepare,
        scratch: Scratch,
        protocol: Protocol,
    ) -> Iterator[Replica]:
        """The plan in its places, of which there are more where it is short, and fewer where it takes much memory.

        A replica comes once for each lane that was made ready in it, all of them one after the other.
        """
        first = _capture(plan, given, prepare, scratch)
        work = first.works[0]
        short = is_short(work)
        first.buffers.reset()
        affordable = max(1, MAX_REPLICATED_BYTES // first.num_bytes)
        num_places = min(count_places(protocol.placements, short), affordable)
        is_spread = False
        if short and isinstance(work, Graph):
            number = _count_lanes(work, protocol.num_lanes)
            # a lane launches into scratch memory of its own
            number = min(number, max(1, MAX_REPLICATED_BYTES // max(1, first.num_scratch_bytes)))
            num_bytes, least = first.buffers.arena_bytes, min(num_places, number) - 1
            rooms = self._draw_rooms(num_bytes, least, min(number, affordable) - 1)
            for replica in _spread(first, rooms or _find_rooms(num_bytes, least), number, prepare, scratch):
                is_spread = True
                yield replica
        if not is_spread:
            yield first
            for _ in range(num_places - 1):
                yield _capture(plan, given, prepare, scratch)

    def clear(self) -> None:
        """Give the memory back."""
        self._stretch = None

    def _draw_rooms(self, num_bytes: int, least: int, most: int) -> list[torch.Tensor]:
        """Places for `most`, or for as many as lie in half of the stretch; none where that is less than `least`."""
        number = min(most, self._stretch_bytes // (2 * room_bytes(num_bytes)))
        if number < least:
            return []
        if self._stretch is None:
            try:
                self._stretch = torch.empty(self._stretch_bytes, dtype=torch.uint8, device="cuda")
            except torch.cuda.OutOfMemoryError:
                return []
        self._stretch.zero_()  # an earlier plan's results, for a kernel that searches memory
        return draw_rooms(self._stretch, num_bytes, number, self._rng)


def _capture(plan: LaunchPlan, given: Mapping[int, torch.Tensor], prepare: Prepare, scratch: Scratch) -> Replica:
    """The plan on memory of its own, run once: until then the driver keeps nothing of a graph on the device."""
    before = torch.cuda.memory_allocated()
    buffers = DeviceBuffers(plan, given, PAGE_BYTES)
    between = torch.cuda.memory_allocated()
    perform = prepare(plan, buffers, 0)
    num_scratch_bytes = torch.cuda.memory_allocated() - between
    work = capture_or_launch(perform, scratch)
    work()
    buffers.reset()
    num_bytes = max(1, torch.cuda.memory_allocated() - before)
    return Replica(buffers, [work], [perform], num_bytes, num_scratch_bytes)


def _count_lanes(work: Graph, number: int) -> int:
    """Of that many for one kernel, what is left for a chain."""
    return max(min(_LEAST_LANES, number), number // max(1, count_nodes(work)))


def _find_rooms(num_bytes: int, number: int) -> Iterator[torch.Tensor]:
    """So many places, wherever they come to lie."""
    return (torch.empty(max(num_bytes, PAGE_BYTES), dtype=torch.uint8, device="cuda") for _ in range(number))


def _spread(
    first: Replica, rooms: Iterable[torch.Tensor], number: int, prepare: Prepare, scratch: Scratch
) -> Iterator[Replica]:
    """So many lanes of short work, dealt out to its place and other rooms; each time a lane is ready, its replica.

    Fewer where there are no pages for more, and nothing where there are none.
    """
    replicas = [Replica(buffers) for buffers in (first.buffers, *map(first.buffers.copy_to, rooms))]
    num_copies = max(1, _NUM_COPIES // max(1, len(first.buffers.plan.kernels)))
    for place, replica in enumerate(replicas):
        for lane in range(place, number, len(replicas)):
            try:
                perform = prepare(replica.buffers.plan, replica.buffers, lane % num_copies)
                work = put_in_page(capture_for_pages(perform, scratch), the_pages())
            except REFUSALS:
                return
            replica.works.append(work)
            replica.performs.append(perform)
            yield replica


class Watcher:
    """Compares each replay's results, on the device, with those that the first replica has now.

    One graph does so for all: results are copied to where it looks.
    """

    def __init__(self, replicas: Sequence[Replica], scratch: Scratch) -> None:
        results = replicas[0].results
        self._looked_at = results if len(replicas) == 1 else [torch.empty_like(result) for result in results]
        self._first = [result.clone() for result in results]
        self._norms = [_norm(first) for first in self._first]
        self._worst = torch.zeros(max(1, len(results)), dtype=torch.float64, device="cuda")
        has_results = any(result.numel() for result in results)
        self._compare = capture(self._note_deviations, scratch) if has_results else nothing
        self._worst.zero_()

    def look(self, results: Sequence[torch.Tensor]) -> None:
        """Put the comparison of a replica's results on the stream."""
        for looked_at, result in zip(self._looked_at, results, strict=True):
            if looked_at.data_ptr() != result.data_ptr():
                looked_at.copy_(result)
        self._compare()

    def find_worst(self) -> tuple[float | None, ...]:
        """The largest deviation of each output so far; None for one that was not finite."""
        worst = self._worst.tolist()[: len(self._first)]
        return tuple(each if math.isfinite(each) else None for each in worst)

    def _note_deviations(self) -> None:
        for index, (result, first, norm) in enumerate(zip(self._looked_at, self._first, self._norms, strict=True)):
            if result.numel():
                # torch.maximum hands NaN on
                self._worst[index] = torch.maximum(self._worst[index], _deviation(result, first, norm))


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
