"""CUDA graphs: work that is captured once, and replayed from then on without Python."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import torch

from .launcher import DriverError, check, is_of_memory

_FILLER_NODES = 600
"""Nodes of a graph that take more than a page of the driver's memory (about 450 do)."""


class Graph:
    """Captured work; to call it is to replay it. It keeps what the work holds: code, and memory that launches use."""

    def __init__(self, captured: Any, work: Callable[[], object]) -> None:
        self._captured = captured
        self._work = work

    def __del__(self) -> None:
        self._captured = None  # before the code that it launches is unloaded

    def __call__(self) -> None:
        self._captured.replay()

    @property
    def raw(self) -> Any:
        """The driver's graph."""
        return load_driver().CUgraph(self._captured.raw_cuda_graph())


def is_graph(work: Callable[[], None]) -> bool:
    """Whether to call it is to replay a graph."""
    return isinstance(work, Graph)


def load_driver() -> Any:
    """The binding of the driver, which is there where a GPU is."""
    from cuda.bindings import driver

    return driver


class Scratch:
    """Memory that graphs share for what they need while they run, one after the other; kept while this is."""

    def __init__(self) -> None:
        self.handle: Any = torch.cuda.graph_pool_handle()
        cell = torch.zeros(1, device="cuda")
        # memory whose last graph is gone cannot be used for another, so one graph stays
        self._anchor = capture(lambda: cell + 1.0, self)


class PageFillers:
    """Graphs that only take up room in the driver's memory, for as long as this lives.

    On an H200 a graph's launch takes 0.2 us more or less by the page in which the driver keeps the graph, and graphs
    that are instantiated one after the other share a page, so that replays of a short kernel differ by 2% from one
    measurement to the next. Graphs with a filler between them lie in different pages, over which trials average.
    """

    def __init__(self) -> None:
        self._executables: list[Any] = []
        weakref.finalize(self, _destroy, self._executables).atexit = False

    def add(self) -> None:
        """Have what is captured next lie in another page, unless there is no memory for that."""
        driver = load_driver()
        try:
            self._executables.append(check(driver.cuGraphInstantiate(_capture_filler().raw, 0)))
            # until then the driver keeps nothing of it on the device
            check(driver.cuGraphUpload(self._executables[-1], torch.cuda.current_stream().cuda_stream))
        except DriverError as error:
            if not is_of_memory(error):
                raise


def _destroy(executables: list[Any]) -> None:
    for executable in executables:
        load_driver().cuGraphExecDestroy(executable)


@cache
def _capture_filler() -> Graph:
    cell = torch.zeros(1, device="cuda")

    def add() -> None:
        for _ in range(_FILLER_NODES):
            cell.add_(1.0)

    return capture(add)


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
    with torch.cuda.stream(stream):
        if is_first:
            work()
        torch.cuda.synchronize()
        graph = _record(work, scratch)
        graph.instantiate()
    torch.cuda.current_stream().wait_stream(stream)
    return Graph(graph, work)


def _record(work: Callable[[], object], scratch: Scratch | None) -> Any:
    graph: Any = torch.cuda.CUDAGraph(keep_graph=True)
    with _without_collection():
        # not torch.cuda.graph, which empties the allocator's cache each time
        graph.capture_begin(**({"pool": scratch.handle} if scratch is not None else {}))
        try:
            work()
        except BaseException:
            with suppress(RuntimeError):  # what the work raised says more
                graph.capture_end()
            raise
        graph.capture_end()
    return graph


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
