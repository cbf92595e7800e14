"""Probes of the timing stage: simulated timing by a roofline model, and measured timing on a GPU.

Measured, candidate and eager reference are timed in turns in one executor (`harness.gpu`), on values that no earlier
run had. The results of the very runs that were timed are compared with the oracle, and what they show counts as one
more variant of the full run, "timed": a kernel that does its work only when it is not timed is wrong, not fast. How the
reference does with TF32 and by `torch.compile` is measured once for a task and a device, and kept. Of an autotuned
plan the quickest configuration is timed (`tune`).
"""

from __future__ import annotations

import math
import time

from attrs import evolve, frozen

from ...core.candidate import (
    Candidate,
    Comparison,
    ConfigurationTime,
    Failure,
    ReferenceTiming,
    RunReport,
    TimingReport,
    Variant,
    is_setting,
)
from ...core.config import TimingConfig
from ...core.outcome import Outcome, Stage
from ...core.plan import LaunchPlan
from ...core.run import RunRequest
from ...core.seeds import derive
from ...core.serialisation import fingerprint
from ...core.task import Profile, Task
from ...stages.checks.runs import RunsReport
from ...stages.compile_stage import find_recording
from ...stages.funnel import FUNNEL
from ...stages.judge_run import judge_run
from ...stages.plan_validation import check_structure
from ...stages.roofline import Gpu, add_noise, estimate_plan_us, estimate_reference_us
from ...stages.tolerance import TOLERANCES
from ...stages.variants import describe
from ..errors import TooLargeError
from ..gpu.backend import CudaBackend
from ..gpu.timing.protocol import Protocol, ReferenceRequest, ReferenceSource, Timed
from ..reference.expected_run import ExpectedRun
from .checks.configurations import (
    describe_choice,
    draw_choices,
    is_refused_by_compiler,
    judge_with,
    record_choices,
    with_recording,
)
from .context import VerifierContext
from .run_reports import report_runs
from .runs import prepare_run

MOST_CONFIGURATIONS = 64
_LOST = (Outcome.OUT_OF_BOUNDS, Outcome.CRASHED)
"""Ends of a timed run that say that the kernel is wrong, and not only slow."""


def probe_simulated(
    candidate: Candidate, task: Task, context: VerifierContext, timing: TimingConfig, gpu: Gpu, calibrated: bool
) -> Candidate:
    """Estimate both runtimes by the roofline model, with the noise of the protocol; nothing is measured here.

    It is too cheap to be stored. The noise depends on seed, task, source and protocol alone, so that every cell sees
    the same figure for the same candidate.
    """
    began = time.perf_counter()
    plan = _find_plan(candidate, task)
    failure = plan if isinstance(plan, Failure) else None
    candidate_us: tuple[float, ...] = ()
    reference_us: tuple[float, ...] = ()
    if isinstance(plan, LaunchPlan):
        operators = context.oracle.operators(task)
        cv, num_trials = (timing.calibrated_cv, timing.trials) if calibrated else (timing.single_cv, 1)
        labels = (fingerprint(task), candidate.sha256, "timing", _name_protocol(calibrated))
        candidate_us = add_noise(
            estimate_plan_us(plan, sum(operator.matmul_flops for operator in operators), gpu),
            cv,
            num_trials,
            derive(context.oracle.seed, *labels, "candidate"),
        )
        reference_us = add_noise(
            estimate_reference_us(operators, gpu), cv, num_trials, derive(context.oracle.seed, *labels, "reference")
        )
    report = TimingReport(
        simulated=True,
        calibrated=calibrated,
        candidate_us=candidate_us,
        reference_us=reference_us,
        seconds=time.perf_counter() - began,
        failure=failure,
    )
    return candidate.with_evidence(timing=report)


def _name_protocol(calibrated: bool) -> str:
    return "calibrated" if calibrated else "single"


def _find_plan(candidate: Candidate, task: Task) -> LaunchPlan | Failure:
    """The declared plan, or why there is none to time."""
    report = candidate.evidence.compile
    recording = find_recording(report, Profile.DECLARED, task.dtypes[0]) if report is not None else None
    failure = report.failure if report is not None else None
    if recording is not None and recording.plan is not None:
        return failure or check_structure(recording.plan) or recording.plan
    if failure is None and recording is not None:
        failure = recording.failure
    return failure or Failure(Outcome.BROKEN_PROTOCOL, "no plan to time")


def probe_measured(
    candidate: Candidate, task: Task, context: VerifierContext, timing: TimingConfig, calibrated: bool
) -> Candidate:
    """Measure both runtimes on the GPU, and add what the timed runs' results were to the full run's reports."""
    cuda = context.cuda
    if cuda is None:
        raise ValueError("measured timing needs a GPU")
    protocol = Protocol.of(timing, calibrated)
    identity = fingerprint([protocol, timing.torch_compile, cuda.device_name])
    probe = f"timing:{_name_protocol(calibrated)}:{identity}"
    # in a funnel that does not end where it might, what is refused already is measured too, but needs no second chance
    is_refused = any(not judge(candidate).passed for stage, judge in FUNNEL if stage is not Stage.TIMING)
    if is_refused:
        probe += ":refused"

    def gather() -> TimingReport:
        needed = 2 * context.needed_bytes(task, describe(Variant.TIMED, task.dtypes, Profile.DECLARED))
        try:
            with context.budget.asked(needed, task.task_id):
                waited = cuda.waited_s
                report = _measure(candidate, task, context, cuda, timing, protocol, is_refused)
        except TooLargeError as error:
            failure = Failure(Outcome.UNSUPPORTED, str(error))
            return evolve(_blank(cuda, protocol), failure=failure)
        return evolve(report, seconds=max(0.0, report.seconds - (cuda.waited_s - waited)))

    report = context.once(candidate, task, probe, TimingReport, gather)
    candidate = candidate.with_evidence(timing=report)
    if report is None or report.check is None:
        return candidate
    return candidate.with_report("timed", RunsReport(runs=(report.check,)))


def _measure(
    candidate: Candidate,
    task: Task,
    context: VerifierContext,
    cuda: CudaBackend,
    timing: TimingConfig,
    protocol: Protocol,
    is_refused: bool,
) -> TimingReport:
    began = time.perf_counter()
    report = _blank(cuda, protocol)
    plan = _find_plan(candidate, task)
    if isinstance(plan, Failure):
        return evolve(report, failure=plan, seconds=time.perf_counter() - began)
    tuned = tune(candidate, task, context, cuda, protocol)
    if isinstance(tuned, Failure):
        if tuned.outcome in _LOST:
            report = evolve(report, check=RunReport(variant=Variant.TIMED, failure=tuned))
        return evolve(report, failure=tuned, seconds=time.perf_counter() - began)
    candidate, report = tuned.candidate, evolve(report, configurations=tuned.times)
    inputs = describe(Variant.TIMED, task.dtypes, Profile.DECLARED)
    pairs: list[tuple[RunRequest, ExpectedRun]] = []
    for wanted in (inputs, inputs.change_few()):
        prepared = prepare_run(candidate, task, context, wanted)
        if isinstance(prepared, Failure):
            return evolve(report, failure=prepared, seconds=time.perf_counter() - began)
        pairs.append(prepared)
    first, second = (request for request, _ in pairs)
    source = _describe_reference(task, context)
    timed = cuda.time(first.plan, first.storages, second.storages, source, protocol, is_repeated=not is_refused)
    check = _check(pairs, timed)
    if not is_refused and timed.failure is None and check is not None and judge_run(check) is not None:
        # not for what an earlier plan may have left behind in the same context
        timed = cuda.time(first.plan, first.storages, second.storages, source, protocol, alone=True)
        check = _check(pairs, timed)
    report, failure = evolve(report, check=check), timed.failure
    if timed.trials is not None:
        us = timed.trials.us
        report = evolve(
            report,
            candidate_us=us["candidate"],
            reference_us=us.get("reference", ()),
            control_us=us.get("control", ()),
            clocks=timed.trials.clocks,
            num_attempts=timed.trials.num_attempts,
            num_late=timed.trials.num_late,
        )
    seconds = time.perf_counter() - began  # the candidate's own: what follows is the task's
    if failure is None and protocol.is_calibrated:
        report = evolve(report, reference=find_reference_timing(task, context, cuda, timing))
    return evolve(report, failure=failure, seconds=seconds)


def _blank(cuda: CudaBackend, protocol: Protocol) -> TimingReport:
    """A report of which nothing is measured yet."""
    return TimingReport(
        simulated=False,
        calibrated=protocol.is_calibrated,
        candidate_us=(),
        reference_us=(),
        seconds=0.0,
        device=cuda.device_name,
    )


def _describe_reference(task: Task, context: VerifierContext) -> ReferenceSource:
    return ReferenceSource(
        task=task, dtype=task.dtypes[0], seed=derive(context.oracle.seed, fingerprint(task), "timing")
    )


def find_reference_timing(
    task: Task, context: VerifierContext, cuda: CudaBackend, timing: TimingConfig
) -> ReferenceTiming:
    """The reference's own figures on this device: measured once, and kept in the evidence store."""
    protocol = Protocol.of(timing, True)
    source = _describe_reference(task, context)
    request = ReferenceRequest(source=source, protocol=protocol, compiling=timing.torch_compile)
    identity = fingerprint([protocol, timing.torch_compile, cuda.device_name])
    key = context.key_of("", task, f"reference timing:{identity}")
    with cuda.measuring_references:  # two threads that need the same figures measure them once
        kept = context.store.get(key, ReferenceTiming)
        if kept is not None:
            return kept
        found = cuda.measure_reference(request)
        if isinstance(found, Failure):
            found = ReferenceTiming(device=cuda.device_name, notes=(found.message or str(found.outcome),))
        context.store.put(key, found)
    return found


def _check(pairs: list[tuple[RunRequest, ExpectedRun]], timed: Timed) -> RunReport | None:
    """One report of what the timed runs returned: the first, the farthest from it, and the replay on other values.

    Null where nothing ran, for a reason that says nothing of the kernel.
    """
    if timed.failure is not None and timed.failure.outcome in _LOST:
        return RunReport(variant=Variant.TIMED, failure=timed.failure)
    if timed.first is None or timed.fresh is None:
        return None
    first, fresh = report_runs(pairs, [timed.first, timed.fresh], None, 0.0)
    seconds, failure = first.seconds + fresh.seconds, first.failure or fresh.failure
    if failure is not None:
        return RunReport(variant=Variant.TIMED, seconds=seconds, failure=failure)
    strayed = map(describe_deviation, first.comparisons, timed.deviations)
    comparisons = (*first.comparisons, *fresh.comparisons, *strayed)
    return RunReport(variant=Variant.TIMED, seconds=seconds, comparisons=comparisons)


def describe_deviation(of_first: Comparison, deviation: float | None) -> Comparison:
    """How far the trials' results strayed from the first run's, as a comparison that the tolerance judges.

    The tolerance is the dtype's own: between two runs of one kernel lies no more than the order of its additions.
    """
    plain = Comparison(dtype=of_first.dtype, shape_matches=True, dtype_matches=True, num_elements=of_first.num_elements)
    if deviation is None:
        return evolve(plain, num_nonfinite=max(1, plain.num_elements))
    if plain.dtype in TOLERANCES:
        return evolve(plain, relative_error=deviation)
    return evolve(plain, num_different=math.ceil(deviation * plain.num_elements))


@frozen(kw_only=True)
class Tuned:
    """The candidate with the quickest configuration in the place of the recorded one, and what each took."""

    candidate: Candidate
    times: tuple[ConfigurationTime, ...] = ()


def tune(
    candidate: Candidate, task: Task, context: VerifierContext, cuda: CudaBackend, protocol: Protocol
) -> Tuned | Failure:
    """Measure which configuration an autotuner would take; a plan without a choice is left as it is.

    Recording has no device, so a recorded plan has the first configuration that compiles. Here every configuration is
    recorded at the declared sizes and compiled in the sandbox, a drawn part of them where tuners have very many, and
    the executor measures all in turns. What is timed, and checked while it is timed, is the quickest, as it would be on
    the user's machine. A configuration that does not compile, or needs more than the GPU has, is none that a tuner
    takes; one that ends the executor would have ended the user's process, and refuses the candidate.
    """
    report = candidate.evidence.compile
    known = find_recording(report, Profile.DECLARED, task.dtypes[0]) if report is not None else None
    # no tuner chooses a setting, so it stays as it was recorded
    counts = tuple(1 if is_setting(words) else len(words) for words in known.choices) if known is not None else ()
    if known is None or math.prod(counts) <= 1:
        return Tuned(candidate=candidate)
    seed = derive(context.oracle.seed, candidate.sha256, "tuning")
    choices = draw_choices(counts, seed, MOST_CONFIGURATIONS)
    inputs = describe(Variant.TIMED, task.dtypes, Profile.DECLARED)
    usable: list[tuple[int, Candidate, RunRequest]] = []
    recordings = record_choices(candidate, task, context, known, choices, True)
    for number, recording in enumerate(recordings):
        changed = with_recording(candidate, known, recording)
        prepared = judge_with(changed, recording) or prepare_run(changed, task, context, inputs)
        if not isinstance(prepared, Failure):
            usable.append((number, changed, prepared[0]))
        elif not is_refused_by_compiler(prepared):
            return prepared
    if not usable:
        return Tuned(candidate=candidate)
    ranked = cuda.rank([run.plan for *_, run in usable], [run.storages for *_, run in usable], protocol)
    if isinstance(ranked, Failure):
        return ranked
    us = {number: found for (number, *_), found in zip(usable, ranked, strict=True) if found is not None}
    best = min(us, key=us.__getitem__, default=None)
    times = tuple(
        ConfigurationTime(
            description=describe_choice(recording if recording.choices else known, choice),
            us=us.get(number),
            is_chosen=number == best,
        )
        for number, (choice, recording) in enumerate(zip(choices, recordings, strict=True))
    )
    # where none runs, the recorded one says why when it is timed
    chosen = next((changed for number, changed, _ in usable if number == best), candidate)
    return Tuned(candidate=chosen, times=times)
