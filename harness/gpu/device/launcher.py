"""Compiled kernels, loaded and launched through the CUDA driver.

A plan's kernel comes as the code that Triton compiled without a GPU, with what its launcher would know of it: the types
of its run-time parameters, shared memory, clusters, cooperative grids, scratch memory. PyTorch's own binding of the
driver is used (`cuda.bindings`), on the stream that PyTorch is using. `failure_of` says what an error in an
executor means for the plan that it ran.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ....core.candidate import Failure
from ....core.outcome import Outcome
from ....core.plan import Argument, ArgumentKind, Kernel, Launch

_KINDS: dict[str, Any] = {
    "i1": ctypes.c_int8,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "u1": ctypes.c_uint8,
    "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32,
    "u64": ctypes.c_uint64,
    "fp32": ctypes.c_float,
    "f32": ctypes.c_float,
    "fp64": ctypes.c_double,
}
_OF_MEMORY = ("OUT_OF_MEMORY", "out of memory", "ALLOC_FAILED")
_OF_ADDRESSES = (
    "ILLEGAL_ADDRESS",
    "illegal memory access",
    "LAUNCH_FAILED",
    "unspecified launch failure",
    "MISALIGNED",
    "misaligned",
    "ADDRESS_SPACE",
    "address space",
)
"""What the driver and PyTorch say of a kernel that went where it has nothing to do."""
_SHARED_WITHOUT_ASKING = 48 << 10
_THREADS_PER_WARP = 32


class Unsupported(Exception):
    """This backend cannot do what is asked of it: a kind of launch, a view outside its buffer, a reference."""


class DriverError(Exception):
    """The CUDA driver refused a call; the message is its name for the reason."""


def is_of_memory(error: Exception) -> bool:
    """Whether an error says that the device's memory did not suffice, in whose words ever."""
    return isinstance(error, torch.cuda.OutOfMemoryError) or any(name in str(error) for name in _OF_MEMORY)


class Fatal(Exception):
    """The context is lost; the process must end after this answer."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def failure_of(error: Exception) -> Failure:
    """The outcome of the plan in whose run the error came; raises Fatal where the context is lost with it."""
    if isinstance(error, Fatal):
        raise error
    text = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
    is_of_addresses = any(name in text for name in _OF_ADDRESSES)
    if is_of_addresses or _is_lost():
        outcome = Outcome.OUT_OF_BOUNDS if is_of_addresses else Outcome.CRASHED
        raise Fatal(Failure(outcome, text)) from error
    if isinstance(error, Unsupported):
        return Failure(Outcome.UNSUPPORTED, text)
    if is_of_memory(error):
        return Failure(Outcome.MEMORY_LIMIT, text)
    if isinstance(error, DriverError) and "OUT_OF_RESOURCES" in text:
        return Failure(Outcome.OUT_OF_RESOURCES, text)
    return Failure(Outcome.RUN_FAILED, text)


def _is_lost() -> bool:
    """Whether the context has met an error that stays, so that whatever comes next fails by it too."""
    try:
        torch.cuda.synchronize()
    except Exception:
        return True
    return False


def check(result: tuple[Any, ...]) -> Any:
    """The value of a driver call, or DriverError."""
    code, *values = result
    if int(code) != 0:
        raise DriverError(code.name)
    return values[0] if len(values) == 1 else tuple(values)


class LoadedKernel:
    """A kernel's code in the current context, at an address of its own; unloaded when nobody holds it any more.

    It is to be held until its launches are over.
    """

    def __init__(self, record: Kernel, binary: bytes) -> None:
        from cuda.bindings import driver

        module = check(driver.cuModuleLoadData(binary))
        weakref.finalize(self, driver.cuModuleUnload, module).atexit = False
        self.function = check(driver.cuModuleGetFunction(module, (record.entry_point or "").encode()))
        shared = record.shared_bytes or 0
        if shared > _SHARED_WITHOUT_ASKING:
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            check(driver.cuFuncSetAttribute(self.function, attribute, shared))


def make_launch(
    kernel: LoadedKernel, record: Kernel, launch: Launch, address_of: Callable[[Argument], int]
) -> tuple[Callable[[], None], list[torch.Tensor]]:
    """A function that puts the launch on PyTorch's current stream, and the scratch memory that it needs.

    The function keeps the code loaded.
    """
    from cuda.bindings import driver

    arguments: Mapping[str, Argument] = {argument.name: argument for argument in launch.arguments}
    packed, scratch = _pack(record, launch, arguments, address_of)
    block = _THREADS_PER_WARP * (record.num_warps or 4)
    shared, grid = record.shared_bytes or 0, launch.grid

    if record.num_ctas == 1 and not record.is_cooperative:

        def put() -> None:
            stream = torch.cuda.current_stream().cuda_stream
            check(driver.cuLaunchKernel(kernel.function, *grid, block, 1, 1, shared, stream, packed, 0))

        return put, scratch

    configuration = driver.CUlaunchConfig()
    configuration.gridDimX, configuration.gridDimY, configuration.gridDimZ = grid[0] * record.num_ctas, grid[1], grid[2]
    configuration.blockDimX, configuration.blockDimY, configuration.blockDimZ = block, 1, 1
    configuration.sharedMemBytes = shared
    configuration.attrs = _attributes(record)
    configuration.numAttrs = len(configuration.attrs)

    def put_configured() -> None:
        configuration.hStream = torch.cuda.current_stream().cuda_stream
        check(driver.cuLaunchKernelEx(configuration, kernel.function, packed, 0))

    return put_configured, scratch


def _attributes(record: Kernel) -> list[Any]:
    from cuda.bindings import driver

    attributes = []
    if record.num_ctas > 1:
        cluster = driver.CUlaunchAttribute()
        cluster.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        cluster.value.clusterDim.x, cluster.value.clusterDim.y, cluster.value.clusterDim.z = record.num_ctas, 1, 1
        attributes.append(cluster)
    if record.is_cooperative:
        cooperative = driver.CUlaunchAttribute()
        cooperative.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        cooperative.value.cooperative = 1
        attributes.append(cooperative)
    return attributes


def _pack(
    record: Kernel, launch: Launch, arguments: Mapping[str, Argument], address_of: Callable[[Argument], int]
) -> tuple[tuple[tuple[Any, ...], tuple[Any, ...]], list[torch.Tensor]]:
    """Values and types of the run-time parameters, Triton's two scratch pointers last."""
    pairs = [_parameter(arguments[name], kind, address_of) for name, kind in record.signature]
    scratch = []
    if record.scratch_bytes:
        num_blocks = math.prod(launch.grid) * record.num_ctas
        scratch.append(torch.empty(num_blocks * record.scratch_bytes, dtype=torch.uint8, device="cuda"))
    pairs += [(scratch[0].data_ptr() if scratch else 0, ctypes.c_void_p), (0, ctypes.c_void_p)]
    return (tuple(value for value, _ in pairs), tuple(kind for _, kind in pairs)), scratch


def _parameter(argument: Argument, kind: str, address_of: Callable[[Argument], int]) -> tuple[Any, Any]:
    if kind.startswith("*"):
        return (address_of(argument) if argument.kind is ArgumentKind.VIEW else 0), ctypes.c_void_p
    if kind in ("fp16", "bf16"):
        dtype = torch.float16 if kind == "fp16" else torch.bfloat16
        return int(torch.tensor(_number(argument), dtype=dtype).view(torch.int16).item()), ctypes.c_int16
    if kind not in _KINDS:
        raise Unsupported(f"argument {argument.name} of type {kind}")
    number = _number(argument)
    return (float(number) if kind.startswith("f") else int(number)), _KINDS[kind]


def _number(argument: Argument) -> float | int:
    if argument.number is not None:
        return argument.number
    return float(argument.text or "nan")
