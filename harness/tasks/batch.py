"""Batches of candidates: how they are read, verified in order, and told as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from ...core.config import Config
from ...core.config_fields import show_value
from ...core.outcome import printable
from ...core.recipe.extensions import RewardSpec, VerifierSpec
from ...core.recipe.reward import combine
from ...core.task import Task
from ...core.verdict import Verdict
from ..errors import UsageError
from ..settings import is_regular, read_lines, read_text

T = TypeVar("T")
_FORM = 'a line is {"task": "...", "candidate": "..."}'


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
        "declared": verdict.declared,
        "reward": combine(verdict, RewardSpec(partial_credit=spec.stop_early), config.reward).total,
    }
    if config.verifier.timing == "simulated":
        plain["estimated_speedup"] = verdict.estimated_speedup
    if config.verifier.timing == "measured":
        plain["compiled_speedup"] = verdict.compiled_speedup
    return plain


def in_order(show: Callable[[int, T], None]) -> Callable[[int, T], None]:
    """Returns a callback for `verify_many` that shows each verdict once all that come before it have been shown."""
    waiting: dict[int, T] = {}
    num_shown = 0

    def receive(index: int, verdict: T) -> None:
        nonlocal num_shown
        waiting[index] = verdict
        while num_shown in waiting:
            show(num_shown, waiting.pop(num_shown))
            num_shown += 1

    return receive


def read_batch(path: Path, on_bad_line: Callable[[str], None]) -> list[tuple[int, Task, str]]:
    """Read the (line number, task, source) of each line of a JSONL file.

    A candidate is source text, or the path of a file in the batch's folder. `on_bad_line` is told of each line that
    cannot be verified, and the line is left out. Raises UsageError for a file that holds no candidate at all.
    """
    from .suites import find_task  # here, since it imports torch, which a server's client need not

    found: list[tuple[int, Task, str]] = []
    tasks: dict[str, Task | UsageError] = {}
    for number, name, candidate in read_entries(path, on_bad_line):
        if name not in tasks:
            try:
                tasks[name] = find_task(name)
            except UsageError as error:
                tasks[name] = error
        task = tasks[name]
        if isinstance(task, Task):
            found.append((number, task, candidate))
        else:
            on_bad_line(printable(f"{path}:{number}: {task}"))
    return found


def read_entries(path: Path, on_bad_line: Callable[[str], None]) -> Iterator[tuple[int, str, str]]:
    """Yield number, task and source of each line of a JSONL file; a task is an id, or the path of a file that is there.

    `on_bad_line` is told of each line of another form, and the line is left out. Raises UsageError for a file that
    holds no candidate at all.
    """
    is_empty = True
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        is_empty = False
        try:
            yield number, *_read_line(path, line)
        except UsageError as error:
            on_bad_line(printable(f"{path}:{number}: {error}"))
    if is_empty:
        raise UsageError(f"{path}: no candidate there")


def _read_line(path: Path, line: str) -> tuple[str, str]:
    """Return a line's task and source. Raises UsageError."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}") from None
    if not isinstance(entry, dict):
        raise UsageError(f"{_FORM}, and not {show_value(entry)}")
    for key in ("task", "candidate"):
        if key not in entry:
            raise UsageError(f"missing key: {key}; {_FORM}")
        if not isinstance(entry[key], str):
            raise UsageError(f"{key}: expected text, got {show_value(entry[key])}")
    name, candidate = entry["task"], entry["candidate"]
    if "\n" not in candidate and candidate.endswith(".py"):
        candidate = read_text(_find_candidate(path, candidate))
    return _find_task(path, name), candidate


def _find_task(path: Path, name: str) -> str:
    """Return an id as it is, and the path of a task's file. Raises UsageError for no file."""
    if not name.endswith(".py") and not is_regular(path.parent / name):
        return name
    for place in (path.parent / name, Path(name)):
        if is_regular(place):
            return str(place)
    raise UsageError(f"{name}: no such file")


def _find_candidate(path: Path, name: str) -> Path:
    """Return the place of a candidate's file; raises UsageError outside of the batch's folder, and for no file."""
    try:
        folder = path.parent.resolve()
        found = (folder / name).resolve()
    except (OSError, ValueError, RuntimeError):
        raise UsageError(f"{name}: not a path") from None
    if not found.is_relative_to(folder):
        raise UsageError(f"{name}: outside of the batch's folder")
    if not is_regular(found):
        raise UsageError(f"{name}: no such file")
    return found
