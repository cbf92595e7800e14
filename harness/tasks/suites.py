"""Tasks by name: an id of the corpus, a file in KernelBench's form, or a suite such as `core13:heldout`.

A file needs no annotations: its sizes for the tiny, small and larger runs are found by shrinking its module-level
integer constants (`reference.sizes`). A program of KernelBench is first written anew so that its sizes are
such constants (`core.text.named_sizes`); models are shown what was published.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from ...core.corpus import (
    SUITES,
    TAUGHT,
    Split,
    examples,
    has_teacher,
    is_corpus_id,
    novel_examples,
    render,
    render_task,
    tasks,
)
from ...core.seeds import derive
from ...core.serialisation import fingerprint, from_plain, to_plain
from ...core.task import DTYPES, NOVEL, OUR_SUITES, Example, Profile, Task
from ...core.text.named_sizes import name_sizes, read_constants
from ...core.text.parsing import UNPARSABLE
from ...core.text.prompts import assistant_message, user_message
from ..datasets.kernelbench import LEVELS, Problem, Skipped, read_kernelbench
from ..errors import TaskError, UsageError
from ..settings import is_regular, read_text, require_suite
from ..side_by_side import map_kept


def find_task(name: str) -> Task:
    """The task with that id, or in that file; raises TaskError or UsageError."""
    if name.endswith(".py") or is_regular(Path(name)):
        return task_from_file(Path(name))
    try:
        return render_task(name)
    except (ValueError, KeyError) as error:
        raise UsageError(f"--task {name}: neither a file nor an id of the corpus ({error})") from None


def find_example(task_id: str) -> Example:
    """The corpus task with that id, with its teacher solution; raises UsageError where it has none."""
    task = find_task(task_id)
    if not has_teacher(task.task_id):
        raise UsageError(f"--task {task_id}: it has no teacher's solution")
    return render(task_id)


def corpus_examples(suite: str, seed: int, count: int, levels: tuple[int, ...] | None = None) -> Iterator[Example]:
    """Yield `count` examples of each level of a suite with teachers, such as `field:train`; raises UsageError."""
    prefix, _, name = suite.partition(":")
    if prefix in ("kernelbench", *TAUGHT):
        taught = [other for other in OUR_SUITES if has_teacher(other.partition(":")[0])]
        raise UsageError(f"--suite {suite}: it has no teachers' solutions; there are {', '.join(taught)}")
    for level, seed_of_level, chosen in _levels_of(suite, seed, levels):
        if suite in NOVEL:
            drawn = novel_examples(level, seed_of_level, chosen)
        else:
            drawn = examples(Split(name), level, seed_of_level, chosen)
        yield from islice(drawn, count)


def corpus_tasks(
    suite: str, seed: int, count: int, levels: tuple[int, ...] | None = None
) -> Iterator[tuple[Task, str | None]]:
    """`count` tasks a level of a suite of ours, with teachers' solutions where it has them; raises UsageError."""
    prefix, _, name = suite.partition(":")
    if prefix not in TAUGHT:
        yield from ((example.task, example.solution) for example in corpus_examples(suite, seed, count, levels))
        return
    for level, seed_of_level, chosen in _levels_of(suite, seed, levels):
        yield from ((task, None) for task in islice(tasks(Split(name), level, seed_of_level, chosen), count))


def _levels_of(suite: str, seed: int, levels: Sequence[int] | None) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yield each level that is asked for, with its seed and families; raises UsageError."""
    prefix, _, name = suite.partition(":")
    require_suite(suite)
    for level in dict.fromkeys(SUITES[prefix] if levels is None else levels):
        if level not in SUITES[prefix]:
            raise UsageError(f"--levels: {suite} has no level {level}; there are {', '.join(map(str, SUITES[prefix]))}")
        yield level, derive(seed, "suite", name, level), SUITES[prefix][level]


@frozen(kw_only=True)
class SuiteTask:
    """A task of a suite, with its place there from 0 on and its teacher's solution where it has one.

    `published` is the program as its suite prints it, where `task.source` was rewritten so that its sizes have names.
    """

    index: int
    task: Task
    solution: str | None = None
    published: str | None = None

    @property
    def shown(self) -> Task:
        """The task as a model is to see it."""
        return self.task if self.published is None else evolve(self.task, source=self.published)


@frozen(kw_only=True)
class Suite:
    """The tasks that were asked for; `skipped` are those that cannot be used, each with its reason."""

    name: str
    tasks: tuple[SuiteTask, ...]
    skipped: tuple[Skipped, ...] = ()
    is_foreign: bool = False
    """Whether it is not ours, and so has a criterion of its own."""


def load_suite(
    name: str,
    *,
    levels: Sequence[int] | None = None,
    num: int | None = None,
    seed: int = 0,
    picks: Sequence[int] | None = None,
    on_done: Callable[[int], None] | None = None,
    is_sized: bool = True,
) -> Suite:
    """A suite by its name; raises UsageError where there is none.

    Names: `SUITE:SPLIT` for `core13`, `full`, `extended`, `field`, `dialects`, `open` and `long`,
    `full:unseen`, `field:unseen` or `kernelbench:FOLDER|PARQUET|HUB_NAME`.
    `levels`: these alone; `num`: so many of each (of a corpus, which has no end, 10); `seed`: which a corpus draws;
    `picks`: those places of the suite alone, KernelBench's being ordered by level and number (100 is the first of
    Level 2), a corpus' as far as `num` goes; `on_done`: called with the number of tasks prepared. Without
    `is_sized` tasks of a suite that is not ours are as a model sees them, and nothing is computed for them.
    """
    if is_ours(name):
        return Suite(name=name, tasks=tuple(_draw(name, levels, num, seed, picks)))
    problems, skipped = read_kernelbench(name.partition(":")[2])
    chosen = list(_choose(problems, levels, num, picks))
    tasks = []
    found = map_kept(
        prepare_problem if is_sized else describe_problem, [to_plain(problem) for _, problem in chosen], on_done
    )
    for (index, problem), prepared in zip(chosen, found, strict=True):
        if "reason" in prepared:
            skipped.append(Skipped(name=problem.name, reason=prepared["reason"]))
        else:
            tasks.append(evolve(from_plain(prepared, SuiteTask), index=index))
    return Suite(name=name, tasks=tuple(tasks), skipped=tuple(skipped), is_foreign=True)


def identify_suite(
    name: str,
    *,
    levels: Sequence[int] | None = None,
    num: int | None = None,
    seed: int = 0,
    picks: Sequence[int] | None = None,
) -> str:
    """A fingerprint of what `load_suite` would give, by content and not by place; nothing is prepared for it."""
    if is_ours(name):
        return fingerprint([[entry.index, entry.task.task_id] for entry in _draw(name, levels, num, seed, picks)])
    problems, _ = read_kernelbench(name.partition(":")[2])
    return fingerprint([[index, problem.task_id] for index, problem in _choose(problems, levels, num, picks)])


def read_chosen(name: str, *, num: int | None = None) -> tuple[list[Problem], list[Skipped]]:
    """The problems of a suite that is not ours, `num` a level, as published; raises UsageError."""
    problems, skipped = read_kernelbench(name.partition(":")[2])
    return [problem for _, problem in _choose(problems, None, num, None)], skipped


def is_ours(name: str) -> bool:
    """Whether a suite is of our corpus; raises UsageError where there is none of that name."""
    require_suite(name)
    return name in OUR_SUITES


def _draw(
    name: str, levels: Sequence[int] | None, num: int | None, seed: int, picks: Sequence[int] | None
) -> Iterator[SuiteTask]:
    drawn = list(corpus_tasks(name, seed, num or 10, tuple(levels) if levels else None))
    beyond = [place for place in picks or () if place >= len(drawn)]
    if beyond:
        raise UsageError(
            f"--tasks: {name} has places 0 to {len(drawn) - 1} here, and not {min(beyond)}; "
            "--limit says how many tasks a level has"
        )
    for index, (task, solution) in enumerate(drawn):
        if picks is None or index in picks:
            yield SuiteTask(index=index, task=task, solution=solution)


def _choose(
    problems: Sequence[Problem], levels: Sequence[int] | None, num: int | None, picks: Sequence[int] | None
) -> Iterator[tuple[int, Problem]]:
    for level in dict.fromkeys(levels or LEVELS):
        if level not in LEVELS:
            raise UsageError(
                f"--levels: KernelBench has no level {level} here; there are {', '.join(map(str, LEVELS))}"
            )
        own = [(i, p) for i, p in enumerate(problems) if p.level == level and (picks is None or i in picks)]
        yield from own[:num]


def prepare_problem(plain: dict[str, Any]) -> Any:
    """Return the task of a problem as plain data, or the reason why there is none."""
    try:
        return to_plain(_prepare(from_plain(plain, Problem)))
    except TaskError as error:
        return {"reason": str(error)}


def describe_problem(plain: dict[str, Any]) -> Any:
    """Return a problem as a model sees it, as plain data, or the reason why it is none; runs without values."""
    problem = from_plain(plain, Problem)
    try:
        task = _published_task(problem, problem.code)
        return to_plain(SuiteTask(index=0, task=evolve(task, dtypes=(declared_dtype(task),))))
    except TaskError as error:
        return {"reason": str(error)}


def _published_task(problem: Problem, source: str) -> Task:
    text = problem.name.replace("_", " ")
    return Task(task_id=problem.task_id, level=problem.level, family="kernelbench", description=text, source=source)


def _prepare(problem: Problem) -> SuiteTask:
    from ..reference.sizes.declared_sizes import is_within_reach, with_declared

    source = _with_names(problem.task_id, problem.code)
    task = _with_sizes(_published_task(problem, source))
    # what any backend needs: the judge finds out at tiny sizes which inputs matter
    if not is_within_reach(with_declared(task, task.tiny)):
        has_sizes = bool(read_constants(source))
        why = "no small sizes were found at which the reference runs" if has_sizes else "none of its sizes has a name"
        raise TaskError(f"{task.task_id}: {why}, and its own are too large for a processor")
    return SuiteTask(index=0, task=task, published=None if source == problem.code else problem.code)


def task_from_file(path: Path) -> Task:
    """A task from a file in KernelBench's form (`Model`, `get_inputs`, `get_init_inputs`).

    Its sizes are the numbers at its module's top level, in products and tuples too. Plain numbers in its functions are
    no sizes to be varied: whoever writes a task may mean them as they are, as the width of an attention's heads that
    kernels may rely on to be a power of two.
    """
    return task_from_source(path.stem, read_text(path))


def task_from_source(name: str, source: str) -> Task:
    """A task from the text of such a file; raises TaskError."""
    task_id = f"file-{name}-{hashlib.sha256(source.encode()).hexdigest()[:12]}"
    named = _with_names(task_id, source, in_functions=False)
    return _with_sizes(Task(task_id=task_id, level=1, family="file", description=name, source=named))


def _with_names(task_id: str, source: str, in_functions: bool = True) -> str:
    """The program with its sizes as constants; raises TaskError for what is no program."""
    try:
        return name_sizes(source, in_functions)
    except UNPARSABLE as error:
        raise TaskError(f"{task_id}: {error}") from None


def _with_sizes(task: Task) -> Task:
    """The task with its dtype, and with sizes found by shrinking; raises TaskError."""
    from ..reference.sizes.quick_sizes import with_quick_sizes

    return with_quick_sizes(evolve(task, dtypes=(declared_dtype(task),)), read_constants(task.source))


def declared_dtype(task: Task) -> str:
    """The dtype of the first floating input.

    Raises TaskError where the reference does not run as it stands, or takes what no candidate can be given.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    from ..reference.reference import (
        call_model,
        describe_init,
        describe_input,
        draw_inputs,
        dtype_name,
        fake_reference,
        is_floating,
        load_task,
    )

    module = load_task(task, Profile.DECLARED)
    describe_init(task, module)
    with FakeTensorMode():
        drawn = draw_inputs(task, module, None)
    for value in drawn:
        describe_input(task, value, "float32")
    with fake_reference(task, Profile.DECLARED, "float32") as (model, inputs):
        call_model(task, model, inputs)
    found = next((dtype_name(value) for value in drawn if is_floating(value)), "float32")
    if found not in DTYPES:
        raise TaskError(f"{task.task_id}: inputs of dtype {found}; supported are {', '.join(DTYPES)}")
    return found


def named_examples(names: Sequence[str]) -> list[tuple[Task, str | None]]:
    """Tasks by file or id, with the teacher's solution where there is one."""
    found: list[tuple[Task, str | None]] = []
    for name in names:
        is_taught = is_corpus_id(name) and has_teacher(name)
        found.append((find_task(name), find_example(name).solution if is_taught else None))
    return found


def export_tasks(folder: Path, chosen: Iterable[tuple[Task, str | None]]) -> int:
    """Write each task, its solution where it has one, and a line of `prompts.jsonl`; returns how many."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for task, solution in chosen:
        (folder / f"{task.task_id}.py").write_text(task.source, encoding="utf-8")
        messages = {"prompt": user_message(task)}
        if solution is not None:
            (folder / f"{task.task_id}.solution.py").write_text(solution, encoding="utf-8")
            messages["answer"] = assistant_message(solution)
        lines.append(json.dumps({"task": task.task_id, "level": task.level, "family": task.family, **messages}))
    (folder / "prompts.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return len(lines)
