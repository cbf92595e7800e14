"""Work captured as CUDA graphs, and where the driver keeps them.

On an H200 a graph's launch takes 0.2 us more or less by the page of memory that the driver keeps its executable form
in, and what is made executable one after the other shares a page: the same short kernel differs by 2% from one
measurement to the next, however often it is replayed. So short work lies in several pages (`in_pages`). A page is had
by making another graph, which only takes up room, before the one that is launched. That takes 2 ms, so a page that is
not needed any more waits for other work.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from attrs import define

from .launcher import DriverError, check, is_of_memory

_FILLER_NODES = 600
"""Nodes of a graph that take more than a page of the driver's (about 450 do)."""
_NUM_PAGES = 3
"""Of each place in memory that short work is captured in."""


class Graph:
    """Captured work, which lies in memory of the device; to call it is to replay it."""

    def __init__(self, captured: Any) -> None:
        self._captured = captured

    def __call__(self) -> None:
        self._captured.replay()

    def in_page(self, pages: Pages) -> Callable[[], None]:
        """The same work, launched from another page than what was put in one before; DriverError where it cannot be."""
        return _InPage(self._captured, pages)


class _InPage:
    """What was captured, in a page of the driver's for as long as this lives."""

    def __init__(self, captured: Any, pages: Pages) -> None:
        self._captured = captured  # what the work allocated is its
        self._driver = _driver()
        self._page = pages.take(self._driver.CUgraph(captured.raw_cuda_graph()))
        weakref.finalize(self, pages.put_back, self._page).atexit = False

    def __call__(self) -> None:
        check(self._driver.cuGraphLaunch(self._page.executable, torch.cuda.current_stream().cuda_stream))


def is_graph(work: Callable[[], None]) -> bool:
    """Whether to call it is to replay a graph."""
    return isinstance(work, Graph | _InPage)


def in_pages(work: Callable[[], None], pages: Pages) -> list[Callable[[], None]]:
    """The work in each of several pages; in fewer where there is no memory for more, and as it is where there is none.

    Of some kinds of graphs there can be one executable only, which is the capture's own.
    """
    found: list[Callable[[], None]] = []
    while isinstance(work, Graph) and len(found) < _NUM_PAGES:
        try:
            found.append(work.in_page(pages))
        except DriverError:
            break
    return found or [work]


@define(eq=False)
class _Page:
    """What takes up room, and the executable after it; `form` is the same for graphs that it might be updated to."""

    filler: Any
    executable: Any = None
    form: tuple[int, ...] | None = None


class Pages:
    """Pages of the driver's, in use or waiting for work."""

    def __init__(self) -> None:
        self._idle: list[_Page] = []
        self._used: set[_Page] = set()

    def take(self, graph: Any) -> _Page:
        """A page with the graph in it, one that waits or a new one; DriverError where it cannot be made executable.

        Best is a page whose executable can be updated. In another it is freed, and what is made then should lie there.
        """
        form = self._form_of(graph)
        page = next((page for page in self._idle if page.form == form), None) or next(iter(self._idle), None)
        if page is None:
            page = _Page(filler=self._make(_filler()))
        else:
            self._idle.remove(page)
        try:
            if page.form != form or not self._update(page.executable, graph):
                self._empty(page)
                page.executable, page.form = self._make(graph), form
        except DriverError:
            self._idle.append(page)
            raise
        self._used.add(page)
        return page

    def put_back(self, page: _Page) -> None:
        """Its work will not be launched any more; may be called at any time that a graph may be freed."""
        self._used.discard(page)
        if page.filler is not None:
            self._idle.append(page)
        else:
            _driver().cuGraphExecDestroy(page.executable)

    def keep_used(self) -> None:
        """No more pages are taken: those that wait are freed, and what takes up room before those in use."""
        self.free()
        for page in self._used:
            check(_driver().cuGraphExecDestroy(page.filler))
            page.filler = None

    def empty(self) -> None:
        """Have pages that wait hold nothing: code that is in them is about to go."""
        for page in self._idle:
            self._empty(page)

    def free(self) -> None:
        """Give back what waits."""
        while self._idle:
            page = self._idle.pop()
            self._empty(page)
            check(_driver().cuGraphExecDestroy(page.filler))

    def _form_of(self, graph: Any) -> tuple[int, ...]:
        _, number = check(_driver().cuGraphGetNodes(graph))
        nodes, _ = check(_driver().cuGraphGetNodes(graph, number)) if number else ([], 0)
        return tuple(int(check(_driver().cuGraphNodeGetType(node))) for node in nodes)

    def _update(self, executable: Any, graph: Any) -> bool:
        try:
            check(_driver().cuGraphExecUpdate(executable, graph))
        except DriverError:  # a kernel that is launched together with others takes no other's place, say
            return False
        self._upload(executable)
        return True

    def _empty(self, page: _Page) -> None:
        if page.executable is not None:
            check(_driver().cuGraphExecDestroy(page.executable))
        page.executable = page.form = None

    def _make(self, graph: Any) -> Any:
        names = _driver().CUgraphInstantiate_flags  # as PyTorch has it
        flags = int(names.CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
        flags |= int(names.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)
        executable = check(_driver().cuGraphInstantiate(graph, flags))
        try:
            self._upload(executable)
        except DriverError:
            _driver().cuGraphExecDestroy(executable)
            raise
        return executable

    def _upload(self, executable: Any) -> None:
        # until then the driver keeps nothing of it on the device
        check(_driver().cuGraphUpload(executable, torch.cuda.current_stream().cuda_stream))


@cache
def the_pages() -> Pages:
    """Those in which plans are timed, one after the other; kept while this process lives."""
    return Pages()


@cache
def _filler_capture() -> Graph:
    cell = torch.zeros(1, device="cuda")

    def take_room() -> None:
        for _ in range(_FILLER_NODES):
            cell.add_(1.0)

    return capture(take_room, is_first=False)


def _filler() -> Any:
    return _driver().CUgraph(_filler_capture()._captured.raw_cuda_graph())


def _driver() -> Any:
    from cuda.bindings import driver  # where there is a GPU

    return driver


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
