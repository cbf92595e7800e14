"""Whether a candidate and its reference are timed alike: the same launches as both have a speedup of 1.

A candidate's launches come from a recorded plan, lie in drawn places and are replayed from pages that others had; a
reference's come from PyTorch, lie where it allocates and have pages of their own. What both can be is PyTorch's own
kernel: filling a vector is a step of plans and one launch of a reference that returns one.
"""

from __future__ import annotations

import statistics

from attrs import frozen

from ...core.plan import Buffer, BufferKind, Fill, LaunchPlan, View
from ...core.statistics import trimmed_mean
from ...core.task import Task
from ..cuda.backend import CudaBackend
from ..cuda.protocol import Protocol, ReferenceSource

_SIZES = (1 << 13, 1 << 18, 1 << 20, 1 << 22)
"""Elements of the vectors; on an H200 none takes 60 us."""
_VALUE = 3.0
_SOURCE = """
import torch
import torch.nn as nn

N = {size}


class Model(nn.Module):
    def forward(self, x):
        return torch.full((N,), {value}, device=x.device)


def get_inputs():
    return [torch.zeros(1)]


def get_init_inputs():
    return []
"""


@frozen(kw_only=True)
class SameWork:
    """One vector: microseconds of filling it as candidate, and the reference's over these."""

    num_elements: int
    us: float
    speedup: float


def compare(cuda: CudaBackend, protocol: Protocol, num_repeats: int, trim: float) -> list[SameWork]:
    """For each size the medians of so many measurements; sizes that cannot be measured are left out."""
    found = []
    for size in _SIZES:
        everything = View(buffer=0, offset=0, shape=(size,), stride=(1,), dtype="float32")
        buffer = Buffer(kind=BufferKind.TEMPORARY, name="", dtype="float32", num_elements=size)
        fill = Fill(target=everything, value=_VALUE)
        plan = LaunchPlan(buffers=(buffer,), kernels=(), steps=(fill,), outputs=(everything,))
        task = Task(
            task_id=f"filled-{size}",
            level=1,
            family="unary",
            description="a filled vector",
            source=_SOURCE.format(size=size, value=_VALUE),
        )
        source = ReferenceSource(task=task, dtype="float32", seed=0)
        us, speedups = [], []
        for _ in range(num_repeats):
            trials = cuda.time(plan, {}, {}, source, protocol).trials
            if trials is not None:
                us.append(trimmed_mean(trials.us["candidate"], trim))
                speedups.append(trimmed_mean(trials.us["reference"], trim) / us[-1])
        if us:
            found.append(SameWork(num_elements=size, us=statistics.median(us), speedup=statistics.median(speedups)))
    return found
