"""The check of a tuned kernel's first call, in which its tuner measures on the call's own tensors.

Triton launches every configuration again and again on what the call has passed, and then the one that it chose. Between
launches it sets to zero what `reset_to_zero` names and restores what `restore_value` names, and calls the hooks. Any
other trace that a launch leaves for the next one is in the result: a kernel that adds to its output returns many times
the sum. So what a tuner launches must be right after itself and after the others. Each configuration that the tuner
could choose is run as such a call has it: launched once by itself and once by the last of the others, which is what
Triton launches before the reset, and then for its result.

And later calls, in which nothing is measured, must launch what has been verified: nothing that only a measuring tuner
calls may change what forward does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from attrs import evolve

from ....core.candidate import Candidate, Failure, Recording, Variant
from ....core.outcome import Outcome
from ....core.plan import Copy, Fill, Launch, LaunchPlan, plain_value
from ....core.recipe.extensions import VerifierSpec
from ....core.run import RunRequest
from ....core.task import Profile, Task
from ....stages.checks.configurations import ConfigurationRun, ConfigurationsReport
from ....stages.compile_stage import find_recording
from ....stages.judge_run import judge_run
from ....stages.plan_validation import read_views, written_views
from ...reference.oracle import ExpectedRun
from ...sandbox.recording.plan_difference import find_difference
from ..context import VerifierContext
from ..runs import prepare_run, run_prepared
from .configurations import (
    Choice,
    describe_choice,
    is_refused_by_compiler,
    record_choices,
    report_unrun,
    with_recording,
)

_WHEN = "in the call that measures it on its own tensors (see reset_to_zero and restore_value)"

Specialised = tuple[str, frozenset[tuple[str, str]]]
"""A kernel's name and the constants that it was compiled with."""


def gather(candidate: Candidate, task: Task, context: VerifierContext, spec: VerifierSpec) -> ConfigurationsReport:
    """Run the first calls of plans with tuners, at the sizes that the backend runs whole."""
    return ConfigurationsReport(runs=tuple(_find_runs(candidate, task, context)))


def _find_runs(candidate: Candidate, task: Task, context: VerifierContext) -> Iterator[ConfigurationRun]:
    report = candidate.evidence.compile
    whole, declared = (
        find_recording(report, profile, task.dtypes[0]) if report is not None else None
        for profile in (context.profile_of(task), Profile.DECLARED)
    )
    if whole is not None and whole.plan is not None and whole.choices:
        yield from _run_whole(candidate, task, context, whole)
    if (
        declared is None
        or declared.plan is None
        or not declared.choices
        or context.profile_of(task) is Profile.DECLARED
    ):
        return
    num_known = len(whole.choices) if whole is not None else 0
    if len(declared.choices) > num_known or _updates(declared.plan):
        yield from _judge_as_data(candidate, task, context, declared, whole)


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
