"""Scans: many programs at once leave in memory what one after the other leaves there."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from tritonrl.core.candidate import Candidate, Failure, Variant
from tritonrl.core.run import RunRequest
from tritonrl.core.task import Task
from tritonrl.harness.verification.context import VerifierContext
from tritonrl.harness.verification.recordings import probe_compile
from tritonrl.harness.verification.runs import prepare_run
from tritonrl.stages.variants import describe

from ...kernels import LINEAR, NORM, POINTWISE, linear, norm, pointwise

LANES = 1 << 22


def request_of(context: VerifierContext, task: Task, source: str, variant: Variant = Variant.LARGER) -> RunRequest:
    """The request that runs a kernel on a variant's inputs."""
    candidate = probe_compile(Candidate(task_id=task.task_id, source=source), task, context)
    prepared = prepare_run(candidate, task, context, describe(variant, task.dtypes))
    assert not isinstance(prepared, Failure), prepared
    return prepared[0]


BRANCHES = """
    if tl.program_id(0) % 3 == 1:
        x = x + 0.0
    for _ in range(tl.program_id(0) % 2):
        x = x * 1.0
"""


def branching() -> str:
    """A pointwise kernel whose programs do not all take the same branches."""
    head, store, tail = pointwise().partition("    tl.store(")
    assert store
    return head + BRANCHES.lstrip("\n") + store + tail


def copying() -> str:
    """A pointwise kernel behind which a step copies its result."""
    head, returned, tail = pointwise().rpartition("return out")
    assert returned
    return f"{head}return out.t().contiguous().t(){tail}"


@pytest.mark.parametrize(
    ("task", "source"),
    [
        (POINTWISE, pointwise()),
        (NORM, norm()),
        (LINEAR, linear()),
        (POINTWISE, branching()),
        (POINTWISE, copying()),
    ],
    ids=["pointwise", "norm", "linear", "branches", "copies"],
)
def test_a_scan_computes_what_single_programs_compute(context: VerifierContext, task: Task, source: str) -> None:
    """Each element has the same value but for the order of sums, and a program that wrote it."""
    request = request_of(context, task, source)
    reply = context.sandbox.run(source, [request, evolve(request, num_lanes=LANES)])
    alone, scanned = reply.results
    assert alone.failure is None
    assert scanned.failure is None
    expected, found = (np.frombuffer(result.outputs[0], np.float32) for result in (alone, scanned))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    writers = np.frombuffer(scanned.written[0], np.int32)
    assert writers.min() >= 1
    assert scanned.sample is not None
    assert [launch.num_unknown for launch in scanned.sample] == [
        int(np.prod(launch.grid)) for launch in request.plan.launches
    ]


def test_a_scan_with_few_lanes_runs_some_programs(context: VerifierContext) -> None:
    """Programs that there are no lanes for are left out, whichever they are, and the others run."""
    source = pointwise()
    request = request_of(context, POINTWISE, source, Variant.DECLARED)
    (scanned,) = context.sandbox.run(source, [evolve(request, num_lanes=1 << 15)]).results
    assert scanned.failure is None
    assert scanned.sample is not None
    writers = np.frombuffer(scanned.written[0], np.int32)
    programs = np.unique(writers[writers > 0])
    assert 16 < programs.size == scanned.sample[0].num_unknown < 200
    assert np.isfinite(np.frombuffer(scanned.outputs[0], np.float32)[writers > 0]).all()


def test_what_is_for_single_programs_ends_a_scan(context: VerifierContext) -> None:
    """A lock is no matter for programs that run at once."""
    source = pointwise().replace(
        "    tl.store(", "    tl.atomic_cas(out_ptr.to(tl.pointer_type(tl.int32)), 0, 0)\n    tl.store(", 1
    )
    request = request_of(context, POINTWISE, source)
    (scanned,) = context.sandbox.run(source, [evolve(request, num_lanes=LANES)]).results
    assert scanned.failure is not None


def chained() -> str:
    """A pointwise kernel launched behind one that copies what it reads."""
    launch = "kernel[(triton.cdiv(n, 128),)](x, out, n, BLOCK=128)"
    source = pointwise("tl.where(is_first, x, 2.0 * x * tl.sigmoid(x))")
    source = source.replace("out_ptr, n, BLOCK: tl", "out_ptr, n, is_first, BLOCK: tl")
    first, last = (launch.replace("(x, out, n", call) for call in ("(x, kept, n, True", "(kept, out, n, False"))
    return source.replace(launch, f"kept = torch.empty_like(x)\n        {first}\n        {last}")


def test_launches_before_the_last_run_whole_or_not_at_all(context: VerifierContext) -> None:
    """Where there are lanes for a part of an earlier launch, no more than its first programs run."""
    source = chained()
    request = request_of(context, POINTWISE, source, Variant.DECLARED)
    whole, part = (evolve(request, num_programs=3, num_lanes=lanes) for lanes in (LANES, 1 << 15))
    done, ended = context.sandbox.run(source, [whole, part]).results
    assert done.failure is None
    assert done.sample is not None
    first, last = (len(launch.written_by_program) for launch in done.sample)
    assert first == int(np.prod(request.plan.launches[0].grid))
    assert 3 <= last <= 6
    assert ended.failure is not None
    assert ended.work < done.work / 10
