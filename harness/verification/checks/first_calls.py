"""The check of a tuned kernel's first call, in which its tuner measures on the call's own tensors.

Triton launches every configuration again and again on what the call has passed, and then the one that it chose. Between
launches it sets to zero what `reset_to_zero` names and restores what `restore_value` names, and calls the hooks. Any
other trace that a launch leaves for the next one is in the result: a kernel that adds to its output returns many times
the sum. So what a tuner launches must be right after itself and after the others. Each configuration that the tuner
could choose is run as such a call has it: launched once by itself and once by the last of the others, which is what
Triton launches before the reset, and then for its result.

Beyond the declared sizes a few programs are run so, and where they are wrong, or add to what others may have added to,
the same programs once more as in a later call: both must leave the same.

And later calls, in which nothing is measured, must launch what has been verified: nothing that only a measuring tuner
calls may change what forward does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import starmap

import numpy as np
from attrs import evolve

from ....core.candidate import Candidate, Comparison, CompileReport, Failure, Recording, RunReport, Variant
from ....core.outcome import Outcome
from ....core.plan import Copy, Fill, Launch, LaunchPlan, plain_value
from ....core.recipe.extensions import VerifierSpec
from ....core.run import RunRequest
from ....core.seeds import derive
from ....core.task import Profile, Task
from ....stages.checks.configurations import ConfigurationRun, ConfigurationsReport
from ....stages.checks.declared_run import LEAST_PROGRAMS, SUM_LANES
from ....stages.checks.sampled_run import SampledOutput
from ....stages.compile_stage import find_recording
from ....stages.judge_run import judge_run
from ....stages.plan_validation import read_views, written_views
from ....stages.tolerance import compare
from ....stages.variant_inputs import VariantInputs
from ...reference.expected_run import ExpectedRun
from ...sandbox.recording.plan_difference import find_difference
from ..context import VerifierContext
from ..runs import prepare_run, run_prepared
from .configurations import (
    Choice,
    describe_choice,
    draw_choices,
    find_large,
    has_tuner,
    is_refused_by_compiler,
    record_choices,
    record_each,
    report_unrun,
    with_recording,
)
from .samples import prepare_sample

_MOST_SIZES = 2
"""Of the declared sizes and those beyond; what shows at the declared ones alone is left to the compiled code."""
_WHEN = "in the call that measures it on its own tensors (see reset_to_zero and restore_value)"

Specialised = tuple[str, frozenset[tuple[str, str]]]
"""A kernel's name and the constants that it was compiled with."""


def gather(candidate: Candidate, task: Task, context: VerifierContext, spec: VerifierSpec) -> ConfigurationsReport:
    """Run the first calls of plans with tuners, at the sizes that the backend runs whole."""
    return ConfigurationsReport(runs=tuple(_find_runs(candidate, task, context)))


def _find_runs(candidate: Candidate, task: Task, context: VerifierContext) -> Iterator[ConfigurationRun]:
    report = candidate.evidence.compile
    if report is None:
        return
    whole, declared = (
        find_recording(report, profile, task.dtypes[0]) for profile in (context.profile_of(task), Profile.DECLARED)
    )
    if whole is not None and whole.plan is not None and whole.choices:
        yield from _run_whole(candidate, task, context, whole)
    is_sampled = context.profile_of(task) is not Profile.DECLARED
    if is_sampled and declared is not None and declared.plan is not None and declared.choices:
        num_known = len(whole.choices) if whole is not None else 0
        if len(declared.choices) > num_known or _updates(declared.plan):
            yield from _judge_as_data(candidate, task, context, declared, whole)
    yield from _sample_large(candidate, task, context, report)


def _sample_large(
    candidate: Candidate, task: Task, context: VerifierContext, report: CompileReport
) -> Iterator[ConfigurationRun]:
    """First calls beyond the declared sizes, or at them, each with another choice."""
    last = [*find_large(candidate, task, context, report).items()][-_MOST_SIZES:]
    context = evolve(context, cuda=None)  # samples are the interpreter's, whatever runs the rest
    large = {inputs: own for inputs, own in last if has_tuner(own)}
    wanted: list[tuple[Recording, Choice]] = []
    for at, own in enumerate(large.values()):
        choices = draw_choices(tuple(map(len, own.choices)), derive(context.oracle.seed, candidate.sha256, "trials"))
        wanted.append((own, choices[at % len(choices)]))
    recordings = record_each(candidate, task, context, wanted, measured=())
    for inputs, (own, choice), recording in zip(large, wanted, recordings, strict=True):
        found = report_unrun(recording.failure) if recording.failure is not None else None
        if recording.first_plan is not None:
            needed = min(context.needed_bytes(task, inputs), context.budget.num_bytes)
            with context.budget.asked(needed, task.task_id):
                found = _compare(candidate, task, context, inputs, own, recording)
        if found is not None and not is_refused_by_compiler(found.failure):
            description = f"{describe_choice(own, choice)}, at {inputs.profile} sizes, {_WHEN}"
            yield ConfigurationRun(choice=choice, description=description, report=found)


def _compare(
    candidate: Candidate,
    task: Task,
    context: VerifierContext,
    inputs: VariantInputs,
    known: Recording,
    recording: Recording,
) -> RunReport | None:
    """The report of a few programs in a first call; where it is wrong or leaves a doubt, compared with later ones.

    The same programs run in both, so that what others have to do with the results is the same. Where these may have
    something to clear, all programs of the trials run at once before an objection. None: that cannot be said.
    """
    changed = with_recording(candidate, known, evolve(recording, plan=recording.first_plan))
    first = prepare_sample(changed, task, context, inputs)
    if isinstance(first, RunReport):
        return first
    look = first.judge_reply(context.sandbox.run(candidate.source, [evolve(first.request, num_programs=1)]))
    if not (look.is_wrong or look.has_sums):
        return look.report
    later = prepare_sample(with_recording(candidate, known, recording), task, context, inputs)
    if isinstance(later, RunReport):
        return None
    report = None
    for lanes in (0, SUM_LANES):
        requests = [evolve(each.request, num_programs=LEAST_PROGRAMS, num_lanes=lanes) for each in (later, first)]
        reply = context.sandbox.run(candidate.source, requests)
        if reply.failure is not None or any(result.failure is not None for result in reply.results):
            return None
        outputs = [each.read(result) for each, result in zip((later, first), reply.results, strict=True)]
        if outputs[0] is None or outputs[1] is None:
            return None
        comparisons = tuple(starmap(_compare_output, zip(*outputs, strict=True)))
        report = RunReport(variant=inputs.variant, comparisons=comparisons, seconds=reply.seconds)
        if judge_run(report) is None:
            break
    return report


def _compare_output(later: SampledOutput, first: SampledOutput) -> Comparison:
    at = np.asarray(later.written, dtype=bool) & np.asarray(first.written, dtype=bool)
    if later.actual.dtype.kind == "f":
        at &= np.isfinite(later.actual)
    return compare(first.actual[at], later.actual[at], first.dtype, first.dtype)


def _judge_as_data(
    candidate: Candidate, task: Task, context: VerifierContext, known: Recording, whole: Recording | None
) -> Iterator[ConfigurationRun]:
    """The first call of tuners at the declared sizes, where nothing is run whole.

    What a kernel with the same constants does at the sizes that are run whole has been judged by its values.
    """
    choice, recording = _record_first(candidate, task, context, known)
    failure = None if is_refused_by_compiler(recording.failure) else recording.failure
    added = _find_added(recording)
    if added and whole is not None and whole.plan is not None and whole.choices:
        added -= _find_added(_record_first(candidate, task, context, whole)[1])
    if added:
        names = ", ".join(sorted({qualname for qualname, _ in added}))
        message = f"{names}: reads what it writes, and is tuned at the declared sizes, where none is run whole"
        failure = Failure(Outcome.UNSUPPORTED, f"{message}; reset what it adds to")
    if failure is not None:
        description = f"{describe_choice(known, choice)}, {_WHEN}"
        yield ConfigurationRun(choice=choice, description=description, report=report_unrun(failure))


def _record_first(
    candidate: Candidate, task: Task, context: VerifierContext, known: Recording
) -> tuple[Choice, Recording]:
    """A first call with the first choice that compiles."""
    last = tuple(len(words) - 1 for words in known.choices)
    number = 0
    while True:
        choice = tuple(number % len(words) for words in known.choices)
        (recording,) = record_choices(candidate, task, context, known, [choice], True, last)
        number += 1
        if number == max(map(len, known.choices)) or not is_refused_by_compiler(recording.failure):
            return choice, recording


def _find_added(recording: Recording) -> set[Specialised]:
    """What reads its own results in a first call and not in later ones."""
    first, later = recording.first_plan, recording.plan
    if first is None or later is None:
        return set()
    return {*(count_repeated_updates(first) - count_repeated_updates(later))}


def _updates(plan: LaunchPlan) -> bool:
    """Whether a launch reads and writes the same memory."""
    return any(reads & writes for reads, writes in (_memory(plan, launch) for launch in plan.launches))


def _memory(plan: LaunchPlan, launch: Launch) -> tuple[set[int], set[int]]:
    """The buffers that a kernel reads, and those that it writes."""
    kernel = plan.kernels[launch.kernel]
    reads, writes = ({view.buffer for view in find(launch, kernel)} for find in (read_views, written_views))
    return reads, writes


def count_repeated_updates(plan: LaunchPlan) -> Counter[Specialised]:
    """By kernel and constants, how many launches read and write memory that another launch has written last."""
    found: Counter[Specialised] = Counter()
    written: set[int] = set()
    for step in plan.steps:
        match step:
            case Launch():
                reads, writes = _memory(plan, step)
                if reads & writes & written:
                    constants = frozenset(
                        (each.name, str(plain_value(each))) for each in step.arguments if each.constexpr
                    )
                    found[plan.kernels[step.kernel].qualname, constants] += 1
                written |= writes
            case Fill() | Copy():
                written.discard(step.target.buffer)
    return found


def _run_whole(
    candidate: Candidate, task: Task, context: VerifierContext, known: Recording
) -> Iterator[ConfigurationRun]:
    choices = find_usable(candidate, known)
    is_compiled = context.cuda is not None
    later = record_choices(candidate, task, context, known, choices, is_compiled)
    first = record_choices(candidate, task, context, known, choices, is_compiled, find_last(choices))
    inputs = context.describe(Variant.ORIGINAL, task)
    waiting: list[tuple[ConfigurationRun, tuple[RunRequest, ExpectedRun]]] = []
    for choice, plain, recording in zip(choices, later, first, strict=True):
        if is_refused_by_compiler(plain.failure) or is_refused_by_compiler(recording.failure):
            continue
        words = describe_choice(plain if plain.choices else known, choice)
        run = ConfigurationRun(choice=choice, description=f"{words}, {_WHEN}", report=report_unrun(recording.failure))
        if recording.failure is None and not _is_same(plain.plan, recording.plan):
            run = evolve(run, report=report_unrun(_changed()))
        if run.report.failure is not None:
            yield run
        elif recording.first_plan is not None:
            changed = with_recording(candidate, known, evolve(recording, plan=recording.first_plan))
            prepared = prepare_run(changed, task, context, inputs)
            if isinstance(prepared, Failure):
                yield evolve(run, report=report_unrun(prepared))
            else:
                waiting.append((run, prepared))
    reports = run_prepared(candidate, context, [prepared for _, prepared in waiting])
    for (run, _), found in zip(waiting, reports, strict=False):
        yield evolve(run, report=found)


def find_usable(candidate: Candidate, known: Recording) -> list[Choice]:
    """The choices that were found right, and those of tuners that have none."""
    report = candidate.evidence.report("configurations")
    runs = report.runs if isinstance(report, ConfigurationsReport) else ()
    usable = [run.choice for run in runs if run.report.variant is Variant.ORIGINAL and judge_run(run.report) is None]
    return usable or [(0,) * len(known.choices)]


def find_last(choices: list[Choice]) -> Choice:
    """For each tuner the last of its configurations that is among these choices."""
    most = max(map(len, choices))
    return tuple(max(choice[number] for choice in choices if number < len(choice)) for number in range(most))


def _is_same(plain: LaunchPlan | None, measured: LaunchPlan | None) -> bool:
    return plain is not None and measured is not None and find_difference(plain, measured) is None


def _changed() -> Failure:
    return Failure(Outcome.NOT_REPRODUCIBLE, "after a tuner has measured, forward launches something else")
