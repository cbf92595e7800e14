"""Where the driver keeps what it launches as a graph.

On an H200 a graph's launch takes 0.2 us more or less by the page of memory that the driver keeps its executable form
in, and what is made executable one after the other shares a page: the same short kernel differs by 2% from one
measurement to the next, however often it is replayed. So short work lies in many pages. A page is had by making
another graph, which only takes up room, before the one that is launched. That takes 2 to 5 ms, so a page that is not
needed any more waits for other work, whose graph its executable is updated to.

An executable that was updated to other kernels is 0.2 us slower from then on than one that always had the same (H200).
So that none is quicker because it is new, each is made with other kernels in it, and updated before it is used.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from itertools import chain
from typing import Any

import torch
from attrs import define

from ..device.graphs import Graph, capture, load_driver
from ..device.launcher import DriverError, check

_FILLER_NODES = 600
"""Nodes of a graph that take more than a page of the driver's (about 450 do)."""
_KERNEL_NODE = 0
REFUSALS = (DriverError, torch.cuda.OutOfMemoryError)
"""What is raised where a page cannot be had."""
_MOST_PAGES = 900
"""Those that work of several forms leaves behind are given back beyond this: 2.4 GB."""


class _InPage(Graph):
    """What was captured, in a page of the driver's for as long as this lives."""

    def __init__(self, graph: Graph, pages: Pages) -> None:
        super().__init__(graph._captured)  # what the work allocated is its
        self._driver = load_driver()
        self._page = pages.take(graph.raw)
        weakref.finalize(self, pages.put_back, self._page).atexit = False

    def __call__(self) -> None:
        check(self._driver.cuGraphLaunch(self._page.executable, torch.cuda.current_stream().cuda_stream))


def put_in_page(graph: Graph, pages: Pages) -> Graph:
    """What was captured, in a page; raises one of REFUSALS where there is none."""
    return _InPage(graph, pages)


def in_pages(work: Callable[[], None], pages: Pages, number: int) -> list[Callable[[], None]]:
    """The work in so many pages; in fewer where there is no memory for more, and as it is where there is none.

    Of some kinds of graphs there can be one executable only, which is the capture's own.
    """
    found: list[Callable[[], None]] = []
    while isinstance(work, Graph) and len(found) < number:
        try:
            found.append(put_in_page(work, pages))
        except REFUSALS:
            break
    return found or [work]


def count_nodes(graph: Graph) -> int:
    """How many kernels, copies and the like it launches."""
    return len(_form_of(graph.raw))


_Form = tuple[int, ...]
"""The kinds of a graph's nodes: executables are updated only to graphs of the same form."""


@define(eq=False)
class _Page:
    """What takes up room, and the executable after it, which is of graphs of this form; parked, it holds nobody's."""

    filler: Any
    form: _Form
    executable: Any = None
    is_parked: bool = False


class Pages:
    """Pages of the driver's, in use or waiting for work."""

    def __init__(self) -> None:
        self._idle: OrderedDict[_Form, list[_Page]] = OrderedDict()
        """Those that wait, by form; what was put back last comes last."""
        self._used: set[_Page] = set()
        self._returned: deque[_Page] = deque()

    def take(self, graph: Any) -> _Page:
        """A page with the graph in it, one that waits or a new one; DriverError where it cannot be made executable."""
        self._settle()
        form = _form_of(graph)
        if waiting := self._idle.get(form):
            page = waiting.pop()
        else:
            self._make_room()
            page = _Page(filler=_make(_additions(_FILLER_NODES)), form=form)
        try:
            if page.executable is None or not _update(page.executable, graph):
                _empty(page)
                page.executable = _make_used(graph, form)
            page.is_parked = False
        except BaseException:
            with suppress(DriverError):
                _empty(page)
            self._wait(page)
            raise
        self._used.add(page)
        return page

    def _make_room(self) -> None:
        """Give back what has waited longest, where there are too many."""
        for waiting in self._idle.values():
            while waiting and len(self._used) + sum(map(len, self._idle.values())) >= _MOST_PAGES:
                _free(waiting.pop(0))

    def _settle(self) -> None:
        """Have what was put back wait for other work."""
        while self._returned:
            page = self._returned.popleft()
            self._used.discard(page)
            self._wait(page)

    def _wait(self, page: _Page) -> None:
        self._idle.setdefault(page.form, []).append(page)
        self._idle.move_to_end(page.form)

    def stock(self, number: int, beside: Callable[[int], object] = lambda made: None) -> None:
        """Have so many pages wait for kernels, or as many as there is memory for.

        `beside` is called before each, with the number of those before it: what it makes lies between them.
        """
        taken: list[_Page] = []
        try:
            while len(taken) < number:
                beside(len(taken))
                taken.append(self.take(_additions(1)))
        except REFUSALS:
            pass
        finally:
            for page in taken:
                self.put_back(page)

    def put_back(self, page: _Page) -> None:
        """Its work will not be launched any more.

        It is only noted: a graph may be freed at any time, in the middle of what is done here as well.
        """
        self._returned.append(page)

    def empty(self) -> None:
        """Have pages that wait hold nothing of what was in them: its code is about to go."""
        self._settle()
        for page in chain(*self._idle.values()):
            _park(page)

    def free(self) -> None:
        """Give back what waits."""
        self._settle()
        while self._idle:
            _, waiting = self._idle.popitem()
            while waiting:
                _free(waiting.pop())


def _nodes_of(graph: Any) -> list[Any]:
    _, number = check(load_driver().cuGraphGetNodes(graph))
    return list(check(load_driver().cuGraphGetNodes(graph, number))[0]) if number else []


def _form_of(graph: Any) -> _Form:
    return tuple(int(check(load_driver().cuGraphNodeGetType(node))) for node in _nodes_of(graph))


def _park(page: _Page) -> None:
    """Have a page hold kernels that nobody times; or nothing, where its executable cannot be updated to them."""
    if page.executable is None or page.is_parked:
        return
    with suppress(DriverError):
        page.is_parked = _has_kernels_alone(page.form) and _update(page.executable, _additions(len(page.form)))
    if not page.is_parked:
        _empty(page)


def _make_used(graph: Any, form: _Form) -> Any:
    """The graph made executable as one that had other kernels before; as it is, where it cannot be so."""
    for make in (partial(_make_additions, form), partial(_make_disguised, graph)):
        executable = make()
        if executable is None:
            continue
        try:
            if _update(executable, graph):
                return executable
        except DriverError:
            load_driver().cuGraphExecDestroy(executable)
            raise
        load_driver().cuGraphExecDestroy(executable)
    return _make(graph)


def _make_additions(form: _Form) -> Any:
    """As many kernels that nobody times; None for a form that has more than kernels."""
    return _make(_additions(len(form))) if _has_kernels_alone(form) else None


def _make_disguised(graph: Any) -> Any:
    """The graph with other kernels in place of its own; None where that cannot be made executable."""
    driver = load_driver()
    (addition,) = _nodes_of(_additions(1))
    other = check(driver.cuGraphKernelNodeGetParams(addition))
    try:
        copy = check(driver.cuGraphClone(graph))
    except DriverError:
        return None
    try:
        for node, kind in zip(_nodes_of(copy), _form_of(copy), strict=True):
            if kind == _KERNEL_NODE:
                check(driver.cuGraphKernelNodeSetParams(node, other))
        return _make(copy)
    except DriverError:
        return None
    finally:
        driver.cuGraphDestroy(copy)


def _has_kernels_alone(form: _Form) -> bool:
    return bool(form) and all(kind == _KERNEL_NODE for kind in form)


def _update(executable: Any, graph: Any) -> bool:
    try:
        check(load_driver().cuGraphExecUpdate(executable, graph))
    except DriverError:  # a kernel that is launched together with others takes no other's place, say
        return False
    _upload(executable)
    return True


def _empty(page: _Page) -> None:
    if page.executable is not None:
        check(load_driver().cuGraphExecDestroy(page.executable))
    page.executable = None


def _free(page: _Page) -> None:
    _empty(page)
    check(load_driver().cuGraphExecDestroy(page.filler))


def _make(graph: Any) -> Any:
    names = load_driver().CUgraphInstantiate_flags  # as PyTorch has it
    flags = int(names.CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
    flags |= int(names.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)
    executable = check(load_driver().cuGraphInstantiate(graph, flags))
    try:
        _upload(executable)
    except DriverError:
        load_driver().cuGraphExecDestroy(executable)
        raise
    return executable


def _upload(executable: Any) -> None:
    # until then the driver keeps nothing of it on the device
    check(load_driver().cuGraphUpload(executable, torch.cuda.current_stream().cuda_stream))


@cache
def the_pages() -> Pages:
    """Those in which plans and references are timed, one after the other; kept while this process lives."""
    return Pages()


@cache
def _capture_additions(number: int) -> tuple[Graph, torch.Tensor]:
    cell = torch.zeros(1, dtype=torch.float64, device="cuda")  # hardly a reference adds numbers to such
    cell.add_(1.0)  # its code is loaded before the capture

    def add() -> None:
        for _ in range(number):
            cell.add_(1.0)

    return capture(add, is_first=False), cell


def _additions(number: int) -> Any:
    """A graph of so many kernels, one after the other, which are no candidate's."""
    graph, _ = _capture_additions(number)
    return graph.raw
