"""Programs that run within each other, in real sandboxes: a lock keeps them apart, and an idle atomic does not."""

from __future__ import annotations

from tritonrl.core.candidate import Candidate
from tritonrl.core.outcome import Outcome
from tritonrl.core.task import Task
from tritonrl.harness.verification.context import VerifierContext
from tritonrl.harness.verification.recordings import probe_compile
from tritonrl.harness.verification.runs import probe_tiny
from tritonrl.stages.judge_run import judge_run

TASK = Task(
    task_id="test-sum",
    level=1,
    family="reduction",
    description="the sum of all elements",
    source="""
import torch
import torch.nn as nn

N = 4096


class Model(nn.Module):
    def forward(self, x):
        return torch.sum(x)


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
""",
    tiny=(("N", 50),),
    small=(("N", 200),),
    larger=(("N", 300),),
)
SOURCE = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, lock_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + offsets, mask=offsets < n, other=0.0), axis=0)
    BEFORE
    tl.store(out_ptr, tl.load(out_ptr) + part)
    AFTER


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.zeros((), device=x.device)
        lock = torch.zeros(1, device=x.device, dtype=torch.int32)
        sum_kernel[(triton.cdiv(x.numel(), 16),)](x, out, lock, x.numel(), BLOCK=16)
        return out
"""


def tiny_outcome(context: VerifierContext, before: str, after: str) -> Outcome | None:
    """What the tiny run objects to where programs do this before and after they add."""
    source = SOURCE.replace("BEFORE", before).replace("AFTER", after)
    candidate = probe_compile(Candidate(task_id=TASK.task_id, source=source), TASK, context)
    report = probe_tiny(candidate, TASK, context).evidence.tiny
    assert report is not None
    failure = judge_run(report)
    return None if failure is None else failure.outcome


def test_a_lock_keeps_programs_apart(context: VerifierContext) -> None:
    """Programs that wait for a lock may add by loads and stores."""
    lock = "while tl.atomic_cas(lock_ptr, 0, 1) == 1:\n        pass"
    assert tiny_outcome(context, lock, "tl.atomic_xchg(lock_ptr, 0)") is None


def test_an_idle_atomic_does_not(context: VerifierContext) -> None:
    """Programs that wait for nothing lose each other's sums, whatever atomics are around."""
    idle = "tl.atomic_add(lock_ptr, 1)"
    assert tiny_outcome(context, idle, idle) is Outcome.RUN_FAILED
    used = "part += 0.0 * tl.atomic_add(lock_ptr, 1)"
    assert tiny_outcome(context, used, "tl.atomic_xchg(lock_ptr, 0)") is Outcome.RUN_FAILED
