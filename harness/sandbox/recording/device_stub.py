"""Stand in for a GPU: answer what Triton and a candidate's host code ask of a device, for a named target.

Shared memory is the opt-in limit of one block, in bytes: CUDA C++ Programming Guide, "Compute Capabilities" table
(maximum amount of shared memory per thread block); for gfx942, the CDNA 3 ISA's 64 KB of local data share.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import types
from typing import Any

from attrs import frozen

from ..confinement import syscalls
from .refusal import refuse

_SHARED_BYTES = {
    70: 98304,
    75: 65536,
    80: 166912,
    86: 101376,
    87: 166912,
    89: 101376,
    90: 232448,
    100: 232448,
    101: 232448,
    103: 232448,
    120: 101376,
    121: 101376,
}
_NAMES: dict[int | str, str] = {
    80: "NVIDIA A100-SXM4-80GB",
    86: "NVIDIA RTX A6000",
    89: "NVIDIA GeForce RTX 4090",
    90: "NVIDIA H100 80GB HBM3",
    100: "NVIDIA B200",
    120: "NVIDIA GeForce RTX 5090",
}
_NUM_PROCESSORS = {80: 108, 86: 84, 89: 128, 90: 132, 100: 148, 120: 170}


@frozen(kw_only=True)
class Target:
    """An architecture to compile for."""

    name: str
    backend: str
    architecture: int | str
    warp_size: int
    shared_bytes: int
    num_processors: int

    @property
    def binary(self) -> str:
        """Which of Triton's products is the loadable code."""
        return "cubin" if self.backend == "cuda" else "hsaco"


def parse_target(name: str) -> Target:
    """Return the target that a name such as "sm_90" or "gfx942" means; raises ValueError."""
    if name.startswith("gfx") and name[3:].isalnum():
        wave = 64 if name.startswith("gfx9") else 32
        return Target(
            name=name, backend="hip", architecture=name, warp_size=wave, shared_bytes=65536, num_processors=304
        )
    digits = name.removeprefix("sm_").removesuffix("a")
    capability = int(digits) if name.startswith("sm_") and digits.isdecimal() else 0
    if capability < min(_SHARED_BYTES):
        raise ValueError(f"{name!r} is no target; write sm_90 or gfx942")
    return Target(
        name=name,
        backend="cuda",
        architecture=capability,
        warp_size=32,
        shared_bytes=_SHARED_BYTES.get(capability, 101376),
        num_processors=_NUM_PROCESSORS.get(capability, 132),
    )


class StubDriver:
    """Stands where Triton's GPU driver would: names the target, so that `warmup=True` compiles with no GPU."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.utils = _DriverUtils(get_device_properties=lambda device: _triton_properties(target))

    def __getattr__(self, name: str) -> Any:
        """Refuse whatever else a driver has; it takes a GPU."""
        return _look_up("triton.runtime.driver.active", name)

    def install(self) -> None:
        """Be the driver of this process, by the name that it would have on a GPU."""
        from triton.runtime import driver

        is_cuda = self._target.backend == "cuda"
        home = f"triton.backends.{'nvidia' if is_cuda else 'amd'}.driver"
        for kind, name in ((type(self), "Driver"), (_DriverUtils, "Utils")):
            kind.__name__ = kind.__qualname__ = ("Cuda" if is_cuda else "HIP") + name
            kind.__module__ = home
        driver.set_active(self)
        if "_default" in vars(driver):
            driver._default = self

    def get_current_target(self) -> Any:
        """Return the architecture in Triton's terms."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget(self._target.backend, self._target.architecture, self._target.warp_size)

    def get_current_device(self) -> int:
        """Return the one device."""
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        """Return the default stream."""
        return 0

    def get_active_torch_device(self) -> Any:
        """Return the device that host code allocates on."""
        import torch

        return torch.device("cuda:0")

    def get_device_interface(self) -> Any:
        """PyTorch's module for the device."""
        import torch

        return torch.cuda


class _DriverUtils(types.SimpleNamespace):
    """Stands in for the part of a driver that loads kernels."""

    def __getattr__(self, name: str) -> Any:
        """Refuse whatever nobody has set."""
        return _look_up("triton.runtime.driver.active.utils", name)


def _look_up(path: str, name: str) -> Any:
    if name.startswith("__"):  # Python asks for these itself
        raise AttributeError(name)
    return refuse(f"{path}.{name}")()


def _triton_properties(target: Target) -> dict[str, int]:
    return {
        "max_shared_mem": target.shared_bytes,
        "max_num_regs": 65536,
        "multiprocessor_count": target.num_processors,
        "warpSize": target.warp_size,
        "sm_clock_rate": 1_980_000,
        "mem_clock_rate": 3_201_000,
        "mem_bus_width": 6144,
    }


class _CudaDeviceProperties(types.SimpleNamespace):
    """Answers what PyTorch says of a device; what is not known here is refused."""

    def __getattr__(self, name: str) -> Any:
        """Refuse whatever nobody has set."""
        return _look_up("torch.cuda.get_device_properties()", name)


def pretend_device(target: Target) -> None:
    """Answer the questions about the device that host code asks of `torch.cuda`, for the rest of this process."""
    import torch

    from .build_of_torch import pretend_build

    capability = divmod(int(target.architecture), 10) if target.backend == "cuda" else (9, 4)
    name_of_device = _NAMES.get(target.architecture, "NVIDIA GPU") if target.backend == "cuda" else target.name
    properties = _CudaDeviceProperties(
        name=name_of_device,
        major=capability[0],
        minor=capability[1],
        multi_processor_count=target.num_processors,
        total_memory=80 << 30,
        warp_size=target.warp_size,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=target.shared_bytes,
        shared_memory_per_multiprocessor=target.shared_bytes + 1024,
        regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=2048,
        L2_cache_size=50 << 20,
        is_integrated=0,
        is_multi_gpu_board=0,
        gcnArchName=target.name,
    )
    stream = types.SimpleNamespace(cuda_stream=0, synchronize=lambda: None)
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "is_current_stream_capturing": lambda: False,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_properties": lambda device=None: properties,
        "get_device_capability": lambda device=None: capability,
        "get_device_name": lambda device=None: name_of_device,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "set_device": lambda device: None,
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "device": lambda device=None: contextlib.nullcontext(),
        "device_of": lambda tensor=None: contextlib.nullcontext(),
        # a CUDA build of torch would start the driver, which a forked child cannot and a recording need not
        "_lazy_init": lambda: None,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    for name in _MEASURES:
        if hasattr(torch.cuda, name):
            setattr(torch.cuda, name, refuse(f"torch.cuda.{name}"))
    if target.backend == "cuda":
        pretend_build(is_without_cuda=torch.version.cuda is None)
    for name, dtype in _LEGACY_TYPES.items():
        setattr(torch.cuda, name, _make_legacy_type(name, getattr(torch, dtype)))


_MEASURES = (
    *("clock_rate", "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated"),
    *("memory_reserved", "memory_snapshot", "memory_stats", "memory_summary", "memory_usage", "power_draw"),
    *("temperature", "utilization"),
)
"""What there is to measure on a device that works, and here is not."""


_LEGACY_TYPES = {
    "BFloat16Tensor": "bfloat16",
    "BoolTensor": "bool",
    "ByteTensor": "uint8",
    "CharTensor": "int8",
    "DoubleTensor": "float64",
    "FloatTensor": "float32",
    "HalfTensor": "float16",
    "IntTensor": "int32",
    "LongTensor": "int64",
    "ShortTensor": "int16",
}


def _make_legacy_type(name: str, dtype: Any) -> Any:
    """`torch.cuda.FloatTensor` and its kin, for `isinstance`; as any build without CUDA they make no tensor."""

    class Meta(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            import torch

            return isinstance(instance, torch.Tensor) and instance.is_cuda and instance.dtype == dtype

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            raise TypeError(f"type torch.cuda.{name} not available")

    return Meta(name, (), {"__module__": "torch.cuda", "dtype": dtype, "is_cuda": True})


def run_tools_as_one_user() -> None:
    """Start Triton's assembler with real uid = effective uid, for the rest of this process.

    Under root a child's two uids differ (`confinement`), and on `exec` the kernel would take the effective one away. So
    a thread starts it whose uids are the same: `subprocess` does without a fork then, as it does where it need not
    change users, and a fork costs 16 ms here, more than what a small kernel takes to be assembled.
    """
    from triton.backends.nvidia import compiler

    shim = types.SimpleNamespace(**vars(subprocess))
    if os.geteuid() == 0:
        shim.run = _run_as_one_user
    compiler.subprocess = shim


def know_the_compiler_by_its_version() -> None:
    """Have Triton's cache tell its compiler by the version, for the rest of this process.

    It reads and hashes all of its files otherwise, 0.5 s, and no cache here is shared with another Triton.
    """
    import triton
    from triton.runtime import cache

    cache.triton_key = lambda: triton.__version__


def _run_as_one_user(*arguments: Any, **options: Any) -> Any:
    finished: list[Any] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            syscalls.set_thread_user(os.geteuid())
            finished.append(subprocess.run(*arguments, **options))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return finished[0]
