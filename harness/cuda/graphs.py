"""Work captured as CUDA graphs, and where the driver keeps them.

On an H200 a graph's launch takes 0.2 us more or less by the page of memory that the driver keeps the graph in, and
graphs that come one after the other share a page: the same short kernel differs by 2% from one measurement to the next,
however often it is replayed. So short work is kept in many pages: one capture is made executable several times, and
between two of them a graph is put that only takes up room (`Spread`).
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from .launcher import DriverError, check, is_of_memory

_SPREAD_NODES = 600
"""Nodes of a graph that take more than a page of the driver's (about 450 do)."""
_NUM_PAGES = 3
"""Of each place in memory that short work is captured in."""


class Graph:
    """Captured work, which lies in memory of the device; to call it is to replay it."""

    def __init__(self, captured: Any) -> None:
        self._captured = captured

    def __call__(self) -> None:
        self._captured.replay()

    def again(self) -> Callable[[], None]:
        """The same work, to be replayed from another place than this."""
        return _Executable(self._captured)


class _Executable:
    """What was captured, made executable once more."""

    def __init__(self, captured: Any) -> None:
        from cuda.bindings import driver

        self._captured = captured  # what the work allocated is its
        self._driver = driver
        names = driver.CUgraphInstantiate_flags  # as PyTorch has it
        flags = int(names.CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
        flags |= int(names.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)
        self._handle = check(driver.cuGraphInstantiate(driver.CUgraph(captured.raw_cuda_graph()), flags))
        weakref.finalize(self, driver.cuGraphExecDestroy, self._handle).atexit = False
        # until then the driver keeps nothing of it on the device
        check(driver.cuGraphUpload(self._handle, torch.cuda.current_stream().cuda_stream))

    def __call__(self) -> None:
        check(self._driver.cuGraphLaunch(self._handle, torch.cuda.current_stream().cuda_stream))


def is_graph(work: Callable[[], None]) -> bool:
    """Whether to call it is to replay a graph."""
    return isinstance(work, Graph | _Executable)


class Scratch:
    """Memory that graphs share for what they need while they run, one after the other; kept while this is."""

    def __init__(self) -> None:
        self.handle: Any = torch.cuda.graph_pool_handle()
        cell = torch.zeros(1, device="cuda")
        # memory whose last graph is gone cannot be used for another, so one graph stays
        self._anchor = capture(lambda: cell + 1.0, self)


class Spread:
    """Has short work lie in many pages of the driver's while this is kept, and other work wherever it comes to lie."""

    def __init__(self, is_short: bool) -> None:
        self._is_short = is_short
        self._kept: list[Callable[[], None]] = []

    def move_on(self) -> None:
        """What comes from now on lies in another page."""
        if self._is_short:
            self._kept.append(_filler().again())

    def spread(self, work: Callable[[], None]) -> list[Callable[[], None]]:
        """The work, and the same in as many other pages as it takes; what is no graph is as it was.

        There are kinds of graphs that can be made executable only once; those have fewer.
        """
        found = [work]
        while self._is_short and isinstance(work, Graph) and len(found) < _NUM_PAGES:
            self.move_on()
            try:
                found.append(work.again())
            except DriverError:
                break
        return found


@cache
def _filler() -> Graph:
    cell = torch.zeros(1, device="cuda")

    def take_room() -> None:
        for _ in range(_SPREAD_NODES):
            cell.add_(1.0)

    return capture(take_room, is_first=False)


@cache
def _capture_stream() -> Any:
    # the one: libraries keep a workspace for each stream that they have seen
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]


def capture(work: Callable[[], object], scratch: Scratch | None = None, is_first: bool = True) -> Graph:
    """The work as a CUDA graph, after one run outside it if `is_first`; raises where it cannot be captured.

    What the work allocates is the graph's own, or shared with others where `scratch` is given; nothing of it may be
    looked at after a replay.
    """
    stream = _capture_stream()
    stream.wait_stream(torch.cuda.current_stream())
    graph: Any = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.stream(stream):
        if is_first:
            work()
        torch.cuda.synchronize()
        with _without_collection():
            # not torch.cuda.graph, which empties the allocator's cache each time
            graph.capture_begin(**({"pool": scratch.handle} if scratch is not None else {}))
            try:
                work()
            finally:
                graph.capture_end()
        graph.instantiate()
    torch.cuda.current_stream().wait_stream(stream)
    return Graph(graph)


@contextmanager
def _without_collection() -> Iterator[None]:
    """A graph that is freed while another is captured spoils that."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def capture_or_launch(work: Callable[[], object], scratch: Scratch | None = None) -> Callable[[], None]:
    """The work as a graph where it can be captured, else as it is."""
    try:
        return capture(work, scratch)
    except (RuntimeError, DriverError) as error:
        if is_of_memory(error):
            raise
        # it waits for the device, say, so that there is no graph of it: Python launches it each time
        torch.cuda.synchronize()

    def launch() -> None:
        work()

    return launch
