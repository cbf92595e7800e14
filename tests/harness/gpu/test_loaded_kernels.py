"""When code is loaded and unloaded; the driver is made up."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tritonrl.core.plan import Kernel, Launch, LaunchPlan
from tritonrl.harness.gpu.device.launcher import LoadedKernel
from tritonrl.harness.gpu.executor import Executor

KERNEL = Kernel(qualname="f", source_sha256="", binary="a", entry_point="f", shared_bytes=64 << 10)


class Driver(ModuleType):
    """Counts what is loaded."""

    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)

    def __init__(self) -> None:
        super().__init__("driver")
        self.loaded: list[bytes] = []
        self.unloaded: list[int] = []
        self.shared: list[int] = []

    def cuModuleLoadData(self, binary: bytes) -> tuple[int, int]:
        self.loaded.append(binary)
        return 0, len(self.loaded)

    def cuModuleGetFunction(self, module: int, name: bytes) -> tuple[int, str]:
        return 0, f"{name.decode()} of {module}"

    def cuFuncSetAttribute(self, function: str, attribute: int, value: int) -> tuple[int]:
        self.shared.append(value)
        return (0,)

    def cuModuleUnload(self, module: int) -> tuple[int]:
        self.unloaded.append(module)
        return (0,)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    """A driver that is made up."""
    found = Driver()
    bindings: Any = ModuleType("cuda.bindings")
    bindings.driver = found
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    return found


def test_code_is_unloaded_when_nobody_holds_it(driver: Driver) -> None:
    """Each time that it is loaded it is another module."""
    first, second = LoadedKernel(KERNEL, b"code"), LoadedKernel(KERNEL, b"code")
    assert (first.function, second.function) == ("f of 1", "f of 2")
    assert driver.loaded == [b"code", b"code"]
    assert driver.shared == [64 << 10] * 2
    del first
    assert driver.unloaded == [1]
    del second
    assert driver.unloaded == [1, 2]


def test_what_is_prepared_keeps_its_code(driver: Driver) -> None:
    """A kernel that is launched twice is loaded once; with what launches it, it goes."""
    launch = Launch(kernel=0, grid=(1, 1, 1), arguments=())
    plan = LaunchPlan(buffers=(), kernels=(KERNEL,), steps=(launch, launch), outputs=())
    perform = Executor().prepare(plan, SimpleNamespace(address=None), {"a": b"code"})  # type: ignore[arg-type]
    assert (driver.loaded, driver.unloaded) == ([b"code"], [])
    del perform
    assert driver.unloaded == [1]
