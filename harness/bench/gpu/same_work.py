"""Whether a candidate and its reference are timed alike: the same launches as both have a speedup of 1.

A candidate's launches come from a recorded plan, and lie in drawn places; a reference's come from PyTorch, and lie
where it allocates. What both can be is PyTorch's own kernels: a vector is filled, or what is above zero in it is
copied, by a step of a plan and by a reference.
"""

from __future__ import annotations

import statistics

import numpy as np
from attrs import frozen

from ....core.plan import ArgumentKind, Buffer, BufferKind, Fill, LaunchPlan, Operand, Operator, Step, View
from ....core.statistics.intervals import trimmed_mean
from ....core.task import Task
from ...gpu.backend import CudaBackend
from ...gpu.timing.protocol import Protocol, ReferenceSource

_SIZES = (1 << 13, 1 << 18, 1 << 20)
"""Elements of the vectors; on an H200 none takes 60 us."""
_WORKS = {
    "fill": "torch.full_like(x, 3.0)",
    "relu and copy": "torch.empty_like(x).copy_(torch.relu(x))",
}
"""What a reference returns of a vector `x`; `_step` says the same."""
_SOURCE = """
import torch
import torch.nn as nn

N = {size}


class Model(nn.Module):
    def forward(self, x):
        return {returned}


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
"""


@frozen(kw_only=True)
class SameWork:
    """One work on vectors of one size: microseconds as a candidate, and the reference's over these."""

    work: str
    num_elements: int
    us: float
    speedup: float


def compare(cuda: CudaBackend, protocol: Protocol, num_repeats: int, trim: float) -> list[SameWork]:
    """For each work and size the medians of so many measurements; what cannot be measured is left out."""
    return [
        found
        for work in _WORKS
        for size in _SIZES
        if (found := _compare_one(cuda, protocol, num_repeats, trim, work, size)) is not None
    ]


def _compare_one(
    cuda: CudaBackend, protocol: Protocol, num_repeats: int, trim: float, work: str, size: int
) -> SameWork | None:
    plan, task = describe(work, size)
    source = ReferenceSource(task=task, dtype="float32", seed=0)
    first, others = (np.random.default_rng(seed).standard_normal(size, dtype=np.float32) for seed in (1, 2))
    us, speedups = [], []
    for _ in range(num_repeats):
        trials = cuda.time(plan, {0: first.tobytes()}, {0: others.tobytes()}, source, protocol).trials
        if trials is not None:
            us.append(trimmed_mean(trials.us["candidate"], trim))
            speedups.append(trimmed_mean(trials.us["reference"], trim) / us[-1])
    if not us:
        return None
    return SameWork(work=work, num_elements=size, us=statistics.median(us), speedup=statistics.median(speedups))


def describe(work: str, size: int) -> tuple[LaunchPlan, Task]:
    """The same launches as a plan and as a task's reference."""
    given, result = (View(buffer=index, offset=0, shape=(size,), stride=(1,), dtype="float32") for index in (0, 1))
    buffers = (
        Buffer(kind=BufferKind.INPUT, name="0", dtype="float32", num_elements=size),
        Buffer(kind=BufferKind.TEMPORARY, name="", dtype="float32", num_elements=size),
    )
    plan = LaunchPlan(buffers=buffers, kernels=(), steps=(_step(work, given, result),), outputs=(result,))
    source = _SOURCE.format(size=size, returned=_WORKS[work])
    task = Task(task_id=f"{work}-{size}", level=1, family="unary", description=work, source=source)
    return plan, task


def _step(work: str, given: View, result: View) -> Step:
    if work == "fill":
        return Fill(target=result, value=3.0)
    # the result of an operator is copied to where the plan says
    operand = Operand(kind=ArgumentKind.VIEW, view=given)
    return Operator(name="relu.default", operands=(operand,), outputs=(result,))
