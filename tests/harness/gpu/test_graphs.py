"""What is captured, and what may happen meanwhile."""

from __future__ import annotations

import gc
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tritonrl.harness.gpu.device import graphs
from tritonrl.harness.gpu.device.graphs import Graph, PageFillers, capture_or_launch
from tritonrl.harness.gpu.device.launcher import DriverError, is_of_memory

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


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


def test_what_the_work_raised_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A capture that it spoilt has no more to say; one that is spoilt by nothing else does."""

    class Captured:
        def __init__(self, keep_graph: bool) -> None:
            pass

        def capture_begin(self) -> None:
            pass

        def capture_end(self) -> None:
            raise RuntimeError("capture was invalidated")

    def refuse() -> None:
        raise DriverError("CUDA_ERROR_OUT_OF_MEMORY")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Captured)
    with pytest.raises(DriverError, match="OUT_OF_MEMORY"):
        graphs._record(refuse, None)
    with pytest.raises(RuntimeError, match="invalidated"):
        graphs._record(lambda: None, None)


class FillerDriver:
    """A driver that makes so many graphs executable."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.made: list[int] = []
        self.uploaded: list[int] = []

    def cuGraphInstantiate(self, graph: object, flags: int) -> tuple[Any, int]:
        if len(self.made) == self.most:
            return OutOfMemory(2), 0
        self.made.append(len(self.made))
        return 0, self.made[-1]

    def cuGraphUpload(self, executable: int, stream: int) -> tuple[int]:
        self.uploaded.append(executable)
        return (0,)

    def cuGraphExecDestroy(self, executable: int) -> tuple[int]:
        self.made.remove(executable)
        return (0,)


class OutOfMemory(int):
    """An error as the driver gives it."""

    name = "CUDA_ERROR_OUT_OF_MEMORY"


def test_fillers_are_on_the_device_as_long_as_they_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is uploaded; where memory ends there are fewer."""
    driver = FillerDriver(3)
    monkeypatch.setattr(graphs, "load_driver", lambda: driver)
    monkeypatch.setattr(graphs, "_capture_filler", lambda: SimpleNamespace(raw="filler"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0))
    fillers = PageFillers()
    for _ in range(5):
        fillers.add()
    assert driver.made == driver.uploaded == [0, 1, 2]
    del fillers
    assert driver.made == []


def test_a_graph_keeps_what_it_launches() -> None:
    """And goes before that."""
    order: list[str] = []

    class Captured:
        def __del__(self) -> None:
            order.append("graph")

    class Code:
        def __call__(self) -> None: ...

        def __del__(self) -> None:
            order.append("code")

    graph = Graph(Captured(), Code())
    assert order == []
    del graph
    assert order == ["graph", "code"]


@needs_gpu
def test_fillers_part_what_is_captured() -> None:
    """Graphs with a filler between them are replayed as any other."""
    cell = torch.zeros(1, device="cuda")
    fillers = PageFillers()
    works = []
    for _ in range(3):
        works.append(graphs.capture(lambda: cell.add_(1.0)))
        fillers.add()
    assert len(fillers._executables) == 3
    before = cell.item()
    for work in works:
        work()
    assert cell.item() == before + 3.0


@needs_gpu
def test_what_waits_for_the_device_is_launched_by_python() -> None:
    """There is no graph of it."""
    cell = torch.ones(1, device="cuda")
    work = capture_or_launch(lambda: cell.add_(cell.item()))
    assert not isinstance(work, Graph)
    before = cell.item()
    work()
    assert cell.item() == 2.0 * before
