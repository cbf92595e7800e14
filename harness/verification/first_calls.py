"""The probe of a tuned kernel's first call, in which its tuner measures on the call's own tensors.

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

from attrs import evolve, frozen

from ...core.candidate import Candidate, ConfigurationRun, Failure, Recording, RunReport, Variant
from ...core.outcome import Outcome
from ...core.plan import Copy, Fill, Launch, LaunchPlan
from ...core.task import Profile, Task
from ...stages.compile_stage import find_recording
from ...stages.run_stages import judge_run
from ..sandbox.protocol import RunRequest
from .configurations import Choice, describe_choice, is_refused_by_compiler, record_choices, with_recording
from .oracle import ExpectedRun
from .probes import prepare_run, run_prepared
from .workbench import Workbench

_WHEN = "in the call that measures it on its own tensors (see reset_to_zero and restore_value)"


@frozen(kw_only=True)
class _Kept:
    """What the store keeps."""

    runs: tuple[ConfigurationRun, ...]


def probe_first_calls(candidate: Candidate, task: Task, bench: Workbench) -> Candidate:
    """Run the first calls of plans with tuners, at the sizes that the backend runs whole."""
    key = bench.key(candidate, task, "first_calls")
    kept = bench.store.get(key, _Kept)
    if kept is None:
        kept = _Kept(runs=tuple(_find_runs(candidate, task, bench)))
        bench.store.put(key, kept)
    return candidate.with_evidence(first_calls=kept.runs)


def _find_runs(candidate: Candidate, task: Task, bench: Workbench) -> Iterator[ConfigurationRun]:
    report = candidate.evidence.compile
    whole, declared = (
        find_recording(report, profile, task.dtypes[0]) if report is not None else None
        for profile in (bench.profile, Profile.DECLARED)
    )
    if whole is not None and whole.plan is not None and whole.choices:
        yield from _run_whole(candidate, task, bench, whole)
    num_known = len(whole.choices) if whole is not None else 0
    if declared is not None and declared.plan is not None and len(declared.choices) > num_known:
        yield from _judge_unseen(candidate, task, bench, declared)


def _judge_unseen(candidate: Candidate, task: Task, bench: Workbench, known: Recording) -> Iterator[ConfigurationRun]:
    """The first call of tuners that the declared sizes alone have, where nothing is run whole: judged as data."""
    choice = (0,) * len(known.choices)
    last = tuple(len(words) - 1 for words in known.choices)
    (recording,) = record_choices(candidate, task, bench, known, [choice], True, last)
    if recording.plan is not None and recording.first_plan is not None:
        added = count_repeated_updates(recording.first_plan) - count_repeated_updates(recording.plan)
        if added:
            message = f"{', '.join(sorted(added))}: reads what it writes, and is tuned at the declared sizes alone"
            failure = Failure(outcome=Outcome.UNSUPPORTED, message=f"{message}; reset what it adds to")
            description = f"{describe_choice(known, choice)}, {_WHEN}"
            yield ConfigurationRun(choice=choice, description=description, report=_report(failure))


def count_repeated_updates(plan: LaunchPlan) -> Counter[str]:
    """By kernel, how many launches read and write memory that another launch has written last."""
    found: Counter[str] = Counter()
    written: set[int] = set()
    for step in plan.steps:
        match step:
            case Launch():
                kernel = plan.kernels[step.kernel]
                views = {each.name: each.view.buffer for each in step.arguments if each.view is not None}
                writes = {views[name] for name in kernel.writes if name in views}
                if writes & written & {views[name] for name in kernel.reads if name in views}:
                    found[kernel.qualname] += 1
                written |= writes
            case Fill() | Copy():
                written.discard(step.target.buffer)
    return found


def _run_whole(candidate: Candidate, task: Task, bench: Workbench, known: Recording) -> Iterator[ConfigurationRun]:
    choices = find_usable(candidate, known)
    is_compiled = bench.cuda is not None
    later = record_choices(candidate, task, bench, known, choices, is_compiled)
    first = record_choices(candidate, task, bench, known, choices, is_compiled, find_last(choices))
    inputs = bench.describe(Variant.ORIGINAL, task)
    waiting: list[tuple[ConfigurationRun, tuple[RunRequest, ExpectedRun]]] = []
    for choice, plain, recording in zip(choices, later, first, strict=True):
        if is_refused_by_compiler(plain.failure) or is_refused_by_compiler(recording.failure):
            continue
        words = describe_choice(plain if plain.choices else known, choice)
        run = ConfigurationRun(choice=choice, description=f"{words}, {_WHEN}", report=_report(recording.failure))
        if recording.failure is None and recording.plan != plain.plan:
            run = evolve(run, report=_report(_changed()))
        if run.report.failure is not None:
            yield run
        elif recording.first_plan is not None:
            changed = with_recording(candidate, known, evolve(recording, plan=recording.first_plan))
            prepared = prepare_run(changed, task, bench, inputs)
            if isinstance(prepared, Failure):
                yield evolve(run, report=_report(prepared))
            else:
                waiting.append((run, prepared))
    reports = run_prepared(candidate, bench, [prepared for _, prepared in waiting])
    for (run, _), found in zip(waiting, reports, strict=False):
        yield evolve(run, report=found)


def find_usable(candidate: Candidate, known: Recording) -> list[Choice]:
    """The choices that were found right, and those of tuners that have none."""
    runs = candidate.evidence.configurations
    usable = [run.choice for run in runs if run.report.variant is Variant.ORIGINAL and judge_run(run.report) is None]
    return usable or [(0,) * len(known.choices)]


def find_last(choices: list[Choice]) -> Choice:
    """For each tuner the last of its configurations that is among these choices."""
    most = max(map(len, choices))
    return tuple(max(choice[number] for choice in choices if number < len(choice)) for number in range(most))


def _changed() -> Failure:
    message = "after a tuner has measured, forward launches something else"
    return Failure(outcome=Outcome.NOT_REPRODUCIBLE, message=message)


def _report(failure: Failure | None) -> RunReport:
    return RunReport(variant=Variant.ORIGINAL, seconds=0.0, failure=failure)
