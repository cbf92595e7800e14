"""Second calls, and what the interpreter says beside a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import evolve
from tritonrl.core.candidate import Candidate, Failure, RunReport, Variant
from tritonrl.core.config import TimingConfig, VerifierConfig
from tritonrl.core.outcome import Outcome
from tritonrl.core.recipe.extensions import AUDIT, VerifierSpec
from tritonrl.core.run import RunReply, RunRequest
from tritonrl.core.task import Profile, Task
from tritonrl.harness.bench.verifier.attacks import read_attack, read_tasks
from tritonrl.harness.gpu.backend import CudaBackend
from tritonrl.harness.reference.sizes.declared_sizes import with_declared
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.sandbox.wire import RecordReply, RecordRequest
from tritonrl.harness.tasks.suites import task_from_file
from tritonrl.harness.verification.checks import declared, past_bounds
from tritonrl.harness.verification.checks.probes import (
    gather_interpreted,
    gather_recompile,
    gather_second_call,
)
from tritonrl.harness.verification.context import VerifierContext
from tritonrl.harness.verification.recordings import later_variants, probe_compile
from tritonrl.harness.verification.verifier import Verifier
from tritonrl.stages.checks.runs import RunsReport
from tritonrl.stages.compile_stage import judge_compile
from tritonrl.stages.funnel import find_runs, judge_full
from tritonrl.stages.judge_run import judge_run

from ..kernels import LINEAR, POINTWISE, linear, pointwise

ROOT = Path(__file__).parents[2]

STAGED = VerifierSpec(stop_early=True)


def call_twice(verifier: Verifier, task: Task, source: str) -> Candidate:
    """The candidate with a second call, which the verifier has not asked for."""
    candidate = verifier.gather(task, source, STAGED)
    assert judge_full(candidate).passed
    report = gather_second_call(candidate, task, verifier.context, AUDIT)
    assert report is not None
    return candidate.with_report("second_call", report)


class NoGpu(CudaBackend):
    """Stands for executors that are not asked."""

    def __init__(self) -> None:
        pass


class InterpretedGpu(CudaBackend):
    """Stands for executors that run plans whole."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def run(self, source: str, requests: Sequence[RunRequest]) -> RunReply:
        """What the interpreter finds."""
        return self._sandbox.run(source, requests)


def with_gpu(context: VerifierContext) -> VerifierContext:
    """The same context as where plans run on a GPU."""
    return evolve(context, cuda=NoGpu())


@pytest.mark.parametrize(("task", "source"), [(POINTWISE, pointwise()), (LINEAR, linear())])
def test_a_right_kernel_is_right_in_a_second_call(verifier: Verifier, task: Task, source: str) -> None:
    """What the first call leaves does not matter to it."""
    candidate = call_twice(verifier, task, source)
    assert list(find_runs(candidate))[-1].variant is Variant.SECOND_CALL
    assert judge_full(candidate).passed


def test_a_result_that_is_kept_is_wrong_in_a_second_call(verifier: Verifier) -> None:
    """A kernel that keeps its result beside one of its inputs passes one call, and is found out in the next."""
    keep = (
        "out, kept = torch.empty_like(x), torch.empty(2 * x.numel() + 128, device=x.device)\n"
        "        n = x.numel()\n"
        "        kernel[(triton.cdiv(n, 128),)](x, kept, out, n, BLOCK=128)\n"
        "        return out"
    )
    source = pointwise(forward=keep).replace("(x_ptr, out_ptr, n", "(x_ptr, kept_ptr, out_ptr, n")
    body = source[source.index("    x = tl.load(") : source.index("\n\n\nclass ModelNew")]
    source = source.replace(
        body,
        """    first = tl.load(x_ptr + tl.program_id(0) * BLOCK).to(tl.float32)
    if tl.load(kept_ptr + n + tl.program_id(0)) == first:
        tl.store(out_ptr + offsets, tl.load(kept_ptr + offsets, mask=mask), mask=mask)
    else:
        x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
        result = 2.0 * x * tl.sigmoid(x)
        tl.store(out_ptr + offsets, result, mask=mask)
        tl.store(kept_ptr + offsets, result, mask=mask)
        tl.store(kept_ptr + n + tl.program_id(0), first)""",
    )
    result = judge_full(call_twice(verifier, POINTWISE, source))
    assert (result.outcome, result.message.partition(":")[0]) == (Outcome.WRONG_VALUES, "variant second_call")


def interpret(verifier: Verifier, source: str) -> Candidate:
    """The candidate with what the interpreter says where a GPU ran its plan."""
    candidate = verifier.gather(POINTWISE, source, STAGED)
    report = gather_interpreted(candidate, POINTWISE, with_gpu(verifier.context), AUDIT)
    return candidate.with_report("interpreted", report)


def interpreted_runs(candidate: Candidate) -> tuple[RunReport, ...]:
    """What the interpreter said."""
    report = candidate.evidence.report("interpreted")
    return report.runs if isinstance(report, RunsReport) else ()


def test_beside_a_gpu_the_interpreter_looks_at_small_sizes(verifier: Verifier) -> None:
    """A right kernel is right at tiny and small sizes and at those of no profile."""
    candidate = interpret(verifier, pointwise())
    assert [report.variant for report in interpreted_runs(candidate)] == [
        "original",
        "original",
        "reversed",
        "remainder",
    ]
    assert judge_full(candidate).passed


def test_what_only_the_interpreter_sees_refuses(verifier: Verifier) -> None:
    """Its objection is the full stage's, and says whose it is."""
    right = verifier.gather(POINTWISE, pointwise(), STAGED)
    wrong = interpret(verifier, pointwise("tl.load(x_ptr + offsets - n - 5000) * 0.0 + 2.0 * x * tl.sigmoid(x)"))
    candidate = right.with_report("interpreted", RunsReport(runs=interpreted_runs(wrong)))
    result = judge_full(candidate)
    assert result.outcome is Outcome.OUT_OF_BOUNDS
    assert result.message.startswith("interpreted, variant original")


def test_what_a_gpu_leaves_to_chance_refuses(verifier: Verifier) -> None:
    """Memory that a GPU may have left zero and this one has not."""
    forward = (
        "out, found = torch.empty_like(x), torch.empty_like(x)\n"
        "        n = x.numel()\n"
        "        kernel[(triton.cdiv(n, 128),)](x, found, out, n, BLOCK=128)\n"
        "        return out"
    )
    result = "tl.where(tl.load(found_ptr + offsets, mask=mask, other=1.0) != 0.0, 2.0 * x * tl.sigmoid(x), 5.0)"
    source = pointwise(result, forward=forward).replace("(x_ptr, out_ptr, n", "(x_ptr, found_ptr, out_ptr, n")
    reports = interpreted_runs(interpret(verifier, source))
    assert [report.variant for report in reports if judge_run(report) is not None] == ["reversed"]


def test_without_a_gpu_nothing_is_interpreted_twice(verifier: Verifier) -> None:
    """Where plans are interpreted anyway the check is not made."""
    candidate = verifier.gather(POINTWISE, pointwise(), AUDIT)
    assert judge_full(candidate).passed
    assert candidate.evidence.report("interpreted") is None
    assert candidate.evidence.report("second_call") is not None


@pytest.mark.parametrize("is_asked", [True, False])
def test_the_interpreter_is_asked_where_the_configuration_says_so(verifier: Verifier, is_asked: bool) -> None:
    """The audit on a GPU has nothing interpreted beside it where that is switched off."""
    sandbox, store = verifier.context.sandbox, verifier.context.store
    own = Verifier(
        VerifierConfig(backend="interpret", cross_check_interpreter=is_asked), TimingConfig(), sandbox, store
    )
    own.context = evolve(own.context, cuda=InterpretedGpu(sandbox))
    task = with_declared(POINTWISE, (("ROWS", 9), ("COLUMNS", 33)))
    candidate = own.gather(task, pointwise(), VerifierSpec(stop_early=True, hidden=True))
    assert judge_full(candidate).passed
    assert bool(interpreted_runs(candidate)) is is_asked


def test_a_gpu_runs_whole_what_the_interpreter_samples(verifier: Verifier) -> None:
    """All sizes that nobody declared are tried there too; of the declared ones it runs both dtypes anyway."""
    task = with_declared(POINTWISE, (("ROWS", 640), ("COLUMNS", 1000)))
    sampled = {each.variant for each in later_variants(task, verifier.context)}
    assert {Variant.BEYOND, Variant.TWICE, Variant.WHOLE_BLOCKS, Variant.ONE_SIZE} <= sampled
    assert {each.variant for each in later_variants(task, with_gpu(verifier.context))} == sampled - {
        Variant.DECLARED_PRECISION
    }


def slow_down(sandbox: Sandbox, takes_all: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its compiler is killed at sizes beyond the declared ones, or uses up everybody's time there."""
    record = sandbox.record

    def record_slowly(source: str, requests: Sequence[RecordRequest], *given: object) -> RecordReply:
        beyond = (Profile.BEYOND, Profile.TWICE)
        slow = [number for number, each in enumerate(requests) if each.compile and each.profile in beyond]
        if slow and takes_all:
            return RecordReply(failure=Failure(outcome=Outcome.TIMEOUT, message="still running after 30 s"))
        reply = record(source, requests, *given)
        recordings = list(reply.recordings)
        for number in slow:
            failure = Failure(outcome=Outcome.COMPILE_FAILED, message="`ptxas` failed with error code -9")
            recordings[number] = evolve(recordings[number], plan=None, failure=failure)
        return evolve(reply, recordings=tuple(recordings))

    monkeypatch.setattr(sandbox, "record", record_slowly)


@pytest.mark.parametrize(
    ("takes_all", "grid", "is_right"),
    [(True, "triton.cdiv(n, 128)", True), (False, "min(triton.cdiv(n, 128), 66)", False)],
)
def test_what_takes_too_long_to_compile_beyond_the_declared_sizes_is_sampled(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch, takes_all: bool, grid: str, is_right: bool
) -> None:
    """Beside a GPU the interpreter looks at those sizes, where it finds what only fails there."""
    sandbox = verifier.context.sandbox
    slow_down(sandbox, takes_all, monkeypatch)
    own = Verifier(VerifierConfig(backend="interpret", cross_check_interpreter=False), TimingConfig(), sandbox)
    own.context = evolve(own.context, cuda=InterpretedGpu(sandbox))
    task = with_declared(POINTWISE, (("ROWS", 64), ("COLUMNS", 100)))
    assert own.context.oracle.beyond(task)
    candidate = own.gather(task, pointwise().replace("triton.cdiv(n, 128)", grid), evolve(AUDIT, timed=False))
    by_variant = {report.variant: report for report in find_runs(candidate)}
    assert (by_variant[Variant.BEYOND].failure is None) is is_right
    result = judge_full(candidate)
    assert result.outcome is (Outcome.PASSED if is_right else Outcome.OUTPUT_NOT_WRITTEN)
    assert is_right or "beyond" in result.message


@pytest.mark.parametrize(("grid", "is_right"), [("triton.cdiv(n, 128)", True), ("max(1, n // 128)", False)])
def test_what_has_too_much_shared_memory_at_a_size_of_no_profile_is_interpreted(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch, grid: str, is_right: bool
) -> None:
    """Beside a GPU, where no plan can be had for it."""
    sandbox = verifier.context.sandbox
    record = sandbox.record

    def record_small(source: str, requests: Sequence[RecordRequest], *given: object) -> RecordReply:
        reply = record(source, requests, *given)
        failure = Failure(
            outcome=Outcome.OUT_OF_RESOURCES, message="kernel: out of resource: shared memory, required 9"
        )
        recordings = (
            evolve(each, plan=None, failure=failure) if wanted.compile and wanted.profile is Profile.REMAINDER else each
            for wanted, each in zip(requests, reply.recordings, strict=True)
        )
        return evolve(reply, recordings=tuple(recordings))

    monkeypatch.setattr(sandbox, "record", record_small)
    own = Verifier(VerifierConfig(backend="interpret", cross_check_interpreter=False), TimingConfig(), sandbox)
    own.context = evolve(own.context, cuda=InterpretedGpu(sandbox))
    candidate = own.gather(POINTWISE, pointwise().replace("triton.cdiv(n, 128)", grid), evolve(AUDIT, timed=False))
    by_variant = {report.variant: judge_run(report) for report in find_runs(candidate)}
    assert (by_variant[Variant.REMAINDER] is None) is is_right


@pytest.mark.parametrize(("row", "is_right"), [("0.0", True), ("(n > 12000) * 1.0", False)])
def test_what_is_not_asked_for_past_bounds_hides_nothing(verifier: Verifier, row: str, is_right: bool) -> None:
    """More memory than a run may have at one size refuses nobody, and what is wrong at another is seen all the same."""
    hungry = (
        "out = torch.empty((1 << 31) if max(x.shape) == 129 else x.numel(), device=x.device)[: x.numel()]\n"
        "        n = x.numel()\n"
        "        kernel[(triton.cdiv(n, 128),)](x, out, n, BLOCK=128)\n"
        "        return out.view(x.shape)"
    )
    task = evolve(with_declared(POINTWISE, (("ROWS", 100), ("COLUMNS", 100))), dtypes=("float32",))
    source = pointwise(f"2.0 * x * tl.sigmoid(x) + {row}", forward=hungry)
    candidate = probe_compile(Candidate(task_id=task.task_id, source=source), task, verifier.context)
    found = past_bounds.gather(candidate, task, verifier.context, AUDIT)
    assert isinstance(found, RunsReport)
    assert all(judge_run(report) is None for report in found.runs) is is_right


def test_arranged_values_are_looked_at_beside_a_gpu(verifier: Verifier) -> None:
    """A few programs are interpreted, as without one: masks whose whole blocks are off, at the declared sizes."""
    task = task_from_file(ROOT / "genuine/tasks/forward_fill.py")
    source = (ROOT / "attacks/contract/declared/fill_lost_in_an_empty_block.py").read_text()
    candidate = probe_compile(Candidate(task_id=task.task_id, source=source), task, verifier.context)
    found = declared.gather(candidate, task, with_gpu(verifier.context), AUDIT)
    assert isinstance(found, RunsReport)
    report = found.runs[-1]
    failure = judge_run(report)
    assert failure is not None
    assert (report.variant, failure.outcome) == (Variant.ARRANGED, Outcome.WRONG_VALUES)


@pytest.mark.parametrize(
    ("name", "is_right"),
    [("values/mutable_constant.py", False), ("heldout/w_effects_forged_in_the_plan.py", False), ("", True)],
)
def test_code_that_is_loaded_is_of_the_text_alone(verifier: Verifier, name: str, is_right: bool) -> None:
    """What host code makes of a kernel is refused before anything is run, and what the text gives has its code."""
    attack = read_attack(ROOT / "attacks" / name, name) if name else None
    task = POINTWISE if attack is None else read_tasks([attack], [ROOT / "attacks/tasks"])[attack.task_id]
    source = pointwise() if attack is None else attack.source
    context = evolve(verifier.context, is_timed_elsewhere=True)
    candidate = probe_compile(Candidate(task_id=task.task_id, source=source), task, context)
    result = judge_compile(candidate)
    assert result.outcome is (Outcome.PASSED if is_right else Outcome.DISGUISED)
    report = candidate.evidence.compile
    assert report is not None
    plans = [recording.plan for recording in report.recordings if recording.plan is not None]
    made = {kernel.binary for plan in plans for kernel in plan.kernels} - {None}
    assert bool(made) is is_right
    assert all((context.store.get_blob(each or "") or b"").startswith(b"\x7fELF") for each in made)
    assert gather_recompile(candidate, task, context, AUDIT) is None
