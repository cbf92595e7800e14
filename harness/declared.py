"""The probe that looks at the declared sizes where the backend cannot run them whole: a sample of their programs.

It is made for plans of one launch, at sizes that the oracle can compute in about a second. With several launches the
first ones would have to run whole, and with atomics a sample's values say nothing: then coverage alone is judged, or
nothing, and the backend that runs plans on a GPU has the last word.
"""

from __future__ import annotations

import math
import time

import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from ..core.candidate import Candidate, Failure, RunReport, Variant
from ..core.outcome import Outcome
from ..core.plan import LaunchPlan
from ..core.seeds import derive
from ..core.serialisation import fingerprint
from ..core.task import Profile, Task
from ..stages.compile_stage import find_recording, find_unseen_kernel
from ..stages.declared_run import (
    ALL_PROGRAMS,
    FIRST_PROGRAMS,
    MORE_PROGRAMS,
    Coverage,
    can_sample,
    count_needed,
    judge_coverage,
)
from ..stages.roofline import ITEM_BYTES
from ..stages.tolerance import compare
from ..stages.variants import describe
from .bench import Bench
from .oracle import ExpectedRun
from .probes import find_trespass, prepare_run
from .sandbox.protocol import RunReply, RunRequest, RunResult
from .storages import from_bytes

_MOST_BYTES = 256 << 20
_MOST_FLOPS = 5e10
_INCONCLUSIVE = (Outcome.TIMEOUT, Outcome.MEMORY_LIMIT, Outcome.OUTPUT_LIMIT, Outcome.UNSUPPORTED)
"""Ends of a run that say that the sizes are too large to look at, and nothing about the candidate."""


def probe_declared(candidate: Candidate, task: Task, bench: Bench, is_wanted: bool = True) -> Candidate:
    """Add the report of a sampled run at the declared sizes, where there can be one.

    A kernel that only the declared sizes launch, as where host code chooses by size, is looked at for every verifier,
    also one that did not want the sample; where it cannot be looked at, the candidate is refused.
    """
    compiled = candidate.evidence.compile
    unseen = find_unseen_kernel(compiled) if compiled is not None and bench.backend == "interpret" else None
    if not is_wanted and unseen is None:
        return candidate
    found = _find_report(candidate, task, bench)
    if found is None and unseen is not None:
        found = RunReport(variant=Variant.DECLARED, seconds=0.0, failure=unseen)
    return candidate if found is None else candidate.with_evidence(full=(*candidate.evidence.full, found))


def _find_report(candidate: Candidate, task: Task, bench: Bench) -> RunReport | None:
    inputs = describe(Variant.DECLARED, task.dtypes)
    report = candidate.evidence.compile
    recording = find_recording(report, Profile.DECLARED, inputs.dtype) if report is not None else None
    if recording is None or recording.plan is None or not _is_affordable(recording.plan, task, bench):
        return None
    key = bench.key(candidate, task, f"full:{inputs.variant}")
    found = bench.store.get(key, RunReport)
    if found is None:
        prepared = prepare_run(candidate, task, bench, inputs)
        if isinstance(prepared, Failure):
            return None
        found = _sample(candidate, bench, *prepared, derive(bench.oracle.seed, fingerprint(task), "programs"))
        if found is not None:
            bench.store.put(key, found)
    return found


def _is_affordable(plan: LaunchPlan, task: Task, bench: Bench) -> bool:
    if len(plan.launches) != 1 or plan.operators or not can_sample(plan.launches[0].grid):
        return False
    num_bytes = sum(buffer.num_elements * ITEM_BYTES.get(buffer.dtype, 8) for buffer in plan.buffers)
    return num_bytes <= _MOST_BYTES and sum(o.matmul_flops for o in bench.oracle.operators(task)) <= _MOST_FLOPS


def _sample(
    candidate: Candidate, bench: Bench, request: RunRequest, expected: ExpectedRun, seed: int
) -> RunReport | None:
    began = time.perf_counter()

    def take(num_programs: int) -> RunReport | None:
        reply = bench.sandbox.run(candidate.source, [evolve(request, num_programs=num_programs, seed=seed)])
        return _judge_reply(request.plan, reply, expected)

    def is_doubtful(report: RunReport | None) -> bool:
        return (
            report is not None and report.failure is not None and report.failure.outcome is Outcome.OUTPUT_NOT_WRITTEN
        )

    report = take(FIRST_PROGRAMS)
    if is_doubtful(report):
        report = take(MORE_PROGRAMS) or report
    num_programs = math.prod(request.plan.launches[0].grid)
    if is_doubtful(report) and MORE_PROGRAMS < num_programs <= ALL_PROGRAMS:
        report = take(num_programs)
    return None if report is None else evolve(report, seconds=time.perf_counter() - began)


def _judge_reply(plan: LaunchPlan, reply: RunReply, expected: ExpectedRun) -> RunReport | None:
    failure = reply.failure or reply.results[0].failure or find_trespass(plan, reply.results[0])
    if failure is not None:
        if failure.outcome in _INCONCLUSIVE:
            return None
        return RunReport(variant=Variant.DECLARED, seconds=0.0, failure=failure)
    return _judge_result(plan, reply.results[0], expected)


def _judge_result(plan: LaunchPlan, result: RunResult, expected: ExpectedRun) -> RunReport | None:
    sample = result.sample
    num_outputs = len(plan.outputs)
    if sample is None or not num_outputs == len(result.outputs) == len(result.written) == len(expected.expected):
        return _broken("not as many results as the plan returns")
    num_needed, comparisons = 0, []
    for view, data, bits, wanted, dtype in zip(
        plan.outputs, result.outputs, result.written, expected.expected, expected.dtypes, strict=True
    ):
        actual, written = from_bytes(data, view), _unpack(bits, view.shape)
        if actual is None or written is None or actual.shape != wanted.shape:
            return _broken("a result's size is not what the plan says")
        num_needed += count_needed(actual, wanted, written, view.dtype)
        comparisons.append(compare(actual[written], wanted[written], view.dtype, dtype))
    (launch,) = plan.launches
    x, y, z = launch.grid
    failure = judge_coverage(
        Coverage(num_needed=num_needed, num_programs=x * y * z, written_by_program=sample.written_by_program)
    )
    if failure is None and sample.has_atomics:
        return None
    if failure is not None:
        return RunReport(variant=Variant.DECLARED, seconds=0.0, failure=failure)
    return RunReport(variant=Variant.DECLARED, seconds=0.0, comparisons=tuple(comparisons))


def _broken(message: str) -> RunReport:
    failure = Failure(outcome=Outcome.BROKEN_PROTOCOL, message=message)
    return RunReport(variant=Variant.DECLARED, seconds=0.0, failure=failure)


def _unpack(bits: bytes, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    size = int(np.prod(shape, dtype=np.int64))
    if len(bits) != -(-size // 8):
        return None
    return np.unpackbits(np.frombuffer(bits, dtype=np.uint8), count=size).astype(bool).reshape(shape)
