"""The commands under `tritonrl tasks`: list, show, validate and export the task suites."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from ...core.task import SUITES
from ..command_line import Json, Settings, guarded, print_result
from ..errors import UsageError
from ..settings import require_suite, require_task

tasks_app = typer.Typer(help="The task suites.", no_args_is_help=True, rich_markup_mode=None)

Suite = Annotated[str, typer.Option("--suite", help="Such as core13:train, full:heldout or full:unseen.")]
Count = Annotated[int, typer.Option("--num", "-n", min=1, help="Tasks a level.")]
TaskSeed = Annotated[int, typer.Option("--seed", min=0, help="Which tasks are drawn.")]

_PROGRESS_PERIOD_S = 2.0


@tasks_app.command("ls")
@guarded
def tasks_ls(suite: Suite = "core13:heldout", num: Count = 10, seed: TaskSeed = 0, as_json: Json = False) -> None:
    """List tasks of a suite; of one that is not ours also, on stderr, what is no task and why.

    Example: tritonrl tasks ls --suite core13:heldout -n 20

    Example: tritonrl tasks ls --suite kernelbench:FOLDER -n 100
    """
    require_suite(suite)
    from .suites import load_suite

    found = load_suite(suite, num=num, seed=seed, on_done=_count_aloud(suite, "prepared"))
    for entry in found.skipped:
        print(f"skipped: {entry.name}: {entry.reason}", file=sys.stderr)
    for task in (entry.task for entry in found.tasks):
        plain = {"task": task.task_id, "level": task.level, "family": task.family, "dtypes": task.dtypes}
        print_result(plain, [f"{task.task_id:40} {_first_line(task.description)}"], as_json)


@tasks_app.command("show")
@guarded
def tasks_show(
    task: Annotated[str, typer.Argument(help="TASK.py, an id of the corpus, or a suite.")],
    solution: Annotated[bool, typer.Option("--solution", help="Print the teacher's solution instead.")] = False,
    num: Annotated[
        int | None, typer.Option("--num", "-n", min=1, help="Of a suite: tasks a level (default: 10,000, or all).")
    ] = None,
    tokenizer: Annotated[
        str, typer.Option("--tokenizer", help="Of a suite: whose tokens; nano, smollm2, a name or a folder.")
    ] = "nano",
    seed: TaskSeed = 0,
    as_json: Json = False,
) -> None:
    """Print a task as a model sees it, or its teacher's solution; of a suite its families and lengths.

    Example: tritonrl tasks show l1-softmax-00c0ffee12345678 --solution

    Example: tritonrl tasks show full:train -n 10000 --tokenizer smollm2
    """
    if not Path(task).is_file() and (":" in task or task in SUITES):
        if solution:
            raise UsageError(f"--solution: {task} is a suite, and not a task")
        if ":" in task:
            require_suite(task)
        from ...core.serialisation import to_plain
        from .suite_figures import measure_suite, open_tokenizer, render_figures

        count = num or (None if task.startswith("kernelbench:") else 10_000)
        encode = open_tokenizer(tokenizer)
        figures = measure_suite(task, count, seed, encode, tokenizer, _count_aloud(task, "read"))
        print_result(to_plain(figures), render_figures(figures), as_json)
        return
    require_task(task)
    if num is not None or as_json:
        raise UsageError(f"-n and --json are for suites, and {task} is none")
    from ...core.text.prompts import user_message
    from .suites import find_example, find_task

    print(find_example(task).solution if solution else user_message(find_task(task)))


@tasks_app.command("validate")
@guarded
def tasks_validate(
    tasks: Annotated[list[str] | None, typer.Argument(help="Tasks by file or id (default: a suite).")] = None,
    suite: Suite = "core13:heldout",
    num: Count = 10,
    seed: TaskSeed = 0,
    settings: Settings = None,
    against: Annotated[
        str | None, typer.Option("--against", help="Prove instead that no task equals one of this suite.")
    ] = None,
    against_num: Annotated[
        int | None, typer.Option("--against-num", min=1, help="Tasks a level of that suite (default: --num).")
    ] = None,
) -> None:
    """Prove that teachers, where there are any, pass the audit verifier, and that zeros, ones and the inputs fail.

    With --against: that no task equals one of another suite up to renaming and constants; exit 1 if some do.

    Example: tritonrl tasks validate --suite core13:train -n 20

    Example: tritonrl tasks validate --suite full:unseen --against full:train -n 100 --against-num 1000
    """
    for name in (suite, against):
        if name is not None:
            require_suite(name)
    if against is not None:
        raise typer.Exit(_print_shared(tasks, suite, against, num, against_num or num, seed))
    if against_num is not None:
        raise UsageError("--against-num: of which suite? Name it with --against")
    from ..settings import load_config
    from ..verification.verifier import open_verifier
    from .suites import corpus_tasks, named_examples
    from .validation import validate_task

    chosen = named_examples(tasks) if tasks else list(corpus_tasks(suite, seed, num))
    num_bad = 0
    with open_verifier(load_config(settings=settings or [])) as verifier:
        for task, solution in chosen:
            problems = validate_task(verifier, task, solution)
            num_bad += bool(problems)
            print(f"{'bad' if problems else 'ok '}  {task.task_id}  {'; '.join(problems)}", flush=True)
    print(f"{len(chosen) - num_bad} of {len(chosen)} tasks are sound")
    raise typer.Exit(1 if num_bad else 0)


def _print_shared(tasks: list[str] | None, suite: str, against: str, num: int, against_num: int, seed: int) -> int:
    """Print each task that equals one of the suite `against`, and what could not be traced; returns the exit code."""
    from .decontamination import TracedTasks, find_shared, trace_suite, trace_tasks
    from .suites import named_examples

    def trace(name: str, num: int) -> TracedTasks:
        return trace_suite(name, num=num, seed=seed, on_traced=_count_aloud(name, "traced"))

    if tasks:
        suite = "those named"
        own = trace_tasks([task for task, _ in named_examples(tasks)], on_done=_count_aloud(suite, "traced"))
    else:
        own = trace(suite, num)
    other = trace(against, against_num)
    found = find_shared(own, other)
    for shared in found:
        more = f" and {len(shared.others) - 1} more" if len(shared.others) > 1 else ""
        print(f"shared      {shared.task} = {shared.others[0]}{more}: {shared.graph}")
    for entry in (*own.untraced, *other.untraced):
        print(f"not traced  {entry.name}: {entry.reason}")
    if not own.hashes or not other.hashes:
        raise UsageError(f"--against {against}: nothing was compared, for no task of one side could be traced")
    print(
        f"{len(found)} of {len(own.hashes)} tasks of {suite} equal one of {len(other.hashes)} of {against} up to names "
        f"and constants; not traced: {len(own.untraced)} and {len(other.untraced)}"
    )
    return 1 if found else 0


def _first_line(text: str) -> str:
    """The first line of a description, which a task may lack."""
    return text.strip().partition("\n")[0][:100]


def _count_aloud(suite: str, verb: str) -> Callable[[int], None]:
    """A listener that says on stderr every few seconds how many of a suite's tasks are done."""
    last = time.monotonic()

    def tell(done: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _PROGRESS_PERIOD_S:
            last = time.monotonic()
            print(f"{suite}: tasks {verb}: {done}", file=sys.stderr, flush=True)

    return tell


@tasks_app.command("export")
@guarded
def tasks_export(
    folder: Annotated[Path | None, typer.Argument(help="Where TASK.py files and solutions go.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="One file instead: FILE.parquet or .jsonl. Without --format, pairs (KernelBook's)."),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="For a tool: trl, verl, verifiers or inspect (--out); kernelbench (folder)."),
    ] = None,
    suite: Suite = "core13:train",
    num: Count = 10,
    seed: TaskSeed = 0,
) -> None:
    """Write tasks in KernelBench's form, with teachers' solutions where there are any, and prompts.jsonl; or one file.

    Example: tritonrl tasks export corpus --suite core13:train -n 100

    Example: tritonrl tasks export --suite full:train -n 10000 --out pairs.parquet

    Example: tritonrl tasks export --format verl --suite core13:train -n 1000 --out train.parquet
    """
    require_suite(suite)
    from ..datasets.export import FORMATS, export_pairs, export_problems, export_rows

    if form is not None and form not in FORMATS:
        raise UsageError(f"--format {form}: must be one of {', '.join(FORMATS)}")
    wants_folder = form in (None, "kernelbench")
    wants_file = form != "kernelbench"
    if (folder is None) == (out is None) or (folder is not None and not wants_folder) or (out and not wants_file):
        raise UsageError(
            "give either a folder for tasks, or --out FILE.parquet or FILE.jsonl for pairs"
            if form is None
            else f"--format {form} goes to {'--out FILE.parquet or FILE.jsonl' if wants_file else 'a folder'}"
        )
    from .suites import corpus_examples, corpus_tasks, export_tasks

    if out is not None and form is None:
        examples = corpus_examples(suite, seed, num)
        print(f"{export_pairs(out, examples, _count_aloud(suite, 'written'))} pairs in {out}")
        return
    chosen = corpus_tasks(suite, seed, num)
    tasks = (task for task, _ in chosen)
    if folder is not None:
        number = export_tasks(folder, chosen) if form is None else export_problems(folder, tasks)
        print(f"{number} tasks in {folder}")
    elif out is not None and form is not None:
        print(f"{export_rows(out, tasks, form)} tasks in {out}")
