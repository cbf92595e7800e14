"""Whether the interpreter and a GPU say the same of a candidate: `tritonrl bench agreement`.

Right and wrong candidates of the fixed mix (those that reach a kernel) are verified by both backends with the same
seed. They agree where both accept or both refuse: where a wrong kernel is first seen to be wrong may differ, since a
GPU runs the declared sizes whole and knows nothing of undefined values, and is counted apart. The verifier is the
audit, whose verdict is the one that matters, with its samples of the declared sizes, and without timing. A GPU's
audit asks the interpreter too, and would agree with it as far as that goes, so here it does not.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from attrs import evolve, frozen

from ....core.config import Backend, Config
from ....core.recipe.extensions import AUDIT
from ....core.statistics.intervals import Interval, wilson_interval
from ....core.verdict import Verdict
from ...verification.verifier import Verifier, open_verifier
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
    """`same_outcome` counts candidates with the same outcome at the same stage.

    Where it was interrupted, fewer than the `num_asked` that were asked for have a verdict of each backend.
    """

    seed: int
    num_asked: int
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
    """Verify `num_candidates` candidates by both backends; raises UsageError where there is no GPU.

    An interrupt ends it early.
    """
    seconds: dict[str, float] = {}
    interpreted: dict[int, Verdict] = {}
    executed: dict[int, Verdict] = {}
    mix: list[Labelled] = []
    with contextlib.suppress(KeyboardInterrupt):
        for backend in reversed(BACKENDS):
            own = evolve(config.verifier, backend=backend, timing="none", cross_check_interpreter=False)
            with open_verifier(evolve(config, verifier=own)) as verifier:
                verifier.get_ready(jobs)
                if not mix:
                    # four of a task's ten candidates get so far
                    mix = [c for c in make_mix(verifier, -(-num_candidates // 8), seed, jobs) if _reaches_a_kernel(c)]
                    mix = mix[:num_candidates]
                began = time.perf_counter()
                found, others = (interpreted, executed) if backend == "interpret" else (executed, {})
                _judge(verifier, mix, jobs, found, others)
                seconds[backend] = time.perf_counter() - began
    return compare_verdicts(mix, interpreted, executed, seed, seconds)


def _judge(
    verifier: Verifier, mix: Sequence[Labelled], jobs: int, found: dict[int, Verdict], others: Mapping[int, Verdict]
) -> None:
    """Fill in what is found, and say how much of it is as others found, or right where there are none."""
    count = RunningCount(len(mix), "as the GPU says" if others else "accepted by the GPU")

    def note(index: int, verdict: Verdict) -> None:
        found[index] = verdict
        count.note(verdict.correct == (not others or others[index].correct))

    verifier.verify_many([(each.task, each.source) for each in mix], AUDIT, jobs, note)


def _reaches_a_kernel(candidate: Labelled) -> bool:
    return candidate.kind in (Kind.CORRECT, Kind.WRONG)


def compare_verdicts(
    mix: Sequence[Labelled],
    interpreted: Mapping[int, Verdict],
    executed: Mapping[int, Verdict],
    seed: int,
    seconds: dict[str, float],
) -> BackendFigures:
    """What verdicts on the same candidates, by their places in the mix, have in common."""
    both = [index for index in range(len(mix)) if index in interpreted and index in executed]
    pairs = [(interpreted[index], executed[index]) for index in both]
    agreeing = sum(one.correct == other.correct for one, other in pairs)
    different = Counter(
        f"{one.where} / {other.where}"
        for one, other in pairs
        if not one.correct and not other.correct and one.where != other.where
    )
    return BackendFigures(
        seed=seed,
        num_asked=len(mix),
        num_candidates=len(pairs),
        num_accepted={"interpret": sum(v.correct for v, _ in pairs), "cuda": sum(v.correct for _, v in pairs)},
        num_agreeing=agreeing,
        same_outcome=sum(one.where == other.where for one, other in pairs),
        agreement=wilson_interval(agreeing, len(pairs)),
        disagreements=tuple(
            Disagreement(
                task_id=mix[index].task.task_id,
                candidate=one.candidate[:12],
                spoil=mix[index].spoil,
                interpret=_describe(one),
                cuda=_describe(other),
            )
            for index, (one, other) in zip(both, pairs, strict=True)
            if one.correct != other.correct
        ),
        outcome_pairs=tuple(different.most_common(8)),
        seconds=seconds,
    )


def _describe(verdict: Verdict) -> str:
    return f"{verdict.where}: {verdict.objection}".rstrip(": ")
