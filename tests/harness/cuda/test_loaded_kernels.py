"""Which code stays in a context, in how many places, and what is unloaded when; the driver is made up."""

from __future__ import annotations

import pytest
from attrs import evolve
from tritonrl.core.plan import Kernel
from tritonrl.harness.cuda import launcher, timer
from tritonrl.harness.cuda.executor import Executor
from tritonrl.harness.cuda.launcher import LoadedKernel, LoadedKernels
from tritonrl.harness.cuda.memory import DeviceBuffers

from .pretend import pretend_gpu
from .test_timing_requests import PLAN, PROTOCOL, prepare, receive

KERNEL = Kernel(qualname="f", source_sha256="", binary="a", entry_point="f")


class MadeUpDriver:
    """Counts what is loaded."""

    def __init__(self) -> None:
        self.loaded: list[LoadedKernel] = []
        self.unloaded: list[LoadedKernel] = []

    def load(self, record: Kernel, binary: bytes) -> LoadedKernel:
        """One more copy."""
        self.loaded.append(LoadedKernel(function=record.entry_point, module=len(self.loaded)))
        return self.loaded[-1]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> MadeUpDriver:
    """A driver that is made up."""
    found = MadeUpDriver()
    monkeypatch.setattr(launcher, "load_kernel", found.load)
    monkeypatch.setattr(launcher, "unload_kernel", found.unloaded.append)
    monkeypatch.setattr(launcher, "_MOST_LOADED", 3)
    return found


def test_a_copy_is_loaded_once(driver: MadeUpDriver) -> None:
    """Kernels of other names, other code and other copies are others."""
    kernels = LoadedKernels()
    wanted = [(KERNEL, 0), (KERNEL, 1), (evolve(KERNEL, entry_point="g"), 0), (evolve(KERNEL, binary="b"), 0)]
    first = [kernels.load(record, b"", copy) for record, copy in wanted]
    assert len(driver.loaded) == len({one.module for one in first}) == len(wanted)
    assert [kernels.load(record, b"", copy) for record, copy in wanted] == first
    assert len(driver.loaded) == len(wanted)


def test_nothing_is_unloaded_while_something_is_prepared(driver: MadeUpDriver) -> None:
    """A plan may have more kernels, and copies of them, than stay loaded; what was used longest ago goes first."""
    kernels = LoadedKernels()
    first = [kernels.load(KERNEL, b"", copy) for copy in range(5)]
    assert not driver.unloaded
    kernels.load(KERNEL, b"", 0)
    kernels.make_room()
    assert driver.unloaded == [first[1], first[2]]
    kernels.make_room()
    assert len(driver.unloaded) == 2


@pytest.mark.parametrize(("is_short", "copies"), [(True, [0, 1, 2]), (False, [0, 0, 0])])
def test_what_is_short_is_timed_from_several_copies_of_its_code(
    monkeypatch: pytest.MonkeyPatch, is_short: bool, copies: list[int]
) -> None:
    """One in each place; where the code lies shows in no long kernel."""
    asked: list[int] = []
    prepared = Executor._prepare

    def noting(self: Executor, plan: object, buffers: DeviceBuffers, binaries: object, copy: int = 0) -> object:
        asked.append(copy)
        return prepared(self, PLAN, buffers, {}, copy)

    with pretend_gpu(monkeypatch):
        monkeypatch.setattr(Executor, "_prepare", noting)
        monkeypatch.setattr(timer, "is_short", lambda work: is_short)
        executor = Executor()
        assert receive(executor, source=None, protocol=PROTOCOL)["failure"] is None
        assert prepare(executor)[0]["failure"] is None
    assert asked == copies
