"""Copies of a plan's buffers, and the plan captured on each: what is short is timed on all of them.

A short kernel is quicker or slower by where things lie: by 1% for the page of memory that its data are in (H200), by
2% for the page of its graph, and by up to 2.5% for where its code is. So each copy has buffers at a drawn place, code
that was loaded for it, and a graph in a page of its own, and trials average over them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import torch
from attrs import define

from ....core.plan import LaunchPlan
from ..device.graphs import PageFillers, Scratch, capture, capture_or_launch
from ..device.memory import DeviceBuffers
from .protocol import Protocol
from .stopwatch import Lane, count_copies, is_short, nothing

MAX_COPIED_BYTES = 4 << 30
"""What the copies of a plan may take."""
_SPREAD_BYTES = 32 << 20
"""Sixteen pages, in which a copy's place is drawn: the allocator gives the same memory again and again."""
_TINY_NORM = 1e-300

Prepare = Callable[[LaunchPlan, DeviceBuffers], Callable[[], None]]
"""Loads a plan's code, and makes all its steps one function that puts them on the stream."""


@define(eq=False)
class BufferCopy:
    """A plan with buffers of its own, and its work on them, captured where it can be.

    `fillers` are what lies between graphs; `num_bytes` is what the copy takes of the device's memory.
    """

    buffers: DeviceBuffers
    work: Callable[[], None]
    fillers: PageFillers | None = None
    num_bytes: int = 1

    @property
    def results(self) -> list[torch.Tensor]:
        """What the plan returns, where each replay writes it."""
        return [self.buffers.view(view) for view in self.buffers.plan.outputs]

    def watch(self, watcher: Watcher) -> Lane:
        """The work as a lane: temporaries are blanked before it, and results are looked at after it."""
        before = self.buffers.blank if self.buffers.has_temporaries else nothing
        return Lane(work=self.work, before=before, after=partial(watcher.look, self.results))


def make_copies(
    plan: LaunchPlan, given: Mapping[int, torch.Tensor], prepare: Prepare, scratch: Scratch, protocol: Protocol
) -> Iterator[BufferCopy]:
    """The copies that a protocol asks for, one by one; fewer where they take much memory."""
    first = _capture_copy(plan, given, prepare, scratch)
    short = is_short(first.work)
    first.buffers.reset()
    yield first
    fillers = PageFillers() if short else None
    for _ in range(min(count_copies(protocol.buffer_copies, short), MAX_COPIED_BYTES // first.num_bytes) - 1):
        if fillers is not None:
            fillers.add()
        copy = _capture_copy(plan, given, prepare, scratch)
        copy.fillers = fillers
        yield copy


def _capture_copy(
    plan: LaunchPlan, given: Mapping[int, torch.Tensor], prepare: Prepare, scratch: Scratch
) -> BufferCopy:
    before = torch.cuda.memory_allocated()
    buffers = DeviceBuffers(plan, given, _SPREAD_BYTES)
    work = capture_or_launch(prepare(plan, buffers), scratch)
    work()  # until then the driver keeps nothing of a graph on the device
    buffers.reset()
    return BufferCopy(buffers, work, num_bytes=max(1, torch.cuda.memory_allocated() - before))


class Watcher:
    """Compares each replay's results, on the device, with those that the first copy has now.

    One graph does so for all: results are copied to where it looks.
    """

    def __init__(self, copies: Sequence[BufferCopy], scratch: Scratch) -> None:
        results = copies[0].results
        self._looked_at = results if len(copies) == 1 else [torch.empty_like(result) for result in results]
        self._worst = torch.zeros(max(1, len(results)), dtype=torch.float64, device="cuda")
        self._num_results = len(results)
        self._compare: Callable[[], None] = nothing
        if any(result.numel() for result in results):
            first = [result.clone() for result in results]
            norms = [_norm(each) for each in first]
            self._compare = capture(partial(_note_deviations, self._worst, self._looked_at, first, norms), scratch)
        self._worst.zero_()

    def look(self, results: Sequence[torch.Tensor]) -> None:
        """Put the comparison of a copy's results on the stream."""
        for looked_at, result in zip(self._looked_at, results, strict=True):
            if looked_at.data_ptr() != result.data_ptr():
                looked_at.copy_(result)
        self._compare()

    def find_worst(self) -> tuple[float | None, ...]:
        """The largest deviation of each output so far; None for one that was not finite."""
        worst = self._worst.tolist()[: self._num_results]
        return tuple(each if math.isfinite(each) else None for each in worst)


def _note_deviations(
    worst: torch.Tensor, found: list[torch.Tensor], expected: list[torch.Tensor], norms: list[torch.Tensor]
) -> None:
    for index, (result, first, norm) in enumerate(zip(found, expected, norms, strict=True)):
        if result.numel():
            # torch.maximum hands NaN on
            worst[index] = torch.maximum(worst[index], _deviation(result, first, norm))


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
