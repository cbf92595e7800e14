"""Which code stays in a context, and what is unloaded when; the driver is made up."""

from __future__ import annotations

import pytest
from attrs import evolve
from tritonrl.core.plan import Kernel
from tritonrl.harness.gpu.device import launcher
from tritonrl.harness.gpu.device.launcher import LoadedKernel, LoadedKernels

KERNEL = Kernel(qualname="f", source_sha256="", binary="a", entry_point="f")


class MadeUpDriver:
    """Counts what is loaded."""

    def __init__(self) -> None:
        self.loaded: list[LoadedKernel] = []
        self.unloaded: list[LoadedKernel] = []

    def load(self, record: Kernel, binary: bytes) -> LoadedKernel:
        """One more."""
        self.loaded.append(LoadedKernel(function=record.entry_point, module=len(self.loaded)))
        return self.loaded[-1]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> MadeUpDriver:
    """A driver that is made up."""
    found = MadeUpDriver()
    monkeypatch.setattr(launcher, "load_kernel", found.load)
    monkeypatch.setattr(launcher, "unload_kernel", found.unloaded.append)
    monkeypatch.setattr(launcher, "_MOST_LOADED", 6)
    return found


def test_a_kernel_is_loaded_once(driver: MadeUpDriver) -> None:
    """Kernels of other names and other code are others."""
    kernels = LoadedKernels()
    records = [KERNEL, evolve(KERNEL, entry_point="g"), evolve(KERNEL, binary="b")]
    first = [kernels.load(record, b"") for record in records]
    assert len(driver.loaded) == len({one.module for one in first}) == len(records)
    assert [kernels.load(record, b"") for record in records] == first
    assert len(driver.loaded) == len(records)
    another = kernels.load(KERNEL, b"", copy=1)
    assert another not in first
    assert kernels.load(KERNEL, b"", copy=1) is another


def test_nothing_is_unloaded_while_something_is_prepared(driver: MadeUpDriver) -> None:
    """A plan may have more kernels than stay loaded; what was used longest ago goes first, and half of all."""
    kernels = LoadedKernels()
    records = [evolve(KERNEL, entry_point=name) for name in "abcdefg"]
    first = [kernels.load(record, b"") for record in records]
    assert not driver.unloaded
    assert kernels.are_too_many
    kernels.load(records[0], b"")
    kernels.make_room()
    assert driver.unloaded == first[1:5]
    assert not kernels.are_too_many
    kernels.make_room()
    assert len(driver.unloaded) == 4
    kernels.clear()
    assert set(driver.unloaded) == set(first)
