"""Runs at sizes that never pass through the host, on a GPU that is made up (`pretend.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from tritonrl.core.candidate import Comparison, RunReport, Variant
from tritonrl.core.outcome import Outcome
from tritonrl.core.plan import Buffer, BufferKind, Copy, Fill, LaunchPlan, View
from tritonrl.core.task import Profile, Task
from tritonrl.harness.errors import TooLargeError
from tritonrl.harness.gpu.backend import CudaBackend
from tritonrl.harness.gpu.executor import Executor as Process
from tritonrl.harness.gpu.gpu_lock import GpuLock
from tritonrl.harness.gpu.processes import Executor, Parent
from tritonrl.harness.gpu.shared_oracle import SharedOracle
from tritonrl.harness.reference.values import DrawnInputs, draw_on_device
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.verification.context import VerifierContext
from tritonrl.harness.verification.evidence_store import EvidenceStore
from tritonrl.harness.verification.large_runs import run_large_variant
from tritonrl.harness.verification.memory_budget import MemoryBudget
from tritonrl.stages.judge_run import judge_run
from tritonrl.stages.variants import describe

ROWS, COLUMNS = 37, 65
SOURCE = f"""
import torch
import torch.nn as nn

ROWS = {ROWS}
COLUMNS = {COLUMNS}


class Model(nn.Module):
    def forward(self, x):
        return x.clone()


def get_inputs():
    return [torch.rand(ROWS, COLUMNS)]


def get_init_inputs():
    return []
"""
TASK = Task(task_id="copy", level=1, family="file", description="", source=SOURCE)
WHOLE = ROWS * COLUMNS


def view(buffer: int) -> View:
    """All of a buffer."""
    return View(buffer=buffer, offset=0, shape=(ROWS, COLUMNS), stride=(COLUMNS, 1), dtype="float32")


PLAN = LaunchPlan(
    buffers=(
        Buffer(kind=BufferKind.INPUT, name="0", dtype="float32", num_elements=WHOLE),
        Buffer(kind=BufferKind.TEMPORARY, name="", dtype="float32", num_elements=WHOLE),
    ),
    kernels=(),
    steps=(Copy(source=view(0), target=view(1)),),
    outputs=(view(1),),
)


class Local(Executor):
    """An executor in this process, with a window that is smaller than a result."""

    def __init__(self, folder: Path) -> None:
        self.device, self.name, self.lock, self.has_served = 0, "made up", GpuLock("made up", folder), False
        self.window = torch.zeros(1000, dtype=torch.uint8)
        self._process = Process(self.window)
        self.kinds: list[str] = []

    @property
    def is_up(self) -> bool:
        """Always."""
        return True

    def ask(self, header: dict[str, Any], blobs: Sequence[bytes], limit_s: float) -> tuple[dict[str, Any], list[bytes]]:
        """The answer of the process that it would be."""
        self.kinds.append(header["kind"])
        return ({"failure": None}, []) if header["kind"] == "warm up" else self._process.answer(header, list(blobs))

    def close(self) -> None:
        """Nothing is open."""


class LocalParent(Parent):
    """Its one executor is here."""

    def __init__(self, folder: Path) -> None:
        self.executor = Local(folder)

    def start(self, device: int) -> Executor:
        """The executor."""
        return self.executor

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VerifierContext]:
    """A verifier's context with a GPU that is made up."""
    from .pretend import pretend_gpu

    with pretend_gpu(monkeypatch), Sandbox() as sandbox:
        backend = CudaBackend(lambda _: None, (0,), per_gpu=1, parent=LocalParent(tmp_path))
        oracle = SharedOracle(3, GpuLock("oracle", tmp_path), "cpu")
        yield VerifierContext(sandbox=sandbox, oracle=oracle, store=EvidenceStore(), cuda=backend)


def run(context: VerifierContext, plan: LaunchPlan, task: Task = TASK) -> RunReport:
    """The report of a plan's run at the declared sizes."""
    inputs = describe(Variant.DECLARED, task.dtypes, Profile.LARGER)
    return run_large_variant(task, context, inputs, plan, frozenset(), 1.0)


def with_forward(text: str, init: str = "pass") -> Task:
    """The task with another model."""
    model = SOURCE.replace("        return x.clone()", text)
    constructor = f"    def __init__(self):\n        super().__init__()\n        {init}\n\n    def forward"
    return evolve(TASK, source=model.replace("    def forward", constructor))


def test_a_right_plan_is_right_and_a_wrong_one_is_not(context: VerifierContext) -> None:
    """Every element of the result is fetched, piece by piece, and compared with the reference's on the same inputs."""
    report = run(context, PLAN)
    assert judge_run(report) is None
    assert report.comparisons == (
        Comparison(dtype="float32", shape_matches=True, dtype_matches=True, num_elements=WHOLE, shape=(37, 65)),
    )
    assert context.cuda is not None
    (executor,) = context.cuda.executors
    assert isinstance(executor, Local)
    assert executor.kinds == ["warm up", "run large", *["fetch"] * -(-4 * WHOLE // 1000), "let go"]
    last = View(buffer=1, offset=WHOLE - 1, shape=(1,), stride=(1,), dtype="float32")
    wrong = judge_run(run(context, evolve(PLAN, steps=(*PLAN.steps, Fill(target=last, value=9.0)))))
    assert wrong is not None
    assert wrong.outcome is Outcome.WRONG_VALUES


def test_parameters_are_given_by_the_piece(context: VerifierContext) -> None:
    """They are the reference's, wherever it was made; what a plan claims of them is compared with what it has."""
    task = with_forward("        return self.p + 0 * x", f"self.p = nn.Parameter(torch.rand({ROWS}, {COLUMNS}))")
    own = Buffer(kind=BufferKind.PARAMETER, name="p", dtype="float32", num_elements=WHOLE)
    plan = evolve(PLAN, buffers=(*PLAN.buffers, own), steps=(Copy(source=evolve(view(0), buffer=2), target=view(1)),))
    assert judge_run(run(context, plan, task)) is None
    assert context.cuda is not None
    (executor,) = context.cuda.executors
    assert isinstance(executor, Local)
    pieces = -(-4 * WHOLE // 1000)
    assert executor.kinds == ["warm up", *["give"] * pieces, "run large", *["fetch"] * pieces, "let go"]
    other = evolve(plan, buffers=(*PLAN.buffers, evolve(own, num_elements=WHOLE - 1)))
    failure = judge_run(run(context, other, task))
    assert failure is not None
    assert failure.outcome is Outcome.BROKEN_PROTOCOL


def test_what_the_reference_misses_in_its_own_dtype_judges_nobody(context: VerifierContext) -> None:
    """The first column is another in float32 than in float64; a value there is anybody's, and beside it is not."""
    lines = ("y = x.clone()", "y[:, 0] += 1 + (1 + y[:, 0] + 1e-9 <= 1 + y[:, 0]).to(y.dtype)", "y[:, 0] -= 1")
    task = with_forward("\n".join(f"        {line}" for line in (*lines, "return y")))
    first = View(buffer=1, offset=0, shape=(1,), stride=(1,), dtype="float32")
    for offset, is_right in ((0, True), (1, False)):
        wrong = Fill(target=evolve(first, offset=offset), value=9.0)
        report = run(context, evolve(PLAN, steps=(*PLAN.steps, wrong)), task)
        assert (judge_run(report) is None) is is_right


def test_an_input_that_is_written_is_seen(context: VerifierContext) -> None:
    """As in any other run."""
    failure = judge_run(run(context, evolve(PLAN, steps=(*PLAN.steps, Fill(target=view(0), value=1.0)))))
    assert failure is not None
    assert failure.outcome is Outcome.INPUT_MUTATED


def test_an_input_that_the_task_does_not_have_is_refused(context: VerifierContext) -> None:
    """Whatever a plan claims of its buffers is compared with what is known."""
    claimed = Buffer(kind=BufferKind.INPUT, name="0", dtype="float32", num_elements=WHOLE + 1)
    failure = judge_run(run(context, evolve(PLAN, buffers=(claimed, PLAN.buffers[1]))))
    assert failure is not None
    assert failure.outcome is Outcome.BROKEN_PROTOCOL


def test_what_never_fits_is_refused_with_its_size(context: VerifierContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task is at fault, and no candidate."""
    monkeypatch.setattr("tritonrl.harness.verification.memory_budget.FREE_BYTES", 0)
    small = evolve(context, gpu_budget=MemoryBudget(1000))
    with pytest.raises(TooLargeError, match=r"copy, on the GPU: needs 0\.1 MB of memory, and 0\.0 MB may be used"):
        run(small, PLAN)


def test_two_processes_draw_the_same() -> None:
    """Inputs depend on nothing but the task and the seed."""
    drawn = DrawnInputs(task=TASK, dtype="float32", seed=5)
    (one,), (other,) = draw_on_device(drawn, "cpu"), draw_on_device(drawn, "cpu")
    (different,) = draw_on_device(evolve(drawn, seed=6), "cpu")
    assert torch.equal(one, other)
    assert not torch.equal(one, different)
