"""Captured work in pages of the driver's, on a GPU: it is the same work everywhere, and for as long as it is there."""

from __future__ import annotations

import ctypes
from collections import Counter
from functools import partial
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from tritonrl.harness.gpu.device.graphs import Scratch, capture, capture_for_pages
from tritonrl.harness.gpu.device.launcher import check
from tritonrl.harness.gpu.timing import pages as module
from tritonrl.harness.gpu.timing.pages import Pages, in_pages, put_in_page

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_every_executable_is_the_same_work() -> None:
    """Each call adds one, and what a capture allocates is alive as long as any of its executables."""
    cell = torch.zeros(4096, device="cuda")

    def work() -> None:
        cell.add_(cell * 0.0 + 1.0)

    works = in_pages(capture(work, is_first=False), Pages(), 3)
    for _ in range(2):
        for each in works:
            each()
    last = works[-1]
    del works
    others = [torch.full((4096,), 7.0, device="cuda") for _ in range(8)]
    last()
    torch.cuda.synchronize()
    assert Counter(cell.tolist()) == {2.0 * 3 + 1.0: 4096}
    assert all(bool((other == 7.0).all()) for other in others)


def test_a_capture_for_pages_is_launched_from_them_alone() -> None:
    """Each has what it was captured with, and what it allocates is alive as long as it is."""
    scratch, pages = Scratch(), Pages()
    cells = [torch.zeros(4096, device="cuda") for _ in range(5)]

    def add(cell: torch.Tensor) -> None:
        cell.add_(cell * 0.0 + 1.0)

    add(cells[0])
    works = [put_in_page(capture_for_pages(partial(add, cell), scratch), pages) for cell in cells]
    for work in works[1:]:
        work()
    others = [torch.full((4096,), 7.0, device="cuda") for _ in range(8)]
    works[-1]()
    assert [set(cell.tolist()) for cell in cells] == [{1.0}, {1.0}, {1.0}, {1.0}, {2.0}]
    assert all(bool((other == 7.0).all()) for other in others)


@triton.jit
def _store(cell, VALUE: tl.constexpr):
    tl.store(cell, VALUE)


@pytest.mark.parametrize("is_emptied", [True, False])
def test_a_page_outlives_the_code_in_it(is_emptied: bool) -> None:
    """What was in it is gone when it has another kernel, whether it was emptied before or not."""
    from cuda.bindings import driver

    pages = Pages()
    cell = torch.zeros(1, device="cuda")
    taken = []
    for value in (3.0, 5.0, 7.0):
        compiled = _store[(1,)](cell, value)
        module = check(driver.cuModuleLoadData(compiled.asm["cubin"]))
        function = check(driver.cuModuleGetFunction(module, compiled.metadata.name.encode()))
        packed = ((cell.data_ptr(), 0, 0), (ctypes.c_void_p,) * 3)
        threads = 32 * compiled.metadata.num_warps

        def launch(function: Any = function, packed: Any = packed, threads: int = threads) -> None:
            stream = torch.cuda.current_stream().cuda_stream
            check(driver.cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, packed, 0))

        work: Any = in_pages(capture(launch), pages, 1)[0]
        cell.zero_()
        work()
        assert cell.item() == value
        taken.append(work._page)
        del work
        if is_emptied:
            pages.empty()
        check(driver.cuModuleUnload(module))
    assert len(set(taken)) == 1
    pages.free()


@pytest.mark.parametrize("kind", ["memset", "cooperative"])
def test_what_an_addition_cannot_become_had_other_kernels_as_well(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of it had, and was updated to it; it does what was captured, in a page that had something else too."""
    from cuda.bindings import driver

    made: list[int] = []
    make = module._make
    monkeypatch.setattr(module, "_make", lambda graph: made.append(int(graph)) or make(graph))
    cell = torch.zeros(1, device="cuda")
    compiled = _store[(1,)](cell, 3.0)
    code = check(driver.cuModuleLoadData(compiled.asm["cubin"]))
    function = check(driver.cuModuleGetFunction(code, compiled.metadata.name.encode()))
    configuration, attribute = driver.CUlaunchConfig(), driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
    attribute.value.cooperative = 1
    configuration.gridDimX = configuration.gridDimY = configuration.gridDimZ = 1
    configuration.blockDimX, configuration.blockDimY = 32 * compiled.metadata.num_warps, 1
    configuration.blockDimZ, configuration.attrs, configuration.numAttrs = 1, [attribute], 1

    def store() -> None:
        configuration.hStream = torch.cuda.current_stream().cuda_stream
        if kind == "memset":
            check(driver.cuMemsetD32Async(cell.data_ptr(), 0, 1, configuration.hStream))
            cell.add_(3.0)
        else:
            packed = ((cell.data_ptr(), 0, 0), (ctypes.c_void_p,) * 3)
            check(driver.cuLaunchKernelEx(configuration, function, packed, 0))

    pages = Pages()
    graph = capture(store)
    for _ in range(2):
        works = in_pages(graph, pages, 2)
        assert len(works) == 2
        for work in works:
            cell.fill_(9.0)
            work()
            assert cell.item() == 3.0
        del work, works
        (other,) = in_pages(capture(lambda: cell.mul_(2.0)), pages, 1)
        other()
        assert cell.item() == 12.0  # once before the capture
        del other
    assert int(graph.raw) not in made
    pages.free()


def test_a_page_takes_graphs_of_several_forms() -> None:
    """Each as it was captured; there is a page for each form."""
    pages = Pages()
    cell = torch.zeros(1, device="cuda")
    for number in (1, 3, 1, 2, 3):

        def add(number: int = number) -> None:
            for _ in range(number):
                cell.add_(1.0)

        cell.zero_()
        work = in_pages(capture(add, is_first=False), pages, 1)[0]
        work()
        assert cell.item() == number
        del work
    pages._settle()
    assert sum(map(len, pages._idle.values())) == 3
