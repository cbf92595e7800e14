"""Samples of a plan's programs at sizes that are too large to be run whole: what takes them, and compares them.

Which programs are taken, and what is to be concluded, `stages.checks.sampled_run` decides.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Generator, Sequence

from attrs import evolve, frozen

from ....core.candidate import Candidate, Failure, RunReport, Variant
from ....core.outcome import Outcome
from ....core.plan import BufferKind, LaunchPlan, views_of
from ....core.run import RunReply, RunRequest, RunResult
from ....core.seeds import derive
from ....core.serialisation import fingerprint
from ....core.task import SINGLE_SIZES, Task
from ....stages.arrangements import ARRANGEMENTS
from ....stages.checks.declared_run import ADDENDS, FEW_PROGRAMS, LEAST_PROGRAMS, SCAN_LANES, SUM_LANES, Grid, Hints
from ....stages.checks.sampled_run import (
    Look,
    Question,
    SampledOutput,
    Settled,
    Take,
    judge_failure,
    judge_rest,
    judge_sample,
    judge_sum,
    read_hints,
    settle,
)
from ....stages.judge_run import excuse, find_trespass, judge_run
from ....stages.roofline import ITEM_BYTES
from ....stages.tolerance import find_scale
from ....stages.variant_inputs import VariantInputs
from ...reference.expected_run import ExpectedRun
from ...reference.oracle import SHARE_OF_SCALE
from ...reference.sizes.declared_sizes import LEAST_GROWTH, measure_work
from ..context import VerifierContext
from ..runs import PATIENCE, prepare_run
from ..storages import from_bytes, read_bits, read_writers

_FREE_PLAN_BYTES, _MOST_PLAN_BYTES = 512 << 20, 3 << 29
"""A plan may have so much whatever the reference keeps, and no more than this where that keeps as much."""
_SINGLE = tuple(Variant(profile) for profile in SINGLE_SIZES)
_LEAST_LOOKED_AT = (*_SINGLE, Variant.BETWEEN, Variant.TWICE, Variant.WHOLE_BLOCKS, Variant.ARRANGED)


def prepare_sample(
    candidate: Candidate, task: Task, context: VerifierContext, inputs: VariantInputs
) -> RunReport | Sampler:
    """What samples the variant's plan, or the report that says why nothing can."""
    began = time.perf_counter()
    prepared = prepare_run(candidate, task, context, inputs)
    if isinstance(prepared, Failure):
        return RunReport(variant=inputs.variant, seconds=time.perf_counter() - began, failure=prepared)
    request, expected = prepared
    plan = _without_unused_memory(request.plan)
    num_bytes = sum(buffer.num_elements * ITEM_BYTES.get(buffer.dtype, 8) for buffer in plan.buffers)
    # half of what the reference's operators read and write is what they return, which a plan keeps that fuses none
    returned_bytes = measure_work(context.oracle.operators(task)) / 2
    unfused_bytes = context.oracle.signature(task).num_bytes + returned_bytes
    if num_bytes > min(_MOST_PLAN_BYTES, max(_FREE_PLAN_BYTES, LEAST_GROWTH * unfused_bytes)):
        message = f"the plan needs {num_bytes >> 20} MB, where the reference is computed with much less"
        failure = Failure(Outcome.UNSUPPORTED, message)
        return RunReport(variant=inputs.variant, seconds=time.perf_counter() - began, failure=failure)
    seed = derive(context.oracle.seed, fingerprint(task), "programs", inputs.variant.value)
    request = evolve(request, plan=plan, seed=seed)
    return Sampler(candidate=candidate, task=task, inputs=inputs, context=context, request=request, expected=expected)


def _without_unused_memory(plan: LaunchPlan) -> LaunchPlan:
    """The plan with nothing in temporaries that no step mentions: they would only be in the way."""
    used = {view.buffer for view in plan.outputs} | {view.buffer for step in plan.steps for view in views_of(step)}
    buffers = tuple(
        evolve(buffer, num_elements=1) if buffer.kind is BufferKind.TEMPORARY and index not in used else buffer
        for index, buffer in enumerate(plan.buffers)
    )
    return evolve(plan, buffers=buffers)


@frozen(kw_only=True)
class Sampler:
    """Runs samples of one request's plan, as `stages.checks.sampled_run` decides."""

    candidate: Candidate
    task: Task
    inputs: VariantInputs
    context: VerifierContext
    request: RunRequest
    expected: ExpectedRun
    is_excused: bool = False
    """Whether errors are measured against the whole result's scale, as the reference's own are."""
    is_brief: bool = False
    """Whether a few programs are all that is wanted, where others than the choice of a tuner have been looked at."""

    def first_requests(self) -> list[RunRequest]:
        """A small sample, and a scan where it could show more: at the declared sizes, and beyond of a single launch."""
        few = LEAST_PROGRAMS if self.is_brief or self.request.variant in _LEAST_LOOKED_AT else FEW_PROGRAMS
        sampled = evolve(self.request, num_programs=few, programs=self._find_neighbours())
        is_single = self.request.variant is Variant.BEYOND and len(self._num_programs) == 1
        is_scanned = self._is_declared or is_single
        if self.is_brief or not is_scanned or sum(self._num_programs) <= FEW_PROGRAMS:
            return [sampled]
        # where one launch works on another's results, else all would run; beyond, what is unwritten shows in no sample
        lanes = SUM_LANES if len(self._num_programs) > 1 or is_single else SCAN_LANES
        return [sampled, evolve(self.request, num_lanes=lanes)]

    def _find_neighbours(self) -> tuple[int, ...]:
        """Programs one after the other, so that rows of each arrangement are met where each has a program."""
        if self.request.variant is not Variant.ARRANGED:
            return ()
        start = self.request.seed % max(1, min(self._num_programs) - len(ARRANGEMENTS))
        return tuple(range(start, start + len(ARRANGEMENTS)))

    def run(self, first: RunReply) -> RunReport:
        """The report of the samples, which are judged once more where they and the reference itself are imprecise."""
        report, share = self._settle(first), self.expected.share_of_tolerance
        objection = judge_run(report)
        if objection is None or objection.outcome is not Outcome.WRONG_VALUES:
            return report
        # only now, since it runs the reference once more
        excused = excuse(self.context.oracle.own_errors(self.task, self.inputs), share)
        if excused == share:
            return report
        return evolve(self, expected=evolve(self.expected, share_of_tolerance=excused), is_excused=True)._settle(first)

    def _settle(self, first: RunReply) -> RunReport:
        """The report of the first sample, or of those that are taken where it or the scan leaves a doubt."""
        began = time.perf_counter()
        hints = self._read_hints(first.results[1]) if len(first.results) > 1 else Hints()
        # a child that the scan's memory has ended says nothing about the candidate
        is_late = first.failure is not None and first.failure.outcome is Outcome.TIMEOUT
        look = self.judge_reply(first) if first.results or is_late else None
        if self.is_brief and look is not None and not look.is_wrong:
            work = look.work_each * sum(self._num_programs)
            return evolve(look.report, seconds=first.seconds + time.perf_counter() - began, work=work)
        may_wait = "while" in self.candidate.source
        steps = settle(look, hints, self._num_programs, self._is_declared, may_wait)
        settled = self._follow(steps)
        failure = None
        if settled.question is Question.SUM:
            failure = self._check_a_sum()
        elif settled.question is Question.REST:
            seen = self._scan()
            failure = judge_rest(None if seen is None else self._read_hints(seen))
        report = settled.look.report
        if failure is not None:
            report = RunReport(variant=self.request.variant, failure=failure)
        return evolve(report, seconds=first.seconds + time.perf_counter() - began)

    def _follow(self, steps: Generator[Take, Look, Settled]) -> Settled:
        try:
            wanted = next(steps)
            while True:
                lanes = SUM_LANES if wanted.follows_whole_launches else 0
                request = evolve(
                    self.request, num_programs=wanted.num_programs, programs=wanted.programs, num_lanes=lanes
                )
                patience = PATIENCE if wanted.is_patient else 1
                wanted = steps.send(self.judge_reply(self._run(request, patience)))
        except StopIteration as end:
            settled: Settled = end.value
            return settled

    @property
    def _is_declared(self) -> bool:
        return self.request.variant is Variant.DECLARED and not self.is_brief

    @property
    def _grids(self) -> list[Grid]:
        return [launch.grid for launch in self.request.plan.launches]

    @property
    def _num_programs(self) -> list[int]:
        return [math.prod(grid) for grid in self._grids]

    def _run(self, request: RunRequest, patience: int = 1) -> RunReply:
        return self.context.sandbox.run(self.candidate.source, [request], patience)

    def _check_a_sum(self) -> Failure | None:
        """An objection to what programs add up to in one element, where all run at once and then its own one by one."""
        seen = self._scan()
        hints = None if seen is None else self._read_hints(seen)
        if seen is None or hints is None or hints.position < 0 or len(self.request.plan.outputs) > 1:
            return None
        again = self._scan((0, hints.position))
        programs = () if again is None or again.sample is None else again.sample[0].written_by_program
        if not 0 < len(programs) <= ADDENDS:
            return None
        reply = self._run(evolve(self.request, num_programs=1, programs=programs))
        result = None if reply.failure is not None else reply.results[0]
        scanned = self.read(seen, is_scan=True)
        if result is None or result.failure is not None or not result.outputs or scanned is None:
            return None
        alone = from_bytes(result.outputs[0], self.request.plan.outputs[0])
        if alone is None or alone.shape != scanned[0].expected.shape:
            return None
        return judge_sum(scanned[0], alone, hints.position, len(programs))

    def _scan(self, watched: tuple[int, int] | None = None) -> RunResult | None:
        reply = self._run(evolve(self.request, num_lanes=SUM_LANES, watched=watched))
        is_done = reply.failure is None and reply.results[0].failure is None
        return reply.results[0] if is_done else None

    def _read_hints(self, result: RunResult) -> Hints | None:
        outputs = self.read(result, is_scan=True) if result.failure is None else None
        if outputs is None or result.sample is None or len(result.sample) != len(self._grids):
            return None
        return read_hints(outputs, self._grids, result.sample)

    def judge_reply(self, reply: RunReply) -> Look:
        """What one sample shows."""
        plan, variant = self.request.plan, self.request.variant
        failure = reply.failure or reply.results[0].failure
        if failure is None:
            failure = find_trespass(plan, reply.results[0].out_of_bounds, reply.results[0].mutated)
        if failure is not None:
            return judge_failure(variant, failure, len(plan.launches))
        result = reply.results[0]
        outputs = self.read(result)
        if outputs is None or result.sample is None or len(result.sample) != len(plan.launches):
            failure = Failure(Outcome.BROKEN_PROTOCOL, "results are not as many or large as planned")
            return Look(report=RunReport(variant=variant, failure=failure))
        return judge_sample(variant, outputs, self._grids, result.sample, result.work)

    def read(self, result: RunResult, is_scan: bool = False) -> list[SampledOutput] | None:
        """What a sample or a scan returned, or None where it does not fit the plan."""
        plan, expected = self.request.plan, self.expected
        tainted = (b"",) * len(result.outputs) if is_scan else result.tainted
        if {len(result.outputs), len(result.written), len(tainted), len(expected.expected)} != {len(plan.outputs)}:
            return None
        scales = expected.least_scales or (0.0,) * len(plan.outputs)
        part = 1.0 if self.is_excused else SHARE_OF_SCALE if self.request.variant is Variant.ARRANGED else 0.0
        outputs = []
        for number, (view, wanted) in enumerate(zip(plan.outputs, expected.expected, strict=True)):
            read = read_writers if is_scan else read_bits
            actual, written = from_bytes(result.outputs[number], view), read(result.written[number], view.shape)
            spoilt = None if is_scan else read_bits(tainted[number], view.shape)
            if actual is None or written is None or (spoilt is None and not is_scan) or actual.shape != wanted.shape:
                return None
            outputs.append(
                SampledOutput(
                    actual=actual,
                    written=written,
                    tainted=spoilt,
                    expected=wanted,
                    dtype=view.dtype,
                    expected_dtype=expected.dtypes[number],
                    share_of_tolerance=expected.share_of_tolerance,
                    least_scale=max(part * find_scale(wanted) if part else 0.0, scales[number]),
                    integer_range=expected.integer_ranges[number] if expected.integer_ranges else None,
                )
            )
        return outputs


def sample_briefly(
    wanted: Sequence[tuple[Candidate, Task, VariantInputs]], context: VerifierContext
) -> list[RunReport]:
    """Reports of small samples, up to the first that objects, taken in one child."""
    made = [prepare_sample(candidate, task, context, inputs) for candidate, task, inputs in wanted]
    return run_together([each if isinstance(each, RunReport) else evolve(each, is_brief=True) for each in made])


def run_together(made: Sequence[RunReport | Sampler]) -> list[RunReport]:
    """Reports up to the first that objects, the first samples of all taken in one child."""
    samplers = [each for each in made if isinstance(each, Sampler)]
    flat = [request for sampler in samplers for request in sampler.first_requests()]
    reply = samplers[0].context.sandbox.run(samplers[0].candidate.source, flat) if flat else RunReply()
    if reply.failure is not None and len(samplers) > 1:  # one took the others down with it
        reply = RunReply()
    results = iter(reply.results)
    reports: list[RunReport] = []
    for each in made:
        if isinstance(each, Sampler):
            own = RunReply(
                results=tuple(itertools.islice(results, len(each.first_requests()))),
                failure=reply.failure,
                seconds=reply.seconds / len(samplers),
            )
            each = each.run(own)
        reports.append(each)
        if judge_run(each) is not None:
            break
    return reports
