"""The check of sizes that follow from a candidate's own text: past its blocks, thresholds and masks.

The sizes of profiles are the task's. A kernel whose block holds 64 columns of 60 declared, or whose other kernel takes
over at 2,049 of 5,000, is wrong where no profile lies. So each dimension is one past integers of the text, one at a
time (`harness.reference.sizes.past_bounds`). A few programs are looked at, and all of them where they are quickly
done: least work first, within what all may take. Sizes that this check has chosen refuse nobody who is out of time,
memory or language there.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from ....core.candidate import Candidate, Failure, Recording, RunReport, Variant
from ....core.outcome import Outcome
from ....core.recipe.extensions import VerifierSpec
from ....core.run import RunRequest
from ....core.task import Constants, Profile, Task
from ....core.text.bounds import read_bounds
from ....stages.checks.runs import RunsReport
from ....stages.compile_stage import find_recording
from ....stages.judge_run import judge_run
from ....stages.variant_inputs import VariantInputs
from ...reference.expected_run import ExpectedRun
from ..context import VerifierContext
from ..recordings import record_request, record_together
from ..runs import prepare_run, run_prepared
from .configurations import with_recording
from .samples import sample_briefly

_MOST_WORK = 1 << 28
"""So much do all whole runs compute together (`RunResult.work`): about a second."""
_NOT_ASKED = (Outcome.TIMEOUT, Outcome.MEMORY_LIMIT, Outcome.UNSUPPORTED)


def gather(candidate: Candidate, task: Task, context: VerifierContext, spec: VerifierSpec) -> RunsReport | None:
    """Run the sizes past the text's bounds, where the text has any and the reference accepts some."""
    bounds = read_bounds(candidate.source)
    compiled = candidate.evidence.compile
    known = None if compiled is None else find_recording(compiled, Profile.LARGER, task.dtypes[0])
    if not bounds or known is None:
        return None
    sizes = context.oracle.past_bounds(task, bounds)
    reports = _find_reports(candidate, task, evolve(context, cuda=None), known, sizes)
    asked = [each for each in reports if _is_asked(each)]
    return RunsReport(runs=tuple(asked)) if asked else None


@frozen(kw_only=True)
class _Look:
    """The candidate as recorded at some sizes, and the task that has these for its larger ones."""

    words: str
    task: Task
    recording: Recording
    candidate: Candidate


def _find_reports(
    candidate: Candidate, task: Task, context: VerifierContext, known: Recording, sizes: Sequence[Constants]
) -> list[RunReport]:
    inputs = context.describe(Variant.PAST_BOUNDS, task)
    sized = [evolve(task, larger=constants) for constants in sizes]
    requests = [record_request(each, context.oracle, inputs.profile, inputs.dtype, False) for each in sized]
    requests = [evolve(each, is_on_smaller_card=True) for each in requests]
    recordings = record_together(candidate, context, requests) if requests else []
    known_sizes = {*task.tiny, *task.small}
    looks = [
        _Look(
            words=", ".join(f"{name} = {size}" for name, size in constants if (name, size) not in known_sizes),
            task=each,
            recording=recording,
            candidate=with_recording(candidate, known, recording),
        )
        for constants, each, recording in zip(sizes, sized, recordings, strict=True)
    ]
    reports = _look_briefly(looks, context, inputs)
    if any(judge_run(report) is not None and _is_asked(report) for report in reports):
        return reports
    whole, work = [], 0.0
    for report, look in sorted(zip(reports, looks, strict=True), key=lambda pair: pair[0].work):
        work += report.work
        if work <= _MOST_WORK and report.failure is None:
            whole.append(look)
    return reports + _run_whole(whole, context, inputs)


def _look_briefly(looks: Sequence[_Look], context: VerifierContext, inputs: VariantInputs) -> list[RunReport]:
    """Reports up to the first objection; what this check does not ask for is none, and hides no other size."""
    reports: list[RunReport] = []
    while len(reports) < len(looks):
        rest = looks[len(reports) :]
        found = sample_briefly([(look.candidate, look.task, inputs) for look in rest], context)
        reports += [evolve(report, sizes=look.words) for look, report in zip(rest, found, strict=False)]
        if judge_run(reports[-1]) is not None and _is_asked(reports[-1]):
            break
    return reports


def _is_asked(report: RunReport) -> bool:
    return report.failure is None or report.failure.outcome not in _NOT_ASKED


def _run_whole(looks: Sequence[_Look], context: VerifierContext, inputs: VariantInputs) -> list[RunReport]:
    reports: list[RunReport] = []
    ready: list[tuple[_Look, tuple[RunRequest, ExpectedRun]]] = []
    for look in looks:
        prepared = prepare_run(look.candidate, look.task, context, inputs)
        if isinstance(prepared, Failure):
            reports.append(RunReport(variant=inputs.variant, failure=prepared, sizes=look.words))
        else:
            ready.append((look, prepared))
    found = run_prepared(looks[0].candidate, context, [prepared for _, prepared in ready]) if ready else []
    return reports + [evolve(report, sizes=look.words) for (look, _), report in zip(ready, found, strict=False)]
