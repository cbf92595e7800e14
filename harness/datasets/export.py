"""Tasks and their teachers' kernels as pairs for other trainers: Parquet with KernelBook's columns, or chat JSONL.

A Parquet row has the classes `{entry_point}` and `{entry_point}New`, and `get_init_inputs()` gives `[args, kwargs]`, as
KernelBook's do; `prompt` is what a model is shown here, so that `--data` reads the pair back as it was. What there is
to say of a repository is left out, for there is none. A file appears whole or not at all.

Tasks alone are one row each for TRL, verl, verifiers and inspect_ai, and files for KernelBench.
"""

from __future__ import annotations

import ast
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core.task import Example, Task
from ...core.text.named_sizes import line_starts, span_of
from ...core.text.parsing import parse
from ...core.text.prompts import assistant_message, chat_prompt, user_message
from ..errors import UsageError
from ..work import write_atomically

Row = dict[str, Any]
ENTRY_POINT = "Model"
FORMS = (".parquet", ".jsonl")


def export_pairs(path: Path, examples: Iterable[Example], on_done: Callable[[int], None]) -> int:
    """Write the examples as pairs in the form that the file's name ends with, and count them; raises UsageError."""
    _require_place(path, "pairs go")
    make = parquet_row if path.suffix == ".parquet" else chat
    rows: list[Row] = []
    for example in examples:
        rows.append(make(example, len(rows)))
        on_done(len(rows))
    write_rows(path, rows)
    return len(rows)


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as Parquet, or as lines of JSON for a name that ends in `.jsonl`."""
    if path.suffix == ".jsonl":
        write_atomically(path, "".join(f"{json.dumps(row)}\n" for row in rows).encode())
        return
    import polars as pl

    buffer = io.BytesIO()
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(buffer)
    write_atomically(path, buffer.getvalue())


def _require_place(path: Path, what: str) -> None:
    """Raise UsageError for a file of another form, and for one in a folder that is not there."""
    if path.suffix not in FORMS:
        raise UsageError(f"{path}: {what} to a file that ends with {' or '.join(FORMS)}")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}")


def chat(example: Example, _: int) -> dict[str, Any]:
    task = example.task
    messages = [
        {"role": "user", "content": user_message(task)},
        {"role": "assistant", "content": assistant_message(example.solution)},
    ]
    return {"messages": messages, "task": task.task_id, "level": task.level, "family": task.family}


def parquet_row(example: Example, number: int) -> dict[str, Any]:
    """The pair as KernelBook has it."""
    task = example.task
    return {
        "entry_point": ENTRY_POINT,
        "python_code": with_init_pairs(task.source),
        "triton_code": example.solution,
        "uuid": number,
        "module_name": ENTRY_POINT,
        "synthetic": True,
        "prompt": user_message(task),
        "task": task.task_id,
        "level": task.level,
        "family": task.family,
        "dtypes": list(task.dtypes),
    }


def with_init_pairs(source: str) -> str:
    """The program with `get_init_inputs()` returning `[args, kwargs]` where it returned a list of arguments."""
    text, starts = source.encode(), line_starts(source)
    for node in parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == "get_init_inputs":
            for part in ast.walk(node):
                if isinstance(part, ast.Return) and isinstance(part.value, ast.List):
                    first, last = span_of(part.value, starts)
                    return (text[:first] + b"[" + text[first:last] + b", {}]" + text[last:]).decode()
    return source


def trl_row(task: Task, _: int) -> Row:
    """Make a row of TRL's: a conversational `prompt`, and the columns that the reward function reads."""
    return {"prompt": chat_prompt(task), "task": task.task_id, "level": task.level, "family": task.family}


def verl_row(task: Task, number: int) -> Row:
    """Make a row of verl's: its five columns, the task being the reward model's ground truth."""
    return {
        "data_source": "tritonrl",
        "prompt": chat_prompt(task),
        "ability": "triton",
        "reward_model": {"style": "rule", "ground_truth": task.task_id},
        "extra_info": {"index": number, "task": task.task_id, "level": task.level, "family": task.family},
    }


def verifiers_row(task: Task, number: int) -> Row:
    """Make a row of verifiers': a `prompt` of chat messages, the task as the `answer`, and `info` about it."""
    info = {"task": task.task_id, "level": task.level, "family": task.family}
    return {"example_id": number, "prompt": chat_prompt(task), "answer": task.task_id, "info": info}


def inspect_row(task: Task, _: int) -> Row:
    """Make a sample of inspect_ai's: input, target (the task), id and metadata."""
    metadata = {"level": task.level, "family": task.family}
    return {"id": task.task_id, "input": user_message(task), "target": task.task_id, "metadata": metadata}


ROWS: Mapping[str, Callable[[Task, int], Row]] = {
    "trl": trl_row,
    "verl": verl_row,
    "verifiers": verifiers_row,
    "inspect": inspect_row,
}
"""The formats that are one file."""
FORMATS = (*ROWS, "kernelbench")


def export_rows(path: Path, tasks: Iterable[Task], form: str) -> int:
    """Write the tasks in a tool's form to a Parquet or JSONL file, and count them; raises UsageError."""
    _require_place(path, f"--format {form} goes")
    rows = [ROWS[form](task, number) for number, task in enumerate(tasks)]
    write_rows(path, rows)
    return len(rows)


def export_problems(folder: Path, tasks: Iterable[Task]) -> int:
    """Write the tasks as KernelBench's problems, `level1/1_l1_softmax_00c0ffee12345678.py`, and count them.

    Raises UsageError where the folder holds another problem of that number: KernelBench's loader would take either.
    """
    counts: dict[int, int] = {}
    for task in tasks:
        number = counts[task.level] = counts.get(task.level, 0) + 1
        place = folder / f"level{task.level}"
        place.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"\W+", "_", task.task_id)
        path = place / f"{number}_{name}.py"
        for other in place.glob(f"{number}_*.py"):
            if other != path:
                raise UsageError(f"{other}: another problem of that number; give an empty folder")
        write_atomically(path, f"{task.source.strip()}\n".encode())
    return sum(counts.values())
