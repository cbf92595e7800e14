"""Tasks by name: an id of the corpus, a file in KernelBench's form, or a suite such as `corpus:heldout`.

A file needs no annotations. Its sizes for the tiny, small and larger runs are found by shrinking its module-level
integer constants and keeping a shrink only where the reference still runs at it, because a constant may be bound to
another one (heads that must divide a width) or be no size at all (a kernel width, an axis).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from attrs import evolve

from ..core.constants import read_constants
from ..core.corpus import Split, examples, is_corpus_id, render
from ..core.prompts import assistant_message, user_message
from ..core.seeds import derive
from ..core.task import DTYPES, Constants, Example, Profile, Task
from .errors import TaskError, UsageError
from .settings import read_text

Runs = Callable[[Task, Constants], bool]
"""Whether a task's reference runs with these constants."""

_TINY, _SMALL, _LARGER = 7, 48, 80
"""The largest value that a shrunk size keeps; no multiple of a block, so that masks are exercised."""


def find_task(name: str) -> Task:
    """The task with that id, or in that file; raises TaskError or UsageError."""
    if name.endswith(".py") or Path(name).is_file():
        return task_from_file(Path(name))
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


def task_from_file(path: Path) -> Task:
    """A task from a file in KernelBench's form (`Model`, `get_inputs`, `get_init_inputs`)."""
    source = read_text(path)
    try:
        constants = read_constants(source)
    except (SyntaxError, ValueError) as error:
        raise TaskError(f"{path}: {error}") from None
    identity = hashlib.sha256(source.encode()).hexdigest()[:12]
    task = Task(task_id=f"file-{path.stem}-{identity}", level=1, family="file", description=path.stem, source=source)
    task = evolve(task, dtypes=(declared_dtype(task),))
    return evolve(
        task,
        tiny=shrink(task, constants, _TINY),
        small=shrink(task, constants, _SMALL),
        larger=shrink(task, constants, _LARGER),
    )


def declared_dtype(task: Task) -> str:
    """The dtype of the first floating input; raises TaskError where the reference does not run as it stands."""
    from .reference import call_model, draw_inputs, dtype_name, fake_reference, is_floating, load_task

    with fake_reference(task, Profile.DECLARED, "float32") as (model, inputs):
        call_model(task, model, inputs)
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        drawn = draw_inputs(task, load_task(task, Profile.DECLARED), None)
    found = next((dtype_name(value) for value in drawn if is_floating(value)), "float32")
    if found not in DTYPES:
        raise TaskError(f"{task.task_id}: inputs of dtype {found}; supported are {', '.join(DTYPES)}")
    return found


def runs_with(task: Task, constants: Constants) -> bool:
    """Whether the reference runs with these constants."""
    from . import reference

    return reference.runs_with(task, constants)


def shrink(task: Task, constants: dict[str, int], ceiling: int, runs: Runs = runs_with) -> Constants:
    """Constants at most `ceiling` where the reference allows it: all at once, else one after the other."""
    smaller = {name: ceiling for name, value in constants.items() if value > ceiling}
    if smaller and runs(task, tuple(smaller.items())):
        return tuple(smaller.items())
    # a power of two keeps the divisibility that most refusals are about
    powers = {name: 1 << (ceiling.bit_length() - 1) for name in smaller}
    if powers and runs(task, tuple(powers.items())):
        return tuple(powers.items())
    kept: dict[str, int] = {}
    for name in smaller:
        for attempt in (ceiling, powers[name]):
            trial = {**kept, name: attempt}
            if runs(task, tuple(trial.items())):
                kept = trial
                break
    return tuple(kept.items())


def named_examples(names: Sequence[str]) -> list[tuple[Task, str | None]]:
    """Tasks by file or id, with the teacher's solution where there is one."""
    found: list[tuple[Task, str | None]] = []
    for name in names:
        example = find_example(name) if is_corpus_id(name) else None
        found.append((find_task(name), None) if example is None else (example.task, example.solution))
    return found


def export_examples(folder: Path, chosen: Iterator[Example]) -> int:
    """Write each task, its solution and a line of `prompts.jsonl`; returns how many."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for example in chosen:
        task = example.task
        (folder / f"{task.task_id}.py").write_text(task.source, encoding="utf-8")
        (folder / f"{task.task_id}.solution.py").write_text(example.solution, encoding="utf-8")
        messages = {"prompt": user_message(task), "answer": assistant_message(example.solution)}
        lines.append(json.dumps({"task": task.task_id, "level": task.level, "family": task.family, **messages}))
    (folder / "prompts.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return len(lines)
