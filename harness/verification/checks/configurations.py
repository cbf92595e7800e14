"""The check of an autotuner's other configurations: each one that the tuner could choose has to be right.

On a device a tuner takes whatever configuration is the fastest, and one that does nothing is. So for the audit every
configuration is recorded and run on the original inputs, at the sizes that the backend runs whole; beyond a bound, and
where the configurations of several tuners combine, a drawn part of them. Those that a tuner has at the declared sizes
alone, as where it leaves some out by size, are looked at there by a sample, if the sizes can be looked at at all. A
configuration that cannot be compiled is none that a tuner would choose. Candidates without a tuner have nothing to
probe. Settings of PyTorch that host code reads are looked at in the same way, and at the declared sizes too.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from attrs import evolve

from ....core.candidate import Candidate, CompileReport, Failure, Recording, RunReport, Variant, is_setting
from ....core.outcome import Outcome
from ....core.recipe.extensions import VerifierSpec
from ....core.plan import Kernel
from ....core.run import RunRequest
from ....core.seeds import derive
from ....core.serialisation import fingerprint
from ....core.task import Profile, Task
from ....stages.checks.configurations import ConfigurationRun, ConfigurationsReport, count_combinations
from ....stages.compile_stage import find_recording, judge_recording
from ....stages.judge_run import judge_run
from ....stages.variant_inputs import VariantInputs
from ...errors import TaskError
from ...reference.oracle import ExpectedRun
from ...reference.sizes.declared_sizes import with_declared
from ...sandbox.wire import RecordRequest
from ..context import VerifierContext
from ..recordings import has_own_values, keep_blobs, later_variants, record_later, record_request
from ..runs import prepare_run, run_prepared
from .declared import sample_others

MOST_CONFIGURATIONS = 16
_MOST_ROUNDS = 3
"""So deep may the use of one tuner hang on what others have chosen."""
_LOOKED_AT = (Variant.DECLARED, Variant.BEYOND, Variant.TWICE)
Choice = tuple[int, ...]
_NEVER_CHOSEN = (Outcome.OUT_OF_RESOURCES, Outcome.COMPILE_FAILED)


def gather(
    candidate: Candidate, task: Task, context: VerifierContext, spec: VerifierSpec
) -> ConfigurationsReport | None:
    """Run the configurations that the recorded plans do not have, where any plan has a tuner with a choice."""
    report = candidate.evidence.compile
    if report is None or all(count_combinations(recording) <= 1 for recording in report.recordings):
        return None
    return ConfigurationsReport(runs=tuple(_find_runs(candidate, task, context, report)))


def _find_runs(
    candidate: Candidate, task: Task, context: VerifierContext, report: CompileReport
) -> Iterator[ConfigurationRun]:
    """Runs up to the first that objects."""
    known = find_recording(report, context.profile_of(task), task.dtypes[0])
    seen: set[tuple[int, str]] = set()
    if known is not None and known.plan is not None:
        for choice, recording, found in _run_whole(candidate, task, context, known):
            if judge_run(found) is not None and _is_never_chosen(candidate, task, context, known, choice, found):
                continue
            named = recording if recording.choices else known
            yield ConfigurationRun(choice=choice, description=describe_choice(named, choice), report=found)
            if judge_run(found) is not None:
                return
            seen.update(_words(named, choice))
    if context.profile_of(task) is not Profile.DECLARED and context.oracle.is_within_reach(task):
        yield from _sample_large(candidate, task, context, report)


def _sample_large(
    candidate: Candidate, task: Task, context: VerifierContext, report: CompileReport
) -> Iterator[ConfigurationRun]:
    """Runs at the declared sizes and beyond, also of what a tuner keeps there that it has chosen at other sizes."""
    large = [context.describe(Variant.DECLARED, task), *later_variants(task, context)]
    own = [
        find_recording(report, each.profile, each.dtype) or record_later(candidate, task, context, each)
        for each in large
    ]
    if not any(map(_has_tuner, own)):
        return
    kept, earlier = own, list[RecordRequest]()
    if len({each.choices for each in (*report.recordings, *own)}) > 1:
        kept, earlier = _record_kept(candidate, task, context, (*report.recordings, *own), own)
    wanted = [
        (inputs, mine, words, choice)
        for inputs, mine, words in zip(large, own, kept, strict=True)
        if inputs.variant in _LOOKED_AT and _has_tuner(words)
        for choice in _draw(candidate, context, words)
    ]
    recordings = record_each(candidate, task, context, [(mine, choice) for _, mine, _, choice in wanted], earlier)
    looked_at = set(map(_identify, own))
    waiting: list[tuple[ConfigurationRun, Recording, Candidate, VariantInputs]] = []
    for (inputs, mine, words, choice), recording in zip(wanted, recordings, strict=True):
        if _identify(recording) not in looked_at:
            looked_at.add(_identify(recording))
            description = f"{describe_choice(words, choice)}, at {inputs.profile} sizes"
            run = ConfigurationRun(choice=choice, description=description, report=report_unrun(None))
            waiting.append((run, mine, with_recording(candidate, mine, recording), inputs))
    while waiting:
        reports = sample_others([(changed, inputs) for *_, changed, inputs in waiting], task, context)
        for (run, mine, *_), found in zip(waiting, reports, strict=False):
            is_wrong = judge_run(found) is not None
            if is_wrong and _is_never_chosen(candidate, task, context, mine, run.choice, found, earlier):
                continue
            yield evolve(run, report=found)
            if is_wrong:
                return
        waiting = waiting[len(reports) :]


def _has_tuner(recording: Recording) -> bool:
    return (
        recording.plan is not None and count_combinations(recording) > 1 and not all(map(is_setting, recording.choices))
    )


def _record_kept(
    candidate: Candidate,
    task: Task,
    context: VerifierContext,
    sizes: Sequence[Recording],
    own: Sequence[Recording],
) -> tuple[Sequence[Recording], list[RecordRequest]]:
    """Recordings with what tuners have after calls at these sizes, and the calls; the own ones where that fails."""
    earlier = _find_earlier(task, context, sizes)
    reply = context.record(candidate.source, [*earlier, *(evolve(each, choice=(0,)) for each in earlier)])
    if reply.failure is not None:
        return own, []
    found = {(each.profile, each.dtype): each for each in reply.recordings[len(earlier) :]}
    return [found.get((each.profile, each.dtype), each) for each in own], earlier


def _find_earlier(task: Task, context: VerifierContext, sizes: Iterable[Recording]) -> list[RecordRequest]:
    """Calls at these sizes, and at those beyond the declared ones but for one, which is as declared."""
    beyond = context.oracle.beyond(task)
    nearer = [with_declared(task, (*beyond[:at], *beyond[at + 1 :])) for at in range(len(beyond))]
    wanted = [(each, Profile.DECLARED, task.dtypes[0]) for each in nearer]
    wanted += [(task, each.profile, each.dtype) for each in sizes]
    requests: list[RecordRequest] = []
    for sized, profile, dtype in dict.fromkeys(wanted):
        with contextlib.suppress(TaskError):
            request = record_request(sized, context.oracle, profile, dtype, False)
            requests.append(evolve(request, is_on_smaller_card=True, is_called_once=True))
    return requests


def _identify(recording: Recording) -> str:
    """The hash of what is interpreted of a recording: no number of warps, and nothing that the compiler found."""
    plan = recording.plan
    if plan is None:
        return fingerprint(recording)
    kernels = tuple(Kernel(qualname=kernel.qualname, source_sha256=kernel.source_sha256) for kernel in plan.kernels)
    return fingerprint(evolve(plan, kernels=kernels, target=None))


def _draw(candidate: Candidate, context: VerifierContext, recording: Recording) -> list[Choice]:
    seed = derive(context.oracle.seed, candidate.sha256, "configurations", recording.profile.value)
    return draw_choices(tuple(map(len, recording.choices)), seed)


def draw_choices(counts: Choice, seed: int, most: int = MOST_CONFIGURATIONS) -> list[Choice]:
    """Combinations of configurations, of which each tuner has so many: all, or a drawn part.

    In the part each tuner has as many different configurations as fit.
    """
    if math.prod(counts) <= most:
        return list(product(*map(range, counts)))
    draw = random.Random(seed)
    orders = [draw.sample(range(count), count) for count in counts]
    chosen = {tuple(order[number % len(order)] for order in orders): None for number in range(min(most, max(counts)))}
    while len(chosen) < most:
        chosen[tuple(draw.randrange(count) for count in counts)] = None
    return list(chosen)


def _run_whole(
    candidate: Candidate, task: Task, context: VerifierContext, known: Recording
) -> Iterator[tuple[Choice, Recording, RunReport]]:
    """A report for each choice, the runs in one child while none takes the others down."""
    inputs = context.describe(Variant.ORIGINAL, task)
    choices = _draw(candidate, context, known)
    for _ in range(_MOST_ROUNDS):
        recordings = record_choices(candidate, task, context, known, choices, context.cuda is not None)
        waiting: list[tuple[Choice, Recording, tuple[RunRequest, ExpectedRun]]] = []
        for choice, recording in zip(choices, recordings, strict=True):
            changed = with_recording(candidate, known, recording)
            failure = judge_with(changed, recording)
            prepared = prepare_run(changed, task, context, inputs) if failure is None else failure
            if isinstance(prepared, Failure):
                yield choice, recording, report_unrun(prepared)
            else:
                waiting.append((choice, recording, prepared))
        while waiting:
            reports = run_prepared(candidate, context, [prepared for _, _, prepared in waiting])
            for (choice, recording, _), report in zip(waiting, reports, strict=False):
                yield choice, recording, report
            waiting = waiting[len(reports) :]
        choices = _extend(choices, recordings)[:MOST_CONFIGURATIONS]


def _extend(choices: Sequence[Choice], recordings: Sequence[Recording]) -> list[Choice]:
    """Choices for tuners that host code uses only where others have chosen something."""
    extended: list[Choice] = []
    for choice, recording in zip(choices, recordings, strict=True):
        further = tuple(map(len, recording.choices[len(choice) :]))
        extended += [(*choice, *more) for more in draw_choices(further, len(extended)) if any(more)]
    return extended


def record_choices(
    candidate: Candidate,
    task: Task,
    context: VerifierContext,
    known: Recording,
    choices: Sequence[Choice],
    is_compiled: bool,
    measured: Choice | None = None,
) -> list[Recording]:
    """Recordings as the known one, with these configurations: in one child, or one by one where it fails as a whole.

    With `measured` each is of a first call, in which tuners measure.
    """
    return record_each(candidate, task, context, [(known, choice) for choice in choices], None, is_compiled, measured)


def record_each(
    candidate: Candidate,
    task: Task,
    context: VerifierContext,
    wanted: Sequence[tuple[Recording, Choice]],
    earlier: Sequence[RecordRequest] | None = None,
    is_compiled: bool = False,
    measured: Choice | None = None,
) -> list[Recording]:
    """The same for choices at several sizes; with `earlier`, of one pass alone, and after these calls."""
    requests: list[RecordRequest] = []
    for known, choice in wanted:
        request = record_request(task, context.oracle, known.profile, known.dtype, is_compiled)
        with_values = has_own_values(known, task, context)
        request = evolve(request, choice=choice, measured=measured, with_values=with_values)
        requests.append(evolve(request, is_called_once=earlier is not None))
    context.get_ready()
    groups = [requests] if requests else []
    before = list(earlier or ())
    recordings: list[Recording] = []
    while groups:
        group = groups.pop(0)
        reply = context.record(candidate.source, [*before, *group])
        if reply.failure is not None and len(group) > 1:
            groups = [[request] for request in group]
        elif reply.failure is not None:
            known, _ = wanted[len(recordings)]
            recordings.append(evolve(known, plan=None, failure=reply.failure))
        else:
            recordings += reply.recordings[len(before) :]
            keep_blobs(context, reply.recordings[len(before) :], reply.blobs)
    return recordings


def with_recording(candidate: Candidate, known: Recording, recording: Recording) -> Candidate:
    """The candidate as if this recording had been made in the place of the known one."""
    report = candidate.evidence.compile
    assert report is not None
    others = tuple(other for other in report.recordings if other is not known)
    at = next((at for at, other in enumerate(report.recordings) if other is known), len(others))
    recordings = (*others[:at], recording, *others[at:])
    return candidate.with_evidence(compile=evolve(report, recordings=recordings))


def judge_with(candidate: Candidate, recording: Recording) -> Failure | None:
    """The compile stage's objection to a recording of this candidate."""
    assert candidate.evidence.compile is not None
    return judge_recording(recording, candidate.evidence.compile, candidate.purity)


def _is_never_chosen(
    candidate: Candidate,
    task: Task,
    context: VerifierContext,
    known: Recording,
    choice: Choice,
    found: RunReport,
    earlier: Sequence[RecordRequest] | None = None,
) -> bool:
    """Whether what is not right does not compile either, so that no tuner chooses it."""
    if is_refused_by_compiler(found.failure) or context.cuda is not None:
        return is_refused_by_compiler(found.failure)
    (recording,) = record_each(candidate, task, context, [(known, choice)], earlier, True)
    return is_refused_by_compiler(recording.failure)


def is_refused_by_compiler(failure: Failure | None) -> bool:
    """Whether a configuration fails in a way that makes a tuner leave it out."""
    return failure is not None and failure.outcome in _NEVER_CHOSEN


def _words(recording: Recording, choice: Choice) -> list[tuple[int, str]]:
    """Each tuner's configuration, with its number; a setting with the sizes, as it may mean anything there."""
    return [
        (number, f"{recording.profile}: {words[at]}" if is_setting(words) else words[at])
        for number, (words, at) in enumerate(zip(recording.choices, choice, strict=False))
    ]


def describe_choice(recording: Recording, choice: Choice) -> str:
    """The configurations that a choice takes of a recording's tuners, in words."""
    return "; ".join(words for _, words in _words(recording, choice))


def report_unrun(failure: Failure | None) -> RunReport:
    """The report of what was not run, or is yet to be."""
    return RunReport(variant=Variant.ORIGINAL, failure=failure)
