"""Measured timing on a GPU: trials, what they return, references, and verdicts. Skipped where there is no GPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from attrs import evolve
from tritonrl.core.candidate import Failure, Variant
from tritonrl.core.config import Config, TimingConfig, VerifierConfig
from tritonrl.core.outcome import Outcome, Stage
from tritonrl.core.recipe.extensions import VerifierSpec
from tritonrl.core.task import Profile, Task
from tritonrl.harness.gpu.timing.protocol import Protocol, ReferenceRequest, ReferenceSource, Timed
from tritonrl.harness.verification.storages import fill_storages, from_bytes
from tritonrl.harness.verification.timing import find_reference_timing
from tritonrl.harness.verification.verifier import Verifier, open_verifier
from tritonrl.stages.funnel import find_runs
from tritonrl.stages.tolerance import accepts, compare
from tritonrl.stages.variants import describe

from ..kernels import LINEAR, POINTWISE, linear, pointwise
from .test_backend import Gpu, spoilt

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
TIMING = TimingConfig(trials=20, warmups=3)
CALIBRATED = VerifierSpec(multi_input=True, stop_early=True, calibrated=True)
SINGLE = evolve(CALIBRATED, calibrated=False)


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    """One verifier with the measured timing for the module."""
    with open_verifier(Config(verifier=VerifierConfig(timing="measured", backend="cuda"), timing=TIMING)) as opened:
        yield opened


@pytest.fixture(scope="module")
def gpu(verifier: Verifier) -> Gpu:
    """The verifier's sandbox and executors, to be used by hand."""
    cuda = verifier.context.cuda
    assert cuda is not None
    return Gpu(verifier.context.sandbox, {}, cuda)


def time_by_hand(gpu: Gpu, verifier: Verifier, task: Task, source: str, protocol: Protocol) -> tuple[Timed, list[bool]]:
    """A timing, and whether the results of the first run and of the replay afterwards are right."""
    request, expected = gpu.prepare(task, source)
    verifier.context.store.put_blobs(gpu.blobs)
    others = evolve(describe(Variant.ORIGINAL, task.dtypes, Profile.DECLARED), stream="others")
    later = gpu.oracle.expected(task, others)
    storages = fill_storages(request.plan, later, gpu.blobs.get)
    assert not isinstance(storages, Failure)
    reference = ReferenceSource(task=task, dtype=task.dtypes[0], seed=1)
    timed = gpu.backend.time(request.plan, request.storages, storages, reference, protocol)
    assert timed.failure is None
    right = []
    for result, run in ((timed.first, expected), (timed.fresh, later)):
        assert result is not None
        view = request.plan.outputs[0]
        actual = from_bytes(result.outputs[0], view)
        assert actual is not None
        right.append(accepts(compare(actual, run.expected[0], view.dtype, run.dtypes[0])))
    return timed, right


@pytest.mark.parametrize(("task", "source"), [(POINTWISE, pointwise()), (LINEAR, linear())])
def test_a_right_kernel_is_timed_beside_its_reference(gpu: Gpu, verifier: Verifier, task: Task, source: str) -> None:
    """Candidate, reference and control have as many trials as were asked for, and every result is right."""
    timed, right = time_by_hand(gpu, verifier, task, source, Protocol.of(TIMING, True))
    assert right == [True, True]
    assert timed.trials is not None
    assert set(timed.trials.us) == {"candidate", "reference", "control"}
    assert all(len(trials) == 20 and min(trials) > 0.0 for trials in timed.trials.us.values())
    assert timed.deviations[0] is not None
    assert timed.deviations[0] < 1e-3


def test_a_single_measurement_is_one_trial(gpu: Gpu, verifier: Verifier) -> None:
    """The uncalibrated protocol has one trial a side and no control."""
    timed, right = time_by_hand(gpu, verifier, POINTWISE, pointwise(), Protocol.of(TIMING, False))
    assert right == [True, True]
    assert timed.trials is not None
    assert {name: len(trials) for name, trials in timed.trials.us.items()} == {"candidate": 1, "reference": 1}


def test_what_takes_too_long_has_fewer_trials(gpu: Gpu, verifier: Verifier) -> None:
    """A budget that no round fits in leaves five trials."""
    hurried = evolve(Protocol.of(TIMING, True), budget_s=1e-6)
    timed, right = time_by_hand(gpu, verifier, POINTWISE, pointwise(), hurried)
    assert right == [True, True]
    assert timed.trials is not None
    assert len(timed.trials.us["candidate"]) == 5


def test_work_that_is_done_already_is_found_out(gpu: Gpu, verifier: Verifier) -> None:
    """A kernel that leaves alone what holds a result works in every trial, and fails on other values."""
    lazy = spoilt("mask = mask & (tl.load(out_ptr + offsets, mask=mask) != tl.load(out_ptr + offsets, mask=mask))")
    timed, right = time_by_hand(gpu, verifier, POINTWISE, lazy, Protocol.of(TIMING, True))
    assert right == [True, False]
    assert timed.deviations == (0.0,)


ASK_THE_TIME = """    now = tl.inline_asm_elementwise(
        "mov.u64 $0, %globaltimer;", "=l,r", [offsets], dtype=tl.int64, is_pure=False, pack=1
    )
    mask = (offsets < n) & ((now >> 16) % 2 == 0)
"""
BLINKING = pointwise().replace("    mask = offsets < n\n", ASK_THE_TIME)


def test_a_kernel_that_works_now_and_then_is_found_out(gpu: Gpu, verifier: Verifier) -> None:
    """Each trial's result is compared with the first one's, so that skipping some of them shows."""
    assert "globaltimer" in BLINKING
    timed, right = time_by_hand(gpu, verifier, POINTWISE, BLINKING, Protocol.of(TIMING, True))
    assert timed.deviations == (None,) or not right[0]


def test_interpreted_candidates_are_timed_on_a_gpu() -> None:
    """With backend "interpret" a measured timing times what the interpreter accepts, and its timed runs are judged."""
    config = Config(verifier=VerifierConfig(timing="measured", backend="interpret"), timing=TIMING)
    with open_verifier(config) as verifier:
        verdict = verifier.verify(LINEAR, linear(), CALIBRATED)
        assert (verdict.backend, verdict.correct, verdict.reached) == ("interpret", True, Stage.TIMING)
        assert verdict.speedup is not None
        reports = list(find_runs(verifier.gather(LINEAR, linear(), CALIBRATED)))
        assert Variant.TIMED in {report.variant for report in reports}
        blinking = verifier.verify(POINTWISE, BLINKING, CALIBRATED)
        assert not blinking.correct
        assert blinking.speedup is None


def test_a_verdict_has_measured_speedups(verifier: Verifier) -> None:
    """Eager and compiled references are measured, the reference's figures once, and a repeated verdict is the same."""
    first = verifier.verify(LINEAR, linear(), CALIBRATED)
    assert (first.correct, first.reached) == (True, Stage.TIMING)
    assert first.speedup is not None
    assert first.speedup > 0.0
    assert first.estimated_speedup is None
    assert verifier.verify(LINEAR, linear(), CALIBRATED) == evolve(
        first, stages=verifier.verify(LINEAR, linear(), CALIBRATED).stages
    )
    bench = verifier.context
    assert bench.cuda is not None
    report = verifier.gather(LINEAR, linear(), CALIBRATED).evidence.timing
    assert report is not None
    assert report.reference == find_reference_timing(LINEAR, bench, bench.cuda, TIMING)
    assert report.reference is not None
    assert report.reference.is_captured
    for trials in (report.candidate_us, report.reference_us, report.control_us, report.reference.tf32_us):
        assert len(trials) == 20
    assert report.device == torch.cuda.get_device_name()
    assert report.reference.compiled_us or any("torch.compile" in note for note in report.reference.notes)
    single = verifier.gather(LINEAR, linear(), SINGLE).evidence.timing
    assert single is not None
    assert (len(single.candidate_us), len(single.reference_us), single.control_us) == (1, 1, ())


def test_a_kernel_that_is_wrong_when_timed_is_rejected(verifier: Verifier) -> None:
    """What the timed runs return counts as a variant of the full run."""
    verdict = verifier.verify(
        POINTWISE, spoilt("mask = mask & (tl.load(x_ptr + offsets, mask=mask) == 12345.0)"), CALIBRATED
    )
    assert not verdict.correct
    lazy = spoilt("mask = mask & (tl.load(out_ptr + offsets, mask=mask) != tl.load(out_ptr + offsets, mask=mask))")
    verdict = verifier.verify(POINTWISE, lazy, CALIBRATED)
    assert not verdict.correct
    assert verdict.speedup is None


def test_a_reference_that_does_not_run_is_said(verifier: Verifier) -> None:
    """A reference that waits for the device is launched from Python; one that fails is no figure, and no crash."""
    cuda = verifier.context.cuda
    assert cuda is not None
    waiting = POINTWISE.source.replace(
        "return 2.0 * x", "assert x.sum().item() == x.sum().item()\n        return 2.0 * x"
    )
    failing = POINTWISE.source.replace("return 2.0 * x", "raise ValueError('no')\n        return 2.0 * x")
    found = []
    for source in (waiting, failing):
        task = evolve(POINTWISE, source=source)
        reference = ReferenceSource(task=task, dtype="float32", seed=1)
        protocol = Protocol.of(TIMING, True)
        found.append(cuda.measure_reference(ReferenceRequest(source=reference, protocol=protocol, compiling="none")))
    slow, failed = found
    assert not isinstance(slow, Failure)
    assert not slow.is_captured
    assert np.isfinite(slow.eager_us).all()
    assert isinstance(failed, Failure)
    assert failed.outcome is Outcome.UNSUPPORTED
    assert "ValueError" in failed.message


TUNED = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"PART": part}) for part in (400, 1, 100)], key=["n"])
@triton.jit
def double(x_ptr, out_ptr, n, PART: tl.constexpr):
    offsets = tl.program_id(0) * 128 + tl.arange(0, 128)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    for _ in range(PART):
        x = tl.load(x_ptr + offsets, mask=mask, volatile=True).to(tl.float32)
    tl.store(out_ptr + offsets, 2.0 * x * tl.sigmoid(x), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        double[(triton.cdiv(x.numel(), 128),)](x, out, x.numel())
        return out
"""


def test_the_quickest_configuration_is_chosen_on_the_gpu(verifier: Verifier) -> None:
    """Of three configurations the one that loads least is timed, and the verdict says so."""
    verdict = verifier.verify(POINTWISE, TUNED, CALIBRATED)
    assert verdict.correct, verdict
    timing = verifier.gather(POINTWISE, TUNED, CALIBRATED).evidence.timing
    assert timing is not None
    chosen = [one.is_chosen for one in timing.configurations]
    us = [one.us for one in timing.configurations]
    assert chosen == [False, True, False]
    assert None not in us
    assert us[1] == min(one for one in us if one is not None)
    assert verdict.stages[-1].message.endswith("the quickest of 3")
