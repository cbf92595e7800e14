"""Whether the interpreter and a GPU say the same of a candidate: `tritonrl bench agreement`.

Right and wrong candidates of the fixed mix (those that reach a kernel) are verified by both backends with the same
seed. They agree where both accept or both refuse: where a wrong kernel is first seen to be wrong may differ, since a
GPU runs the declared sizes whole and knows nothing of undefined values, and is counted apart. The verifier is the
audit, whose verdict is the one that matters, with its samples of the declared sizes, and without timing. A GPU's
audit asks the interpreter too, and would agree with it as far as that goes, so here it does not.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from functools import partial

from attrs import evolve, frozen

from ....core.config import Backend, Config
from ....core.recipe.extensions import AUDIT
from ....core.statistics.intervals import Interval, wilson_interval
from ....core.verdict import Verdict
from ...verification.verifier import open_verifier
from ..verifier.mix import Kind, Labelled
from ..verifier.verify import make_mix
from ..watching import RunningCount

BACKENDS: tuple[Backend, ...] = ("interpret", "cuda")
LEAST_AGREEMENT = 0.995


@frozen(kw_only=True)
class Disagreement:
    """One candidate that one backend accepts and the other refuses; outcomes as "outcome@stage: message"."""

    task_id: str
    candidate: str
    spoil: str
    interpret: str
    cuda: str


@frozen(kw_only=True)
class BackendFigures:
    """`same_outcome` counts candidates with the same outcome at the same stage."""

    seed: int
    num_candidates: int
    num_accepted: dict[str, int]
    num_agreeing: int
    same_outcome: int
    agreement: Interval | None
    disagreements: tuple[Disagreement, ...]
    outcome_pairs: tuple[tuple[str, int], ...]
    """The commonest pairs of different reasons to refuse, "interpreter's / GPU's"."""
    seconds: dict[str, float]


def measure_agreement(config: Config, num_candidates: int, seed: int, jobs: int) -> BackendFigures:
    """Verify `num_candidates` candidates by both backends; raises UsageError where there is no GPU."""
    seconds: dict[str, float] = {}
    verdicts: dict[str, list[Verdict]] = {}
    mix: list[Labelled] = []
    for backend in reversed(BACKENDS):
        own = evolve(config.verifier, backend=backend, timing="none", cross_check_interpreter=False)
        chosen = evolve(config, verifier=own)
        with open_verifier(chosen) as verifier:
            verifier.get_ready(jobs)
            if not mix:
                # four of a task's ten candidates get so far
                mix = [c for c in make_mix(verifier, -(-num_candidates // 8), seed, jobs) if _reaches_a_kernel(c)]
                mix = mix[:num_candidates]
            began = time.perf_counter()
            pairs = [(c.task, c.source) for c in mix]
            count = RunningCount(len(pairs), "as the GPU says" if verdicts else "accepted by the GPU")
            note = partial(_note, count, verdicts.get("cuda"))
            verdicts[backend] = verifier.verify_many(pairs, AUDIT, jobs, note)
            seconds[backend] = time.perf_counter() - began
    return compare_verdicts(mix, verdicts["interpret"], verdicts["cuda"], seed, seconds)


def _note(count: RunningCount, others: Sequence[Verdict] | None, index: int, verdict: Verdict) -> None:
    count.note(verdict.correct == (others is None or others[index].correct))


def _reaches_a_kernel(candidate: Labelled) -> bool:
    return candidate.kind in (Kind.CORRECT, Kind.WRONG)


def compare_verdicts(
    mix: Sequence[Labelled],
    interpreted: Sequence[Verdict],
    executed: Sequence[Verdict],
    seed: int,
    seconds: dict[str, float],
) -> BackendFigures:
    """What two lists of verdicts on the same candidates have in common."""
    pairs = list(zip(interpreted, executed, strict=True))
    agreeing = sum(one.correct == other.correct for one, other in pairs)
    different = Counter(
        f"{one.where} / {other.where}"
        for one, other in pairs
        if not one.correct and not other.correct and one.where != other.where
    )
    return BackendFigures(
        seed=seed,
        num_candidates=len(pairs),
        num_accepted={"interpret": sum(v.correct for v in interpreted), "cuda": sum(v.correct for v in executed)},
        num_agreeing=agreeing,
        same_outcome=sum(one.where == other.where for one, other in pairs),
        agreement=wilson_interval(agreeing, len(pairs)),
        disagreements=tuple(
            Disagreement(
                task_id=candidate.task.task_id,
                candidate=one.candidate[:12],
                spoil=candidate.spoil,
                interpret=_describe(one),
                cuda=_describe(other),
            )
            for candidate, (one, other) in zip(mix, pairs, strict=True)
            if one.correct != other.correct
        ),
        outcome_pairs=tuple(different.most_common(8)),
        seconds=seconds,
    )


def _describe(verdict: Verdict) -> str:
    return f"{verdict.where}: {verdict.objection}".rstrip(": ")
