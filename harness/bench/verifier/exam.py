"""An exam's judging at real sizes, without a model: `tritonrl bench exam`.

Each task has its teacher's answer, the same in other words, and wrong ones: texts that no verifier needs to run, and
teachers with a plausible mistake. Measured is what an exam costs: time, memory of the host and of the GPU, and what was
refused because it does not fit.

The tasks are of our corpus, which draws sizes that a training run can afford. Their declared sizes are doubled, one
after the other in a drawn order, until inputs, parameters and results take a drawn number of bytes.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from attrs import evolve, frozen

from ....core.config import Config
from ....core.corpus import SUITES, corrupt
from ....core.recipe.extensions import AUDIT
from ....core.seeds import derive
from ....core.serialisation import from_plain, to_plain
from ....core.task import Example, Task
from ....core.text.named_sizes import read_sizes
from ....core.verdict import Verdict
from ...errors import TaskError, TooLargeError
from ...reference.operators import trace_declared
from ...reference.sizes.declared_sizes import with_declared
from ...sandbox.confinement.watch import count_kills, descendants
from ...side_by_side import map_side_by_side
from ...tasks.suites import corpus_examples
from ..watching import RunningCount, read_kb
from .mix import SPOILS, restyle

_INTERVAL_S = 1.0
"""Looking at the memory of some sixty processes takes a tenth of a second of a processor."""
_MOST_DRAWS = 20
LEAST_BYTES, MOST_BYTES = 16 << 20, 14 << 30
_MOST_FLOPS = 4e12
_MOST_ELEMENTS = 2**31 - 1
"""Of a tensor, on the way too: teachers count in 32 bits."""
_LEAST_SIZE = 8
"""Smaller constants count taps, groups and heads."""
_MOST_DOUBLINGS = 24
_MOST_IN_A_BLOCK = 1 << 16
"""Where an answer has rows in one block: `ptxas` does not end in a minute at four times as many elements."""


@frozen(kw_only=True)
class ExamFigures:
    """What judging took; bytes are those of a task's inputs, parameters and results at the declared sizes.

    Where it was interrupted fewer than `num_answers` were judged, and the figures are of these.
    """

    num_tasks: int
    num_answers: int
    num_judged: int
    num_correct: int
    largest_task_bytes: int
    median_task_bytes: int
    prepare_s: float
    judge_s: float
    peak_bytes: int
    peak_asked_bytes: int
    peak_gpu_bytes: int
    num_killed: int
    too_large: tuple[str, ...]
    bad_tasks: tuple[str, ...]
    rejected_teachers: tuple[str, ...]
    outcomes: tuple[tuple[str, int], ...]
    slowest: tuple[tuple[str, float], ...]
    """Tasks with the most seconds, over all of their answers."""
    backend: str
    jobs: int


def measure_exam(
    config: Config,
    num_tasks: int,
    num_samples: int,
    suite: str,
    seed: int,
    jobs: int,
    most_bytes: int = MOST_BYTES,
) -> ExamFigures:
    """Judge `num_samples` answers to each of `num_tasks` tasks of a suite, enlarged up to `most_bytes`."""
    from ...verification.verifier import open_verifier

    began = time.monotonic()
    sized = sized_examples(suite, seed, num_tasks, most_bytes)
    chosen, sizes = [one.example for one in sized], sorted(int(one.num_bytes) for one in sized)
    pairs = [(example.task, answer) for example in chosen for answer in answers_to(example, num_samples, seed)]
    prepared = time.monotonic()
    too_large, bad = Counter[str](), list[str]()
    verdicts: dict[int, Verdict] = {}
    count = RunningCount(len(pairs), "right")

    def keep(index: int, verdict: Verdict) -> None:
        verdicts[index] = verdict
        count.note(verdict.correct)

    def refuse(_: int, error: TaskError) -> None:
        if isinstance(error, TooLargeError):
            too_large[str(error)] += 1
        else:
            bad.append(str(error))
        count.note()

    with open_verifier(config) as verifier, MemoryWatch() as watch:
        with contextlib.suppress(KeyboardInterrupt):
            verifier.verify_many(pairs, AUDIT, jobs, keep, refuse)
        backend, budget = verifier.backend, verifier.budget
    judged = time.monotonic()
    teachers = {(example.task.task_id, example.solution) for example in chosen}
    rejected = [
        f"{task.task_id}: {verdicts[index].where}: {verdicts[index].objection}"
        for index, (task, source) in enumerate(pairs)
        if (task.task_id, source) in teachers and index in verdicts and not verdicts[index].correct
    ]
    return ExamFigures(
        num_tasks=len(chosen),
        num_answers=len(pairs),
        num_judged=len(verdicts) + too_large.total() + len(bad),
        num_correct=sum(verdict.correct for verdict in verdicts.values()),
        largest_task_bytes=sizes[-1],
        median_task_bytes=sizes[len(sizes) // 2],
        prepare_s=prepared - began,
        judge_s=judged - prepared,
        peak_bytes=watch.peak_bytes,
        peak_asked_bytes=budget.peak_bytes,
        peak_gpu_bytes=watch.peak_gpu_bytes,
        num_killed=watch.num_killed,
        too_large=tuple(f"{reason} ({number} answers)" for reason, number in sorted(too_large.items())),
        bad_tasks=tuple(sorted(set(bad))),
        rejected_teachers=tuple(rejected),
        outcomes=tuple(Counter(verdict.outcome.code for verdict in verdicts.values()).most_common()),
        slowest=_find_slowest(pairs, verdicts),
        backend=backend,
        jobs=jobs,
    )


def answers_to(example: Example, num_samples: int, seed: int) -> Iterator[str]:
    """Yield so many answers: the teacher's, the same in other words, then mistakes and texts of no use in turn."""
    rng = random.Random(f"{seed}:{example.task.task_id}")
    yield from (example.solution, restyle(example.solution))[:num_samples]
    seen = {example.solution}
    spoils = list(SPOILS.values())
    for number in range(num_samples - 2):
        answer = spoils[rng.randrange(len(spoils))](example, rng)
        if number % 2 == 0:
            for _ in range(_MOST_DRAWS):
                wrong = corrupt(example.solution, rng)
                if wrong not in seen:
                    answer = wrong
                    break
        seen.add(answer)
        yield answer


def _find_slowest(pairs: Sequence[tuple[Task, str]], verdicts: dict[int, Verdict]) -> tuple[tuple[str, float], ...]:
    seconds: defaultdict[str, float] = defaultdict(float)
    for index, verdict in verdicts.items():
        seconds[pairs[index][0].task_id] += verdict.seconds
    return tuple(sorted(seconds.items(), key=lambda pair: -pair[1])[:5])


class MemoryWatch:
    """A thread that notes the peaks while it is open; memory that processes share counts once."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self.peak_gpu_bytes = 0
        self.num_killed = 0
        """Processes that the kernel has ended for want of memory, of anybody's."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="memory watch", daemon=True)
        self._kills_before = 0

    def __enter__(self) -> MemoryWatch:
        self._kills_before = count_kills()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.num_killed = count_kills() - self._kills_before

    def _look(self) -> None:
        while True:
            self.peak_bytes = max(self.peak_bytes, sum(map(_own_bytes, (os.getpid(), *descendants()))))
            self.peak_gpu_bytes = max(self.peak_gpu_bytes, _count_gpu_bytes())
            if self._over.wait(_INTERVAL_S):
                return


def _own_bytes(pid: int) -> int:
    """Return the memory of a process: its own part of what it shares with others."""
    return (read_kb(pid, b"Pss:", "smaps_rollup") or read_kb(pid, b"VmRSS:")) << 10


def _count_gpu_bytes() -> int:
    import torch

    # asking would open a context before anybody needs one
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return 0
    free, total = torch.cuda.mem_get_info()
    return int(total - free)


@frozen(kw_only=True)
class Sized:
    """An example at its size: bytes of inputs, parameters and results."""

    example: Example
    num_bytes: float


def sized_examples(suite: str, seed: int, count: int, most_bytes: int = MOST_BYTES) -> list[Sized]:
    """Draw so many examples of a suite, levels in turn, each at a size of its own up to `most_bytes`."""
    levels = SUITES[suite.partition(":")[0]]
    per_level = -(-count // len(levels))
    drawn = [list(corpus_examples(suite, seed, per_level, (level,))) for level in levels]
    chosen = [of_level[place] for place in range(per_level) for of_level in drawn][:count]
    items = [
        {
            "task": to_plain(example.task),
            "seed": derive(seed, "sized", number),
            "most_bytes": most_bytes,
            "most_size": _MOST_IN_A_BLOCK if "next_power_of_2" in example.solution else _MOST_ELEMENTS,
        }
        for number, example in enumerate(chosen)
    ]
    found = map_side_by_side(enlarge_plain, items)
    return [
        Sized(example=evolve(example, task=from_plain(plain["task"], Task)), num_bytes=plain["num_bytes"])
        for example, plain in zip(chosen, found, strict=True)
    ]


def enlarge_plain(item: dict[str, Any]) -> dict[str, Any]:
    """Return `enlarge` of plain data, as plain data."""
    task, num_bytes = enlarge(from_plain(item["task"], Task), item["seed"], item["most_bytes"], item["most_size"])
    return {"task": to_plain(task), "num_bytes": num_bytes}


def enlarge(task: Task, seed: int, most_bytes: int = MOST_BYTES, most_size: int = _MOST_ELEMENTS) -> tuple[Task, float]:
    """The task with larger declared sizes, and its bytes: a drawn number, or less where nothing more can be doubled.

    No size is doubled beyond `most_size`.
    """
    draw = random.Random(seed)
    low, high = math.log(min(LEAST_BYTES, most_bytes)), math.log(most_bytes)
    wanted = math.exp(draw.uniform(low, high))
    names = [name for name, size in read_sizes(task.source).items() if size >= _LEAST_SIZE and name in dict(task.tiny)]
    num_bytes = trace_declared(task)[1]
    for _ in range(_MOST_DOUBLINGS):
        if num_bytes >= wanted or not names:
            break
        name = draw.choice(names)
        size = 2 * read_sizes(task.source)[name]
        if size > most_size:
            names.remove(name)
            continue
        larger = with_declared(task, ((name, size),))
        try:
            operators, found = trace_declared(larger)
        except TaskError:
            operators, found = (), math.inf
        flops = sum(operator.matmul_flops for operator in operators)
        elements = max((operator.most_elements for operator in operators), default=0)
        if found > most_bytes or flops > _MOST_FLOPS or elements > _MOST_ELEMENTS:
            names.remove(name)
        else:
            task, num_bytes = larger, found
    return task, num_bytes
