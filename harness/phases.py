"""What the commands do, beneath the command line: open the parts of a line, run one phase, verify a batch."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ..core.config import Config
from ..core.extensions import RewardSpec, VerifierSpec
from ..core.extraction import extract
from ..core.prompts import user_message
from ..core.reward import combine
from ..core.seeds import derive
from ..core.task import Task
from ..core.verdict import Verdict
from .display import DisplayKind, Progress, open_display
from .errors import TaskError, UsageError
from .exam.answers import Drawn
from .exam.exam import (
    BySuite,
    Criterion,
    Exam,
    ExamIdentity,
    Questions,
    fingerprint_adapter,
    identify_questions,
)
from .exam.suite_criterion import judge_by_suite
from .settings import read_lines, read_text
from .study.cell import Line
from .study.learner import Learner, Sampling
from .study.store import Results
from .tasks.suites import find_task
from .verification.verifier import Verifier, open_verifier

T = TypeVar("T")


def default_jobs() -> int:
    """Candidates verified at once where the user does not say: one a processor."""
    return max(1, len(os.sched_getaffinity(0)))


@contextmanager
def open_line(
    config: Config,
    results: Results,
    progress: Progress,
    jobs: int,
    num_sharing: int = 1,
    learner: Learner | None = None,
) -> Iterator[Line]:
    """The real line: the real verifier, the folder's work, and the configured model unless a learner is given.

    So many processes share each GPU.
    """
    from .policy.crew import load_learner

    with open_verifier(config, results.evidence_path, num_sharing) as verifier:
        learner = learner or load_learner(config.policy)
        yield Line(config=config, learner=learner, judge=verifier, work=results.work, progress=progress, jobs=jobs)


@contextmanager
def open_exam(
    config: Config,
    questions: Questions,
    criterion: Criterion = Criterion.BOTH,
    adapter: Path | None = None,
    out: Path | None = None,
    display: DisplayKind | None = None,
    jobs: int | None = None,
    drawn: Drawn | None = None,
) -> Iterator[Exam]:
    """An exam of the configured policy, with an adapter or without; the results are in `out`, where one is given.

    With `drawn` its answers are judged, which were drawn elsewhere, and no model is loaded.
    """
    identity = ExamIdentity(
        config=config,
        policy="",
        backend="",
        tasks=identify_questions(config, questions),
        criterion=criterion,
        adapter=fingerprint_adapter(adapter) if drawn is None else drawn.adapter,
        drawn_with=None if drawn is None else drawn.versions,
    )
    if drawn is not None:
        drawn.require_same(config, identity.tasks)
    progress = open_display(display)
    with ExitStack() as stack:
        stack.callback(progress.close)
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tritonrl-eval-")))
        results = Results(root=folder)

        @contextmanager
        def open_with_criterion() -> Iterator[tuple[Line, BySuite]]:
            if drawn is not None:
                drawn.take_over(results.work)
            learner = None if drawn is None else drawn.learner
            with open_line(config, results, progress, jobs or default_jobs(), learner=learner) as line:
                assert isinstance(line.judge, Verifier)
                context = line.judge.context
                yield line, lambda task, source: judge_by_suite(task, source, context)

        yield Exam(
            results=results,
            identity=identity,
            questions=questions,
            adapter=adapter,
            open_line=open_with_criterion,
            progress=progress,
        )


def sample_task(config: Config, task: Task, num: int, adapter: Path | None) -> list[tuple[str, str | None]]:
    """`num` completions for a task, each with the source that is extracted from it."""
    from .policy.crew import load_learner

    learner = load_learner(config.policy)
    sampling = Sampling(
        temperature=config.rl.temperature, top_p=config.rl.top_p, max_new_tokens=config.policy.max_new_tokens
    )
    seeds = [derive(config.seed, "sample command", task.task_id, number) for number in range(num)]
    completions = learner.sample(adapter, [user_message(task)] * num, seeds, sampling, lambda _: None)
    return [(completion, extract(completion)) for completion in completions]


def verdict_plain(verdict: Verdict, spec: VerifierSpec, config: Config) -> dict[str, Any]:
    """A verdict as the one JSON object of the command contract; figures of a kind of clock only under that clock."""
    plain: dict[str, Any] = {
        "task": verdict.task_id,
        "candidate": verdict.candidate,
        "backend": verdict.backend,
        "seed": config.verifier.seed,
        "stages": [
            {
                "stage": result.stage.value,
                "outcome": result.outcome.code,
                "passed": result.passed,
                "seconds": result.seconds,
                "message": result.message,
            }
            for result in verdict.stages
        ],
        "reached": verdict.reached.value,
        "valid": verdict.valid,
        "compiled": verdict.compiled,
        "correct": verdict.correct,
        "speedup": verdict.speedup,
        "torch_operators": verdict.torch_operators,
        "reward": combine(verdict, RewardSpec(partial_credit=spec.stop_early), config.reward).total,
    }
    if config.verifier.clock == "simulated":
        plain["estimated_speedup"] = verdict.estimated_speedup
    if config.verifier.clock == "measured":
        plain["compiled_speedup"] = verdict.compiled_speedup
    return plain


def in_order(show: Callable[[T], None]) -> Callable[[int, T], None]:
    """What `verify_many` calls with each verdict: shows it as soon as all that come before it have been shown."""
    waiting: dict[int, T] = {}
    num_shown = 0

    def receive(index: int, verdict: T) -> None:
        nonlocal num_shown
        waiting[index] = verdict
        while num_shown in waiting:
            show(waiting.pop(num_shown))
            num_shown += 1

    return receive


def read_batch(path: Path, on_bad_task: Callable[[str], None] | None = None) -> list[tuple[Task, str]]:
    """The (task, source) pairs of a JSONL file; a candidate is source text, or the path of a file beside the batch.

    `on_bad_task` is told of each line whose task's reference does not run, and the line is left out; without it such a
    task ends the reading, as anything does that is wrong with the file.
    """
    pairs = []
    tasks: dict[str, Task | TaskError] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            name, candidate = entry["task"], entry["candidate"]
            if not isinstance(name, str) or not isinstance(candidate, str):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UsageError(f'{path}:{number}: expected {{"task": "...", "candidate": "..."}}') from None
        if name not in tasks:
            beside = path.parent / name
            try:
                tasks[name] = find_task(str(beside) if beside.is_file() else name)
            except TaskError as error:
                tasks[name] = error
            except UsageError as error:
                raise UsageError(f"{path}:{number}: {error}") from None
        if "\n" not in candidate and candidate.endswith(".py"):
            try:
                candidate = read_text(path.parent / candidate)
            except UsageError as error:
                raise UsageError(f"{path}:{number}: {error}") from None
        task = tasks[name]
        if isinstance(task, Task):
            pairs.append((task, candidate))
        elif on_bad_task is None:
            raise UsageError(f"{path}:{number}: {task}")
        else:
            on_bad_task(f"{path}:{number}: {task}")
    if not tasks:
        raise UsageError(f"{path}: no candidate there")
    return pairs
