"""Plans on a GPU: right results, trespasses seen, and executors that come back. Skipped where there is no GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from attrs import evolve
from tritonrl.core.candidate import Failure, Variant
from tritonrl.core.outcome import Outcome
from tritonrl.core.plan import LaunchPlan
from tritonrl.core.run import RunRequest, RunResult
from tritonrl.core.task import Profile, Task
from tritonrl.harness.gpu.backend import CudaBackend
from tritonrl.harness.reference.expected_run import ExpectedRun
from tritonrl.harness.reference.oracle import Oracle
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.verification.recordings import record_request
from tritonrl.harness.verification.storages import fill_storages, from_bytes
from tritonrl.stages.tolerance import accepts, compare
from tritonrl.stages.variants import describe

from ..kernels import ADD, LINEAR, NORM, POINTWISE, add, linear, norm, pointwise

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
LIMIT_S = 3.0


class Gpu:
    """A sandbox that records and compiles, and a backend that runs."""

    def __init__(self, sandbox: Sandbox, blobs: dict[str, bytes], backend: CudaBackend) -> None:
        self.sandbox, self.blobs, self.backend = sandbox, blobs, backend
        self.oracle = Oracle(0)

    def prepare(self, task: Task, source: str) -> tuple[RunRequest, ExpectedRun]:
        """The plan at the declared sizes with its inputs, and what it must give."""
        request = record_request(task, self.oracle, Profile.DECLARED, task.dtypes[0], compile=True)
        reply = self.sandbox.record(source, [request])
        self.blobs.update(reply.blobs)
        plan = reply.recordings[0].plan
        assert isinstance(plan, LaunchPlan), reply
        expected = self.oracle.expected(task, describe(Variant.ORIGINAL, task.dtypes, Profile.DECLARED))
        storages = fill_storages(plan, expected, self.blobs.get)
        assert not isinstance(storages, Failure)
        return RunRequest(variant=Variant.ORIGINAL, plan=plan, storages=storages), expected

    def run(self, task: Task, source: str) -> Failure | RunResult:
        """One run's result, or how the executor ended."""
        request, _ = self.prepare(task, source)
        reply = self.backend.run(source, [request])
        return reply.failure or reply.results[0]

    def is_right(self, task: Task, source: str) -> bool:
        """Whether a plan's results are within tolerance of the oracle."""
        request, expected = self.prepare(task, source)
        (result,) = self.backend.run(source, [request]).results
        assert (result.failure, result.mutated, result.out_of_bounds) == (None, (), ())
        outputs = zip(result.outputs, request.plan.outputs, expected.expected, expected.dtypes, strict=True)
        arrays = [(from_bytes(data, view), wanted, view.dtype, dtype) for data, view, wanted, dtype in outputs]
        return all(actual is not None and accepts(compare(actual, *rest)) for actual, *rest in arrays)


@pytest.fixture(scope="module")
def gpu() -> Iterator[Gpu]:
    """One backend for the module."""
    blobs: dict[str, bytes] = {}
    with Sandbox() as sandbox, CudaBackend(blobs.get, limit_s=LIMIT_S) as backend:
        yield Gpu(sandbox, blobs, backend)


@pytest.mark.parametrize(
    ("task", "source"),
    [(POINTWISE, pointwise()), (LINEAR, linear()), (NORM, norm()), (ADD, add())],
    ids=["pointwise", "linear", "norm", "add"],
)
def test_right_kernels_give_the_oracles_values(gpu: Gpu, task: Task, source: str) -> None:
    """At the declared sizes a right kernel's results are within tolerance."""
    assert gpu.is_right(task, source)


def test_wrong_kernel_differs(gpu: Gpu) -> None:
    """A wrong formula is not."""
    assert not gpu.is_right(POINTWISE, pointwise("x * 2.0"))


STORE = "tl.store(out_ptr + offsets, {value}, mask=mask)"


def spoilt(line: str) -> str:
    """A right pointwise kernel with one more statement in its body."""
    source = pointwise()
    assert source.count("    mask = offsets < n\n") == 1
    return source.replace("    mask = offsets < n\n", f"    mask = offsets < n\n    {line}\n")


def num_restarts(gpu: Gpu) -> int:
    """Restarts of the GPU's executors together: which of them a plan meets is not ours to say."""
    return sum(len(executor.restarts_s) for executor in gpu.backend.executors)


def test_wild_store_ends_its_executor_alone(gpu: Gpu) -> None:
    """An illegal address is the candidate's outcome, in a context of its own too; the next plan runs in a fresh one."""
    before = num_restarts(gpu)
    found = gpu.run(POINTWISE, spoilt("tl.store(out_ptr + 100000000000 + offsets, 1.0)"))
    assert isinstance(found, Failure)
    assert found.outcome is Outcome.OUT_OF_BOUNDS
    # as many as there are executors, which take turns
    assert all(gpu.is_right(POINTWISE, pointwise()) for _ in gpu.backend.executors)
    assert num_restarts(gpu) - before in (1, 2)


def test_endless_kernel_is_a_timeout(gpu: Gpu) -> None:
    """A kernel that never ends is given up at the limit; the next plan runs."""
    endless = "while tl.load(out_ptr + tl.program_id(0), volatile=True) != 12345.0:\n        offsets += 0"
    found = gpu.run(POINTWISE, spoilt(endless))
    assert isinstance(found, Failure)
    assert found.outcome is Outcome.TIMEOUT
    assert gpu.is_right(POINTWISE, pointwise())


def test_near_store_is_seen_in_a_guard_band(gpu: Gpu) -> None:
    """A store just beyond a buffer is named with its buffer; nobody else's plan runs in that context."""
    # what an earlier plan has ended starts again here
    assert all(gpu.is_right(POINTWISE, pointwise()) for _ in gpu.backend.executors)
    before = num_restarts(gpu)
    found = gpu.run(POINTWISE, spoilt("tl.store(out_ptr + n + tl.arange(0, 16), 1.0)"))
    assert isinstance(found, RunResult)
    assert found.out_of_bounds == (1,)
    assert all(gpu.is_right(POINTWISE, pointwise()) for _ in gpu.backend.executors)
    assert num_restarts(gpu) == before + 1


def test_unwritten_results_are_not_finite(gpu: Gpu) -> None:
    """What no program writes is NaN."""
    found = gpu.run(POINTWISE, pointwise().replace("triton.cdiv(n, 128)", "triton.cdiv(n, 256)"))
    assert isinstance(found, RunResult)
    assert bytes.fromhex("0000c07f") in found.outputs[0]


def test_memory_beyond_the_device_is_refused(gpu: Gpu) -> None:
    """A plan that asks for more memory than there is fails, and the executor stays."""
    request, _ = gpu.prepare(POINTWISE, pointwise())
    plan = request.plan
    huge = evolve(
        plan, buffers=tuple(evolve(b, num_elements=2**45) if b.blob is None and not b.name else b for b in plan.buffers)
    )
    assert huge != plan
    before = num_restarts(gpu)
    (result,) = gpu.backend.run("", [evolve(request, plan=huge)]).results
    assert result.failure is not None
    assert result.failure.outcome is Outcome.MEMORY_LIMIT
    assert num_restarts(gpu) == before
