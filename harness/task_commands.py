"""The commands under `tritonrl tasks`: list, show, validate and export the task suites."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .command_line import Json, Settings, guarded, print_result

tasks_app = typer.Typer(help="The task suites.", no_args_is_help=True, rich_markup_mode=None)

Suite = Annotated[str, typer.Option("--suite", help="corpus:train, corpus:validation or corpus:heldout.")]
Count = Annotated[int, typer.Option("--num", "-n", min=1, help="Tasks a level.")]
TaskSeed = Annotated[int, typer.Option("--seed", min=0, help="Which tasks are drawn.")]


@tasks_app.command("ls")
@guarded
def tasks_ls(suite: Suite = "corpus:heldout", num: Count = 10, seed: TaskSeed = 0, as_json: Json = False) -> None:
    """List tasks of a suite.

    Example: tritonrl tasks ls --suite corpus:heldout -n 20
    """
    from .suites import corpus_examples

    for example in corpus_examples(suite, seed, num):
        task = example.task
        plain = {"task": task.task_id, "level": task.level, "family": task.family, "dtypes": task.dtypes}
        print_result(plain, [f"{task.task_id:40} {task.description.strip().splitlines()[0][:100]}"], as_json)


@tasks_app.command("show")
@guarded
def tasks_show(
    task: Annotated[str, typer.Argument(help="TASK.py, or an id of the corpus.")],
    solution: Annotated[bool, typer.Option("--solution", help="Print the teacher's solution instead.")] = False,
) -> None:
    """Print a task as a model sees it, or its teacher's solution.

    Example: tritonrl tasks show l1-softmax-00c0ffee12345678 --solution
    """
    from ..core.prompts import user_message
    from .suites import find_example, find_task

    print(find_example(task).solution if solution else user_message(find_task(task)))


@tasks_app.command("validate")
@guarded
def tasks_validate(
    tasks: Annotated[list[str] | None, typer.Argument(help="Tasks by file or id (default: a suite).")] = None,
    suite: Suite = "corpus:heldout",
    num: Count = 10,
    seed: TaskSeed = 0,
    settings: Settings = None,
) -> None:
    """Prove that teachers pass the audit verifier, and that zeros, ones and the inputs themselves fail.

    Example: tritonrl tasks validate --suite corpus:train -n 20
    """
    from .settings import load_config
    from .suites import corpus_examples, named_examples
    from .task_validation import validate_task
    from .verifier import open_verifier

    chosen = named_examples(tasks) if tasks else [(e.task, e.solution) for e in corpus_examples(suite, seed, num)]
    num_bad = 0
    with open_verifier(load_config(settings=settings or [])) as verifier:
        for task, solution in chosen:
            problems = validate_task(verifier, task, solution)
            num_bad += bool(problems)
            print(f"{'bad' if problems else 'ok '}  {task.task_id}  {'; '.join(problems)}", flush=True)
    print(f"{len(chosen) - num_bad} of {len(chosen)} tasks are sound")
    raise typer.Exit(1 if num_bad else 0)


@tasks_app.command("export")
@guarded
def tasks_export(
    folder: Annotated[Path, typer.Argument(help="Where TASK.py files and solutions go.")],
    suite: Suite = "corpus:train",
    num: Count = 10,
    seed: TaskSeed = 0,
) -> None:
    """Write tasks in KernelBench's form, each with its teacher's solution, and prompts.jsonl.

    Example: tritonrl tasks export corpus --suite corpus:train -n 100
    """
    from .suites import corpus_examples, export_examples

    print(f"{export_examples(folder, corpus_examples(suite, seed, num))} tasks in {folder}")
