"""Where captured work comes to lie, and that it is the same work everywhere."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections import Counter
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from tritonrl.harness.cuda import graphs
from tritonrl.harness.cuda.graphs import Graph, capture, capture_or_launch, spread
from tritonrl.harness.cuda.launcher import DriverError, check, is_of_memory

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


class Noted(Graph):
    """Captured work that there are so many executables of at most."""

    def __init__(self, most: int) -> None:
        self._most = most

    def __call__(self) -> None:
        pass

    def again(self) -> Graph:
        """Another."""
        self._most -= 1
        if self._most < 1:
            raise DriverError("CUDA_ERROR_NOT_SUPPORTED")
        return Noted(self._most)


class Driver:
    """Makes and updates executables, which are numbers; `never_updated` are forms that it refuses to update."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.now: dict[int, str] = {}
        self.uploaded: list[int] = []
        self.never_updated: set[str] = set()
        flags = SimpleNamespace(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH=1)
        flags.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY = 8
        self.CUgraphInstantiate_flags = flags

    def cuGraphInstantiate(self, graph: str, flags: int) -> tuple[int, int]:
        assert flags == 9
        self.made.append(graph)
        self.now[len(self.made)] = graph
        return 0, len(self.made)

    def cuGraphUpload(self, handle: int, stream: int) -> tuple[int]:
        self.uploaded.append(handle)
        return (0,)

    def cuGraphExecUpdate(self, handle: int, graph: str) -> tuple[int, None]:
        if graph in self.never_updated:
            return Code(910), None
        self.now[handle] = graph
        return 0, None

    def cuGraphExecDestroy(self, handle: int) -> tuple[int]:
        del self.now[handle]
        return (0,)


class Code(int):
    """An error as the driver gives it."""

    name = "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    """A made-up driver, and "filler" for what takes up room."""
    found = Driver()
    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace(bindings=SimpleNamespace(driver=found)))
    monkeypatch.setitem(sys.modules, "cuda.bindings", SimpleNamespace(driver=found))
    monkeypatch.setattr(graphs, "_filler", lambda: captured("filler", (0,)))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0))
    return found


def captured(handle: str, form: tuple[int, ...] = (0, 0)) -> graphs._Captured:
    made = object.__new__(graphs._Captured)
    made.handle, made.form = handle, form
    return made


def test_each_executable_has_a_page_of_its_own(driver: Driver) -> None:
    """A filler is made before each, and all are on the device at once."""
    executables = graphs._Executables()
    handles = [executables.take(captured("work")) for _ in range(3)]
    assert driver.made == ["filler", "work"] * 3
    assert len(set(handles)) == 3
    assert set(driver.uploaded) == set(driver.now)


def test_executables_are_updated_and_not_freed(driver: Driver) -> None:
    """What nobody uses any more becomes another of its form; a form that there is none of is made."""
    executables = graphs._Executables()
    old = [executables.take(captured("old")) for _ in range(3)]
    for handle in old:
        executables.put_back((0, 0), handle)
    num_made, num_uploaded = len(driver.made), len(driver.uploaded)
    new = [executables.take(captured("new")) for _ in range(3)]
    assert sorted(new) == sorted(old)
    assert [driver.now[handle] for handle in new] == ["new"] * 3
    assert len(driver.made) == num_made
    assert driver.uploaded[num_uploaded:] == new
    assert executables.take(captured("other", (0, 2))) not in old
    assert driver.made[num_made:] == ["filler", "other"]


def test_what_cannot_be_updated_is_made(driver: Driver) -> None:
    """The refused executable is freed, as it would be refused again and again."""
    executables = graphs._Executables()
    old = executables.take(captured("old"))
    executables.put_back((0, 0), old)
    driver.never_updated.add("cooperative")
    new = executables.take(captured("cooperative"))
    assert new != old
    assert old not in driver.now
    assert driver.now[new] == "cooperative"


def test_a_graph_gives_its_executable_back(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is let go, and not before: whatever else is captured has another."""
    executables = graphs._Executables()
    monkeypatch.setattr(graphs, "_executables", lambda: executables)
    work = Graph(captured("work"))
    again = work.again()
    handles = {work._handle, again._handle}
    assert len(handles) == 2
    del again
    third = Graph(captured("third"))
    assert third._handle in handles
    assert third._handle != work._handle


def test_short_work_lies_in_several_pages() -> None:
    """As many executables, the first of which is the one that was captured."""
    work = Noted(graphs._NUM_PAGES)
    works = spread(work)
    assert works[0] is work
    assert len(works) == len(set(works)) == graphs._NUM_PAGES


def test_what_has_no_other_page_has_one() -> None:
    """No graph is launched by Python; and the driver's refusal to make one again is no failure of the work."""

    def launch() -> None:
        pass

    assert spread(launch) == [launch]
    work = Noted(1)
    assert spread(work) == [work]


@pytest.mark.parametrize("was_enabled", [True, False])
def test_nothing_is_collected_during_a_capture(was_enabled: bool) -> None:
    """Afterwards the collector is as it was, whatever came of the capture."""
    (gc.enable if was_enabled else gc.disable)()
    try:
        with suppress(ValueError), graphs._without_collection():
            assert not gc.isenabled()
            raise ValueError
        assert gc.isenabled() is was_enabled
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.cuda.OutOfMemoryError("Tried to allocate"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (DriverError("CUDA_ERROR_OUT_OF_MEMORY"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True),
        (DriverError("CUDA_ERROR_OUT_OF_RESOURCES"), False),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
    ],
)
def test_memory_that_is_short_has_many_names(error: Exception, expected: bool) -> None:
    """PyTorch, the driver and the libraries each have their own."""
    assert is_of_memory(error) is expected


@needs_gpu
def test_every_executable_is_the_same_work() -> None:
    """Each call adds one, and what a capture allocates is alive as long as any of its executables."""
    cell = torch.zeros(4096, device="cuda")

    def work() -> None:
        cell.add_(cell * 0.0 + 1.0)

    works = spread(capture(work, is_first=False))
    for _ in range(2):
        for each in works:
            each()
    last = works[-1]
    del works
    others = [torch.full((4096,), 7.0, device="cuda") for _ in range(8)]
    last()
    torch.cuda.synchronize()
    assert Counter(cell.tolist()) == {2.0 * graphs._NUM_PAGES + 1.0: 4096}
    assert all(bool((other == 7.0).all()) for other in others)


@triton.jit
def _store(cell, VALUE: tl.constexpr):
    tl.store(cell, VALUE)


@needs_gpu
def test_an_executable_outlives_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is updated to another kernel when the one that it had is unloaded already."""
    from cuda.bindings import driver

    executables = graphs._Executables()
    monkeypatch.setattr(graphs, "_executables", lambda: executables)
    cell = torch.zeros(1, device="cuda")
    handles = []
    for value in (3.0, 5.0, 7.0):
        compiled = _store[(1,)](cell, value)
        module = check(driver.cuModuleLoadData(compiled.asm["cubin"]))
        function = check(driver.cuModuleGetFunction(module, compiled.metadata.name.encode()))
        packed = ((cell.data_ptr(), 0, 0), (ctypes.c_void_p,) * 3)
        threads = 32 * compiled.metadata.num_warps

        def launch(function: Any = function, packed: Any = packed, threads: int = threads) -> None:
            stream = torch.cuda.current_stream().cuda_stream
            check(driver.cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, packed, 0))

        work = capture(launch)
        cell.zero_()
        work()
        assert cell.item() == value
        handles.append(work._handle)
        del work
        check(driver.cuModuleUnload(module))
    assert len({int(handle) for handle in handles}) == 1


@needs_gpu
def test_what_waits_for_the_device_is_launched_by_python() -> None:
    """There is no graph of it."""
    cell = torch.ones(1, device="cuda")
    work = capture_or_launch(lambda: cell.add_(cell.item()))
    assert not isinstance(work, Graph)
    before = cell.item()
    work()
    assert cell.item() == 2.0 * before
