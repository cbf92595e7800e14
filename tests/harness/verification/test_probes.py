"""Probes: what is kept between specifications, and what one bad variant does to the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from attrs import evolve
from tritonrl.core.candidate import Candidate, CompileReport, Failure, Recording, Variant
from tritonrl.core.config import LimitsConfig
from tritonrl.core.outcome import Outcome
from tritonrl.core.plan import BufferKind
from tritonrl.core.run import RunResult
from tritonrl.core.task import Profile
from tritonrl.harness.reference.oracle import Oracle
from tritonrl.harness.verification.checks.probes import run_variants
from tritonrl.harness.verification.context import VerifierContext
from tritonrl.harness.verification.evidence_store import EvidenceStore
from tritonrl.harness.verification.recordings import LATER, probe_compile
from tritonrl.harness.verification.run_reports import report_runs
from tritonrl.harness.verification.runs import _choose_share, prepare_run, probe_tiny
from tritonrl.harness.verification.storages import fill_storages
from tritonrl.stages.compile_stage import cuts_to_tf32, find_recording, judge_compile
from tritonrl.stages.judge_run import judge_run
from tritonrl.stages.tolerance import SHARE_WITH_TF32, SHARE_WITHOUT_PRODUCTS
from tritonrl.stages.variants import TRAINING_VARIANTS, describe

from ...conftest import SharedSandboxes
from ..kernels import ADD, LINEAR, NORM, POINTWISE, add, linear, norm, pointwise


@pytest.fixture(scope="module")
def context(sandboxes: SharedSandboxes) -> VerifierContext:
    """One context for the module, with short limits so that runaway kernels end soon."""
    sandbox = sandboxes.get(LimitsConfig(cpu_s=4, wall_s=12))
    return VerifierContext(sandbox=sandbox, oracle=Oracle(0), store=EvidenceStore())


def compiled(task: object, source: str, context: VerifierContext) -> Candidate:
    """A candidate after the compile probe."""
    return probe_compile(Candidate(task_id="task", source=source), task, context)  # type: ignore[arg-type]


def test_one_child_records_every_size_and_dtype(context: VerifierContext) -> None:
    """The compile probe has the declared recording first, compiled, and one for each size but those of later runs."""
    report = compiled(POINTWISE, pointwise(), context).evidence.compile
    assert report is not None
    assert [(r.profile, r.dtype) for r in report.recordings] == [
        *((profile, "float32") for profile in Profile if profile not in LATER),
        (Profile.SMALL, "float16"),
    ]
    plans = [recording.plan for recording in report.recordings]
    assert [plan is not None and plan.target for plan in plans] == ["sm_90", *[None] * 4]
    declared = plans[0]
    assert declared is not None
    assert declared.kernels[0].reads == ("x_ptr",)
    assert declared.kernels[0].writes == ("out_ptr",)


@pytest.mark.parametrize(("how", "share"), [("", SHARE_WITH_TF32), (', input_precision="ieee"', 1.0)])
def test_a_product_in_tf32_may_be_as_wrong_as_tf32_is(context: VerifierContext, how: str, share: float) -> None:
    """Only a plan that multiplies float32 matrices in TF32, as Triton does by default, has the wider tolerance."""
    candidate = compiled(LINEAR, linear().replace("tl.dot(a, b)", f"tl.dot(a, b{how})"), context)
    prepared = prepare_run(candidate, LINEAR, context, context.describe(Variant.ORIGINAL, LINEAR))
    assert not isinstance(prepared, Failure)
    assert prepared[1].share_of_tolerance == share


def test_a_product_that_the_task_has_not_excuses_nothing(context: VerifierContext) -> None:
    """The interpreter multiplies exactly, so a kernel that multiplies matrices for show has the narrow tolerance.

    On a GPU it may round as TF32 does, if it rounds nothing to a narrower type beside.
    """
    show = "    at = tl.arange(0, 16)\n    a = tl.zeros((16, 16), tl.float32) + n\n"
    show += "    if n < 0:\n        tl.store(out_ptr + at[:, None] * 16 + at[None, :], tl.dot(a, a))\n"
    source = pointwise().replace("    tl.store(", f"{show}    tl.store(", 1)
    candidate = compiled(POINTWISE, source, context)
    prepared = prepare_run(candidate, POINTWISE, context, context.describe(Variant.ORIGINAL, POINTWISE))
    assert not isinstance(prepared, Failure), prepared
    assert prepared[1].share_of_tolerance == SHARE_WITHOUT_PRODUCTS
    rounded = source.replace("2.0 * x", "2.0 * x.to(tl.float16).to(tl.float32)")
    on_a_gpu: Any = SimpleNamespace(cuda=object(), oracle=context.oracle)
    shares = []
    for one in (candidate, compiled(POINTWISE, rounded, context)):
        assert one.evidence.compile is not None
        assert cuts_to_tf32(one.evidence.compile)
        inputs = context.describe(Variant.ORIGINAL, POINTWISE)
        shares.append(_choose_share(one.evidence.compile, POINTWISE, on_a_gpu, inputs, False))
    assert shares == [1.0, SHARE_WITHOUT_PRODUCTS]


def test_the_run_that_all_verifiers_share_is_made_once(context: VerifierContext) -> None:
    """The original variant's report is the same record whether asked alone, or as one of five."""
    candidate = compiled(ADD, add(), context)
    alone = list(run_variants(candidate, ADD, context, [Variant.ORIGINAL]).runs)
    among = list(run_variants(candidate, ADD, context, TRAINING_VARIANTS).runs)
    assert [report.variant for report in among] == list(TRAINING_VARIANTS)
    assert among[0] == alone[0]
    assert all(report.seconds > 0 for report in among)


def test_a_variant_that_takes_the_child_down_leaves_the_others_their_reports(context: VerifierContext) -> None:
    """A kernel that never ends at larger sizes times out there, and the original stays right."""
    spin = "n += 0\n    while n > 500:\n        n += 1\n"
    candidate = compiled(ADD, add(forward=spin), context)
    reports = list(run_variants(candidate, ADD, context, TRAINING_VARIANTS).runs)
    outcomes = {r.variant: r.failure.outcome if r.failure is not None else Outcome.PASSED for r in reports}
    assert outcomes[Variant.ORIGINAL] is Outcome.PASSED
    assert outcomes[Variant.LARGER] is Outcome.TIMEOUT


def test_staged_recording_ends_where_the_stage_is_decided(context: VerifierContext) -> None:
    """A kernel that does not compile is recorded once, with the same decision; what is complete is kept apart."""
    source = add("tl.not_there(x)")
    candidate = Candidate(task_id="task", source=source)
    stopped = probe_compile(candidate, ADD, context, stop_early=True)
    complete = probe_compile(candidate, ADD, context)
    assert stopped.evidence.compile is not None
    assert complete.evidence.compile is not None
    assert len(stopped.evidence.compile.recordings) == 1
    assert len(complete.evidence.compile.recordings) >= 4
    assert judge_compile(stopped).outcome is judge_compile(complete).outcome is Outcome.COMPILE_FAILED
    assert judge_compile(stopped).message == judge_compile(complete).message
    assert probe_compile(candidate, ADD, context, stop_early=True).evidence == complete.evidence


def test_staged_recording_of_a_right_kernel_is_complete(context: VerifierContext) -> None:
    """Where nothing fails, staged or not is the same evidence, found once."""
    candidate = Candidate(task_id="task", source=add() + "\n\n\n")
    staged = probe_compile(candidate, ADD, context, stop_early=True)
    assert probe_compile(candidate, ADD, context).evidence == staged.evidence


def test_a_failed_recording_is_the_failure_of_its_runs(context: VerifierContext) -> None:
    """Where nothing could be recorded there is nothing to run, and the run says why."""
    candidate = probe_tiny(compiled(ADD, add().replace("x.numel()", "x.nothing"), context), ADD, context)
    assert candidate.evidence.tiny is not None
    assert candidate.evidence.tiny.failure is not None
    assert candidate.evidence.tiny.failure.outcome is Outcome.FORWARD_FAILED


def test_values_fit_the_plan_or_are_refused(context: VerifierContext) -> None:
    """Every buffer but the temporaries gets exactly its bytes; a plan that claims other sizes is refused."""
    report = compiled(LINEAR, linear(), context).evidence.compile
    assert report is not None
    recording = find_recording(report, Profile.SMALL, "float32")
    assert recording is not None
    plan = recording.plan
    assert plan is not None
    run = context.oracle.expected(LINEAR, describe(Variant.ORIGINAL, LINEAR.dtypes))
    storages = fill_storages(plan, run, context.store.get_blob)
    assert isinstance(storages, dict)
    given = [index for index, buffer in enumerate(plan.buffers) if buffer.kind is not BufferKind.TEMPORARY]
    assert sorted(storages) == given
    assert len(given) == 3
    other = context.oracle.expected(LINEAR, describe(Variant.LARGER, LINEAR.dtypes))
    refused = fill_storages(plan, other, lambda _: None)
    assert not isinstance(refused, dict)
    assert refused.outcome is Outcome.BROKEN_PROTOCOL


def test_an_element_that_the_reference_misses_judges_nobody(context: VerifierContext) -> None:
    """At large sizes one lies on a threshold; one that the reference has in its own dtype is wrong."""
    candidate = compiled(POINTWISE, pointwise(), context)
    prepared = prepare_run(candidate, POINTWISE, context, context.describe(Variant.ORIGINAL, POINTWISE))
    assert not isinstance(prepared, Failure)
    request, expected = prepared
    wanted = expected.expected[0]
    missed = wanted.astype(np.float32)
    missed.flat[7] += 1.0
    result = RunResult(variant=request.variant, outputs=(missed.tobytes(),))
    for own, is_right in ((missed, True), (wanted.astype(np.float32), False)):
        judged = evolve(expected, find_own=lambda own=own: [torch.from_numpy(own)])
        (report,) = report_runs([(request, judged)], [result], None, 0.0)
        assert (judge_run(report) is None) is is_right
    (report,) = report_runs([(request, expected)], [result], None, 0.0)
    assert judge_run(report) is not None


def test_evidence_outlives_the_sandbox(context: VerifierContext) -> None:
    """What the store holds is read back equal to what the probe found."""
    candidate = compiled(NORM, norm(), context)
    kept = context.store.get(context.key(candidate, NORM, "compile"), CompileReport)
    assert kept == candidate.evidence.compile


def test_only_the_audit_pays_for_remainders(context: VerifierContext) -> None:
    """Remainder sizes are recorded when they are run, once, and a mask that is off by one fails there alone."""
    wrong = add().replace("mask = offsets < n", "mask = offsets < tl.where(n % 256 == 1, n - 1, n)")
    candidate = compiled(ADD, wrong, context)
    assert candidate.evidence.compile is not None
    assert find_recording(candidate.evidence.compile, Profile.REMAINDER, "float32") is None
    report = run_variants(candidate, ADD, context, [*TRAINING_VARIANTS, Variant.REMAINDER])
    failed = [run.variant for run in report.runs if judge_run(run) is not None]
    assert failed == [Variant.REMAINDER]
    assert context.store.get(context.key(candidate, ADD, "compile:remainder"), Recording) is not None


def test_remainders_are_left_out_where_the_reference_refuses_them(context: VerifierContext) -> None:
    """Constants that the reference ties together keep their small sizes, and with none left there is no such run."""
    tied = ADD.source.replace("SIZE = 65536", "SIZE = 65536\nHALF = 32768")
    tied = tied.replace("return x + y", "return x[:HALF] + y.view(2, HALF)[0]")
    task = evolve(ADD, source=tied, tiny=(("SIZE", 6), ("HALF", 3)), small=(("SIZE", 300), ("HALF", 150)))
    assert context.oracle.remainder(task) == ()
    assert dict(context.oracle.remainder(LINEAR)) == {"BATCH": 129, "INPUTS": 65, "OUTPUTS": 33}
    report = run_variants(compiled(task, add(), context), task, context, [Variant.ORIGINAL, Variant.REMAINDER])
    assert [run.variant for run in report.runs] == [Variant.ORIGINAL]
