"""Batches of candidates: how they are read, verified in order, and told as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from ...core.config import Config
from ...core.recipe.extensions import RewardSpec, VerifierSpec
from ...core.recipe.reward import combine
from ...core.task import Task
from ...core.verdict import Verdict
from ..errors import TaskError, UsageError
from ..settings import read_lines, read_text

T = TypeVar("T")


def default_jobs() -> int:
    """Returns how many candidates are verified at once where the user does not say: one a processor."""
    return max(1, len(os.sched_getaffinity(0)))


def verdict_plain(verdict: Verdict, spec: VerifierSpec, config: Config) -> dict[str, Any]:
    """Render a verdict as the one JSON object of the command contract; figures of a timing mode only under it."""
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
    if config.verifier.timing == "simulated":
        plain["estimated_speedup"] = verdict.estimated_speedup
    if config.verifier.timing == "measured":
        plain["compiled_speedup"] = verdict.compiled_speedup
    return plain


def in_order(show: Callable[[T], None]) -> Callable[[int, T], None]:
    """Returns a callback for `verify_many` that shows each verdict once all that come before it have been shown."""
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
    """Read the (task, source) pairs of a JSONL file; a candidate is source text or a path beside the batch.

    `on_bad_task` is told of each line whose task's reference does not run, and the line is left out; without it such a
    task ends the reading, as anything does that is wrong with the file.
    """
    from .suites import find_task  # here, since it imports torch, which a server's client need not

    pairs = []
    tasks: dict[str, Task | TaskError] = {}
    for number, name, candidate in read_entries(path):
        if name not in tasks:
            try:
                tasks[name] = find_task(name)
            except TaskError as error:
                tasks[name] = error
            except UsageError as error:
                raise UsageError(f"{path}:{number}: {error}") from None
        task = tasks[name]
        if isinstance(task, Task):
            pairs.append((task, candidate))
        elif on_bad_task is None:
            raise UsageError(f"{path}:{number}: {task}")
        else:
            on_bad_task(f"{path}:{number}: {task}")
    return pairs


def read_entries(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield number, task and source of each line of a JSONL file; a task is an id, or the path of a file that is there.

    Raises UsageError for a line of another form, and for a file without one.
    """
    is_empty = True
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
        beside = path.parent / name
        if "\n" not in candidate and candidate.endswith(".py"):
            try:
                candidate = read_text(path.parent / candidate)
            except UsageError as error:
                raise UsageError(f"{path}:{number}: {error}") from None
        is_empty = False
        yield number, str(beside) if beside.is_file() else name, candidate
    if is_empty:
        raise UsageError(f"{path}: no candidate there")
