"""Where captured work comes to lie, and that it is the same work everywhere."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest
import torch
from tritonrl.harness.cuda import graphs
from tritonrl.harness.cuda.graphs import Graph, Spread, capture, capture_or_launch
from tritonrl.harness.cuda.launcher import DriverError, is_of_memory

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


class Noted(Graph):
    """Writes down when it is made executable."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self._name, self._notes = name, notes

    def __call__(self) -> None:
        pass

    def again(self) -> Callable[[], None]:
        """Another."""
        self._notes.append(self._name)
        return Noted(self._name, self._notes)


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was made executable again, in order; what takes up room is "filler"."""
    found: list[str] = []
    monkeypatch.setattr(graphs, "_filler", lambda: Noted("filler", found))
    return found


def test_short_work_lies_in_several_pages(notes: list[str]) -> None:
    """A filler before each further executable of it, and one before what is captured next."""
    spread = Spread(is_short=True)
    work = Noted("work", notes)
    works = spread.spread(work)
    assert works[0] is work
    assert len(works) == len(set(works)) == graphs._NUM_PAGES
    assert notes == ["filler", "work"] * (graphs._NUM_PAGES - 1)
    spread.move_on()
    assert notes[-1] == "filler"


def test_other_work_lies_where_it_comes_to_lie(notes: list[str]) -> None:
    """What is long, or is no graph, has one place and takes no room."""
    work = Noted("work", notes)
    spread = Spread(is_short=False)
    spread.move_on()
    assert spread.spread(work) == [work]

    def launch() -> None:
        pass

    assert Spread(is_short=True).spread(launch) == [launch]
    assert not notes


def test_what_can_be_made_executable_once_lies_in_one_page(notes: list[str]) -> None:
    """The driver's refusal to do it again is no failure of the work."""

    class Once(Noted):
        def again(self) -> Callable[[], None]:
            raise DriverError("CUDA_ERROR_NOT_SUPPORTED")

    work = Once("work", notes)
    assert Spread(is_short=True).spread(work) == [work]


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

    works = Spread(is_short=True).spread(capture(work, is_first=False))
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


@needs_gpu
def test_what_waits_for_the_device_is_launched_by_python() -> None:
    """There is no graph of it."""
    cell = torch.ones(1, device="cuda")
    work = capture_or_launch(lambda: cell.add_(cell.item()))
    assert not isinstance(work, Graph)
    before = cell.item()
    work()
    assert cell.item() == 2.0 * before
