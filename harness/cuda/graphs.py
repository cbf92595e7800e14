"""Work captured as CUDA graphs, and where the driver keeps them.

On an H200 a graph's launch takes up to 0.3 us more or less by the page of memory that the driver keeps its executable
form in. One that is made lies next to the one before it, or where another was freed: the same short kernel differs by
2% from one measurement to the next, and now and then by 5%, however often it is replayed. So executables are not freed
while their process lives, but updated to what is captured next; each has a page of its own, since another graph that
only takes up room is made before it; and short work has several (`spread`).
"""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from .launcher import DriverError, check, is_of_memory

_FILLER_NODES = 600
"""Nodes of a graph that take more than a page of the driver's (about 450 do)."""
_NUM_PAGES = 3
"""Of each place in memory that short work is captured in."""


class Graph:
    """Captured work in an executable of its own, on the device; to call it is to replay it."""

    def __init__(self, captured: _Captured) -> None:
        from cuda.bindings import driver

        self._captured = captured  # what the work allocated is its
        self._driver = driver
        executables = _executables()
        self._handle = executables.take(captured)
        weakref.finalize(self, executables.put_back, captured.form, self._handle).atexit = False

    def __call__(self) -> None:
        check(self._driver.cuGraphLaunch(self._handle, torch.cuda.current_stream().cuda_stream))

    def again(self) -> Graph:
        """The same work, to be replayed from another place than this."""
        return Graph(self._captured)


def spread(work: Callable[[], None]) -> list[Callable[[], None]]:
    """The work, and the same in as many other pages as it takes; what is no graph is as it was.

    There are kinds of graphs that can be made executable only once; those have fewer.
    """
    found = [work]
    while isinstance(work, Graph) and len(found) < _NUM_PAGES:
        try:
            found.append(work.again())
        except DriverError:
            break
    return found


class _Captured:
    """What a capture gave; `form` is the same for graphs of which one might be updated to another."""

    def __init__(self, graph: Any) -> None:
        from cuda.bindings import driver

        self._graph = graph
        self.handle = driver.CUgraph(graph.raw_cuda_graph())
        _, number = check(driver.cuGraphGetNodes(self.handle))
        nodes, _ = check(driver.cuGraphGetNodes(self.handle, number)) if number else ([], 0)
        self.form = tuple(int(check(driver.cuGraphNodeGetType(node))) for node in nodes)


class _Executables:
    """All executables of this process; those that nobody uses wait to be updated."""

    def __init__(self) -> None:
        self._idle: dict[tuple[int, ...], list[Any]] = {}
        self._fillers: list[Any] = []

    def take(self, captured: _Captured) -> Any:
        """An executable of it, in a page that is drawn from those that are free, or in a new one."""
        from cuda.bindings import driver

        idle = self._idle.setdefault(captured.form, [])
        while idle:
            handle = idle.pop(random.randrange(len(idle)))
            try:
                check(driver.cuGraphExecUpdate(handle, captured.handle))
            except DriverError:  # a kernel launched together with others takes no other's place, say
                check(driver.cuGraphExecDestroy(handle))
                continue
            self._upload(handle)
            return handle
        self._fillers.append(self._make(_filler()))
        return self._make(captured)

    def put_back(self, form: tuple[int, ...], handle: Any) -> None:
        """It will not be launched any more; touches no device, so that it may be called at any time."""
        self._idle[form].append(handle)

    def _make(self, captured: _Captured) -> Any:
        from cuda.bindings import driver

        names = driver.CUgraphInstantiate_flags  # as PyTorch has it
        flags = int(names.CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
        flags |= int(names.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)
        handle = check(driver.cuGraphInstantiate(captured.handle, flags))
        self._upload(handle)
        return handle

    def _upload(self, handle: Any) -> None:
        from cuda.bindings import driver

        # until then the driver keeps nothing of it on the device
        check(driver.cuGraphUpload(handle, torch.cuda.current_stream().cuda_stream))


@cache
def _executables() -> _Executables:
    return _Executables()


@cache
def _filler() -> _Captured:
    cell = torch.zeros(1, device="cuda")

    def take_room() -> None:
        for _ in range(_FILLER_NODES):
            cell.add_(1.0)

    return _record(take_room, None, is_first=False)


class Scratch:
    """Memory that graphs share for what they need while they run, one after the other; kept while this is."""

    def __init__(self) -> None:
        self.handle: Any = torch.cuda.graph_pool_handle()
        cell = torch.zeros(1, device="cuda")
        # memory whose last graph is gone cannot be used for another, so one graph stays
        self._anchor = capture(lambda: cell + 1.0, self)


@cache
def _capture_stream() -> Any:
    # the one: libraries keep a workspace for each stream that they have seen
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]


def capture(work: Callable[[], object], scratch: Scratch | None = None, is_first: bool = True) -> Graph:
    """The work as a CUDA graph, after one run outside it if `is_first`; raises where it cannot be captured.

    What the work allocates is the graph's own, or shared with others where `scratch` is given; nothing of it may be
    looked at after a replay.
    """
    return Graph(_record(work, scratch, is_first))


def _record(work: Callable[[], object], scratch: Scratch | None, is_first: bool) -> _Captured:
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
    torch.cuda.current_stream().wait_stream(stream)
    return _Captured(graph)


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
