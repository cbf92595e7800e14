"""Simulated timing: an estimate of runtimes on a named GPU, for machines that have none.

The estimate is a roofline with four terms a launch: a fixed cost, bytes over bandwidth, operations over the peak of
the units that the kernel uses, and the rate at which programs can be started. Too few programs leave multiprocessors
idle, too many small ones wait for each other, so the choice of block sizes shows. It is deterministic; noise is added
on purpose (log-normal, with the coefficient of variation that a protocol was measured to have), because the study asks
what timing noise does to training. Whatever comes from here is an estimate: it is never called a speedup.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from attrs import evolve, frozen

from ..core.plan import BufferKind, Kernel, Launch, LaunchPlan, View, views_of
from .plan_validation import read_views, written_views

ITEM_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
LAUNCH_US = 2.5
"""Cost of a small kernel on the device with its launch queued ahead, as in CUDA-graph replay (measured on an H200)."""
EFFICIENCY = 0.8
"""Share of the data sheet's peaks that a good kernel reaches; the same for both sides, so it hardly moves a ratio."""
_PROGRAM_START_US = 0.4
_WARPS_TO_SATURATE = 8
"""Warps in flight that a multiprocessor needs to keep its share of the memory bus busy."""


@frozen(kw_only=True)
class Gpu:
    """Data-sheet figures of the SXM variant; TFLOPS are dense, without sparsity."""

    name: str
    bandwidth_tb_s: float
    num_multiprocessors: int
    vector_tflops: float
    tf32_tflops: float
    half_tflops: float
    shared_bytes: int
    max_warps: int = 64
    max_programs: int = 32


# NVIDIA's data sheets: H200 and H100 (SXM, 2024) and A100 80 GB (SXM, 2021)
_H200 = Gpu(
    name="h200",
    bandwidth_tb_s=4.8,
    num_multiprocessors=132,
    vector_tflops=67.0,
    tf32_tflops=494.7,
    half_tflops=989.5,
    shared_bytes=232_448,
)
_A100 = Gpu(
    name="a100",
    bandwidth_tb_s=2.039,
    num_multiprocessors=108,
    vector_tflops=19.5,
    tf32_tflops=156.0,
    half_tflops=312.0,
    shared_bytes=166_912,
)
GPUS = {gpu.name: gpu for gpu in (_H200, evolve(_H200, name="h100", bandwidth_tb_s=3.35), _A100)}


@frozen(kw_only=True)
class EagerOperator:
    """One operator of the reference as PyTorch would run it: bytes it moves, and operations of a matrix product."""

    name: str
    num_bytes: int
    most_elements: int = 0
    """Of the largest tensor that it takes or returns."""
    matmul_flops: int = 0
    dtype: str = "float32"
    axes: tuple[int, ...] = ()
    """What it works along: those that it is given, or all where it leaves none; empty where it does neither."""
    is_pointwise: bool = False
    """Whether each element that it returns follows from single elements, as PyTorch's tags say."""
    num_along: int = 1
    """Of how many elements each that it returns is made: those along its axes, or in a product's sum."""

    @property
    def short_name(self) -> str:
        """Return the name without name space and overload."""
        return self.name.split(".")[1]


def estimate_reference_us(operators: Sequence[EagerOperator], gpu: Gpu) -> float:
    """Runtime of eager PyTorch: one kernel an operator; float32 products without TF32, which is PyTorch's default."""
    total = 0.0
    for operator in operators:
        peak = gpu.half_tflops if operator.dtype in ("float16", "bfloat16") else gpu.vector_tflops
        total += LAUNCH_US + max(_bytes_us(operator.num_bytes, gpu), _flops_us(operator.matmul_flops, peak))
    return max(total, LAUNCH_US)


def estimate_plan_us(plan: LaunchPlan, matmul_flops: int, gpu: Gpu) -> float:
    """Runtime of a launch plan; the task's matrix operations are shared by the launches that use matrix units.

    Where no launch does, they are shared by all launches and run on the vector units. However small the views that
    launches were given, a plan takes as long as reading what it was given once and writing what it returns.
    """
    with_dot = [launch for launch in plan.launches if plan.kernels[launch.kernel].has_dot]
    share = matmul_flops / max(1, len(with_dot) or len(plan.launches))
    total = 0.0
    for step in plan.steps:
        if isinstance(step, Launch):
            kernel = plan.kernels[step.kernel]
            total += _launch_us(step, kernel, share if kernel.has_dot or not with_dot else 0.0, gpu)
        else:
            total += LAUNCH_US + _bytes_us(sum(map(_view_bytes, views_of(step))), gpu)
    return max(total, LAUNCH_US + _bytes_us(_least_bytes(plan), gpu))


def _least_bytes(plan: LaunchPlan) -> int:
    used = {view.buffer for launch in plan.launches for view in launch.views.values()}
    given = [plan.buffers[index] for index in used if plan.buffers[index].kind is not BufferKind.TEMPORARY]
    read = sum(buffer.num_elements * ITEM_BYTES.get(buffer.dtype, 4) for buffer in given)
    return read + sum(map(_view_bytes, plan.outputs))


def _launch_us(launch: Launch, kernel: Kernel, flops: float, gpu: Gpu) -> float:
    num_bytes = sum(map(_view_bytes, (*read_views(launch, kernel), *written_views(launch, kernel))))
    num_programs = max(1, math.prod(launch.grid))
    num_warps = kernel.num_warps or 4
    busy = min(1.0, num_programs / gpu.num_multiprocessors)
    fed = min(1.0, num_programs * num_warps / (gpu.num_multiprocessors * _WARPS_TO_SATURATE))
    memory_us = _bytes_us(num_bytes, gpu) / fed
    compute_us = _flops_us(flops, _peak_tflops(launch, kernel, gpu)) / busy
    resident = min(gpu.max_programs, gpu.max_warps // num_warps)
    if kernel.shared_bytes:
        resident = min(resident, gpu.shared_bytes // kernel.shared_bytes)
    num_waves = math.ceil(num_programs / (gpu.num_multiprocessors * max(1, resident)))
    return LAUNCH_US + max(memory_us, compute_us, num_waves * _PROGRAM_START_US)


def _peak_tflops(launch: Launch, kernel: Kernel, gpu: Gpu) -> float:
    if not kernel.has_dot or kernel.dot_precision == "ieee":
        is_half = kernel.has_dot and _is_half(launch)
        return gpu.half_tflops if is_half else gpu.vector_tflops
    if _is_half(launch):
        return gpu.half_tflops
    return gpu.tf32_tflops / 3.0 if kernel.dot_precision == "tf32x3" else gpu.tf32_tflops


def _is_half(launch: Launch) -> bool:
    first = next(iter(launch.views.values()), None)
    return first is not None and first.dtype in ("float16", "bfloat16")


def _view_bytes(view: View) -> int:
    # an expanded dimension (stride 0) is fetched once and then served by the cache
    extents = (extent for extent, stride in zip(view.shape, view.stride, strict=True) if stride != 0)
    return math.prod(extents) * ITEM_BYTES.get(view.dtype, 4)


def _bytes_us(num_bytes: float, gpu: Gpu) -> float:
    return num_bytes / (gpu.bandwidth_tb_s * EFFICIENCY * 1e6)


def _flops_us(flops: float, tflops: float) -> float:
    return flops / (tflops * EFFICIENCY * 1e6)


def add_noise(runtime_us: float, cv: float, num_trials: int, seed: int) -> tuple[float, ...]:
    """Trials of a measurement whose result has coefficient of variation `cv`, keyed by `seed` alone.

    One log-normal factor is common to the trials of a measurement (timing state, placement: what repeating a trial does
    not average out), with median 1; it carries the whole `cv`. Trials spread around it by a tenth of `cv`.
    """
    generator = np.random.default_rng(seed)
    sigma = math.sqrt(math.log1p(cv * cv))
    common = runtime_us * math.exp(sigma * generator.standard_normal())
    spread = np.exp(0.1 * sigma * generator.standard_normal(num_trials)) if num_trials > 1 else np.ones(1)
    return tuple(float(trial) for trial in common * spread)
