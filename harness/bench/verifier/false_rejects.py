"""Measures how often the audit verifier rejects a right kernel: `tritonrl bench false-rejects`.

Two populations: teachers' kernels of the corpus, drawn evenly from its splits, levels, families and styles, each text
once; and kernels that people wrote in styles the corpus does not use. A hand-written one is a file whose first line,
`# task: NAME`, names the task that it solves: a corpus id, or a file in the folder `tasks` beside it. Each is
right by construction or by hand, so every rejection is an error of the verifier, and is listed with its reason.

Hand-written candidates run at smaller sizes than `verify` would choose: they are many, and the interpreter is slow.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from ....core.config import Config
from ....core.corpus import SUITES, is_corpus_id
from ....core.recipe.extensions import AUDIT
from ....core.task import Task, splits_of
from ....core.text.named_sizes import read_constants
from ....core.verdict import Verdict
from ...errors import UsageError
from ...reference.sizes.quick_sizes import with_small_sizes
from ...settings import read_text
from ...tasks.suites import corpus_examples, find_example, task_from_file
from ..watching import RunningCount

HEADER = "# task: "
_CEILINGS = (5, 17, 35)
"""Of the sizes for the tiny, small and larger runs of tasks written by hand."""


@frozen(kw_only=True)
class GenuineKernel:
    """A kernel that is right; `group` is where it comes from."""

    name: str
    group: str
    task: Task
    source: str


@frozen(kw_only=True)
class Rejection:
    name: str
    group: str
    reached: str
    outcome: str
    message: str


@frozen(kw_only=True)
class GenuineFigures:
    """The kernels verified and those wrongly rejected; `by_group` counts kernels.

    Where it was interrupted, fewer than the `num_asked` that were asked for were verified.
    """

    num_asked: int
    num_kernels: int
    by_group: tuple[tuple[str, int], ...]
    rejections: tuple[Rejection, ...]
    wall_s: float
    verifier_s: float
    jobs: int


def corpus_kernels(number: int, seed: int, suite: str = "full") -> list[GenuineKernel]:
    """Draw `number` distinct kernels, splits and levels in turn; raises UsageError where there are not so many."""
    per_level = -(-number // (len(SUITES[suite]) * len(splits_of(suite))))
    found: dict[str, GenuineKernel] = {}
    for attempt in itertools.count(1):
        found = _draw(per_level * attempt, seed, suite)
        if len(found) >= number:
            break
        if attempt == 4:
            raise UsageError(f"--num {number}: the corpus gave only {len(found)} distinct kernels")
    return list(found.values())[:number]


def _draw(per_level: int, seed: int, suite: str) -> dict[str, GenuineKernel]:
    by_place: list[list[GenuineKernel]] = []
    for split in splits_of(suite):
        for level in SUITES[suite]:
            examples = corpus_examples(f"{suite}:{split.value}", seed, per_level, (level,))
            by_place.append(
                [
                    GenuineKernel(
                        name=example.task.task_id,
                        group=f"{split.value}: {example.task.family}, {example.style}",
                        task=example.task,
                        source=example.solution,
                    )
                    for example in examples
                ]
            )
    turns = [kernels[at] for at in range(per_level) for kernels in by_place if at < len(kernels)]
    return {hashlib.sha256(kernel.source.encode()).hexdigest(): kernel for kernel in reversed(turns)}


def written_kernels(folder: Path, names: Sequence[str] = ()) -> list[GenuineKernel]:
    """Read the kernels of `folder/candidates`, or those named; raises UsageError for a missing header or task."""
    files = sorted((folder / "candidates").glob("*.py"))
    if not files:
        raise UsageError(f"{folder}: no candidates/*.py")
    tasks: dict[str, Task] = {}
    kernels = []
    for file in files:
        if names and file.stem not in names:
            continue
        source = read_text(file)
        first = source.partition("\n")[0]
        if not first.startswith(HEADER):
            raise UsageError(f"{file}: the first line must be '{HEADER}NAME'")
        name = first.removeprefix(HEADER).strip()
        if name not in tasks:
            tasks[name] = (
                find_example(name).task if is_corpus_id(name) else _small_task(folder / "tasks" / f"{name}.py")
            )
        kernels.append(GenuineKernel(name=file.stem, group="by hand", task=tasks[name], source=source))
    return kernels


def _small_task(path: Path) -> Task:
    task = task_from_file(path)
    return with_small_sizes(task, read_constants(task.source), _CEILINGS)


def verify_kernels(config: Config, kernels: Sequence[GenuineKernel], jobs: int) -> GenuineFigures:
    """Judge each kernel by the audit verifier, and say how far it is; an interrupt ends it early."""
    from ...verification.verifier import open_verifier

    verdicts: dict[int, Verdict] = {}
    count = RunningCount(len(kernels), "rejected")

    def finish(index: int, verdict: Verdict) -> None:
        verdicts[index] = verdict
        if not verdict.correct:
            kernel = f"{kernels[index].name} ({kernels[index].group})"
            print(f"{kernel}: {verdict.where}: {verdict.objection}".rstrip(": "), file=sys.stderr, flush=True)
        count.note(not verdict.correct)

    began = time.perf_counter()
    with open_verifier(config) as verifier, contextlib.suppress(KeyboardInterrupt):
        verifier.verify_many([(kernel.task, kernel.source) for kernel in kernels], AUDIT, jobs, finish)
    judged = [(kernels[index], verdicts[index]) for index in sorted(verdicts)]
    return GenuineFigures(
        num_asked=len(kernels),
        num_kernels=len(judged),
        by_group=tuple(sorted(Counter(kernel.group for kernel, _ in judged).items())),
        rejections=tuple(_explain(*each) for each in judged if not each[1].correct),
        wall_s=time.perf_counter() - began,
        verifier_s=sum(result.seconds for _, verdict in judged for result in verdict.stages),
        jobs=jobs,
    )


def _explain(kernel: GenuineKernel, verdict: Verdict) -> Rejection:
    return Rejection(
        name=kernel.name,
        group=kernel.group,
        reached=verdict.reached.value,
        outcome=verdict.outcome.code,
        message=verdict.objection,
    )


def measure_false_rejects(
    config: Config,
    number: int = 640,
    seed: int = 0,
    jobs: int = 1,
    folder: Path | None = None,
    suite: str = "full",
) -> GenuineFigures:
    """Judge `number` kernels of the corpus, of all families or the first part's, and those of `folder` if given."""
    kernels = corpus_kernels(number, seed, suite) if number else []
    if folder is not None:
        kernels += written_kernels(folder)
    return verify_kernels(config, kernels, jobs)
