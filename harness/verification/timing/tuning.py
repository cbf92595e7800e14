"""Which configuration an autotuner would take: measured on the GPU, before what it takes is timed.

Recording has no device, so a recorded plan has the first configuration that compiles. Here every configuration is
recorded at the declared sizes and compiled in the sandbox, a drawn part of them where tuners have very many, and the
executor measures all in turns. What is timed, and checked while it is timed, is the quickest, as it would be on the
user's machine. A configuration that does not compile, or needs more than the GPU has, is none that a tuner takes; one
that ends the executor would have ended the user's process, and refuses the candidate.
"""

from __future__ import annotations

import math

from attrs import frozen

from ....core.candidate import Candidate, ConfigurationTime, Failure, Variant, is_setting
from ....core.run import RunRequest
from ....core.seeds import derive
from ....core.task import Profile, Task
from ....stages.compile_stage import find_recording
from ....stages.variants import describe
from ...gpu.backend import CudaBackend
from ...gpu.timing.protocol import Protocol
from ..checks.configurations import (
    describe_choice,
    draw_choices,
    is_refused_by_compiler,
    judge_with,
    record_choices,
    with_recording,
)
from ..context import VerifierContext
from ..runs import prepare_run

MOST_CONFIGURATIONS = 64


@frozen(kw_only=True)
class Tuned:
    """The candidate with the quickest configuration in the place of the recorded one, and what each took."""

    candidate: Candidate
    times: tuple[ConfigurationTime, ...] = ()


def tune(
    candidate: Candidate, task: Task, context: VerifierContext, cuda: CudaBackend, protocol: Protocol
) -> Tuned | Failure:
    """Measure what the declared plan's tuners may choose; a plan without a choice is left as it is."""
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
