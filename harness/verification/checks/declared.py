"""The check of large sizes where the backend cannot run them whole: samples of their programs.

The declared sizes are looked at in each of the contract's first two dtypes, and odd sizes beyond them in the first, if
the oracle can compute them in about a second. That is the task's doing; what a candidate does counts against it: a
plan that needs more time, memory or language than there is here is refused, as the sizes that are rewarded would be
the ones that nobody has seen. Where programs depend on others, or the sample leaves a doubt, all of them run, if they
are few enough. The backend that runs plans on a GPU runs all in any case, but where code takes too long to compile at
sizes that nobody declared: there it is looked at as without a GPU.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from ....core.candidate import Candidate, Comparison, CompileReport, Failure, RunReport, Variant
from ....core.outcome import Outcome
from ....core.plan import BufferKind, Copy, Fill, Launch, LaunchPlan
from ....core.recipe.extensions import VerifierSpec
from ....core.run import RunReply, RunRequest, RunResult
from ....core.seeds import derive
from ....core.serialisation import fingerprint
from ....core.task import Profile, Task
from ....stages.checks.declared_run import (
    ADDENDS,
    ALL_PROGRAMS,
    FEW_PROGRAMS,
    FIRST_PROGRAMS,
    LEAST_PROGRAMS,
    MORE_PROGRAMS,
    SCAN_LANES,
    SUM_LANES,
    SUSPECTS,
    Coverage,
    Hints,
    LaunchCoverage,
    are_right,
    count_needed,
    find_hints,
    judge_coverage,
)
from ....stages.checks.runs import RunsReport
from ....stages.compile_stage import find_recording, find_unseen_kernel
from ....stages.judge_run import judge_run
from ....stages.roofline import ITEM_BYTES
from ....stages.run_result import find_trespass
from ....stages.tolerance import compare
from ....stages.variants import VariantInputs, variants_of
from ...reference.oracle import ExpectedRun
from ..context import VerifierContext
from ..recordings import later_variants
from ..runs import prepare_run
from ..storages import from_bytes

_MOST_PLAN_BYTES = 512 << 20
_MOST_SECONDS = 12.0
_MOST_SECONDS_OF_SUSPECTS = 18.0
"""All programs run where the sample says that they take no longer; longer where a scan says that something is wrong."""
_CUT_OFF = (Outcome.CRASHED, Outcome.MEMORY_LIMIT)
"""Other ends of a run of all programs than being out of time that need not be the fault of what was already found."""


def gather(candidate: Candidate, task: Task, context: VerifierContext, spec: VerifierSpec) -> RunsReport | None:
    """Sample runs at large sizes, where there can be any.

    A kernel that only the declared sizes launch, as where host code chooses by size, is looked at for every verifier,
    also one that did not want the samples; where it cannot be looked at, the candidate is refused.
    """
    compiled = candidate.evidence.compile
    if compiled is None:
        return None
    is_wanted = Variant.DECLARED in variants_of(spec)
    if context.cuda is not None:
        # what a GPU could not compile in time has no report yet
        ran = candidate.evidence.report("variants")
        known = {run.variant for run in ran.runs} if isinstance(ran, RunsReport) else set()
        missing = [each for each in later_variants(task, context) if each.variant not in known] if is_wanted else []
        reports = _find_reports(candidate, task, evolve(context, cuda=None), missing)
    else:
        reports = _sample(candidate, task, context, compiled, is_wanted)
    return RunsReport(runs=tuple(reports)) if reports else None


def _sample(
    candidate: Candidate, task: Task, context: VerifierContext, compiled: CompileReport, is_wanted: bool
) -> list[RunReport]:
    unseen = find_unseen_kernel(compiled)
    if not is_wanted and unseen is None:
        return []
    declared = context.describe(Variant.DECLARED, task)
    recording = find_recording(compiled, Profile.DECLARED, declared.dtype)
    is_possible = recording is not None and recording.plan is not None and not recording.plan.operators
    if is_possible and context.oracle.is_within_reach(task):
        reports = _find_reports(candidate, task, context, [declared])
        if is_wanted and all(judge_run(report) is None for report in reports):
            reports += _find_reports(candidate, task, context, later_variants(task, context))
        return reports
    return [RunReport(variant=Variant.DECLARED, seconds=0.0, failure=unseen)] if unseen is not None else []


def _find_reports(
    candidate: Candidate, task: Task, context: VerifierContext, variants: Sequence[VariantInputs]
) -> list[RunReport]:
    """Reports up to the first that objects; the samples that are not yet known are taken in one child."""
    reports: dict[Variant, RunReport] = {}
    samplers: dict[Variant, _Sampler] = {}
    for inputs in variants:
        found = context.store.get(context.key(candidate, task, f"full:{inputs.variant}"), RunReport)
        made = found or _prepare(candidate, task, context, inputs)
        if isinstance(made, RunReport):
            reports[inputs.variant] = made
            if judge_run(made) is not None:
                break
        else:
            samplers[inputs.variant] = made
    requests = {variant: sampler.first_requests() for variant, sampler in samplers.items()}
    flat = [request for several in requests.values() for request in several]
    reply = context.sandbox.run(candidate.source, flat) if flat else RunReply()
    if reply.failure is not None and len(samplers) > 1:  # one took the others down with it
        reply = RunReply()
    results = iter(reply.results)
    ordered: list[RunReport] = []
    for inputs in variants:
        if inputs.variant in samplers:
            own = RunReply(
                results=tuple(itertools.islice(results, len(requests[inputs.variant]))),
                failure=reply.failure,
                seconds=reply.seconds / len(samplers),
            )
            reports[inputs.variant] = samplers[inputs.variant].run(own)
        if inputs.variant not in reports:
            break
        ordered.append(reports[inputs.variant])
        context.store.put(context.key(candidate, task, f"full:{inputs.variant}"), ordered[-1])
        if judge_run(ordered[-1]) is not None:
            break
    return ordered


def sample_declared(candidate: Candidate, task: Task, context: VerifierContext) -> RunReport:
    """The report of a sample of the declared plan that the candidate's evidence has; it is not kept."""
    made = _prepare(candidate, task, context, context.describe(Variant.DECLARED, task))
    return made if isinstance(made, RunReport) else made.run(RunReply())


def _prepare(candidate: Candidate, task: Task, context: VerifierContext, inputs: VariantInputs) -> RunReport | _Sampler:
    began = time.perf_counter()
    prepared = prepare_run(candidate, task, context, inputs)
    if isinstance(prepared, Failure):
        return RunReport(variant=inputs.variant, seconds=time.perf_counter() - began, failure=prepared)
    request, expected = prepared
    plan = _without_unused_memory(request.plan)
    num_bytes = sum(buffer.num_elements * ITEM_BYTES.get(buffer.dtype, 8) for buffer in plan.buffers)
    if num_bytes > _MOST_PLAN_BYTES:
        message = f"the plan needs {num_bytes >> 20} MB, where the reference is computed with much less"
        failure = Failure(outcome=Outcome.UNSUPPORTED, message=message)
        return RunReport(variant=inputs.variant, seconds=time.perf_counter() - began, failure=failure)
    seed = derive(context.oracle.seed, fingerprint(task), "programs", inputs.variant.value)
    request = evolve(request, plan=plan, seed=seed)
    return _Sampler(candidate=candidate, context=context, request=request, expected=expected)


def _without_unused_memory(plan: LaunchPlan) -> LaunchPlan:
    """The plan with nothing in temporaries that no step mentions: they would only be in the way."""
    used = {view.buffer for view in plan.outputs}
    for step in plan.steps:
        match step:
            case Launch():
                used |= {argument.view.buffer for argument in step.arguments if argument.view is not None}
            case Fill():
                used.add(step.target.buffer)
            case Copy():
                used |= {step.source.buffer, step.target.buffer}
    buffers = tuple(
        evolve(buffer, num_elements=1) if buffer.kind is BufferKind.TEMPORARY and index not in used else buffer
        for index, buffer in enumerate(plan.buffers)
    )
    return evolve(plan, buffers=buffers)


@frozen(kw_only=True)
class _Look:
    """What a sample found: a report, whether all programs would tell more, and how long each of them takes."""

    report: RunReport
    is_doubtful: bool = False
    seconds_each: float = 0.0
    has_sums: bool = False
    """Something was not compared, as programs that did not run have to do with it."""
    overlaps: bool = False
    """Programs wrote what others had written, so that how much each writes does not add up."""

    @property
    def outcome(self) -> Outcome | None:
        return None if self.report.failure is None else self.report.failure.outcome


@frozen(kw_only=True)
class _Sampler:
    """Looks at one request's plan, with as many programs as it takes."""

    candidate: Candidate
    context: VerifierContext
    request: RunRequest
    expected: ExpectedRun

    def first_requests(self) -> list[RunRequest]:
        """A small sample, and a scan at the declared sizes where it could show more."""
        few = LEAST_PROGRAMS if self.request.variant is Variant.BETWEEN else FEW_PROGRAMS
        sampled = evolve(self.request, num_programs=few)
        if self.request.variant is not Variant.DECLARED or sum(self._grids) <= FEW_PROGRAMS:
            return [sampled]
        return [sampled, evolve(self.request, num_lanes=SCAN_LANES)]

    def run(self, first: RunReply) -> RunReport:
        """The report of the first sample, or of a larger one where it or the scan leaves a doubt."""
        began = time.perf_counter()
        is_declared, grids = self.request.variant is Variant.DECLARED, self._grids
        hints = self._read_hints(first.results[1]) if len(first.results) > 1 else Hints()
        # a child that the scan's memory has ended says nothing about the candidate
        is_late = first.failure is not None and first.failure.outcome is Outcome.TIMEOUT
        if hints is None or not (first.results or is_late):
            look = self._take(FIRST_PROGRAMS if is_declared else FEW_PROGRAMS)
        elif hints.programs and len(grids) == 1:
            look = self._take(FEW_PROGRAMS, hints.programs)
        else:
            look = self._judge_reply(first)
        hints = hints or Hints()
        if look.outcome is Outcome.TIMEOUT:
            look = self._take(LEAST_PROGRAMS)
        # a program that waits for another one has a loop without a bound
        may_wait = "while" in self.candidate.source
        is_exhausted = False
        if look.outcome is Outcome.OUTPUT_NOT_WRITTEN:
            more = self._take(MORE_PROGRAMS)
            # where more programs only take too long, what the first ones did not write still stands
            is_too_much = more.outcome is Outcome.TIMEOUT and not may_wait
            is_exhausted = is_too_much or max(grids) <= MORE_PROGRAMS
            look = look if is_too_much else more
        is_wrong = look.outcome is not None or judge_run(look.report) is not None
        is_suspect = not is_wrong and (bool(hints.programs) or hints.is_lacking)
        is_decisive = is_wrong or is_declared
        is_stuck = look.outcome is Outcome.TIMEOUT and not may_wait
        is_open = (look.is_doubtful or is_suspect) and not is_exhausted
        if is_open and is_decisive and not is_stuck and sum(grids) <= ALL_PROGRAMS:
            most_seconds = _MOST_SECONDS_OF_SUSPECTS if is_suspect else _MOST_SECONDS
            is_quick = look.outcome is not None or look.seconds_each * sum(grids) <= most_seconds
            whole = self._take(max(grids)) if is_quick else look
            # what did not come to its end says nothing that would make an objection better or worse
            is_cut_off = whole.outcome is Outcome.TIMEOUT or (is_wrong and whole.outcome in _CUT_OFF)
            look = look if is_cut_off else whole
        is_unsettled = look.has_sums or look.overlaps or (hints.is_lacking and sum(grids) > ALL_PROGRAMS)
        if is_unsettled and not is_wrong and is_declared and len(grids) == 1:
            failure = self._check_a_sum() if look.has_sums else self._check_the_rest()
            look = look if failure is None else _Look(report=self._report(failure))
        return evolve(look.report, seconds=first.seconds + time.perf_counter() - began)

    @property
    def _grids(self) -> list[int]:
        return [math.prod(launch.grid) for launch in self.request.plan.launches]

    def _take(self, num_programs: int, programs: tuple[int, ...] = ()) -> _Look:
        request = evolve(self.request, num_programs=num_programs, programs=programs)
        reply = self.context.sandbox.run(self.candidate.source, [request])
        return self._judge_reply(reply)

    def _check_a_sum(self) -> Failure | None:
        """An objection to what programs add up to in one element, where all run at once and then its own one by one.

        Both ways must agree on the value, so that a scan alone refuses nothing.
        """
        seen = self._scan()
        hints = None if seen is None else self._read_hints(seen)
        if seen is None or hints is None or hints.position < 0 or len(self.request.plan.outputs) > 1:
            return None
        again = self._scan((0, hints.position))
        programs = () if again is None or again.sample is None else again.sample.launches[0].written_by_program
        if not 0 < len(programs) <= ADDENDS:
            return None
        request = evolve(self.request, num_programs=1, programs=programs)
        reply = self.context.sandbox.run(self.candidate.source, [request])
        result = None if reply.failure is not None else reply.results[0]
        if result is None or result.failure is not None or not result.outputs:
            return None
        view, wanted = self.request.plan.outputs[0], self.expected.expected[0]
        alone, at_once = from_bytes(result.outputs[0], view), from_bytes(seen.outputs[0], view)
        if alone is None or at_once is None or alone.shape != wanted.shape:
            return None
        at = np.unravel_index(hints.position, wanted.shape)
        value, scanned = np.full_like(wanted, alone[at]), np.where(np.isfinite(at_once[at]), at_once[at], 0.0)
        is_wrong = not are_right(value, wanted, view.dtype, self.expected.share_of_tolerance)[at]
        if not (is_wrong and np.isclose(float(alone[at]), float(scanned), rtol=1e-2)):
            return None
        message = f"{len(programs)} programs add up to {float(alone[at]):.4g} where {float(wanted[at]):.4g} is right"
        return Failure(outcome=Outcome.WRONG_VALUES, message=message)

    def _check_the_rest(self) -> Failure | None:
        """An objection where how much programs write does not add up, and a scan of all leaves elements unwritten."""
        seen = self._scan()
        hints = None if seen is None else self._read_hints(seen)
        if hints is None or not hints.is_lacking:
            return None
        message = "programs write what others write, and all of them do not write the whole result"
        return Failure(outcome=Outcome.OUTPUT_NOT_WRITTEN, message=message)

    def _scan(self, watched: tuple[int, int] | None = None) -> RunResult | None:
        request = evolve(self.request, num_lanes=SUM_LANES, watched=watched)
        reply = self.context.sandbox.run(self.candidate.source, [request])
        is_done = reply.failure is None and reply.results[0].failure is None
        return reply.results[0] if is_done else None

    def _read_hints(self, result: RunResult) -> Hints | None:
        plan, expected = self.request.plan, self.expected
        counts = [] if result.sample is None else [launch.num_unknown for launch in result.sample.launches]
        sizes = {len(result.outputs), len(result.written), len(expected.expected)}
        if result.failure is not None or len(counts) != len(plan.launches) or sizes != {len(plan.outputs)}:
            return None
        if min(counts) < min(FIRST_PROGRAMS, *(math.prod(launch.grid) for launch in plan.launches)):
            return None
        is_whole = all(n == math.prod(launch.grid) for n, launch in zip(counts, plan.launches, strict=True))
        found = []
        for number, (view, wanted) in enumerate(zip(plan.outputs, expected.expected, strict=True)):
            actual = from_bytes(result.outputs[number], view)
            if actual is None or actual.shape != wanted.shape or len(result.written[number]) != 4 * wanted.size:
                return None
            writers = np.frombuffer(result.written[number], np.int32).reshape(wanted.shape)
            if writers.size and writers.min() < 0:
                return None
            found.append(find_hints(actual, wanted, writers, view.dtype, is_whole, expected.share_of_tolerance))
        return Hints(
            programs=tuple(program for hints in found for program in hints.programs)[:SUSPECTS],
            is_lacking=any(hints.is_lacking for hints in found),
            position=found[0].position,
        )

    def _judge_reply(self, reply: RunReply) -> _Look:
        plan = self.request.plan
        failure = reply.failure or reply.results[0].failure
        if failure is None:
            failure = find_trespass(plan, reply.results[0].out_of_bounds, reply.results[0].mutated)
        if failure is not None:
            # out of time may also be a program that waits for one that does not run
            is_doubtful = len(plan.launches) > 1 or failure.outcome is Outcome.TIMEOUT
            return _Look(report=self._report(failure), is_doubtful=is_doubtful)
        return self._judge_result(reply.results[0])

    def _judge_result(self, result: RunResult) -> _Look:
        plan, expected, sample = self.request.plan, self.expected, result.sample
        sizes = (len(result.outputs), len(result.written), len(result.tainted), len(expected.expected))
        if sample is None or len(sample.launches) != len(plan.launches) or set(sizes) != {len(plan.outputs)}:
            return self._broken("not as many results as the plan returns")
        num_needed, num_tainted, comparisons = 0, 0, []
        for number, (view, wanted) in enumerate(zip(plan.outputs, expected.expected, strict=True)):
            actual = from_bytes(result.outputs[number], view)
            written = _unpack(result.written[number], view.shape)
            tainted = _unpack(result.tainted[number], view.shape)
            if actual is None or written is None or tainted is None or actual.shape != wanted.shape:
                return self._broken("a result's size is not what the plan says")
            settled = written & ~tainted
            num_needed += count_needed(actual, wanted, written, view.dtype)
            num_tainted += int(np.count_nonzero(tainted))
            comparison = compare(actual[settled], wanted[settled], view.dtype, expected.dtypes[number])
            comparisons.append(evolve(comparison, share_of_tolerance=expected.share_of_tolerance))
        launches = tuple(
            LaunchCoverage(
                grid=launch.grid,
                written_by_program=taken.written_by_program,
                num_unknown=taken.num_unknown,
                stored_by_program=taken.stored_by_program,
                new_along=taken.new_along,
            )
            for launch, taken in zip(plan.launches, sample.launches, strict=True)
        )
        num_run = sum(len(launch.written_by_program) + launch.num_unknown for launch in launches)
        overlaps = any(taken.overlaps for taken in sample.launches)
        failure = judge_coverage(Coverage(num_needed=num_needed, launches=launches))
        return _Look(
            report=self._report(failure) if failure is not None else self._report(comparisons=tuple(comparisons)),
            is_doubtful=failure is not None or num_tainted > 0 or len(launches) > 1 or overlaps,
            seconds_each=result.seconds / max(1, num_run),
            has_sums=num_tainted > 0,
            overlaps=overlaps,
        )

    def _report(self, failure: Failure | None = None, comparisons: tuple[Comparison, ...] = ()) -> RunReport:
        return RunReport(variant=self.request.variant, seconds=0.0, failure=failure, comparisons=comparisons)

    def _broken(self, message: str) -> _Look:
        return _Look(report=self._report(Failure(outcome=Outcome.BROKEN_PROTOCOL, message=message)))


def _unpack(bits: bytes, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    size = int(np.prod(shape, dtype=np.int64))
    if len(bits) != -(-size // 8):
        return None
    return np.unpackbits(np.frombuffer(bits, dtype=np.uint8), count=size).astype(bool).reshape(shape)
