"""Tasks by name: an id of the corpus, a file in KernelBench's form, or a suite such as `corpus:heldout`.

A file needs no annotations. Its sizes for the tiny, small and larger runs are found by shrinking its module-level
integer constants and keeping a shrink only where the reference still runs at it, because a constant may be bound to
another one (heads that must divide a width) or be no size at all (a kernel width, an axis).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from ..core.constants import read_constants
from ..core.corpus import Split, examples, render
from ..core.seeds import derive
from ..core.task import Constants, Example, Task
from .errors import TaskError, UsageError
from .settings import read_text

Runs = Callable[[Task, Constants], bool]
"""Whether a task's reference runs with these constants."""

_CEILINGS = {"tiny": 7, "small": 48, "larger": 80}
"""The largest value that a shrunk size keeps; no multiple of a block, so that masks are exercised."""


def find_task(name: str, runs: Runs | None = None) -> Task:
    """The task with that id, or in that file; raises TaskError or UsageError."""
    if name.endswith(".py") or Path(name).is_file():
        return task_from_file(Path(name), runs)
    return find_example(name).task


def find_example(task_id: str) -> Example:
    """The corpus task with that id, with its teacher solution."""
    try:
        return render(task_id)
    except (ValueError, KeyError) as error:
        raise UsageError(f"--task {task_id}: neither a file nor an id of the corpus ({error})") from None


def corpus_examples(suite: str, seed: int, count: int, levels: tuple[int, ...] = (1, 2)) -> Iterator[Example]:
    """`count` examples a level of the suite `corpus:train`, `corpus:validation` or `corpus:heldout`."""
    prefix, _, name = suite.partition(":")
    if prefix != "corpus" or name not in {split.value for split in Split}:
        known = ", ".join(f"corpus:{split.value}" for split in Split)
        raise UsageError(f"--suite {suite}: no such suite; there are {known}")
    for level in levels:
        yield from islice(examples(Split(name), level, derive(seed, "suite", name, level)), count)


def task_from_file(path: Path, runs: Runs | None = None) -> Task:
    """A task from a file in KernelBench's form (`Model`, `get_inputs`, `get_init_inputs`)."""
    source = read_text(path)
    for needed in ("class Model", "def get_inputs", "def get_init_inputs"):
        if needed not in source:
            raise TaskError(f"{path}: no `{needed}`; a task defines Model, get_inputs and get_init_inputs")
    try:
        constants = read_constants(source)
    except (SyntaxError, ValueError) as error:
        raise TaskError(f"{path}: {error}") from None
    identity = hashlib.sha256(source.encode()).hexdigest()[:12]
    task = Task(task_id=f"file-{path.stem}-{identity}", level=1, family="file", description=path.stem, source=source)
    if runs is None:
        return task
    if not runs(task, ()):
        raise TaskError(f"{path}: the reference does not run as it stands")
    shrunk = {name: shrink(task, constants, ceiling, runs) for name, ceiling in _CEILINGS.items()}
    return Task(
        task_id=task.task_id,
        level=task.level,
        family=task.family,
        description=task.description,
        source=source,
        tiny=shrunk["tiny"],
        small=shrunk["small"],
        larger=shrunk["larger"],
    )


def shrink(task: Task, constants: dict[str, int], ceiling: int, runs: Runs) -> Constants:
    """Constants at most `ceiling` where the reference allows it: all at once, else one after the other."""
    smaller = {name: ceiling for name, value in constants.items() if value > ceiling}
    if smaller and runs(task, tuple(smaller.items())):
        return tuple(smaller.items())
    kept: dict[str, int] = {}
    for name, value in smaller.items():
        # a power of two keeps the divisibility that most refusals are about
        for attempt in (value, 1 << (ceiling.bit_length() - 1)):
            trial = {**kept, name: attempt}
            if runs(task, tuple(trial.items())):
                kept = trial
                break
    return tuple(kept.items())
