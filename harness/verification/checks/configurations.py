"""The check of an autotuner's other configurations: each one that the tuner could choose has to be right.

On a device a tuner takes whatever configuration is the fastest, and one that does nothing is. So for the audit every
configuration is recorded and run on the original inputs, at the sizes that the backend runs whole; beyond a bound, and
where the configurations of several tuners combine, a drawn part of them. At the declared sizes and beyond them a few
programs of each are looked at, if the sizes can be looked at at all, and more of those that a tuner has there alone. A
tuner keeps what it has chosen as long as its key is the same, so where it leaves some out by size, those count too that
it had after calls at other sizes. A configuration that cannot be compiled is none that a tuner would choose. Candidates
without a tuner have nothing to probe. Settings of PyTorch that host code reads are looked at in the same way.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator, Sequence
from itertools import product

from attrs import evolve, frozen

from ....core.candidate import Candidate, CompileReport, Failure, Recording, RunReport, Variant, is_setting
from ....core.outcome import Outcome
from ....core.plan import Kernel
from ....core.recipe.extensions import VerifierSpec
from ....core.run import RunReply, RunRequest
from ....core.seeds import derive
from ....core.serialisation import fingerprint
from ....core.task import Profile, Task
from ....stages.checks.configurations import ConfigurationRun, ConfigurationsReport, count_combinations
from ....stages.compile_stage import find_recording, judge_recording
from ....stages.judge_run import judge_run
from ....stages.variant_inputs import VariantInputs
from ...errors import TaskError
from ...reference.expected_run import ExpectedRun
from ...reference.sizes.declared_sizes import with_declared
from ...sandbox.wire import RecordRequest
from ..context import VerifierContext
from ..recordings import has_own_values, keep_blobs, later_variants, record_later, record_request
from ..runs import prepare_run, run_prepared
from .declared import sample_others
from .samples import prepare_sample

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
    if report is None:
        return None
    large = find_large(candidate, task, context, report)
    if all(count_combinations(recording) <= 1 for recording in (*report.recordings, *large.values())):
        return None
    return ConfigurationsReport(runs=tuple(_find_runs(candidate, task, context, report, large)))


def find_large(
    candidate: Candidate, task: Task, context: VerifierContext, report: CompileReport
) -> dict[VariantInputs, Recording]:
    """The recordings at the declared sizes and beyond, but for sizes at which the backend runs choices whole."""
    if not context.oracle.is_within_reach(task):
        return {}
    large = [context.describe(Variant.DECLARED, task), *later_variants(task, context)]
    return {
        each: find_recording(report, each.profile, each.dtype) or record_later(candidate, task, context, each)
        for each in large
        if each.variant in _LOOKED_AT and each.profile is not context.profile_of(task)
    }


def _find_runs(
    candidate: Candidate,
    task: Task,
    context: VerifierContext,
    report: CompileReport,
    large: dict[VariantInputs, Recording],
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
    if any(count_combinations(each) > 1 for each in large.values()):
        yield from _sample_large(candidate, task, evolve(context, cuda=None), report, large, seen)


@frozen(kw_only=True)
class _Look:
    """A sample that is wanted of a choice, and whether as much is sampled as of the recorded one."""

    run: ConfigurationRun
    own: Recording
    changed: Candidate
    inputs: VariantInputs
    is_thorough: bool


def _sample_large(
    candidate: Candidate,
    task: Task,
    context: VerifierContext,
    report: CompileReport,
    large: dict[VariantInputs, Recording],
    seen: set[tuple[int, str]],
) -> Iterator[ConfigurationRun]:
    """Runs at the declared sizes and beyond, also of what a tuner keeps there that it has chosen at other sizes."""
    kept, earlier = large, list[RecordRequest]()
    if len({each.choices for each in (*report.recordings, *large.values())}) > 1:
        kept, earlier = _record_kept(candidate, task, context, report, large)
    choices = [(inputs, choice) for inputs, words in kept.items() for choice in _draw(candidate, context, words)]
    wanted = [(large[inputs], choice) for inputs, choice in choices]
    recordings = record_each(candidate, task, context, wanted, earlier)
    looked_at = set(map(_identify, large.values()))
    looks: list[_Look] = []
    for (inputs, choice), recording in zip(choices, recordings, strict=True):
        if _identify(recording) in looked_at:
            continue
        looked_at.add(_identify(recording))
        own, words = large[inputs], describe_choice(kept[inputs], choice)
        run = ConfigurationRun(
            choice=choice, description=f"{words}, at {inputs.profile} sizes", report=report_unrun(None)
        )
        is_thorough = inputs.variant is Variant.DECLARED and not seen.issuperset(_words(kept[inputs], choice))
        changed = with_recording(candidate, own, recording)
        looks.append(_Look(run=run, own=own, changed=changed, inputs=inputs, is_thorough=is_thorough))
    looks.sort(key=lambda look: not look.is_thorough)
    while looks:
        if looks[0].is_thorough:
            reports = [sample_declared(looks[0].changed, task, context)]
        else:
            reports = sample_others([(look.changed, look.inputs) for look in looks], task, context)
        for look, found in zip(looks, reports, strict=False):
            is_wrong = judge_run(found) is not None
            if is_wrong and _is_never_chosen(candidate, task, context, look.own, look.run.choice, found, earlier):
                continue
            yield evolve(look.run, report=found)
            if is_wrong:
                return
        looks = looks[len(reports) :]


def sample_declared(candidate: Candidate, task: Task, context: VerifierContext) -> RunReport:
    """The report of a sample of the declared plan that the candidate's evidence has; it is not kept."""
    made = prepare_sample(candidate, task, context, context.describe(Variant.DECLARED, task))
    return made if isinstance(made, RunReport) else made.run(RunReply())


def has_tuner(recording: Recording) -> bool:
    """Whether a tuner has a choice in a recording, settings aside."""
    return any(len(words) > 1 and not is_setting(words) for words in recording.choices)


def _record_kept(
    candidate: Candidate,
    task: Task,
    context: VerifierContext,
    report: CompileReport,
    large: dict[VariantInputs, Recording],
) -> tuple[dict[VariantInputs, Recording], list[RecordRequest]]:
    """Recordings with what tuners have after calls at other sizes, and the calls; the own ones where that fails."""
    sizes = [(each.profile, each.dtype) for each in report.recordings]
    sizes += [(each.profile, each.dtype) for each in later_variants(task, context)]
    earlier = _find_earlier(task, context, sizes)
    reply = context.record(candidate, [*earlier, *(evolve(each, choice=(0,)) for each in earlier)])
    if reply.failure is not None:
        return large, []
    found = {(each.profile, each.dtype): each for each in reply.recordings[len(earlier) :]}
    return {inputs: found.get((own.profile, own.dtype), own) for inputs, own in large.items()}, earlier


def _find_earlier(task: Task, context: VerifierContext, sizes: Sequence[tuple[Profile, str]]) -> list[RecordRequest]:
    """Calls at these sizes, and at those beyond the declared ones but for one, which is as declared."""
    beyond = context.oracle.beyond(task)
    nearer = [with_declared(task, (*beyond[:at], *beyond[at + 1 :])) for at in range(len(beyond))]
    wanted = [(each, Profile.DECLARED, task.dtypes[0]) for each in nearer]
    wanted += [(task, profile, dtype) for profile, dtype in sizes]
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
        reply = context.record(candidate, [*before, *group])
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
