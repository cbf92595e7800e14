"""Stand in for a GPU: answer what Triton and a candidate's host code ask of a device, for a named target.

A PyTorch without CUDA has neither cuDNN nor any architecture, and says so in many places. The answers here are those of
the CUDA 12.8 wheels; what is answered by a function that asks the missing runtime is refused (`refusal`).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import types
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from ..confinement import syscalls
from .refusal import refuse
from .target import Target


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
        return torch.device("cuda:0")

    def get_device_interface(self) -> Any:
        """Return PyTorch's module for the device."""
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
    capability = divmod(int(target.architecture), 10) if target.backend == "cuda" else (9, 4)
    properties = _CudaDeviceProperties(
        name=target.device,
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
        "get_device_name": lambda device=None: target.device,
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
    for name in _NUMBERS_OF_THREADS:
        setattr(torch, name, refuse(f"torch.{name}"))
    for name in _MEASURES:
        if hasattr(torch.cuda, name):
            setattr(torch.cuda, name, refuse(f"torch.cuda.{name}"))
    if target.backend == "cuda":
        _pretend_build(is_without_cuda=torch.version.cuda is None)
    for name, dtype in _LEGACY_TYPES.items():
        setattr(torch.cuda, name, _make_legacy_type(name, getattr(torch, dtype)))


_MEASURES = (
    *("clock_rate", "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated"),
    *("memory_reserved", "memory_snapshot", "memory_stats", "memory_summary", "memory_usage", "power_draw"),
    *("temperature", "utilization"),
)
"""What there is to measure on a device that works, and here is not."""
_NUMBERS_OF_THREADS = ("get_num_threads", "get_num_interop_threads")
"""One here, and another number with whoever uses a kernel."""


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
    """Make `torch.cuda.FloatTensor` and its kin for `isinstance`; as any build without CUDA they make no tensor."""

    class Meta(type):
        def __instancecheck__(cls, instance: Any) -> bool:
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
    def run() -> Any:
        syscalls.set_thread_user(os.geteuid())
        return subprocess.run(*arguments, **options)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


_CUDA, _CUDNN, _CUSPARSELT = "12.8", 91002, 702
_ARCHITECTURES = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
_RUNTIME = (
    *("caching_allocator_alloc", "caching_allocator_delete", "can_device_access_peer", "cudart"),
    *("current_blas_handle", "current_solver_handle", "get_allocator_backend", "get_per_process_memory_fraction"),
    *("get_rng_state", "get_rng_state_all", "get_stream_from_external", "get_sync_debug_mode", "graph_pool_handle"),
    *("initial_seed", "ipc_collect", "list_gpu_processes", "set_rng_state", "set_rng_state_all"),
    *("set_sync_debug_mode",),
)
"""Functions of `torch.cuda` that fail in a build without it."""


_ACCELERATOR: dict[str, Any] = {
    "is_available": lambda: True,
    "device_count": lambda: 1,
    "current_accelerator": lambda check_available=False: torch.device("cuda"),
    "current_device_index": lambda: 0,
    "current_device_idx": lambda: 0,
    "synchronize": lambda device=None: None,
}
_TORCH_DEVICE_MODULE = torch.get_device_module


def _get_device_module(device: Any = None) -> Any:
    name = "cuda" if device is None else torch.device(device).type
    return torch.cuda if name == "cuda" else _TORCH_DEVICE_MODULE(device)


def _pretend_build(is_without_cuda: bool) -> None:
    """Answer as a build with CUDA does, for the rest of this process."""
    for name in _RUNTIME:
        if hasattr(torch.cuda, name):
            setattr(torch.cuda, name, refuse(f"torch.cuda.{name}"))
    for name in ("version", "is_available"):
        setattr(torch.cuda.nccl, name, refuse(f"torch.cuda.nccl.{name}"))
    if not is_without_cuda:
        return
    torch.version.cuda = _CUDA
    suffix = f"+cu{_CUDA.replace('.', '')}"
    torch.__version__ = type(torch.__version__)(torch.__version__.replace("+cpu", suffix))
    torch.cuda.has_magma = True
    answers: dict[types.ModuleType, dict[str, Any]] = {
        torch: {"get_device_module": _get_device_module},
        torch.cuda: {
            "get_arch_list": lambda: list(_ARCHITECTURES),
            "init": lambda: None,
            "is_tf32_supported": lambda: torch.cuda.get_device_capability()[0] >= 8,
        },
        torch.backends.cuda: {"is_built": lambda: True, "is_flash_attention_available": lambda: True},
        torch.backends.cudnn: {
            "is_available": lambda: True,
            "version": lambda: _CUDNN,
            "is_acceptable": lambda tensor: tensor.is_cuda and tensor.is_floating_point(),
        },
        torch.backends.cusparselt: {"is_available": lambda: True, "version": lambda: _CUSPARSELT},
    }
    if hasattr(torch, "accelerator"):
        answers[torch.accelerator] = _ACCELERATOR
    for module, functions in answers.items():
        for name, answer in functions.items():
            _set_function(module, name, answer)


def _set_function(module: types.ModuleType, name: str, answer: Any) -> None:
    # some of these modules are objects that hand on what the module had
    holder = getattr(module, "m", module)
    for place in {id(module): module, id(holder): holder}.values():
        if hasattr(place, name):
            setattr(place, name, answer)
